/* Sends standard input to a contact of any transport driver of Globus XIO, or prints what comes to a listener:
 *
 *   xio-fobs fobs listen                   prints its contact on standard error
 *   xio-fobs fobs CONTACT < file
 */
#include <stdio.h>
#include <string.h>

#include "globus_xio.h"

static void check(globus_result_t result, const char *what)
{
    if (result != GLOBUS_SUCCESS) {
        char *why = globus_error_print_friendly(globus_error_peek(result));
        fprintf(stderr, "%s: %s\n", what, why);
        _Exit(1);
    }
}

int main(int argc, char **argv)
{
    static unsigned char block[1 << 16];
    globus_xio_driver_t driver;
    globus_xio_stack_t stack;
    globus_xio_handle_t handle;
    globus_xio_server_t server;
    globus_size_t count;
    char *contact = argc > 2 ? argv[2] : NULL;
    if (contact == NULL)
        return fprintf(stderr, "usage: xio-fobs DRIVER (listen | CONTACT)\n"), 1;
    globus_thread_set_model("pthread");
    if (globus_module_activate(GLOBUS_XIO_MODULE))
        return 1;
    check(globus_xio_driver_load(argv[1], &driver), argv[1]);
    check(globus_xio_stack_init(&stack, NULL), "a stack");
    check(globus_xio_stack_push_driver(stack, driver), "the stack");
    if (strcmp(contact, "listen") == 0) {
        char *told;
        check(globus_xio_server_create(&server, NULL, stack), "listening");
        check(globus_xio_server_get_contact_string(server, &told), "the contact");
        fprintf(stderr, "%s\n", told);
        check(globus_xio_server_accept(&handle, server), "accepting");
        check(globus_xio_open(handle, NULL, NULL), "opening");
        globus_result_t result;
        do {
            result = globus_xio_read(handle, block, sizeof block, 1, &count, NULL);
            fwrite(block, 1, count, stdout);
        } while (result == GLOBUS_SUCCESS);
        if (!globus_xio_error_is_eof(result))
            check(result, "reading");
        fflush(stdout);
    } else {
        check(globus_xio_handle_create(&handle, stack), "a handle");
        check(globus_xio_open(handle, contact, NULL), contact);
        while ((count = fread(block, 1, sizeof block, stdin)) > 0)
            check(globus_xio_write(handle, block, count, count, &count, NULL), "writing");
    }
    check(globus_xio_close(handle, NULL), "closing");
    return globus_module_deactivate(GLOBUS_XIO_MODULE);
}
