/* Streams whose connections break: they go on over new ones while both programs live, and where they cannot, both are
   told with the count of the bytes that had come. No end looks like one of the data, and nobody waits for ever. */

#include <stdio.h>
#include <string.h>

#include "fobs.h"
#include "relay.h"

#define SIZE 3000000
#define BETWEEN_CUTS 700000
/* More than two ends and all that is between them hold of a stream with WINDOW_SMALL. */
#define MORE_THAN_FITS (64 << 20)
/* How long one that is full takes nothing, milliseconds: on a busy machine it is full a little early. */
#define FULL_MS 500
#define WINDOW "8388608"
#define WINDOW_SMALL "65536"

static char url[100];
static char **keys;
static unsigned char pattern[SIZE];

static void must(int code, const char *what)
{
    if (code) {
        fprintf(stderr, "%s: %d: %s\n", what, code, fobs_last_error());
        exit(1);
    }
}

/* That the last call of this thread failed, and said this. */
static void failed(int code, const char *with)
{
    if (code <= 0 || strstr(fobs_last_error(), with) == NULL) {
        fprintf(stderr, "not '%s' but %d: %s\n", with, code, code ? fobs_last_error() : "no error");
        exit(1);
    }
}

static void set(uint64_t options, const char *setting)
{
    char name[200], *value;
    assert(strlen(setting) < sizeof name);
    value = strchr(strcpy(name, setting), '=');
    assert(value != NULL);
    *value++ = 0;
    must(fobs_options_set(options, name, value), setting);
}

static uint64_t options_with(const char *window, const char *setting)
{
    uint64_t options;
    must(fobs_options_new(&options), "options");
    for (char **key = keys; *key != NULL; key++)
        set(options, *key);
    must(fobs_options_set(options, "resume_window", window), "resume_window");
    if (setting != NULL)
        set(options, setting);
    return options;
}

/* The ends of a stream. */
struct ends {
    uint64_t listener, caller, options;
};

static void *listening(void *given)
{
    struct ends *ends = given;
    must(fobs_stream_accept(url, "broken", 60, ends->options, &ends->listener), "accept");
    return NULL;
}

static struct ends meet(const char *window, const char *setting)
{
    struct ends ends = {.options = options_with(window, setting)};
    char named[200];
    pthread_t thread;
    int code;
    snprintf(named, sizeof named, "%sbroken", url);
    assert(pthread_create(&thread, NULL, listening, &ends) == 0);
    while ((code = fobs_stream_open(named, NULL, ends.options, &ends.caller)) == FOBS_NO_SOURCE)
        continue;
    must(code, "open");
    pthread_join(thread, NULL);
    must(fobs_options_free(ends.options), "free");
    return ends;
}

static void write_all(uint64_t stream, const void *bytes, size_t size)
{
    for (size_t at = 0, count; at < size; at += count)
        must(fobs_stream_write(stream, (const char *)bytes + at, size - at, &count), "write");
}

/* Reads as many bytes as are expected, which must be these. */
static void read_exactly(uint64_t stream, const void *bytes, size_t size)
{
    static _Thread_local unsigned char block[50000];
    for (size_t at = 0, count; at < size; at += count) {
        size_t most = size - at < sizeof block ? size - at : sizeof block;
        must(fobs_stream_read(stream, block, most, &count), "read");
        assert(count > 0 && memcmp(block, (const char *)bytes + at, count) == 0);
    }
}

static void read_end(uint64_t stream)
{
    char byte;
    size_t count = 1;
    must(fobs_stream_read(stream, &byte, 1, &count), "read at the end");
    assert(count == 0);
}

static struct ends met_in_mid_stream(const char *window, const char *setting)
{
    struct ends ends = meet(window, setting);
    write_all(ends.caller, "half", 4);
    read_exactly(ends.listener, "half", 4);
    return ends;
}

static void *writing(void *stream)
{
    write_all(*(uint64_t *)stream, pattern, SIZE);
    must(fobs_stream_shutdown(*(uint64_t *)stream, FOBS_WRITE), "shutdown");
    return NULL;
}

/* What a close in a thread came to. */
struct closed {
    uint64_t stream;
    int code;
    fobs_stream_end end;
    char said[1000];
    pthread_t thread;
};

static void *closing(void *given)
{
    struct closed *closed = given;
    closed->code = fobs_stream_close(closed->stream, &closed->end);
    snprintf(closed->said, sizeof closed->said, "%s", closed->code ? fobs_last_error() : "");
    return NULL;
}

static void begin_to_close(struct closed *closed, uint64_t stream)
{
    *closed = (struct closed){.stream = stream};
    assert(pthread_create(&closed->thread, NULL, closing, closed) == 0);
}

