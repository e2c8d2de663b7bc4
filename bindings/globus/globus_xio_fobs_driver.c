/* A transport driver of Globus XIO: byte streams of FOBS that meet by a name at a daemon.
 *
 * A contact is fobs://host:port/NAME, or host:number as GridFTP tells it: the name is then xio-number, at the daemon
 * of that host. A server has a number of its own for each listener. Reads, writes, opens and accepts run in the
 * threads of XIO's callbacks (GLOBUS_THREAD_MODEL=pthread) and end when they are cancelled. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "globus_xio_load.h"

#include "parts.h"

/* In errors of XIO's macros. */
static const char *const _xio_name = "fobs";

/* How often a client asks for a name for which no one listens yet, ms. */
#define ASK_AGAIN_MS 50
/* How long a listener waits, s: as long as a daemon lets one wait. GridFTP has one that waits for more streams all through
   a transfer, and ends it by cancelling. */
#define LISTEN_S (24 * 3600)

/* Where a server listens. */
typedef struct {
    fobs_attr_t *attr;
    char url[FOBS_XIO_NAME_BYTES], name[FOBS_XIO_NAME_BYTES];
    /* Keeps the number: no other listener of this host has it. */
    int held;
} fobs_server_t;

typedef struct {
    uint64_t stream;
    int descriptor;
} fobs_handle_t;

/* A stream that was accepted, until it is opened. */
typedef struct {
    fobs_handle_t *handle;
} fobs_link_t;

/* An operation that runs in a thread of the callbacks. */
typedef struct {
    globus_xio_operation_t op;
    fobs_handle_t *handle;
    fobs_server_t *server;
    fobs_attr_t *attr;
    globus_xio_iovec_t *iovec;
    int iovec_count;
    globus_size_t wait_for;
    char url[FOBS_XIO_NAME_BYTES];
    /* A stream that is being opened. */
    uint64_t opening;
    /* Becomes readable when it is cancelled. */
    int cancelled;
} fobs_work_t;

GlobusXIODeclareDriver(fobs);
static int activate(void);
static int deactivate(void);
static globus_version_t version = {0, 2, 0, 0};

GlobusXIODefineModule(fobs) = {"globus_xio_fobs", activate, deactivate, NULL, NULL, &version, NULL};

/* Work in threads of the callbacks. */

