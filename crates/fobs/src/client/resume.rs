//! What a client does so that an interrupted transfer goes on.

use super::Client;
use crate::session;
use fobs_engine::Reporter;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::Event;
use fobs_model::message::{Resuming, SURVEY};
use fobs_model::options::sync::{Enter, SyncOptions};
use fobs_model::options::{Location, Privileges, Remote, Terms, TransferOptions};
use fobs_store::{Base, Sink, SinkSpec, SourceShape, TransferId, shape_of, top_names};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most bytes that the names of the sources may take in a request, with 8 for each: with more, the frame's
/// bound (protocol 2.1) would refuse a transfer that can be made, only not resumed.
const NAMES_BYTES_MAX: usize = 512 << 10;

/// A random id for one command, the same in all sessions of it.
pub(super) fn transfer_id() -> TransferId {
    let mut id = TransferId::default();
    // Zeros mean none: a reconnection then waits for the old session to end by itself.
    let _ = getrandom::fill(&mut id);
    id
}

/// The destination on this host, if it does not exist: as a directory it would be made before a connection
/// is.
pub(super) fn directory_to_make(destination: &Location) -> Option<&Path> {
    match destination {
        Location::Local(path) if path.symlink_metadata().is_err() => Some(path),
        _ => None,
    }
}

/// Whether the destination exists on this host, and is no directory.
fn is_file(destination: &Location) -> bool {
    matches!(destination, Location::Local(path) if path.metadata().is_ok_and(|there| !there.is_dir()))
}

/// Whether one source may be a directory that lands in the destination; one that is not entered is all that
/// comes, and gets the destination's name as a file does.
fn lands_inside(sync: &SyncOptions) -> bool {
    sync.directories == Enter::All || sync.names.is_some()
}

/// Opens the destination on this host, before any connection: what is there decides what is asked for.
pub(super) fn open_sink(
    paths: &[Vec<u8>],
    destination: &Location,
    remote: &Remote,
    options: &TransferOptions,
    id: TransferId,
) -> Result<Sink> {
    let shape = match (shape_of(paths), &options.sync) {
        // Whether the one source is a directory is not known yet.
        (SourceShape::Paths { count, contents }, Some(sync))
            if lands_inside(sync)
                && (count > 1 || contents || !sync.source_is_file && !is_file(destination)) =>
        {
            SourceShape::Paths { count, contents: true }
        }
        (shape, _) => shape,
    };
    let Location::Local(path) = destination else {
        return Sink::to_stream(Box::new(std::io::stdout()), shape);
    };
    let spec = SinkSpec {
        base: Base::Ambient,
        destination: path.as_os_str().as_bytes().to_vec(),
        shape,
        above: session::above(options.sync.as_deref()),
        preserve: session::preserved(options.sync.as_deref(), options.preserve),
        xattr_rules: session::kept_xattrs(options.sync.as_deref())?,
        privileges: Privileges::OfTheUser,
        terms: Terms::default(),
        fsync: options.fsync,
        keep: session::kept_of(options.no_partial, options.sync.as_deref()),
        backup_dir: options.sync.as_ref().and_then(|sync| sync.backup_dir.clone()),
        temp_dir: options.sync.as_ref().and_then(|sync| sync.temp_dir.clone()),
        partial_dir: options.sync.as_ref().and_then(|sync| sync.partial_dir.clone()),
        special: session::special_there(options.sync.as_deref()),
        link_dest: options.sync.as_ref().map_or_else(Vec::new, |sync| sync.link_dest.clone()),
        transfer_id: id,
        client: None,
        names: top_names(paths),
        holder: match &remote.user {
            Some(user) => format!("{user}@{}", remote.host),
            None => remote.host.clone(),
        },
        budget: MemoryBudget::default(),
    };
    let mut sink = session::open_sink(spec, options.sync.as_ref())?;
    if options.cache {
        sink.use_cache();
    }
    sink.expect(paths, if options.recursive { Enter::All } else { Enter::None });
    Ok(sink)
}

impl Client<'_> {
    /// Whether the server can list and decide; says what follows if it cannot.
    pub(super) fn knows_survey(&self) -> bool {
        let knows = self.hello.has(SURVEY);
        if !knows {
            self.events.event(Event::Notice(format!(
                "{} has an older fobs, which cannot go on with an interrupted copy: this one begins anew; install the \
                 same version there",
                self.channel.peer.description
            )));
        }
        knows
    }

    /// That part of the request. `names` are those of the sources of a push.
    pub(super) fn resuming(&self, id: TransferId, names: Vec<Vec<u8>>, survey: bool) -> Resuming {
        let options = self.options;
        let fits = names.iter().map(|name| name.len() + 8).sum::<usize>() <= NAMES_BYTES_MAX;
        Resuming {
            survey,
            transfer_id: (id != TransferId::default()).then_some(id),
            names: if fits { names } else { Vec::new() },
            no_partial: options.no_partial,
            append_verify: options.append_verify,
            checksum: options.checksum,
            delta: options.delta,
        }
    }
}

/// Adds to the error of a transfer that had begun how to go on.
pub(super) fn advise(error: Error, options: &TransferOptions, reporter: &Reporter) -> Error {
    let kept = if options.no_partial { 0 } else { reporter.kept_bytes() };
    let advice = match error.kind {
        ErrorKind::Interrupted if kept == 0 => ", the rest was removed".to_owned(),
        ErrorKind::Interrupted | ErrorKind::Timeout | ErrorKind::Connect | ErrorKind::Socket if kept > 0 => {
            format!("; run the same command again to go on: {} are kept at the destination", amount(kept))
        }
        _ => return error,
    };
    let message = format!("{}{advice}", error.message);
    error.reworded(message)
}

/// Bytes for people: `3.2 GB`.
fn amount(bytes: u64) -> String {
    let scaled = |unit: f64| bytes as f64 / unit;
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", scaled(1e3)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", scaled(1e6)),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", scaled(1e9)),
        _ => format!("{:.2} TB", scaled(1e12)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_unit_that_fits() {
        for (bytes, text) in [
            (999, "999 bytes"),
            (1_500, "1.5 kB"),
            (65_536_000, "65.5 MB"),
            (3_200_000_000, "3.2 GB"),
            (1_250_000_000_000, "1.25 TB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}
