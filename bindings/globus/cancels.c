/* Cancelling an accept, an open and a read of the driver ends each with an error, and nothing hangs; options that are
 * not possible are refused: cancels CONTACT, of a name for which no one listens. */
#include <stdio.h>
#include <stdlib.h>

#include "globus_xio.h"

#include "globus_xio_fobs.h"

static globus_mutex_t mutex;
static globus_cond_t changed;
static globus_result_t ended;
static int is_over;

static void must(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "cancels: not so: %s\n", what);
        _Exit(1);
    }
}

static void over(globus_result_t result)
{
    globus_mutex_lock(&mutex);
    ended = result == GLOBUS_SUCCESS ? GLOBUS_SUCCESS : globus_error_put(globus_object_copy(globus_error_peek(result)));
    is_over = 1;
    globus_cond_signal(&changed);
    globus_mutex_unlock(&mutex);
}

static void on_accept(globus_xio_server_t server, globus_xio_handle_t handle, globus_result_t result, void *user)
{
    (void)server, (void)handle, (void)user;
    over(result);
}

static void on_open(globus_xio_handle_t handle, globus_result_t result, void *user)
{
    (void)handle, (void)user;
    over(result);
}

/* Waits for the end of an operation, which is an error. */
static void fails(const char *what)
{
    globus_mutex_lock(&mutex);
    while (!is_over)
        globus_cond_wait(&changed, &mutex);
    is_over = 0;
    must(ended != GLOBUS_SUCCESS, what);
    printf("%s: %s", what, globus_error_print_friendly(globus_error_peek(ended)));
    globus_mutex_unlock(&mutex);
}

int main(int argc, char **argv)
{
    globus_xio_driver_t driver;
    globus_xio_stack_t stack;
    globus_xio_server_t server;
    globus_xio_handle_t handle;
    globus_xio_attr_t attr;
    must(argc == 2, "cancels CONTACT");
    globus_thread_set_model("pthread");
    must(globus_module_activate(GLOBUS_XIO_MODULE) == GLOBUS_SUCCESS, "the module");
    globus_mutex_init(&mutex, NULL);
    globus_cond_init(&changed, NULL);
    must(globus_xio_driver_load("fobs", &driver) == GLOBUS_SUCCESS, "the driver");
    globus_xio_stack_init(&stack, NULL);
    globus_xio_stack_push_driver(stack, driver);

    globus_xio_attr_init(&attr);
    must(globus_xio_attr_cntl(attr, driver, GLOBUS_XIO_FOBS_SET_RATE, "fast") != GLOBUS_SUCCESS, "a rate");
    must(globus_xio_attr_cntl(attr, driver, GLOBUS_XIO_FOBS_SET_OPTION, "colour", "red") != GLOBUS_SUCCESS, "a name");
    must(globus_xio_attr_cntl(attr, driver, GLOBUS_XIO_FOBS_SET_OPTION, NULL, NULL) != GLOBUS_SUCCESS, "nulls");
    must(globus_xio_attr_cntl(attr, driver, GLOBUS_XIO_FOBS_SET_WAIT, 0) != GLOBUS_SUCCESS, "no wait");
    must(globus_xio_attr_cntl(attr, driver, GLOBUS_XIO_FOBS_SET_WAIT, 3600) == GLOBUS_SUCCESS, "an hour");
    must(globus_xio_attr_cntl(attr, driver, GLOBUS_XIO_FOBS_SET_CC, "cubic") == GLOBUS_SUCCESS, "cubic");

    must(globus_xio_server_create(&server, attr, stack) == GLOBUS_SUCCESS, "a server");
    must(globus_xio_server_register_accept(server, on_accept, NULL) == GLOBUS_SUCCESS, "an accept");
    globus_libc_usleep(300000);
    must(globus_xio_server_cancel_accept(server) == GLOBUS_SUCCESS, "its end");
    fails("an accept");
    must(globus_xio_server_close(server) == GLOBUS_SUCCESS, "the server's end");

    must(globus_xio_handle_create(&handle, stack) == GLOBUS_SUCCESS, "a handle");
    must(globus_xio_register_open(handle, argv[1], attr, on_open, NULL) == GLOBUS_SUCCESS, "an open");
    globus_libc_usleep(300000);
    must(globus_xio_handle_cancel_operations(handle, GLOBUS_XIO_CANCEL_OPEN) == GLOBUS_SUCCESS, "its end");
    fails("an open");
    globus_xio_attr_destroy(attr);
    return 0;
}
