//! What a transfer reads and writes: checked before any connection is made, opened for each attempt.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::resume::open_sink;
use crate::session::{preserved, sender_config, sending_of, time_until};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::{Location, Privileges, Remote, TransferOptions};
use fobs_store::{Base, EarlierFiles, NoneThere, Sink, Source, SourceSpec, TransferId, same_name, show_path};

/// Refuses options and locations that are not possible, before any connection is made.
pub(crate) fn check(sources: &[Location], destination: &Location, options: &TransferOptions) -> Result<()> {
    if options.deadline.is_some_and(|at| time_until(at).is_zero()) {
        return Err(usage("the deadline has passed already; give one that is still to come"));
    }
    sender_options(options)?;
    match destination {
        Location::Remote(_) => match local_sources(sources)? {
            LocalSources::Stdin => Ok(()),
            LocalSources::Paths(paths) => distinct(&paths, options),
        },
        Location::Local(_) | Location::Stdio => distinct(&remote_sources(sources)?.1, options),
    }
}

/// Refuses options of a session that are not possible.
pub(crate) fn sender_options(options: &TransferOptions) -> Result<()> {
    options.check()?;
    sender_config(&sending_of(options), options.packet_size, 0, 0).map(|_| ())
}

/// Opens paths of this host, for an attempt.
pub(crate) fn make_source(paths: &[Vec<u8>], options: &TransferOptions) -> Result<Source> {
    distinct(paths, options)?;
    open_source(LocalSources::Paths(paths.to_vec()), b"", options)
}

/// Opens a destination on this host, for an attempt.
pub(crate) fn make_sink(
    paths: &[Vec<u8>],
    destination: &Path,
    remote: &Remote,
    options: &TransferOptions,
    id: TransferId,
) -> Result<Sink> {
    distinct(paths, options)?;
    open_sink(paths, &Location::Local(destination.to_path_buf()), remote, options, id)
}

/// Refuses sources of which the later would replace the earlier. Of those of a sync the first counts.
pub(super) fn distinct(paths: &[Vec<u8>], options: &TransferOptions) -> Result<()> {
    if options.sync.is_some() {
        return Ok(());
    }
    let Some((first, second)) = same_name(paths) else { return Ok(()) };
    Err(usage(&format!(
        "'{}' and '{}' would get the same name at the destination, and the second replace the first: copy them \
         to different directories",
        show_path(first),
        show_path(second)
    )))
}

/// What is read on this side.
pub(super) enum LocalSources {
    Stdin,
    Paths(Vec<Vec<u8>>),
}

pub(super) fn local_sources(sources: &[Location]) -> Result<LocalSources> {
    if let [Location::Stdio] = sources {
        return Ok(LocalSources::Stdin);
    }
    let path = |source: &Location| match source {
        Location::Local(path) => Ok(path.as_os_str().as_bytes().to_vec()),
        Location::Stdio => {
            Err(usage("standard input (-) cannot be one of several sources; copy it by itself"))
        }
        Location::Remote(_) => {
            Err(usage("copies between two remote hosts are not possible; run fobs on one of them"))
        }
    };
    sources.iter().map(path).collect::<Result<_>>().map(LocalSources::Paths)
}

/// Opens what is sent; `place` is the path of its destination.
pub(super) fn open_source(sources: LocalSources, place: &[u8], options: &TransferOptions) -> Result<Source> {
    match sources {
        LocalSources::Stdin => Source::from_stream(Box::new(std::io::stdin()), options.compress),
        LocalSources::Paths(paths) => {
            let named = options.sync.as_deref().map_or(&[][..], |sync| &sync.link_dest);
            let beside = EarlierFiles::beside(&Base::Ambient, &paths, named, |_| true);
            // As rsync, which then makes the directory.
            let is_directory = options.sync.is_some() && place.ends_with(b"/");
            let if_none = if is_directory { NoneThere::Empty } else { NoneThere::Refused };
            let spec = SourceSpec {
                privileges: Privileges::OfTheUser,
                base: Base::Ambient,
                paths,
                recursive: options.recursive || options.sync.as_ref().is_some_and(|sync| sync.enters()),
                preserve: preserved(options.sync.as_deref(), options.preserve),
                compress: options.compress,
                sync: options.sync.clone(),
                budget: MemoryBudget::default(),
            };
            let mut source = Source::open_if_any(spec, if_none)?;
            if options.cache {
                source.use_cache();
            }
            if let Some(old) = options.sync.as_ref().and_then(|sync| sync.basis.as_deref()) {
                source.has_earlier(EarlierFiles::at(&Base::Ambient, old)?);
            } else if let Some(beside) = beside {
                source.has_earlier(beside);
            }
            Ok(source)
        }
    }
}

pub(super) fn remote_sources(sources: &[Location]) -> Result<(&Remote, Vec<Vec<u8>>)> {
    let remotes = sources
        .iter()
        .map(|source| match source {
            Location::Remote(remote) => Ok(remote),
            _ => Err(usage("neither side is remote; use cp for copies on one host")),
        })
        .collect::<Result<Vec<_>>>()?;
    let [first, rest @ ..] = &remotes[..] else {
        return Err(usage("no source was named; name at least one"));
    };
    let same = |r: &&Remote| {
        (r.carrier, &r.host, &r.user, r.port) == (first.carrier, &first.host, &first.user, first.port)
    };
    if !rest.iter().all(same) {
        return Err(usage("the sources are on different hosts; run one copy for each host"));
    }
    Ok((first, remotes.iter().map(|r| r.path.clone()).collect()))
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}
