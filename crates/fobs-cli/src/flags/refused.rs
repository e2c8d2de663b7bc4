//! Options of rsync that `fobs sync` does not have: refused by name with the reason, never ignored.

use fobs::options::flag::{Flag, Names, RSYNC, Rank, SYNC, Standing, Takes, Use};

use super::Chosen;

const NO_DAEMON: &str = "it is about rsync's own daemon; fobs serve and fobs:// are others";
const NO_TIMES: &str = "no kernel of Linux sets when a file was made, and rsync does not have it here either";
const NO_BATCH: &str = "there are no batch files";

/// Options that are refused.
pub const REFUSED: &[Flag<Chosen>] = &[
    refused_value("confine-root", "no path of a transfer leaves the destination"),
    refused("crtimes", NO_TIMES).on(&[RSYNC.letter('N')]),
    refused_value("password-file", NO_DAEMON),
    refused_value("early-input", NO_DAEMON),
    refused_value("write-batch", NO_BATCH),
    refused_value("only-write-batch", NO_BATCH),
    refused_value("read-batch", NO_BATCH),
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