static void on_cancel(globus_xio_operation_t op, void *user_arg, globus_xio_error_type_t reason)
{
    fobs_work_t *work = user_arg;
    uint64_t one = 1;
    (void)op, (void)reason;
    while (write(work->cancelled, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    if (work->opening != 0)
        fobs_stream_abort(work->opening, "the operation was cancelled");
}

static void work_free(fobs_work_t *work)
{
    if (work->cancelled >= 0)
        close(work->cancelled);
    if (work->attr != NULL)
        fobs_xio_attr_destroy(work->attr);
    globus_free(work->iovec);
    globus_free(work);
}

static fobs_work_t *work_new(globus_xio_operation_t op)
{
    fobs_work_t *work = globus_calloc(1, sizeof *work);
    work->op = op;
    work->cancelled = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return work;
}

/* Runs it here, or in a thread where the operation does not block. */
static globus_result_t work_start(fobs_work_t *work, globus_callback_func_t act)
{
    if (work->cancelled < 0 || globus_xio_operation_enable_cancel(work->op, on_cancel, work)) {
        work_free(work);
        return GlobusXIOErrorCanceled();
    }
    if (globus_xio_driver_operation_is_blocking(work->op))
        act(work);
    else
        globus_callback_register_oneshot(NULL, NULL, act, work);
    return GLOBUS_SUCCESS;
}

/* Waits for an event of a descriptor (none for -1), so long at most; not 0 where it is cancelled. */
static int waited(const fobs_work_t *work, int descriptor, short events, int ms)
{
    struct pollfd polled[2] = {{work->cancelled, POLLIN, 0}, {descriptor, events, 0}};
    while (poll(polled, 2, ms) < 0)
        if (errno != EINTR)
            return 1;
    return polled[0].revents != 0;
}

/* Opens a stream, by asking again while no one listens. */
static globus_result_t meet(fobs_work_t *work, const char *url, const char *listen, fobs_handle_t **out)
{
    const fobs_attr_t *attr = listen == NULL ? work->attr : work->server->attr;
    fobs_handle_t *handle = globus_calloc(1, sizeof *handle);
    globus_result_t result;
    int tries = attr->wait_seconds * 1000 / ASK_AGAIN_MS, code;
    for (;;) {
        code = fobs_stream_start(url, NULL, listen, LISTEN_S, attr->options, &handle->stream);
        if (code == FOBS_OK) {
            work->opening = handle->stream;
            if (waited(work, -1, 0, 0))
                fobs_stream_abort(handle->stream, "the operation was cancelled");
            code = fobs_stream_opened(handle->stream);
            work->opening = 0;
            if (code == FOBS_OK)
                break;
        }
        result = fobs_xio_failed(url);
        if (handle->stream != 0)
            fobs_stream_close(handle->stream, NULL);
        handle->stream = 0;
        if (waited(work, -1, 0, code == FOBS_NO_SOURCE ? ASK_AGAIN_MS : 0)) {
            result = GlobusXIOErrorCanceled();
            goto failed;
        }
        if (code != FOBS_NO_SOURCE || listen != NULL || tries-- <= 0)
            goto failed;
    }
    if (fobs_stream_nonblocking(handle->stream, 1) || fobs_stream_descriptor(handle->stream, &handle->descriptor)) {
        result = fobs_xio_failed(url);
        fobs_stream_close(handle->stream, NULL);
        goto failed;
    }
    *out = handle;
    return GLOBUS_SUCCESS;
failed:
    globus_free(handle);
    return result;
}

static void open_now(void *user_arg)
{
    fobs_work_t *work = user_arg;
    fobs_handle_t *handle = NULL;
    globus_thread_blocking_will_block();
    globus_result_t result = meet(work, work->url, NULL, &handle);
    globus_xio_operation_disable_cancel(work->op);
    globus_xio_driver_finished_open(handle, work->op, result);
    work_free(work);
}

static globus_result_t transport_open(
    const globus_xio_contact_t *contact, void *link, void *driver_attr, globus_xio_operation_t op)
{
    globus_result_t result;
    fobs_work_t *work;
    void *attr;
    if (link != NULL) {
        fobs_link_t *accepted = link;
        fobs_handle_t *handle = accepted->handle;
        accepted->handle = NULL;
        globus_xio_driver_finished_open(handle, op, GLOBUS_SUCCESS);
        return GLOBUS_SUCCESS;
    }
    if (contact->host == NULL)
        return fobs_xio_wrong("the contact", "it has no host; give fobs://host:port/NAME");
    result = driver_attr == NULL ? fobs_xio_attr_init(&attr) : fobs_xio_attr_copy(&attr, driver_attr);
    if (result != GLOBUS_SUCCESS)
        return result;
    work = work_new(op);
    work->attr = attr;
    const char *port = contact->port == NULL ? "" : contact->port, *colon = *port == 0 ? "" : ":";
    int count;
    if (contact->resource != NULL)
        count = snprintf(work->url, sizeof work->url, "fobs://%s%s%s/%s", contact->host, colon, port, contact->resource);
    else {
        /* As GridFTP tells it: the port of the daemon is that of the attribute. */
        const char *ours = strrchr(work->attr->daemon, ':');
        count = snprintf(work->url, sizeof work->url, "fobs://%s%s/xio-%s", contact->host,
            ours == NULL || ours[1] == '/' ? "" : ours, port);
    }
    if (count >= (int)sizeof work->url) {
        work_free(work);
        return fobs_xio_wrong("the contact", "it is too long");
    }
    return work_start(work, open_now);
}

static void read_now(void *user_arg)
{
    fobs_work_t *work = user_arg;
    globus_result_t result = GLOBUS_SUCCESS;
    globus_size_t total = 0, wanted = work->wait_for > 0 ? work->wait_for : 1;
    globus_thread_blocking_will_block();
    for (int at = 0; at < work->iovec_count && result == GLOBUS_SUCCESS; at++) {
        size_t filled = 0, count;
        while (filled < work->iovec[at].iov_len && result == GLOBUS_SUCCESS) {
            int code = fobs_stream_read(work->handle->stream, (char *)work->iovec[at].iov_base + filled,
                work->iovec[at].iov_len - filled, &count);
            filled += count;
            total += count;
            if (code == FOBS_OK && count == 0)
                result = GlobusXIOErrorEOF();
            else if (code == FOBS_AGAIN && total >= wanted)
                goto finished;
            else if (code == FOBS_AGAIN && waited(work, work->handle->descriptor, POLLIN, -1))
                result = GlobusXIOErrorCanceled();
            else if (code != FOBS_OK && code != FOBS_AGAIN)
                result = fobs_xio_failed("reading");
        }
    }
finished:
    globus_xio_operation_disable_cancel(work->op);
    globus_xio_driver_finished_read(work->op, result, total);
    work_free(work);
}

static void write_now(void *user_arg)
{
    fobs_work_t *work = user_arg;
    globus_result_t result = GLOBUS_SUCCESS;
    globus_size_t total = 0;
    globus_thread_blocking_will_block();
    for (int at = 0; at < work->iovec_count && result == GLOBUS_SUCCESS; at++) {
        size_t taken = 0, count;
        while (taken < work->iovec[at].iov_len && result == GLOBUS_SUCCESS) {
            int code = fobs_stream_write(work->handle->stream, (char *)work->iovec[at].iov_base + taken,
                work->iovec[at].iov_len - taken, &count);
            taken += count;
            total += count;
            if (code == FOBS_AGAIN && waited(work, work->handle->descriptor, POLLOUT, -1))
                result = GlobusXIOErrorCanceled();
            else if (code != FOBS_OK && code != FOBS_AGAIN)
                result = fobs_xio_failed("writing");
        }
    }
    globus_xio_operation_disable_cancel(work->op);
    globus_xio_driver_finished_write(work->op, result, total);
    work_free(work);
}

static globus_result_t moved(void *driver_handle, const globus_xio_iovec_t *iovec, int count,
    globus_xio_operation_t op, globus_callback_func_t act)
{
    fobs_work_t *work = work_new(op);
    work->handle = driver_handle;
    work->wait_for = globus_xio_operation_get_wait_for(op);
    work->iovec = globus_calloc(count, sizeof *iovec);
    work->iovec_count = count;
    memcpy(work->iovec, iovec, count * sizeof *iovec);
    return work_start(work, act);
}

static globus_result_t transport_read(
    void *driver_handle, const globus_xio_iovec_t *iovec, int count, globus_xio_operation_t op)
{
    return moved(driver_handle, iovec, count, op, read_now);
}

static globus_result_t transport_write(
    void *driver_handle, const globus_xio_iovec_t *iovec, int count, globus_xio_operation_t op)
{
    return moved(driver_handle, iovec, count, op, write_now);
}

static void close_now(void *user_arg)
{
    fobs_work_t *work = user_arg;
    globus_result_t result = GLOBUS_SUCCESS;
    globus_thread_blocking_will_block();
    if (fobs_stream_close(work->handle->stream, NULL))
        result = fobs_xio_failed("closing");
    globus_free(work->handle);
    globus_xio_operation_disable_cancel(work->op);
    globus_xio_driver_finished_close(work->op, result);
    work_free(work);
}

static globus_result_t transport_close(void *driver_handle, void *driver_attr, globus_xio_operation_t op)
{
    fobs_work_t *work = work_new(op);
    (void)driver_attr;
    work->handle = driver_handle;
    return work_start(work, close_now);
}

static globus_result_t transport_cntl(void *driver_handle, int command, va_list arguments)
{
    (void)driver_handle, (void)command, (void)arguments;
    return GLOBUS_SUCCESS;
}

/* Servers. */

/* A number that no other listener of this host has: that of a TCP socket which is held and not listened on. */
static int hold_number(int *number)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), least = 0, most = 0;
    if (held < 0)
        return -1;
    if (!globus_xio_get_env_pair("GLOBUS_TCP_PORT_RANGE", &least, &most))
        least = most = 0;
    for (int port = least; port <= most; port++) {
        address.sin_port = htons((uint16_t)port);
        if (bind(held, (struct sockaddr *)&address, sizeof address) == 0
            && getsockname(held, (struct sockaddr *)&address, &size) == 0) {
            *number = ntohs(address.sin_port);
            return held;
        }
    }
    close(held);
    return -1;
}

