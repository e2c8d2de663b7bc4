/* Stores a buffer at a server, looks at it, reads a part of it, and removes it:
 *   cc roundtrip.c $(pkg-config --cflags --libs fobs) && ./a.out fobs://host/ [option=value]...
 */
#include <fobs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int code, const char *what)
{
    if (code != FOBS_OK) {
        fprintf(stderr, "%s: %s\n", what, fobs_last_error());
        exit(code);
    }
}

static int show(void *user, const fobs_entry *entry)
{
    ++*(int *)user;
    printf("%s %llu bytes\n", entry->name, (unsigned long long)entry->size);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s URL [option=value]...\n", argv[0]);
        return FOBS_USAGE;
    }
    uint64_t options, session;
    check(fobs_options_new(&options), "options");
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "%s is no option=value\n", argv[i]);
            return FOBS_USAGE;
        }
        *value++ = '\0';
        check(fobs_options_set(options, argv[i], value), argv[i]);
    }
    check(fobs_session_open(argv[1], options, &session), "open");
    check(fobs_options_free(options), "options");

    size_t size = 3 << 20, filled = 0;
    unsigned char *data = malloc(size), *back = malloc(size), part[16];
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    check(fobs_mkdir(session, "c-example/deep", 1), "mkdir");
    check(fobs_put_bytes(session, "c-example/object", data, size), "put");
    check(fobs_get_into(session, "c-example/object", back, size, &filled), "get");
    if (filled != size || memcmp(data, back, size) != 0)
        return FOBS_INTERNAL;
    check(fobs_get_range(session, "c-example/object", 1000, part, sizeof part, &filled), "range");
    if (filled != sizeof part || memcmp(data + 1000, part, filled) != 0)
        return FOBS_INTERNAL;
    fobs_entry entry;
    int entries = 0;
    check(fobs_stat(session, "c-example/object", &entry), "stat");
    check(fobs_list(session, "c-example", show, &entries), "list");
    if (entry.kind != FOBS_FILE || entry.size != size || entries != 2)
        return FOBS_INTERNAL;
    check(fobs_remove(session, "c-example", 1), "remove");
    check(fobs_session_close(session), "close");
    free(data);
    free(back);
    printf("fobs %s: as it should be\n", fobs_version());
    return 0;
}
