//! Options of rsync that `fobs sync` does not have: refused by name with the reason, never ignored.

use fobs::options::flag::{Flag, Names, RSYNC, Rank, SYNC, Standing, Takes, Use};

use super::Chosen;

const NO_BASIS: &str = "files are compared with the destination and --link-dest only";
const NO_LIST: &str = "there is no such output; give -i, -v, --stats or --json";
const NO_DAEMON: &str = "it is about rsync's own daemon; fobs serve and fobs:// are others";
const NO_TIMES: &str = "only modification times are kept";
const NO_BATCH: &str = "there are no batch files";
const NO_PLACE: &str = "an unfinished file and the journal lie beside their place: one rename completes the file, and the same command finds it";
const NO_OVERWRITING: &str =
    "a file is replaced by a rename once all of it is verified, so that it is never torn";

/// Options that are refused.
pub const REFUSED: &[Flag<Chosen>] = &[
    refused_value("partial-dir", NO_PLACE),
    refused("inplace", NO_OVERWRITING),
    refused("no-implied-dirs", "directories above a name are made as they are at the source").on(PLAIN),
    refused_value("backup-dir", "backups lie beside the files they are of; give --suffix"),
    refused("insecure-links", "no path of a transfer follows a link"),
    refused_value("confine-root", "no path of a transfer leaves the destination"),
    refused("munge-links", "symbolic links are copied as they are"),
    refused("keep-dirlinks", "no path of a transfer follows a link").on(&[RSYNC.letter('K')]),
    refused("executability", "give --perms or --chmod").on(&[RSYNC.letter('E')]),
    refused("copy-devices", "devices are kept as devices (--devices)"),
    refused("write-devices", "devices are kept as devices (--devices)"),
    refused("drop-D", "leave out -D instead"),
    refused("atimes", NO_TIMES).on(&[RSYNC.letter('U')]),
    refused("open-noatime", NO_TIMES),
    refused("crtimes", NO_TIMES).on(&[RSYNC.letter('N')]),
    refused("super", "a receiver does what its user may"),
    refused("fake-super", "owners and devices are not stored as extended attributes"),
    refused("ignore-missing-args", "a source that is missing is an error"),
    refused("delete-missing-args", "a source that is missing is an error"),
    refused("delay-updates", "each file is put into place when it is complete"),
    refused_value("temp-dir", NO_PLACE).on(&[SYNC.letter('T')]),
    refused_value("compare-dest", NO_BASIS),
    refused_value("copy-dest", NO_BASIS),
    refused_value("copy-as", "log in as that user"),
    refused_value("address", "the kernel chooses the address to send from"),
    refused_value("remote-option", "both sides have the same options").on(&[SYNC.letter('M')]),
    refused_value("out-format", NO_LIST),
    refused_value("log-file", "redirect the output, or give --json"),
    refused_value("log-file-format", NO_LIST),
    refused_value("password-file", NO_DAEMON),
    refused_value("early-input", NO_DAEMON),
    refused("list-only", "give -n -ii"),
    refused_value("stop-after", "give --deadline, which also uses no more of the path than necessary"),
    refused_value("time-limit", "give --deadline, which also uses no more of the path than necessary"),
    refused_value("stop-at", "give --deadline, which also uses no more of the path than necessary"),
    refused_value("write-batch", NO_BATCH),
    refused_value("only-write-batch", NO_BATCH),
    refused_value("read-batch", NO_BATCH),
    refused_value("protocol", "the two sides agree on a version"),
    refused_value("iconv", "names are bytes and stay as they are"),
    refused("daemon", "give fobs serve"),
];

const PLAIN: &[Use] = &[SYNC];

const fn refused(name: &'static str, why: &'static str) -> Flag<Chosen> {
    Flag::switch(name, |_, _| {}).on(&[RSYNC]).rank(Rank::Hidden).standing(Standing::Refused(why))
}

const fn refused_value(name: &'static str, why: &'static str) -> Flag<Chosen> {
    let takes = Takes::Words(Names::Other, |_, _| {});
    Flag::new(name, "VALUE", takes).on(PLAIN).rank(Rank::Hidden).standing(Standing::Refused(why))
}
