/* Byte streams: two threads that write each other, ends that fail, and what is refused. */

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fobs.h"

#define SIZE 3000000

static uint64_t options;
static const char *url;
static unsigned char pattern[SIZE];

static void must(int code, const char *what)
{
    if (code) {
        fprintf(stderr, "%s: %d: %s\n", what, code, fobs_last_error());
        exit(1);
    }
}

static void *listening(void *stream)
{
    must(fobs_stream_accept(url, "c-test", 60, options, stream), "accept");
    return NULL;
}

/* Two ends that have met. */
static void meet(uint64_t *listener, uint64_t *caller)
{
    char named[1000];
    pthread_t thread;
    snprintf(named, sizeof named, "%sc-test", url);
    assert(pthread_create(&thread, NULL, listening, listener) == 0);
    int code;
    while ((code = fobs_stream_open(named, NULL, options, caller)) == FOBS_NO_SOURCE)
        continue;
    must(code, "open");
    pthread_join(thread, NULL);
}

static void *writing(void *stream)
{
    for (size_t at = 0, count; at < SIZE; at += count)
        must(fobs_stream_write(*(uint64_t *)stream, pattern + at, SIZE - at, &count), "write");
    must(fobs_stream_shutdown(*(uint64_t *)stream, FOBS_WRITE), "shutdown");
    return NULL;
}

static void *reading(void *stream)
{
    static unsigned char block[70000];
    size_t total = 0, count;
    do {
        must(fobs_stream_read(*(uint64_t *)stream, block, sizeof block, &count), "read");
        assert(total + count <= SIZE && memcmp(block, pattern + total, count) == 0);
        total += count;
    } while (count > 0);
    assert(total == SIZE);
    return NULL;
}

static void *closing(void *stream)
{
    fobs_stream_end end;
    must(fobs_stream_close(*(uint64_t *)stream, &end), "close");
    assert(end.exit_code == 0);
    return NULL;
}

static void what_is_written_is_read(void)
{
    uint64_t listener, caller, verified;
    pthread_t thread;
    meet(&listener, &caller);
    assert(pthread_create(&thread, NULL, writing, &caller) == 0);
    reading(&listener);
    pthread_join(thread, NULL);
    assert(pthread_create(&thread, NULL, closing, &caller) == 0);
    closing(&listener);
    pthread_join(thread, NULL);
    assert(fobs_stream_verified(caller, &verified) == FOBS_USAGE);
}

static void an_end_that_fails_is_no_end_of_data(void)
{
    uint64_t listener, caller;
    char block[10];
    size_t count;
    int descriptor;
    meet(&listener, &caller);
    must(fobs_stream_nonblocking(listener, 1), "nonblocking");
    must(fobs_stream_descriptor(listener, &descriptor), "descriptor");
    assert(fobs_stream_read(listener, block, sizeof block, &count) == FOBS_AGAIN && count == 0);
    must(fobs_stream_write(caller, "half", 4, &count), "write");
    struct pollfd polled = {descriptor, POLLIN, 0};
    assert(poll(&polled, 1, 60000) == 1);
    must(fobs_stream_read(listener, block, sizeof block, &count), "read");
    assert(count == 4 && memcmp(block, "half", 4) == 0);
    must(fobs_stream_abort(caller, "the tape is torn"), "abort");
    assert(fobs_stream_close(caller, NULL) != FOBS_OK);
    assert(poll(&polled, 1, 60000) == 1);
    int code = fobs_stream_read(listener, block, sizeof block, &count);
    assert(code > 0 && count == 0 && strstr(fobs_last_error(), "the tape is torn"));
    assert(fobs_stream_close(listener, NULL) > 0);
}

static void one_that_reads_no_more_is_no_failure(void)
{
    uint64_t listener, caller;
    pthread_t thread;
    size_t count;
    int code;
    meet(&listener, &caller);
    assert(pthread_create(&thread, NULL, closing, &listener) == 0);
    do
        code = fobs_stream_write(caller, pattern, SIZE, &count);
    while (code == FOBS_OK);
    assert(code == FOBS_UNREAD);
    closing(&caller);
    pthread_join(thread, NULL);
}

static void what_is_not_possible_is_refused(void)
{
    uint64_t stream;
    size_t count;
    char named[1000];
    snprintf(named, sizeof named, "%snobody", url);
    assert(fobs_stream_open(named, NULL, options, &stream) == FOBS_NO_SOURCE);
    assert(fobs_stream_open(named, NULL, options, NULL) == FOBS_USAGE);
    assert(fobs_stream_open(NULL, NULL, options, &stream) == FOBS_USAGE);
    assert(fobs_stream_open(named, "id", options, &stream) == FOBS_USAGE);
    assert(fobs_stream_start(named, "id", "name", 1, options, &stream) == FOBS_USAGE);
    assert(fobs_stream_accept(url, "name", -1, options, &stream) == FOBS_USAGE);
    assert(fobs_stream_accept(url, "name", 0.0 / 0.0, options, &stream) == FOBS_USAGE);
    assert(fobs_stream_accept(url, NULL, 1, options, &stream) == FOBS_USAGE);
    assert(fobs_stream_accept(url, "alone", 0.05, options, &stream) > 0);
    for (uint64_t wrong = 0; wrong < 2; wrong++) {
        assert(fobs_stream_read(wrong * 77777, named, 1, &count) == FOBS_USAGE);
        assert(fobs_stream_write(wrong * 77777, named, 1, &count) == FOBS_USAGE);
        assert(fobs_stream_shutdown(wrong * 77777, FOBS_READ) == FOBS_USAGE);
        assert(fobs_stream_close(wrong * 77777, NULL) == FOBS_USAGE);
    }
    /* One that listens is not there yet, and is given up by another thread. */
    must(fobs_stream_start(url, NULL, "alone", 60, options, &stream), "start");
    assert(fobs_stream_shutdown(stream, 0) == FOBS_USAGE && fobs_stream_shutdown(stream, 4) == FOBS_USAGE);
    assert(fobs_stream_read(stream, NULL, 1, &count) == FOBS_USAGE);
    must(fobs_stream_abort(stream, NULL), "abort");
    assert(fobs_stream_opened(stream) > 0);
    assert(fobs_stream_close(stream, NULL) > 0);
}

int main(int argc, char **argv)
{
    assert(argc > 1);
    url = argv[1];
    must(fobs_options_new(&options), "options");
    for (int at = 2; at < argc; at++) {
        char *value = strchr(argv[at], '=');
        assert(value != NULL);
        *value++ = 0;
        must(fobs_options_set(options, argv[at], value), argv[at]);
    }
    for (size_t at = 0; at < SIZE; at++)
        pattern[at] = (unsigned char)(at * 2654435761u >> 13);
    what_is_written_is_read();
    an_end_that_fails_is_no_end_of_data();
    one_that_reads_no_more_is_no_failure();
    what_is_not_possible_is_refused();
    return 0;
}
