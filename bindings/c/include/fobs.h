/* FOBS for C. Written by cbindgen: change bindings/c/src, then run
 *   FOBS_HEADER=write cargo test -p fobs-c --test header
 *
 * Every function returns 0 or an error: the exit codes of the command `fobs` (docs/guide.md). The sentence
 * that belongs to it is fobs_last_error(), of the calling thread. Handles are numbers; one that is wrong, or
 * was closed before, is refused with FOBS_USAGE. Names and paths are bytes up to a NUL. All calls block; any
 * thread may use any handle, and the transfers of one session run one after the other.
 */

#ifndef FOBS_H
#define FOBS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

// Done.
#define FOBS_OK 0

// An argument is not possible: a null pointer, a handle that is none, an option.
#define FOBS_USAGE 1

// What was named does not exist or cannot be read.
#define FOBS_NO_SOURCE 3

// The destination cannot be written, or exists already.
#define FOBS_DESTINATION 4

// The key or the user has no right to that.
#define FOBS_DENIED 5

// A bug in the library.
#define FOBS_INTERNAL 9

// The call was cancelled.
#define FOBS_INTERRUPTED 20

// Some files were not moved; fobs_last_error() says why the first was not.
#define FOBS_PARTIAL 23

// An entry that is a regular file.
#define FOBS_FILE 1

// An entry that is a directory.
#define FOBS_DIRECTORY 2

// An entry that is a symbolic link.
#define FOBS_LINK 3

// An entry that is something else.
#define FOBS_OTHER 4

// A read or write of a stream that does not block would wait; poll its descriptor.
#define FOBS_AGAIN -1

// The other end of the stream reads no more, which is no failure of the stream.
#define FOBS_UNREAD -2

// The direction of a stream that is read.
#define FOBS_READ 1

// The direction that is written.
#define FOBS_WRITE 2

// Figures of a transfer.
typedef struct fobs_summary {
  // File bytes verified.
  uint64_t bytes;
  // Those of them that an earlier attempt had verified.
  uint64_t resumed_bytes;
  // Files complete.
  uint64_t files;
  // Files that were not moved.
  uint64_t failed;
  // Duration of the data phase, seconds.
  double seconds;
  // Bits per second of file data.
  double goodput_bps;
} fobs_summary;

// A file, a directory or something else at the server.
typedef struct fobs_entry {
  // Last component of its path; valid until the callback returns, null from fobs_stat().
  const char *name;
  // FOBS_FILE, FOBS_DIRECTORY, FOBS_LINK or FOBS_OTHER.
  int kind;
  // Permission bits.
  uint32_t mode;
  // Bytes.
  uint64_t size;
  // Time of the last change, seconds since 1970.
  int64_t mtime_s;
  // Nanoseconds after that second.
  uint32_t mtime_ns;
} fobs_entry;

// Receives the entries of a directory; anything but 0 ends the listing with FOBS_INTERRUPTED.
typedef int (*fobs_entry_callback)(void *user, const struct fobs_entry *entry);

// How a stream has ended.
typedef struct fobs_stream_end {
  // Of the command: 128 and the number of a signal that ended it; 0 of what is no command.
  int exit_code;
  // Bytes that were written and are at the other end.
  uint64_t sent;
  // Bytes that came from there.
  uint64_t received;
} fobs_stream_end;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library.
const char *fobs_version(void);

// One sentence: what failed in the calling thread's last call that failed, why, and what to do. Valid until
// its next call.
const char *fobs_last_error(void);

// Makes a set of options, as by default.
int fobs_options_new(uint64_t *options);

// Sets an option by its name on the command line, with _ for -: "rate", "500000000".
int fobs_options_set(uint64_t options, const char *name, const char *value);

// Frees a set of options. Sessions that were opened with it keep theirs.
int fobs_options_free(uint64_t options);

// Opens a session with "host:path", "ssh://..." or "fobs://..."; options 0 are the default ones.
int fobs_session_open(const char *url, uint64_t options, uint64_t *session);

// Ends the transfer that runs on a session with FOBS_INTERRUPTED; from another thread.
int fobs_session_cancel(uint64_t session);

// Closes a session, once calls of other threads that use it have ended.
int fobs_session_close(uint64_t session);

