//! Options of rsync that `fobs sync` does not have: refused by name with the reason, never ignored.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The option that was given first, if any, and why it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refused(pub Option<String>);

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
}

const NO_DELTA: &str = "changed files are sent whole: there is no delta transfer";
const NO_BASIS: &str = "files are compared with the destination and --link-dest only";
const NO_LIST: &str = "there is no such output; give -i, -v, --stats or --json";
const NO_DAEMON: &str = "it is about rsync's own daemon; fobs serve and fobs:// are others";
const NO_SSH: &str = "give --identity, --port, --jump, --ssh-option or --ssh instead";
const NO_TREE: &str = "only the contents and names below the sources are transferred";
const NO_LINKS: &str = "symbolic links are copied as links (-l) or left out";
const NO_SIZES: &str = "files are not chosen by their size";
const NO_TIMES: &str = "only modification times are kept";
const NO_IDS: &str = "owners are kept by name, or by number with --numeric-ids";
const NO_BATCH: &str = "there are no batch files";
const NO_PLACE: &str = "an unfinished file and the journal lie beside their place: one rename completes the file, and the same command finds it";
const NO_OVERWRITING: &str =
    "a file is replaced by a rename once all of it is verified, so that it is never torn";

use Takes::{Nothing, Value};

/// Letter, long name, value and reason.
const OPTIONS: [(Option<char>, &str, Takes, &str); 88] = [
    (None, "partial-dir", Value, NO_PLACE),
    (None, "inplace", Nothing, NO_OVERWRITING),
    (None, "info", Value, NO_LIST),
    (None, "debug", Value, NO_LIST),
    (None, "stderr", Value, "errors are always written to standard error"),
    (None, "no-motd", Nothing, NO_DAEMON),
    (Some('R'), "relative", Nothing, "names below each source are kept; only --files-from keeps whole paths"),
    (None, "no-implied-dirs", Nothing, NO_TREE),
    (None, "backup-dir", Value, "backups lie beside the files they are of; give --suffix"),
    (
        None,
        "append",
        Nothing,
        "it would trust data that nobody verified; an interrupted sync goes on by itself",
    ),
    (None, "append-verify", Nothing, "fobs cp has it; an interrupted sync goes on by itself"),
    (None, "old-dirs", Nothing, "give --dirs"),
    (None, "old-d", Nothing, "give --dirs"),
    (None, "mkpath", Nothing, "create the directory above the destination first"),
    (Some('L'), "copy-links", Nothing, NO_LINKS),
    (None, "copy-unsafe-links", Nothing, NO_LINKS),
    (None, "safe-links", Nothing, NO_LINKS),
    (None, "insecure-links", Nothing, "no path of a transfer follows a link"),
    (None, "confine-root", Value, "no path of a transfer leaves the destination"),
    (None, "munge-links", Nothing, NO_LINKS),
    (Some('k'), "copy-dirlinks", Nothing, NO_LINKS),
    (Some('K'), "keep-dirlinks", Nothing, "no path of a transfer follows a link"),
    (Some('E'), "executability", Nothing, "give --perms or --chmod"),
    (None, "copy-devices", Nothing, "devices are kept as devices (--devices)"),
    (None, "write-devices", Nothing, "devices are kept as devices (--devices)"),
    (None, "drop-D", Nothing, "leave out -D instead"),
    (Some('U'), "atimes", Nothing, NO_TIMES),
    (None, "open-noatime", Nothing, NO_TIMES),
    (Some('N'), "crtimes", Nothing, NO_TIMES),
    (None, "super", Nothing, "a receiver does what its user may"),
    (None, "fake-super", Nothing, "owners and devices are not stored as extended attributes"),
    (None, "preallocate", Nothing, "the room for each file is allocated before it is written, always"),
    (None, "checksum-choice", Value, "contents are compared by BLAKE3"),
    (Some('B'), "block-size", Value, NO_DELTA),
    (Some('e'), "rsh", Value, NO_SSH),
    (None, "rsync-path", Value, "give --fobs-path"),
    (None, "ignore-missing-args", Nothing, "a source that is missing is an error"),
    (None, "delete-missing-args", Nothing, "a source that is missing is an error"),
    (
        None,
        "ignore-errors",
        Nothing,
        "nothing is deleted after a scan with errors: it would delete what was not seen",
    ),
    (None, "force", Nothing, "give --delete to replace a directory with entries"),
    (None, "max-size", Value, NO_SIZES),
    (None, "min-size", Value, NO_SIZES),
    (None, "max-alloc", Value, "memory is bounded already"),
    (None, "delay-updates", Nothing, "each file is put into place when it is complete"),
    (Some('m'), "prune-empty-dirs", Nothing, "directories are made before their contents are known"),
    (None, "usermap", Value, NO_IDS),
    (None, "groupmap", Value, NO_IDS),
    (None, "chown", Value, NO_IDS),
    (None, "contimeout", Value, "give --timeout"),
    (Some('T'), "temp-dir", Value, NO_PLACE),
    (Some('y'), "fuzzy", Nothing, NO_DELTA),
    (None, "compare-dest", Value, NO_BASIS),
    (None, "copy-dest", Value, NO_BASIS),
    (None, "compress-choice", Value, "data is compressed with zstd"),
    (None, "zc", Value, "data is compressed with zstd"),
    (None, "compress-level", Value, "data is compressed as fast as the path"),
    (None, "zl", Value, "data is compressed as fast as the path"),
    (None, "compress-threads", Value, "data is compressed by the thread that reads it"),
    (None, "zt", Value, "data is compressed by the thread that reads it"),
    (None, "skip-compress", Value, "what does not become smaller is not compressed"),
    (Some('C'), "cvs-exclude", Nothing, "the patterns of CVS are not built; write them as rules"),
    (Some('F'), "F", Nothing, "give --filter=': .rsync-filter'; directories above the source are not read"),
    (None, "old-args", Nothing, "no shell on the other host reads a path"),
    (Some('s'), "secluded-args", Nothing, "no shell on the other host reads a path"),
    (None, "trust-sender", Nothing, "names are always checked"),
    (None, "copy-as", Value, "log in as that user"),
    (None, "address", Value, "the kernel chooses the address to send from"),
    (None, "sockopts", Value, "data is sent over UDP"),
    (None, "blocking-io", Nothing, "the other host's shell is not used for data"),
    (None, "outbuf", Value, "each line is written at once"),
    (Some('8'), "8-bit-output", Nothing, "only control characters of names are escaped"),
    (Some('M'), "remote-option", Value, "both sides have the same options"),
    (None, "out-format", Value, NO_LIST),
    (None, "log-file", Value, "redirect the output, or give --json"),
    (None, "log-file-format", Value, NO_LIST),
    (None, "password-file", Value, NO_DAEMON),
    (None, "early-input", Value, NO_DAEMON),
    (None, "list-only", Nothing, "give -n -ii"),
    (None, "stop-after", Value, "give --deadline, which also uses no more of the path than necessary"),
    (None, "time-limit", Value, "give --deadline, which also uses no more of the path than necessary"),
    (None, "stop-at", Value, "give --deadline, which also uses no more of the path than necessary"),
    (None, "write-batch", Value, NO_BATCH),
    (None, "only-write-batch", Value, NO_BATCH),
    (None, "read-batch", Value, NO_BATCH),
    (None, "protocol", Value, "the two sides agree on a version"),
    (None, "iconv", Value, "names are bytes and stay as they are"),
    (None, "checksum-seed", Value, "contents are compared by BLAKE3"),
    (None, "daemon", Nothing, "give fobs serve"),
];

impl Args for Refused {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.map(|(letter, long, takes, _)| {
            let arg = Arg::new(id(long)).hide(true);
            let arg = match letter {
                Some(letter) => arg.short(letter),
                None => arg,
            };
            let arg = if long.len() > 1 { arg.long(long) } else { arg };
            match takes {
                Nothing => arg.action(ArgAction::Count),
                Value => arg.action(ArgAction::Append).allow_hyphen_values(true),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Refused {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Refused, Error> {
        let mut refused = Refused::default();
        refused.update_from_arg_matches(matches).map(|()| refused)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let given = OPTIONS.iter().find(|(_, long, takes, _)| match takes {
            Nothing => matches.get_count(&id(long)) > 0,
            Value => matches.get_many::<String>(&id(long)).is_some(),
        });
        self.0 = given.map(|(letter, long, _, why)| match letter {
            Some(letter) if long.len() > 1 => format!("--{long} (-{letter}) is not built: {why}"),
            Some(letter) => format!("-{letter} is not built: {why}"),
            None => format!("--{long} is not built: {why}"),
        });
        Ok(())
    }
}

fn id(long: &str) -> String {
    format!("refused-{long}")
}
