//! Copies without a session.

use crate::job::Job;
use crate::named::{Named, Paths, from_root, with};
use crate::values::summary;
use fobs::filter::{Action, Filter};
use fobs::options::sync::{Compare, Delete, Enter, SyncOptions, SyncRules};
use fobs::{
    Error, ErrorKind, Location, Preserve, Result, SymbolicLinks, Transfer, TransferOptions, location,
};
use pyo3::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Copies between this host and another one, or brings a tree up to date: `sync` holds `delete`, `dry_run`,
/// `checksum` and the patterns that are left out.
#[pyfunction]
#[pyo3(signature = (sources, destination, options, sync))]
pub(crate) fn copy(
    sources: Paths,
    destination: Vec<u8>,
    options: Named,
    sync: Option<(bool, bool, bool, Paths)>,
) -> Job {
    let made: Result<_> = (|| {
        let parse = |text: &Vec<u8>| match location::parse(OsStr::from_bytes(text))? {
            Location::Local(path) => Ok(Location::Local(from_root(path))),
            elsewhere => Ok(elsewhere),
        };
        let sources = sources.iter().map(parse).collect::<Result<Vec<Location>>>()?;
        let destination = parse(&destination)?;
        location::check_route(&sources, &destination)?;
        let mut options = with(TransferOptions::default(), &options)?;
        options.sync = sync.map(sync_options).transpose()?.map(Arc::new);
        Ok(Transfer::builder(sources, destination).options(options))
    })();
    match made {
        Err(error) => Job::refused(error),
        Ok(builder) => Job::start(None, None, move |tools| {
            let builder = builder.events(tools.events).cancel_token(tools.cancel).steering(tools.steering);
            builder.start()?.wait().map(summary)
        }),
    }
}

/// As `fobs sync -a` does, with what was asked for.
fn sync_options((delete, dry_run, checksum, exclude): (bool, bool, bool, Paths)) -> Result<SyncOptions> {
    let mut filter = Filter::default();
    for pattern in exclude {
        filter
            .add_pattern(Action::Exclude, &pattern)
            .map_err(|why| Error::new(ErrorKind::Usage, why.to_string()))?;
    }
    let compare = if checksum { Compare::Content } else { Compare::Time };
    Ok(SyncOptions {
        preserve: Preserve {
            modes: true,
            times: true,
            owner: true,
            group: true,
            links: SymbolicLinks::Kept,
            devices: true,
            specials: true,
            ..Preserve::default()
        },
        directories: Enter::All,
        filter: filter.rules(),
        rules: SyncRules { compare, makes_way: delete, ..SyncRules::default() },
        delete: delete.then(Delete::default),
        dry_run,
        ..SyncOptions::default()
    })
}
