//! What a client's and a server's session have in common: configurations, socket options and figures.

use crate::control::message::{Complete, Finished, Hello, PATH_VALIDATION, Sending};
use crate::engine::streams::permitted;
use crate::engine::{CHUNKS_MAX, PathValidation};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{FileError, Summary};
use crate::options::Preserve;
use crate::options::sync::{Compare, SyncOptions};
use crate::options::{CongestionControl, PACKET_SIZE_RANGE, Priority, TcpTuning, TransferOptions, Transport};
use crate::rights::Permit;
use crate::secure::datagram::{Cipher, Direction};
use crate::storage::survey::{Append, Checksums, CompareBy, Rules};
use crate::storage::{Sink, SinkSpec};
use crate::text::{printable, sane};
use fobs_diagnose::model::judge;
use fobs_proto::Rate;
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::receiver::{ACK_DELAY_MAX, ACK_EVERY, ReceiverConfig};
use fobs_proto::recovery::BASE_DATAGRAM;
use fobs_proto::sender::SenderConfig;
use fobs_proto::session::StreamTarget;
use fobs_proto::session::TransportChoice;
use fobs_proto::wire::DATA_OVERHEAD;
use fobs_sys::UdpOptions;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

/// Requested socket buffers, bytes (the kernel doubles and may cap them). 8 MiB hold what arrives in 10 ms at
/// 5 Gbit/s: as long as a busy host may keep a thread off its CPU.
const SOCKET_BUFFER: usize = 8 << 20;
/// Send buffer of `greedy`, bytes, which only a full socket slows down: a queue of 15 ms at 100 Mbit/s, so
/// that few packets are retransmitted while they still wait in it.
const GREEDY_SEND_BUFFER: usize = 96 << 10;
/// Most packets between acks that a peer may ask for.
const ACK_EVERY_LIMIT: u32 = 1 << 20;
/// Longest part of a name from the peer that is shown, characters: a root has 64 digits, names are shorter.
const WORD_CHARS_MAX: usize = 64;

/// The farthest deadline: a century, far from the end of any clock.
const DEADLINE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

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

/// How this side sets up streams, whose data it writes or reads. Congestion control is the sender's.
///
/// # Errors
/// `Usage` for a congestion control that this host does not have, or not for us.
pub(crate) fn tcp_tuning(sending: &Sending, ours: Direction) -> Result<TcpTuning> {
    let congestion = sending.tcp_cc.clone().filter(|_| ours == Direction::Sender);
    if let Some(name) = &congestion {
        permitted(name)?;
    }
    Ok(TcpTuning { congestion, buffer: sending.tcp_buffer })
}

/// What the client wants data to be carried by.
///
/// # Errors
/// `Usage` for a name that is not known.
pub(crate) fn transport_of(sending: &Sending) -> Result<Transport> {
    let Some(name) = sending.transport.as_deref() else { return Ok(Transport::Auto) };
    name.parse().map_err(|possible| {
        let name = printable(name, WORD_CHARS_MAX);
        Error::new(ErrorKind::Usage, format!("there is no transport {name:?}; {possible}"))
    })
}

