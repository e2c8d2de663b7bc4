/* Joins standard input and output of two programs by a name at a daemon, as `fobs pipe` does:
 *
 *   join listen fobs://host numbers [option=value...] > numbers
 *   seq 1000000 | join call fobs://host/numbers [option=value...]
 *
 * One loop polls both ends; the key of each needs pipe-names at the daemon. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fobs.h"

enum { LISTEN_SECONDS = 600, BLOCK_BYTES = 1 << 16 };

static char from_input[BLOCK_BYTES], from_stream[BLOCK_BYTES];

static int failed(const char *what)
{
    fprintf(stderr, "join: %s: %s\n", what, fobs_last_error());
    return 1;
}

/* Writes all of it to standard output; false where nobody reads that. */
static int printed(const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t count = write(STDOUT_FILENO, bytes, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return 0;
        bytes += count;
        size -= (size_t)count;
    }
    return 1;
}

static int join(uint64_t stream, int descriptor)
{
    size_t have = 0, taken = 0;
    int reads = 1, writes = 1;
    while (reads || writes) {
        struct pollfd polled[2] = {
            {descriptor, (short)((reads ? POLLIN : 0) | (have > taken ? POLLOUT : 0)), 0},
            {writes && have == taken ? STDIN_FILENO : -1, POLLIN, 0},
        };
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            return perror("join: poll"), 1;
        if (polled[1].revents) {
            ssize_t count = read(STDIN_FILENO, from_input, sizeof from_input);
            if (count < 0 && errno != EINTR)
                return perror("join: standard input"), 1;
            have = count > 0 ? (size_t)count : 0;
            taken = 0;
            if (count == 0) {
                writes = 0;
                if (fobs_stream_shutdown(stream, FOBS_WRITE))
                    return failed("ending what is written");
            }
        }
        if (have > taken) {
            size_t count = 0;
            int code = fobs_stream_write(stream, from_input + taken, have - taken, &count);
            taken += count;
            if (code == FOBS_UNREAD)
                have = taken = 0, writes = 0;
            else if (code && code != FOBS_AGAIN)
                return failed("writing");
        }
        if (reads && polled[0].revents) {
            size_t count = 0;
            int code = fobs_stream_read(stream, from_stream, sizeof from_stream, &count);
            if (code == FOBS_AGAIN)
                continue;
            if (code)
                return failed("reading");
            reads = count > 0;
            if (reads && !printed(from_stream, count)) {
                reads = 0;
                if (fobs_stream_shutdown(stream, FOBS_READ))
                    return failed("ending what is read");
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int listens = argc > 1 && strcmp(argv[1], "listen") == 0, first = listens ? 4 : 3, descriptor;
    uint64_t options, stream;
    if (argc < first)
        return fprintf(stderr, "usage: join listen URL NAME | call URL [option=value...]\n"), 1;
    if (fobs_options_new(&options))
        return failed("options");
    for (int at = first; at < argc; at++) {
        char *value = strchr(argv[at], '=');
        if (value == NULL)
            return fprintf(stderr, "join: %s: give option=value\n", argv[at]), 1;
        *value++ = 0;
        if (fobs_options_set(options, argv[at], value))
            return failed(argv[at]);
    }
    int code = listens ? fobs_stream_accept(argv[2], argv[3], LISTEN_SECONDS, options, &stream)
                       : fobs_stream_open(argv[2], NULL, options, &stream);
    if (code)
        return failed(argv[2]);
    if (fobs_stream_nonblocking(stream, 1) || fobs_stream_descriptor(stream, &descriptor))
        return failed("the descriptor");
    if (join(stream, descriptor)) {
        fobs_stream_abort(stream, "the program at the other end failed");
        fobs_stream_close(stream, NULL);
        return 1;
    }
    return fobs_stream_close(stream, NULL) ? failed("closing") : 0;
}