static void close_both(struct ends ends)
{
    struct closed others;
    begin_to_close(&others, ends.listener);
    must(fobs_stream_close(ends.caller, NULL), "close");
    pthread_join(others.thread, NULL);
    if (others.code)
        fprintf(stderr, "%s\n", others.said);
    assert(others.code == 0);
}

/* Every byte is right over several cuts; then the other direction, which is open alone, over one more. */
static void a_stream_goes_on(const char *transport)
{
    struct ends ends = meet(WINDOW, transport);
    pthread_t thread;
    assert(pthread_create(&thread, NULL, writing, &ends.caller) == 0);
    for (size_t at = 0, piece; at < SIZE; at += piece) {
        piece = SIZE - at < BETWEEN_CUTS ? SIZE - at : BETWEEN_CUTS;
        read_exactly(ends.listener, pattern + at, piece);
        relay_cut();
    }
    read_end(ends.listener);
    pthread_join(thread, NULL);
    write_all(ends.listener, pattern, BETWEEN_CUTS);
    relay_cut();
    read_exactly(ends.caller, pattern, BETWEEN_CUTS);
    close_both(ends);
}

static int ready(int descriptor, short events, int wait_ms)
{
    struct pollfd polled = {descriptor, events, 0};
    int count = poll(&polled, 1, wait_ms);
    assert(count >= 0);
    return count;
}

/* Writes what fits into a stream, until it takes no more for a while; how much that was. */
static size_t fill(uint64_t stream)
{
    size_t total = 0, count;
    int descriptor;
    must(fobs_stream_nonblocking(stream, 1), "nonblocking");
    must(fobs_stream_descriptor(stream, &descriptor), "descriptor");
    while (ready(descriptor, POLLOUT, FULL_MS) == 1) {
        int code = fobs_stream_write(stream, pattern + total % SIZE, SIZE - total % SIZE, &count);
        if (code != FOBS_AGAIN)
            must(code, "write");
        total += count;
        assert(total < MORE_THAN_FITS);
    }
    return total;
}

/* Compares what has come with what `fill` writes, from this byte on. */
static void is_filled(const unsigned char *room, size_t count, size_t from)
{
    for (size_t byte = 0; byte < count; byte++)
        assert(room[byte] == pattern[(from + byte) % SIZE]);
}

/* One that polls waits where nothing moves, and is called when the stream goes on. */
static void a_polled_stream_goes_on(void)
{
    struct ends ends = met_in_mid_stream(WINDOW_SMALL, NULL);
    int reads, writes;
    char block[4];
    size_t count, total;
    must(fobs_stream_nonblocking(ends.listener, 1), "nonblocking");
    must(fobs_stream_descriptor(ends.listener, &reads), "descriptor");
    must(fobs_stream_descriptor(ends.caller, &writes), "descriptor");
    relay_refuse(1);
    relay_cut();
    assert(ready(reads, POLLIN, 0) == 0);
    assert(fobs_stream_read(ends.listener, block, sizeof block, &count) == FOBS_AGAIN && count == 0);
    /* It takes what its window and its buffers hold, and no more. */
    total = fill(ends.caller);
    relay_refuse(0);
    for (size_t at = 0; at < total; at += count) {
        static unsigned char room[50000];
        int code;
        assert(ready(reads, POLLIN, PATIENCE_MS) == 1);
        code = fobs_stream_read(ends.listener, room, sizeof room, &count);
        if (code != FOBS_AGAIN)
            must(code, "read");
        is_filled(room, count, at);
    }
    assert(ready(writes, POLLOUT, PATIENCE_MS) == 1);
    close_both(ends);
}

/* Both ends of a stream that has failed: both are readable, and neither has an end of its data. */
static void both_are_told(struct ends ends, const char *caller_says, const char *listener_says)
{
    uint64_t streams[] = {ends.caller, ends.listener};
    const char *says[] = {caller_says, listener_says};
    for (int at = 0; at < 2; at++) {
        char block[10];
        size_t count;
        int descriptor;
        must(fobs_stream_descriptor(streams[at], &descriptor), "descriptor");
        assert(ready(descriptor, POLLIN, PATIENCE_MS) == 1);
        failed(fobs_stream_read(streams[at], block, sizeof block, &count), says[at]);
        assert(count == 0);
        failed(fobs_stream_write(streams[at], block, 1, &count), says[at]);
        assert(count == 0);
        failed(fobs_stream_close(streams[at], NULL), says[at]);
        assert(fobs_stream_close(streams[at], NULL) == FOBS_USAGE);
    }
}

static void without_a_window_both_ends_are_told(void)
{
    struct ends ends = met_in_mid_stream("0", NULL);
    relay_cut();
    both_are_told(ends, "0 bytes had come", "4 bytes had come");
}

static void without_a_new_connection_both_ends_are_told(void)
{
    struct ends ends = met_in_mid_stream(WINDOW, "timeout=2");
    relay_refuse(1);
    relay_cut();
    both_are_told(ends, "0 bytes had come", "4 bytes had come");
    relay_refuse(0);
}