/// What the sender decides by; `None` where only UDP is allowed.
pub(crate) fn choice_of(transport: Transport) -> Option<TransportChoice> {
    match transport {
        Transport::Auto => Some(TransportChoice::Auto),
        Transport::Udp => None,
        Transport::Tcp { count } => Some(TransportChoice::Tcp { count }),
        // The door makes no other stream.
        Transport::Channel => Some(TransportChoice::Tcp { count: Some(1) }),
    }
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

/// How many streams a sender of this priority wants, where the user gives no number.
pub(crate) fn stream_target(priority: Option<&str>) -> StreamTarget {
    match priority.and_then(|name| name.parse().ok()).unwrap_or_default() {
        Priority::Scavenger => StreamTarget::Fixed(1),
        Priority::Fair | Priority::Greedy => StreamTarget::Found { remembered: None },
    }
}

/// The sending machine's configuration; the link fills in what it knows. `payload_size`: data bytes per
/// packet, `None` to probe the path; `chunk_limit`: first chunk that the receiver has no room for. `Usage`
/// for impossible choices.
pub(crate) fn sender_config(
    sending: &Sending,
    payload_size: Option<u16>,
    chunk_limit: u32,
) -> Result<SenderConfig> {
    let (low, high) = PACKET_SIZE_RANGE;
    if let Some(payload_size) = payload_size
        && !(low..=high).contains(&payload_size)
    {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("a packet size of {payload_size} bytes is not possible; give {low} to {high}"),
        ));
    }
    let datagram = payload_size.map_or(BASE_DATAGRAM, |size| size + DATA_OVERHEAD as u16);
    let chosen: CongestionControl = sending.cc.parse().map_err(|_| unknown_controller(&sending.cc))?;
    let chosen = chosen.with_rate(Rate::bits_per_second(sending.fixed_bps.unwrap_or(0)));
    let priority = match sending.priority.as_deref() {
        None => Priority::default(),
        Some(name) => name.parse().map_err(|_| unknown_priority(name))?,
    };
    let Some(controller) = chosen.controller_with(datagram, priority) else {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("--cc {chosen} needs --rate: say how fast, for instance --rate 500Mbit"),
        ));
    };
    if sending.deadline.is_some() && chosen != CongestionControl::Auto {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("--deadline is a mode of --cc auto, and --cc {chosen} has none; leave one of them out"),
        ));
    }
    let (schedule, burst) = chosen.schedule();
    let method = match sending.loss_cause.as_deref() {
        None => JudgeMethod::default(),
        Some(name) => name.parse().map_err(|_| unknown_method(name))?,
    };
    Ok(SenderConfig {
        controller,
        judge: judge(method),
        schedule,
        rate_limit: sending.limit_bps.map(Rate::bits_per_second),
        payload_size,
        ip_overhead: 0,
        burst: sending.burst.or(burst),
        chunk_limit,
        chunks_max: CHUNKS_MAX as usize,
        ack_delay_max: ACK_DELAY_MAX,
    })
}

fn unknown_controller(name: &str) -> Error {
    let known = CongestionControl::ALL.map(CongestionControl::name).join(", ");
    let name = printable(name, WORD_CHARS_MAX);
    Error::new(ErrorKind::Usage, format!("there is no congestion controller {name:?}; use one of {known}"))
}

fn unknown_priority(name: &str) -> Error {
    let known = Priority::ALL.map(Priority::name).join(", ");
    let name = printable(name, WORD_CHARS_MAX);
    Error::new(ErrorKind::Usage, format!("there is no priority {name:?}; use one of {known}"))
}

fn unknown_method(name: &str) -> Error {
    let known = JudgeMethod::ALL.map(JudgeMethod::name).join(", ");
    let name = printable(name, WORD_CHARS_MAX);
    Error::new(ErrorKind::Usage, format!("there is no way {name:?} to judge losses; use one of {known}"))
}

/// The receiving machine's configuration. `ack_every`: packets between acks, `None` for the default.
pub(crate) fn receiver_config(ack_every: Option<u32>) -> ReceiverConfig {
    let ack_every = ack_every.map_or(ACK_EVERY, |packets| packets.min(ACK_EVERY_LIMIT));
    ReceiverConfig { ack_every, ack_delay_max: ACK_DELAY_MAX, chunks_max: CHUNKS_MAX }
}

/// Options of the data socket. `cc` is the controller that sends from it, if this side sends.
pub(crate) fn udp_options(cc: Option<&str>) -> UdpOptions {
    let send_buffer = if cc == Some("greedy") { GREEDY_SEND_BUFFER } else { SOCKET_BUFFER };
    UdpOptions { recv_buffer: SOCKET_BUFFER, send_buffer, gro: true }
}

/// By what a receiver decides what `cp` sends.
pub(crate) fn cp_rules(append_verify: bool, checksum: bool) -> Rules {
    Rules {
        append: if append_verify { Append::IfEqual } else { Append::Never },
        compare: if checksum { CompareBy::Content } else { CompareBy::Identity },
    }
}

/// What a transfer keeps beside content.
pub(crate) fn preserved(sync: Option<&SyncOptions>, preserve: bool) -> Preserve {
    sync.map_or_else(|| Preserve::as_cp(preserve), |sync| sync.preserve.clone())
}

/// Whether a sync's listing carries the hashes of contents.
pub(crate) fn sync_checksums(sync: &SyncOptions) -> Checksums {
    checksums(sync.rules.compare == Compare::Content)
}