// Copies a file to the server.
int fobs_put(uint64_t session, const char *path, const char *name, struct fobs_summary *summary);

// Copies a file from the server.
int fobs_get(uint64_t session, const char *name, const char *path, struct fobs_summary *summary);

// Stores bytes as an object.
int fobs_put_bytes(uint64_t session, const char *name, const void *data, uintptr_t size);

// Fills the front of a buffer with a whole object; a longer one is refused with FOBS_USAGE.
int fobs_get_into(uint64_t session,
                  const char *name,
                  void *data,
                  uintptr_t size,
                  uintptr_t *filled);

// Fills the front of a buffer with the bytes of a file from start on; fewer where it ends.
int fobs_get_range(uint64_t session,
                   const char *name,
                   uint64_t start,
                   void *data,
                   uintptr_t size,
                   uintptr_t *filled);

// Says what a name stands for; FOBS_NO_SOURCE where it stands for nothing.
int fobs_stat(uint64_t session, const char *name, struct fobs_entry *entry);

// Calls back with each entry of a directory.
int fobs_list(uint64_t session, const char *name, fobs_entry_callback callback, void *user);

// Removes a file, a link or an empty directory; a directory with all that is in it if tree is not 0.
int fobs_remove(uint64_t session,
                const char *name,
                int tree);

// Makes a directory; with those above it, and none where it exists, if parents is not 0.
int fobs_mkdir(uint64_t session, const char *name, int parents);

// Opens a byte stream, and waits until its other end is there: at "fobs://host/NAME" the command of the
// key's line or the program that accepts as NAME, with a null command; at "host:" or "ssh://host" the
// command, for the shell there.
int fobs_stream_open(const char *url,
                     const char *command,
                     uint64_t options,
                     uint64_t *stream);

// Waits at the daemon "fobs://host" for the program that opens a stream to name, for the given seconds at
// most.
int fobs_stream_accept(const char *url,
                       const char *name,
                       double seconds,
                       uint64_t options,
                       uint64_t *stream);

// As fobs_stream_open() if name is null and else as fobs_stream_accept(), and does not wait: what is written
// leaves once the other end is there, and a stream that cannot be opened is one that fails.
// fobs_stream_abort() ends the wait.
int fobs_stream_start(const char *url,
                      const char *command,
                      const char *name,
                      double seconds,
                      uint64_t options,
                      uint64_t *stream);

// Waits until the other end of a stream that was started is there, or says why it will not be.
int fobs_stream_opened(uint64_t stream);

// Says whether reads and writes return FOBS_AGAIN where they would wait: not 0 for yes. They wait at first.
int fobs_stream_nonblocking(uint64_t stream,
                            int nonblocking);

// The descriptor of a stream, to be polled and not to be read, written or closed: readable where there are
// bytes or the end, writable where there is room, both at a failure.
int fobs_stream_descriptor(uint64_t stream,
                           int *descriptor);

// Fills the front of a buffer with what has come, waiting where nothing has: filled is 0 at the end of
// everything that was written to the other end. FOBS_AGAIN where the stream does not block.
int fobs_stream_read(uint64_t stream,
                     void *data,
                     uintptr_t size,
                     uintptr_t *filled);

// Writes some bytes of a buffer, at least one, waiting where there is no room. FOBS_AGAIN where the stream
// does not block, FOBS_UNREAD where the other end reads no more.
int fobs_stream_write(uint64_t stream,
                      const void *data,
                      uintptr_t size,
                      uintptr_t *written);

// Ends directions of a stream, FOBS_READ, FOBS_WRITE or both: after the last byte that was written the other
// end reads an end, and one that writes more than is read is told so.
int fobs_stream_shutdown(uint64_t stream,
                         int directions);

// Bytes that were written and are verified at the server so far.
int fobs_stream_verified(uint64_t stream, uint64_t *verified);

// Fails a stream at both ends, and tells the other one why; from any thread. It is still to be closed.
int fobs_stream_abort(uint64_t stream,
                      const char *why);

// Ends both directions of a stream, waits until everything that was written is at the other end, and frees
// the handle whatever comes of it. An error where not everything arrived; the exit code of a command, in end
// if that is not null, is none.
int fobs_stream_close(uint64_t stream,
                      struct fobs_stream_end *end);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOBS_H */
