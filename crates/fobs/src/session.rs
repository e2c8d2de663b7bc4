//! What a client's and a server's session have in common: configurations, socket options and figures.

use fobs_channel::secure::datagram::Cipher;
use fobs_engine::{LanesSetup, lane_configs};
pub use fobs_engine::{
    PathValidation, choice_of, receiver_config, sender_config, stream_target, summary, tcp_tuning,
    transport_of, udp_options,
};
use fobs_filter::{Side, XattrRules};
use fobs_model::error::Result;
use fobs_model::message::{DELTA, Hello, IN_PLACE, PARTS, PATH_VALIDATION, PATHS, Sending};
use fobs_model::options::sync::{self, Delta, SyncOptions};
use fobs_model::options::{CongestionControl, Preserve, Priority, Privileges, TransferOptions, Transport};
use fobs_model::permit::Permit;
use fobs_proto::sender::SenderConfig;
use fobs_proto::session::{AVAILABLE_UNKNOWN, chunks_within, memory_within};
use fobs_store::delta::Offers;
use fobs_store::survey::{Append, Checksums, Compare, CompareBy, ListingForm, Parts, Rules};
use fobs_store::{Above, Partial, Sink, SinkSpec, SpecialThere, xattr_rules};
use fobs_sys::confine::{Errand, outside};
use fobs_sys::memory;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The farthest deadline: a century, far from the end of any clock.
const DEADLINE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// What is available to this process, bytes.
pub(crate) fn memory_available() -> u64 {
    outside(Errand::Counters, memory::available).unwrap_or(AVAILABLE_UNKNOWN)
}

/// Chunks that this side of a client's transfer holds at once.
pub(crate) fn chunks_of(options: &TransferOptions) -> u32 {
    chunks_within(options.memory.unwrap_or_else(|| memory_within(memory_available())))
}

/// The user's choices for the sender, as they go over the control channel.
pub(crate) fn sending_of(options: &TransferOptions) -> Sending {
    let fixed_bps = match options.congestion_control {
        CongestionControl::Fixed { bits_per_second } if bits_per_second > 0 => Some(bits_per_second),
        _ => None,
    };
    Sending {
        cc: options.congestion_control.name().to_owned(),
        fixed_bps,
        limit_bps: options.rate_limit,
        burst: options.burst,
        loss_cause: Some(options.loss_cause.name().to_owned()),
        priority: Some(options.priority.name().to_owned()),
        deadline: options.deadline.map(time_until),
        transport: (options.transport != Transport::Auto).then(|| options.transport.to_string()),
        tcp_cc: options.tcp.congestion.clone(),
        tcp_buffer: options.tcp.buffer,
    }
}

/// Lanes beside the first, with their configurations.
type FurtherLanes = (LanesSetup, Vec<SenderConfig>);

/// How the first lane sends, and the others with them, where there are any. A rate that the user fixes is
/// divided equally among the paths; `make` makes a configuration with a controller of its own.
pub(crate) fn with_lanes(
    config: SenderConfig,
    lanes: Option<LanesSetup>,
    sending: &Sending,
    make: impl Fn(&Sending) -> Result<SenderConfig>,
) -> Result<(SenderConfig, Option<FurtherLanes>)> {
    let Some(lanes) = lanes else { return Ok((config, None)) };
    let paths = lanes.paths.iter().max().map_or(1, |newest| u64::from(*newest) + 1);
    let fixed_bps = sending.fixed_bps.map(|bps| (bps / paths).max(1));
    let of_path = Sending { fixed_bps, ..sending.clone() };
    let mut configs = lane_configs(&lanes.paths, || make(&of_path))?;
    let further = configs.split_off(1);
    let first = configs.pop().unwrap_or(config);
    Ok((first, Some((lanes, further))))
}

/// Time until a moment by this host's clock; zero if it has passed.
pub(crate) fn time_until(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO)
}

/// The sender's deadline: the time that is left, and the highest priority that may be used to meet it.
pub(crate) fn pursuit(sending: &Sending) -> Option<(Duration, Priority)> {
    let priority = || sending.priority.as_deref().and_then(|name| name.parse().ok()).unwrap_or_default();
    sending.deadline.map(|left| (left.min(DEADLINE_MAX), priority()))
}

/// By what a receiver decides what `cp` sends.
pub(crate) fn cp_rules(append_verify: bool, checksum: bool) -> Rules {
    Rules {
        append: if append_verify { Append::IfEqual } else { Append::Never },
        compare: if checksum { CompareBy::Content } else { CompareBy::Identity },
    }
}

/// What a transfer keeps beside content.
pub fn preserved(sync: Option<&SyncOptions>, preserve: bool) -> Preserve {
    sync.map_or_else(|| Preserve::as_cp(preserve), |sync| sync.preserve.clone())
}

/// Which names of extended attributes count where a sync stores.
///
/// # Errors
/// `Usage` for rules that are not possible.
pub fn kept_xattrs(sync: Option<&SyncOptions>) -> Result<XattrRules> {
    sync.map_or(Ok(XattrRules::default()), |sync| xattr_rules(sync, Side::Receiver))
}

/// What becomes of directories above the destination that do not exist.
pub fn above(sync: Option<&SyncOptions>) -> Above {
    if sync.is_some_and(|sync| sync.make_path) { Above::Made } else { Above::Required }
}