static globus_result_t server_destroy(void *driver_server)
{
    fobs_server_t *server = driver_server;
    fobs_xio_attr_destroy(server->attr);
    if (server->held >= 0)
        close(server->held);
    globus_free(server);
    return GLOBUS_SUCCESS;
}

static globus_result_t server_init(void *driver_attr, const globus_xio_contact_t *contact, globus_xio_operation_t op)
{
    char host[FOBS_XIO_NAME_BYTES / 2], told[2 * FOBS_XIO_NAME_BYTES];
    globus_xio_contact_t made;
    globus_result_t result;
    fobs_server_t *server;
    int number = 0;
    void *attr;
    result = driver_attr == NULL ? fobs_xio_attr_init(&attr) : fobs_xio_attr_copy(&attr, driver_attr);
    if (result != GLOBUS_SUCCESS)
        return result;
    server = globus_calloc(1, sizeof *server);
    server->attr = attr;
    server->held = -1;
    if (contact != NULL && contact->host != NULL && contact->resource != NULL) {
        const char *port = contact->port == NULL ? "" : contact->port;
        snprintf(server->url, sizeof server->url, "fobs://%s%s%s", contact->host, *port == 0 ? "" : ":", port);
        snprintf(server->name, sizeof server->name, "%s", contact->resource);
        snprintf(told, sizeof told, "%s/%s", server->url, server->name);
    } else {
        server->held = hold_number(&number);
        if (server->held < 0)
            result = fobs_xio_wrong("a listener", "no port of GLOBUS_TCP_PORT_RANGE is free");
        snprintf(server->url, sizeof server->url, "%s", server->attr->daemon);
        snprintf(server->name, sizeof server->name, "xio-%d", number);
        if (server->url[0] == 0 && globus_libc_gethostname(host, sizeof host) == 0)
            snprintf(server->url, sizeof server->url, "fobs://%s", host);
        /* What GridFTP tells its client has an address. */
        const char *begin = strstr(server->url, "://");
        begin = begin == NULL ? server->url : begin + 3;
        snprintf(host, sizeof host, "%.*s", (int)strcspn(begin, ":/"), begin);
        snprintf(told, sizeof told, "%s:%d", host, number);
    }
    if (result == GLOBUS_SUCCESS)
        result = globus_xio_contact_parse(&made, told);
    if (result == GLOBUS_SUCCESS) {
        result = globus_xio_driver_pass_server_init(op, &made, server);
        globus_xio_contact_destroy(&made);
    }
    if (result != GLOBUS_SUCCESS)
        server_destroy(server);
    return result;
}