static void *reading_fails(void *stream)
{
    char block[10];
    size_t count;
    failed(fobs_stream_read(*(uint64_t *)stream, block, sizeof block, &count), "the tape is torn");
    return NULL;
}

static void an_abort_ends_a_stream_that_is_away(void)
{
    struct ends ends = met_in_mid_stream(WINDOW, NULL);
    pthread_t thread;
    relay_refuse(1);
    relay_cut();
    assert(pthread_create(&thread, NULL, reading_fails, &ends.caller) == 0);
    must(fobs_stream_abort(ends.caller, "the tape is torn"), "abort");
    pthread_join(thread, NULL);
    failed(fobs_stream_close(ends.caller, NULL), "the tape is torn");
    must(fobs_stream_abort(ends.listener, NULL), "abort");
    failed(fobs_stream_close(ends.listener, NULL), "4 bytes had come");
    relay_refuse(0);
}

/* The writer has closed when its connection breaks: it waits until everything is there. */
static void a_close_outlives_a_cut(void)
{
    struct ends ends = meet(WINDOW, NULL);
    struct closed caller;
    pthread_t thread;
    assert(pthread_create(&thread, NULL, writing, &ends.caller) == 0);
    read_exactly(ends.listener, pattern, SIZE / 2);
    relay_cut();
    read_exactly(ends.listener, pattern + SIZE / 2, SIZE / 4);
    pthread_join(thread, NULL);
    begin_to_close(&caller, ends.caller);
    relay_cut();
    read_exactly(ends.listener, pattern + SIZE / 2 + SIZE / 4, SIZE - SIZE / 2 - SIZE / 4);
    read_end(ends.listener);
    must(fobs_stream_close(ends.listener, NULL), "close");
    pthread_join(caller.thread, NULL);
    assert(caller.code == 0 && caller.end.sent == SIZE && caller.end.received == 0);
}

/* The same where no new connection comes about: the writer does not hear that all is well, the reader of no end. */
static void a_close_that_is_cut_off_says_that_not_all_is_there(void)
{
    struct ends ends = meet(WINDOW_SMALL, "timeout=2");
    struct closed caller;
    static unsigned char room[50000];
    size_t total, count;
    int code;
    char expected[60];
    /* More than fits at the other end: it cannot be all there before the cut. */
    assert(fill(ends.caller) > 100000);
    read_exactly(ends.listener, pattern, 100000);
    begin_to_close(&caller, ends.caller);
    relay_refuse(1);
    relay_cut();
    pthread_join(caller.thread, NULL);
    assert(caller.code > 0 && strstr(caller.said, "0 bytes had come"));
    /* What had come is read, and then why there is no more. */
    for (total = 100000;; total += count) {
        code = fobs_stream_read(ends.listener, room, sizeof room, &count);
        if (code)
            break;
        assert(count > 0);
        is_filled(room, count, total);
    }
    snprintf(expected, sizeof expected, "%zu bytes had come", total);
    failed(code, expected);
    failed(fobs_stream_close(ends.listener, NULL), expected);
    relay_refuse(0);
}

/* One direction has ended well when the connection breaks: the other one has not. */
static void a_half_that_ended_is_no_end_of_the_other(void)
{
    struct ends ends = met_in_mid_stream("0", NULL);
    must(fobs_stream_shutdown(ends.caller, FOBS_WRITE), "shutdown");
    read_end(ends.listener);
    write_all(ends.listener, "reply", 5);
    read_exactly(ends.caller, "reply", 5);
    relay_cut();
    char byte;
    size_t count;
    failed(fobs_stream_read(ends.caller, &byte, 1, &count), "5 bytes had come");
    failed(fobs_stream_close(ends.caller, NULL), "5 bytes had come");
    failed(fobs_stream_close(ends.listener, NULL), "4 bytes had come");
}

int main(int argc, char **argv)
{
    int port;
    assert(argc > 1 && sscanf(argv[1], "fobs://127.0.0.1:%d/", &port) == 1);
    keys = argv + 2;
    for (size_t at = 0; at < SIZE; at++)
        pattern[at] = (unsigned char)(at * 2654435761u >> 13);
    snprintf(url, sizeof url, "fobs://127.0.0.1:%d/", relay_start(port));
    for (const char *const *transport = (const char *const[]){"transport=auto", "transport=udp", "transport=tcp",
                                                              "transport=channel", NULL};
         *transport != NULL; transport++)
        a_stream_goes_on(*transport);
    a_polled_stream_goes_on();
    without_a_window_both_ends_are_told();
    without_a_new_connection_both_ends_are_told();
    an_abort_ends_a_stream_that_is_away();
    a_close_outlives_a_cut();
    a_close_that_is_cut_off_says_that_not_all_is_there();
    a_half_that_ended_is_no_end_of_the_other();
    return 0;
}