/// The sink of a sync that changes nothing, and of any other transfer.
pub(crate) fn open_sink(spec: SinkSpec, sync: Option<&SyncOptions>) -> Result<Sink> {
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

/// Refuses directories of `--link-dest` to which a key has no right, and those that cannot be used.
pub(crate) fn check_bases(sink: &Sink, permit: Option<&Permit>) -> Result<()> {
    for basis in sink.bases() {
        permit.map_or(Ok(()), |permit| permit.check_path(&basis.path))?;
        basis.exists()?;
    }
    Ok(())
}

/// Whether a listing carries the hashes of contents.
pub(crate) fn checksums(checksum: bool) -> Checksums {
    if checksum { Checksums::Listed } else { Checksums::Omitted }
}

/// How a new address of a peer is treated that greeted like this. `proven` is the IP address from which it
/// made the control channel.
pub(crate) fn path_validation(hello: &Hello, proven: Option<IpAddr>) -> PathValidation {
    match hello.has(PATH_VALIDATION) {
        true => PathValidation::Challenge { proven },
        false => PathValidation::Newest,
    }
}

/// The fastest cipher that neither CPU is slow at.
pub(crate) fn choose_cipher(peer_fast_aes: bool) -> Cipher {
    if peer_fast_aes { Cipher::best_here() } else { Cipher::ChaCha20Poly1305 }
}

/// The figures of a transfer, from the final messages of both ends. `side` is this end.
pub(crate) fn summary(
    side: Direction,
    complete: &Complete,
    finished: &Finished,
    cipher: Cipher,
    began: Instant,
    errors: Vec<FileError>,
) -> Summary {
    let rtt_s = finished.rtt_ms_min.map_or(0.0, sane) / 1e3;
    // The receiver's clock begins when the first packet arrives, half a round trip after it was sent.
    let moved = complete.bytes.saturating_sub(complete.resumed_bytes);
    let seconds = match sane(complete.seconds) {
        0.0 if moved == 0 => 0.0,
        seconds => sane(seconds + rtt_s / 2.0),
    };
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let (ours, peers) = match side {
        Direction::Sender => {
            ((finished.cpu_seconds, finished.max_rss_bytes), (complete.cpu_seconds, complete.max_rss_bytes))
        }
        Direction::Receiver => {
            ((complete.cpu_seconds, complete.max_rss_bytes), (finished.cpu_seconds, finished.max_rss_bytes))
        }
    };
    Summary {
        bytes: complete.bytes,
        resumed_bytes: complete.resumed_bytes,
        files: complete.files,
        others: complete.others,
        seconds,
        seconds_total: began.elapsed().as_secs_f64(),
        goodput_bps: if seconds > 0.0 { sane(moved as f64 * 8.0 / seconds) } else { 0.0 },
        packets_needed: finished.packets_needed,
        packets_sent: finished.packets_sent,
        waste: share(finished.packets_sent.saturating_sub(finished.packets_needed), finished.packets_needed),
        deadline_margin_s: None,
        rtt_ms_min: finished.rtt_ms_min.map(sane),
        loss_rate: share(finished.packets_lost, finished.packets_sent),
        socket_drops: complete.socket_drops,
        datagrams_rejected: complete.datagrams_rejected.saturating_add(finished.datagrams_rejected),
        packet_size: finished.packet_size,
        cc: printable(&finished.cc, WORD_CHARS_MAX),
        transport: match finished.transport.as_str() {
            // From a program without streams.
            "" => "udp".to_owned(),
            transport => printable(transport, WORD_CHARS_MAX),
        },
        streams: finished.streams,
        cipher: cipher.name().to_owned(),
        root: printable(&complete.root, WORD_CHARS_MAX),
        max_rss_bytes: ours.1,
        cpu_seconds: ours.0,
        cpu_seconds_peer: sane(peers.0),
        max_rss_bytes_peer: peers.1,
        deletions_left: 0,
        errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scavenger_keeps_one_stream() {
        assert_eq!(stream_target(Some("scavenger")), StreamTarget::Fixed(1));
        for other in [None, Some("fair"), Some("greedy"), Some("of a later version")] {
            assert_eq!(stream_target(other), StreamTarget::Found { remembered: None }, "{other:?}");
        }
    }
}