static void accept_now(void *user_arg)
{
    fobs_work_t *work = user_arg;
    fobs_link_t *link = globus_calloc(1, sizeof *link);
    globus_thread_blocking_will_block();
    globus_result_t result = meet(work, work->server->url, work->server->name, &link->handle);
    globus_xio_operation_disable_cancel(work->op);
    if (result != GLOBUS_SUCCESS) {
        globus_free(link);
        link = NULL;
    }
    globus_xio_driver_finished_accept(work->op, link, result);
    work_free(work);
}

static globus_result_t server_accept(void *driver_server, globus_xio_operation_t op)
{
    fobs_work_t *work = work_new(op);
    work->server = driver_server;
    return work_start(work, accept_now);
}

static globus_result_t server_cntl(void *driver_server, int command, va_list arguments)
{
    (void)driver_server, (void)command, (void)arguments;
    return GLOBUS_SUCCESS;
}

/* Of one that was opened, or is not wanted. */
static globus_result_t link_destroy(void *link)
{
    fobs_link_t *accepted = link;
    if (accepted != NULL && accepted->handle != NULL) {
        fobs_stream_abort(accepted->handle->stream, "the program does not take the stream that it accepted");
        fobs_stream_close(accepted->handle->stream, NULL);
        globus_free(accepted->handle);
    }
    globus_free(accepted);
    return GLOBUS_SUCCESS;
}

/* The driver. */

static globus_result_t driver_init(globus_xio_driver_t *out)
{
    globus_xio_driver_t driver;
    globus_result_t result = globus_xio_driver_init(&driver, "fobs", NULL);
    if (result != GLOBUS_SUCCESS)
        return result;
    globus_xio_driver_set_transport(
        driver, transport_open, transport_close, transport_read, transport_write, transport_cntl);
    globus_xio_driver_set_server(
        driver, server_init, server_accept, server_destroy, server_cntl, server_cntl, link_destroy);
    globus_xio_driver_set_attr(driver, fobs_xio_attr_init, fobs_xio_attr_copy, fobs_xio_attr_cntl, fobs_xio_attr_destroy);
    globus_xio_driver_string_cntl_set_table(driver, fobs_xio_strings);
    *out = driver;
    return GLOBUS_SUCCESS;
}

static void driver_destroy(globus_xio_driver_t driver)
{
    globus_xio_driver_destroy(driver);
}

GlobusXIODefineDriver(fobs, driver_init, driver_destroy);

static int activate(void)
{
    int code = globus_module_activate(GLOBUS_XIO_MODULE);
    if (code == GLOBUS_SUCCESS)
        GlobusXIORegisterDriver(fobs);
    return code;
}

static int deactivate(void)
{
    GlobusXIOUnRegisterDriver(fobs);
    return globus_module_deactivate(GLOBUS_XIO_MODULE);
}
