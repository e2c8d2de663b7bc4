//! Entry points of the fuzz targets (`fuzz/`): one function for each parser of bytes that another can write,
//! for the machines that act on them, and for a server that is asked for things. No part of the public API.
//!
//! An entry function panics where a parser breaks a promise. `cargo test` replays the committed corpora.

mod deltas;
mod files;
mod filters;
mod input;
mod journals;
mod keys;
mod machines;
mod messages;
mod packets;
mod records;
mod streams;
mod survey;

/// A fuzz target: its name, which is also the name of its corpus, and its entry function.
pub struct FuzzTarget {
    /// As in `fuzz/fuzz_targets/NAME.rs` and `fuzz/corpus/NAME/`.
    pub name: &'static str,
    /// Takes any bytes.
    pub entry: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "datagram", entry: packets::datagram },
    FuzzTarget { name: "ack", entry: packets::ack },
    FuzzTarget { name: "receiver", entry: machines::receiver },
    FuzzTarget { name: "sender", entry: machines::sender },
    FuzzTarget { name: "frame", entry: streams::frame },
    FuzzTarget { name: "framed", entry: streams::framed },
    FuzzTarget { name: "route", entry: streams::route },
    FuzzTarget { name: "frames", entry: messages::frames },
    FuzzTarget { name: "message", entry: messages::message },
    FuzzTarget { name: "chunk", entry: records::chunk },
    FuzzTarget { name: "records", entry: records::records },
    FuzzTarget { name: "journal", entry: journals::journal },
    FuzzTarget { name: "filter", entry: filters::filter },
    FuzzTarget { name: "attributes", entry: records::attributes },
    FuzzTarget { name: "batch", entry: survey::batch },
    FuzzTarget { name: "choices", entry: survey::choices },
    FuzzTarget { name: "deltas", entry: deltas::deltas },
    FuzzTarget { name: "authorized_keys", entry: keys::authorized_keys },
    FuzzTarget { name: "identity", entry: keys::identity },
    FuzzTarget { name: "known_hosts", entry: keys::known_hosts },
    FuzzTarget { name: "ticket", entry: keys::ticket },
    FuzzTarget { name: "paths", entry: files::paths },
    FuzzTarget { name: "trace", entry: files::trace },
    FuzzTarget { name: "request", entry: crate::hostile::fuzzed },
];

/// Runs a target once.
///
/// # Panics
/// If there is no such target, or where a parser breaks a promise.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    (target.entry)(input);
}

#[cfg(test)]
mod tests;