/// What becomes of a device or fifo that is the destination.
pub(crate) fn special_there(sync: Option<&SyncOptions>) -> SpecialThere {
    if sync.is_some() { SpecialThere::Replaced } else { SpecialThere::TakesBytes }
}

/// What decides on the rows of a sync, from a sender of which `has` tells what it can do: whether it tells of
/// directories which it has not looked at, and finds in its files what this side has.
pub(crate) fn sync_survey(
    sink: &mut Sink,
    sync: Arc<SyncOptions>,
    privileges: Privileges,
    has: impl Fn(&str) -> bool,
) -> Result<Compare> {
    let has_delta = sync.delta != Delta::Never && has(DELTA);
    let mut compare = Compare::for_sync(sink, sync, privileges)?;
    if !has(PARTS) {
        compare.doubt_empty_directories();
    }
    if has_delta {
        compare.offer(sink);
    }
    Ok(compare)
}

/// What is offered may be listed in place to a sender that knows such lists, and one that answers about paths
/// is asked where a directory has moved.
pub(crate) fn uses_later_features(survey: Option<&mut Compare>, has: impl Fn(&str) -> bool) {
    let Some(survey) = survey else { return };
    survey.offers().filter(|_| has(IN_PLACE)).iter().for_each(Offers::may_be_in_place);
    if has(PATHS) {
        survey.may_ask_about_paths();
    }
}

/// What decides on the rows of a copy; offers what is there where the copy `wants_delta`.
pub(crate) fn cp_survey(sink: &mut Sink, rules: Rules, wants_delta: bool) -> Compare {
    let mut compare = Compare::new(sink, rules);
    if wants_delta {
        compare.offer(sink);
    }
    compare
}

/// When what changed of a file is sent in place of all of it: in a copy only where that `wants_delta`.
pub(crate) fn delta_of(sync: Option<&SyncOptions>, wants_delta: bool) -> Delta {
    let of_copy = if wants_delta { Delta::Auto } else { Delta::Never };
    sync.map_or(of_copy, |sync| sync.delta)
}

/// What a listing has, for a receiver that knows of directories which were not looked at, or not.
pub(crate) fn listing_form(sync: Option<&SyncOptions>, checksum: bool, knows_parts: bool) -> ListingForm {
    let Some(sync) = sync else { return hashes(checksum).into() };
    let crosses = !sync.preserve.file_systems.is_one();
    let parts = match (knows_parts, sync.delete.is_some()) {
        (true, _) => Parts::Told,
        // Whatever else is not looked at, a receiver knows by the options, or as a failure.
        (false, deletes) if !deletes || crosses => Parts::Untold,
        (false, _) => Parts::Failed,
    };
    ListingForm { checksums: hashes(sync.rules.compare == sync::Compare::Content), parts }
}

/// What stays of an interrupted transfer. A pass that only deletes leaves what an earlier run stored.
pub(crate) fn kept_of(no_partial: bool, sync: Option<&SyncOptions>) -> Partial {
    match sync {
        Some(sync) if sync.only_delete => Partial::Untouched,
        _ if no_partial => Partial::Discard,
        _ => Partial::Keep,
    }
}

/// The sink of a sync that changes nothing, and of any other transfer.
pub fn open_sink(spec: SinkSpec, sync: Option<&Arc<SyncOptions>>) -> Result<Sink> {
    match sync {
        Some(sync) if sync.dry_run => Sink::dry_run(&spec),
        Some(sync) => {
            let mut sink = Sink::open(spec)?;
            sink.follow(sync);
            Ok(sink)
        }
        None => Sink::open(spec),
    }
}

/// Refuses directories of `--link-dest` and `--backup-dir` to which a key has no right, and those that cannot
/// be used.
pub(crate) fn check_bases(sink: &Sink, permit: Option<&Permit>) -> Result<()> {
    for basis in sink.bases() {
        permit.map_or(Ok(()), |permit| permit.check_path(&basis.path))?;
        basis.check()?;
    }
    let Some(permit) = permit else { return Ok(()) };
    let named = [sink.backup_dir(), sink.temp_dir(), sink.partial_dir()];
    named.into_iter().flatten().try_for_each(|path| permit.check_path(path))
}

/// Whether a listing carries the hashes of contents.
fn hashes(checksum: bool) -> Checksums {
    if checksum { Checksums::Listed } else { Checksums::Omitted }
}

/// How a new address of a peer is treated that greeted like this. `proven` is the IP address from which it
/// made the control channel.
pub fn path_validation(hello: &Hello, proven: Option<IpAddr>) -> PathValidation {
    if hello.has(PATH_VALIDATION) { PathValidation::Challenge { proven } } else { PathValidation::Newest }
}

/// The fastest cipher that neither CPU is slow at.
pub(crate) fn choose_cipher(peer_fast_aes: bool) -> Cipher {
    if peer_fast_aes { Cipher::best_here() } else { Cipher::ChaCha20Poly1305 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_proto::session::StreamTarget;

    #[test]
    fn a_scavenger_keeps_one_stream() {
        assert_eq!(stream_target(Some("scavenger")), StreamTarget::Fixed(1));
        for other in [None, Some("fair"), Some("greedy"), Some("of a later version")] {
            assert_eq!(stream_target(other), StreamTarget::Found { remembered: None }, "{other:?}");
        }
    }
}
