//! What a session stores into, and what it reads.

use crate::examine::Nowhere;
use crate::session::{above, kept_of, kept_xattrs, open_sink, preserved, special_there};
use fobs_channel::control::ControlChannel;
use fobs_channel::secure::identity::PublicKey;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::Result;
use fobs_model::message::Open;
use fobs_model::options::sync::SyncOptions;
use fobs_model::permit::Permit;
use fobs_store::{
    Base, EarlierFiles, Part, Sink, SinkSpec, Source, SourceShape, SourceSpec, SourcesHere, client_id,
};

/// Where a push is stored, and how.
pub(super) fn push_sink(
    open: Open,
    base: Base,
    permit: &Permit,
    within: &[u8],
    channel: &ControlChannel,
    (budget, here): (&MemoryBudget, &SourcesHere),
) -> Result<Sink> {
    if open.probe.is_some() {
        return Sink::to_stream(Box::new(Nowhere::new()), SourceShape::Stream);
    }
    let (resuming, peer) = (open.resuming, &channel.peer);
    let spec = SinkSpec {
        base,
        destination: open.paths.into_iter().next().unwrap_or_default(),
        shape: open.shape.unwrap_or_default(),
        above: above(open.sync.as_deref()),
        preserve: preserved(open.sync.as_deref(), open.preserve),
        xattr_rules: kept_xattrs(open.sync.as_deref())?,
        privileges: permit.privileges(),
        terms: permit.terms(),
        fsync: open.fsync,
        keep: kept_of(resuming.no_partial, open.sync.as_deref()),
        backup_dir: open.sync.as_ref().and_then(|sync| sync.backup_dir.clone()),
        temp_dir: open.sync.as_ref().and_then(|sync| sync.temp_dir.clone()),
        partial_dir: open.sync.as_ref().and_then(|sync| sync.partial_dir.clone()),
        special: special_there(open.sync.as_deref()),
        link_dest: open.sync.as_ref().map_or_else(Vec::new, |sync| sync.link_dest.clone()),
        transfer_id: resuming.transfer_id.unwrap_or_default(),
        client: Some(client_id(peer.key.as_ref().map(PublicKey::as_bytes), within)),
        names: resuming.names,
        holder: peer.description.clone(),
        budget: budget.clone(),
    };
    let mut sink = open_sink(spec, open.sync.as_ref())?;
    sink.finds_sources(here);
    if open.cache {
        sink.use_cache();
    }
    Ok(sink)
}

/// What a pull asks for.
pub(super) fn source_of(
    base: Base,
    open: &Open,
    permit: &Permit,
    size_max: Option<u64>,
    budget: &MemoryBudget,
) -> Result<Source> {
    let mut source = whole_source(base, open, permit, budget)?;
    size_max.inspect(|bytes| source.limit_to(*bytes));
    Ok(source)
}

fn whole_source(base: Base, open: &Open, permit: &Permit, budget: &MemoryBudget) -> Result<Source> {
    if let Some(range) = open.reuse.range {
        let part = if range.whole {
            Part::Whole { max: range.len }
        } else {
            Part::Range { start: range.start, len: range.len }
        };
        // There is one: `check_form`.
        let path = open.paths.first().map_or(&b""[..], Vec::as_slice);
        return Source::of_part(&base, path, part, range.stamp, open.compress);
    }
    let earlier = match open.sync.as_deref() {
        Some(SyncOptions { basis: Some(old), .. }) => {
            // Its path was judged with the request.
            Some(EarlierFiles::at(&base, old)?)
        }
        Some(sync) => {
            EarlierFiles::beside(&base, &open.paths, &sync.link_dest, |path| permit.check_path(path).is_ok())
        }
        None => None,
    };
    let mut source = Source::open(SourceSpec {
        base,
        paths: open.paths.clone(),
        recursive: open.recursive || open.sync.as_ref().is_some_and(|sync| sync.enters()),
        preserve: preserved(open.sync.as_deref(), open.preserve),
        privileges: permit.privileges(),
        compress: open.compress,
        sync: open.sync.clone(),
        budget: budget.clone(),
    })?;
    earlier.into_iter().for_each(|earlier| source.has_earlier(earlier));
    if open.cache {
        source.use_cache();
    }
    Ok(source)
}
