/* Bad input from C: an error code each time. The first argument is the URL of a server, then option=value. */
#undef NDEBUG
#include <fobs.h>

#include <assert.h>
#include <string.h>

static int never(void *user, const fobs_entry *entry)
{
    (void)user;
    (void)entry;
    return 1;
}

int main(int argc, char **argv)
{
    assert(argc > 1);
    uint64_t options = 77, session = 0, other;
    char room[8];
    size_t filled;
    fobs_entry entry;

    /* Nulls. */
    assert(fobs_options_new(NULL) == FOBS_USAGE);
    assert(strstr(fobs_last_error(), "null"));
    assert(fobs_session_open(NULL, 0, &session) == FOBS_USAGE);
    assert(fobs_session_open(argv[1], 0, NULL) == FOBS_USAGE);

    /* Options: a wrong handle, a wrong name, freed twice. */
    assert(fobs_options_set(options, "rate", "1") == FOBS_USAGE);
    assert(fobs_options_new(&options) == FOBS_OK);
    assert(fobs_options_set(options, "colour", "red") == FOBS_USAGE);
    assert(strstr(fobs_last_error(), "colour"));
    assert(fobs_options_set(options, "rate", "\xff") == FOBS_USAGE);
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        assert(value);
        *value++ = '\0';
        assert(fobs_options_set(options, argv[i], value) == FOBS_OK);
    }
    assert(fobs_session_open(argv[1], options + 1, &session) == FOBS_USAGE);
    assert(fobs_session_open("fobs://127.0.0.1:1/", options, &session) != FOBS_OK);
    assert(fobs_session_open(argv[1], options, &session) == FOBS_OK);
    assert(fobs_options_free(options) == FOBS_OK);
    assert(fobs_options_free(options) == FOBS_USAGE);
    assert(fobs_options_free(0) == FOBS_USAGE);

    /* Calls on a session. */
    assert(fobs_put_bytes(session, NULL, "x", 1) == FOBS_USAGE);
    assert(fobs_put_bytes(session, "x", NULL, 1) == FOBS_USAGE);
    assert(fobs_put_bytes(session, "empty", NULL, 0) == FOBS_OK);
    assert(fobs_put_bytes(session, "nine", "123456789", 9) == FOBS_OK);
    assert(fobs_get_into(session, "nine", room, sizeof room, &filled) == FOBS_USAGE);
    assert(fobs_get_into(session, "nine", room, sizeof room, NULL) == FOBS_USAGE);
    assert(fobs_get_into(session, "nine", NULL, 9, &filled) == FOBS_USAGE);
    assert(fobs_get_range(session, "nine", 5, room, sizeof room, &filled) == FOBS_OK && filled == 4);
    assert(fobs_get_range(session, "none", 0, room, sizeof room, &filled) == FOBS_NO_SOURCE);
    assert(fobs_stat(session, "nine", NULL) == FOBS_USAGE);
    assert(fobs_stat(session, "none", &entry) == FOBS_NO_SOURCE);
    assert(fobs_list(session, "", NULL, NULL) == FOBS_USAGE);
    assert(fobs_list(session, "", never, NULL) == FOBS_INTERRUPTED);
    assert(fobs_mkdir(session, "nine", 0) == FOBS_DESTINATION);
    assert(fobs_remove(session, "../x", 1) == FOBS_DENIED);
    assert(fobs_put(session, "/nowhere/file", "x", NULL) == FOBS_NO_SOURCE);
    assert(fobs_get(session, NULL, "x", NULL) == FOBS_USAGE);
    assert(fobs_session_cancel(session) == FOBS_OK);
    assert(fobs_session_cancel(session + 1) == FOBS_USAGE);
    assert(fobs_remove(session, "nine", 0) == FOBS_OK && fobs_remove(session, "empty", 0) == FOBS_OK);

    /* Closed twice, used after it, and a number that is not used again. */
    assert(fobs_session_close(session) == FOBS_OK);
    assert(fobs_session_close(session) == FOBS_USAGE);
    assert(fobs_put_bytes(session, "x", "x", 1) == FOBS_USAGE);
    assert(strstr(fobs_last_error(), "closed"));
    assert(fobs_options_new(&other) == FOBS_OK && other != options);
    assert(fobs_options_free(other) == FOBS_OK);
    return 0;
}
