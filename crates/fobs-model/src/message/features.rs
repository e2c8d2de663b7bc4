//! What a program can do beyond the first version, by name. What of a request needs which is said in
//! `permit/needs.rs`.

/// The feature of a program that lists and decides (protocol 7.8).
pub const SURVEY: &str = "survey";
/// The feature of a program that answers challenges at a new address (protocol 5.11).
pub const PATH_VALIDATION: &str = "path-validation";
/// The feature of a program that examines its host and answers probes of the path (protocol 2.7).
pub const DOCTOR: &str = "doctor";
/// The feature of a program that brings a tree up to date (protocol 7.7).
pub const SYNC: &str = "sync";
/// The feature of a program that carries data over TCP too, and inside the control channel (protocol 11).
pub const STREAMS: &str = "streams";
/// The feature of a program that serves several transfers on one channel, and ranges (protocol 2.8).
pub const REUSE: &str = "reuse";
/// The feature of a program that expands patterns and homes in paths (protocol 2.9).
pub const EXPAND: &str = "expand";
/// The feature of a program whose sending can be changed while it runs (protocol 2.10).
pub const STEER: &str = "steer";
/// The feature of a program that derives keys by the second schedule (protocol 3.2).
pub const KEYS2: &str = "keys2";
/// The feature of a program that answers about files by name (protocol 2.12).
pub const FILES: &str = "files";
/// The feature of a program that gives names to what has one, copies, walks, and tells of links and stamps
/// (protocol 2.15).
pub const NAMES: &str = "names";
/// The feature of a program that takes, gives and uses tickets (protocol 2.13).
pub const TICKETS: &str = "tickets";
/// The feature of a program that refuses a request with a part that it does not know (protocol 2.16).
pub const MUST: &str = "must";

pub use crate::options::sync::{DELTA, SYNC2};
/// The feature of a program that knows directories of which a listing has not all (protocol 7.8).
pub const PARTS: &str = "parts";

/// The feature of a receiver that has its device keep everything before sources are removed (protocol 7.8).
pub const SETTLE: &str = "settle";

/// The feature of a program that copies permissions of one to others (`--chmod=g=u`; protocol 7.8).
pub const COPY_MODES: &str = "copy-modes";

/// The feature of a program that says why it has nothing new to show, so that the clock of `--timeout` runs
/// at both ends (protocol 5.2).
pub const PULSE: &str = "pulse";

/// The feature of a client that takes notices while it waits for the answer to its request (protocol 2.17).
pub const WAITS: &str = "waits";

/// The feature of a program that pulls names of a tree with a ticket, as a sync (protocol 2.13).
pub const PICKED: &str = "picked";

/// The feature of a program that has pipes between programs (protocol 2.18).
pub const PIPE: &str = "pipe";

/// The feature of a program whose sessions may have several lanes (protocol 13).
pub const LANES: &str = "lanes";

/// The feature of a program that finds what has its old place by lists of names alone (protocol 7.9).
pub const IN_PLACE: &str = "in-place";

/// The feature of a sender that tells what its sources have at a path (protocol 7.8).
pub const PATHS: &str = "paths";

/// What this program can do.
pub const FEATURES: &[&str] = &[
    SURVEY,
    PATH_VALIDATION,
    DOCTOR,
    SYNC,
    REUSE,
    STREAMS,
    EXPAND,
    STEER,
    FILES,
    TICKETS,
    KEYS2,
    NAMES,
    MUST,
    SYNC2,
    PARTS,
    SETTLE,
    COPY_MODES,
    DELTA,
    PULSE,
    WAITS,
    PICKED,
    PIPE,
    LANES,
    IN_PLACE,
    PATHS,
];

/// How many of them 0.3 had at first, and has at least.
const FEATURES_3: usize = 23;

/// Features that a server's handshake tells of before its hello comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Its name in TLS (ALPN).
    pub alpn: &'static [u8],
    /// What a server of this level can do at least.
    pub features: &'static [&'static str],
}

/// The features of 0.2.
pub const LEVEL_2: Level = Level {
    alpn: b"fobs/1+0.2",
    features: &[SURVEY, PATH_VALIDATION, DOCTOR, SYNC, REUSE, STREAMS, EXPAND, STEER, FILES, TICKETS],
};
/// The features of 0.3. What comes later is asked for by [`Open::must`](super::Open::must), so a client need
/// not know whether a server of this level or a newer one has it.
pub const LEVEL_3: Level = Level { alpn: b"fobs/1+0.3", features: FEATURES.split_at(FEATURES_3).0 };
/// Every level, the newest first.
pub const LEVELS: &[Level] = &[LEVEL_3, LEVEL_2];
