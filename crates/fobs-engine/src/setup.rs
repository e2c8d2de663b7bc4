//! How the machines and sockets of a transfer are set up, and its figures at the end.

use crate::clock::Clock;
use crate::streams::permitted;
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_diagnose::model::judge;
use fobs_model::deltas::DeltaFigures;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{FileError, Summary};
use fobs_model::message::{Complete, Finished, Sending};
use fobs_model::options::{CongestionControl, PACKET_SIZE_RANGE, Priority, TcpTuning, Transport};
use fobs_model::storage::Storage;
use fobs_model::text::{printable, sane};
use fobs_proto::Rate;
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::receiver::{ACK_DELAY_MAX, ACK_EVERY, ReceiverConfig};
use fobs_proto::recovery::BASE_DATAGRAM;
use fobs_proto::sender::SenderConfig;
use fobs_proto::session::{LANES_MAX, StreamTarget, TransportChoice};
use fobs_proto::wire::DATA_OVERHEAD;
use fobs_sys::UdpOptions;

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
/// Longest sentence about a lane that is shown, characters.
const LANE_CHARS_MAX: usize = 240;

/// The sending machine's configuration; the link fills in what it knows. `payload_size`: data bytes per
/// packet, `None` to probe the path; `chunk_limit`: first chunk that the receiver has no room for;
/// `chunks_max`: how many this side holds. `Usage` for impossible choices.
pub fn sender_config(
    sending: &Sending,
    payload_size: Option<u16>,
    chunk_limit: u32,
    chunks_max: u32,
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
        chunks_max: chunks_max as usize,
        ack_delay_max: ACK_DELAY_MAX,
    })
}

fn unknown_controller(name: &str) -> Error {
    let known = CongestionControl::ALL.map(CongestionControl::name).join(", ");
    let name = printable(name, WORD_CHARS_MAX);
    Error::new(ErrorKind::Usage, format!("there is no congestion controller {name:?}; use one of {known}"))
}

fn unknown_priority(name: &str) -> Error {
    let known = Vec::from_iter(Priority::ALL.iter().map(|priority| priority.name())).join(", ");
    let name = printable(name, WORD_CHARS_MAX);
    Error::new(ErrorKind::Usage, format!("there is no priority {name:?}; use one of {known}"))
}

fn unknown_method(name: &str) -> Error {
    let known = Vec::from_iter(JudgeMethod::ALL.iter().map(|method| method.name())).join(", ");
    let name = printable(name, WORD_CHARS_MAX);
    Error::new(ErrorKind::Usage, format!("there is no way {name:?} to judge losses; use one of {known}"))
}

/// The receiving machine's configuration. `ack_every`: packets between acks, `None` for the default;
/// `chunks_max`: how many chunks this side holds.
pub fn receiver_config(ack_every: Option<u32>, chunks_max: u32) -> ReceiverConfig {
    let ack_every = ack_every.map_or(ACK_EVERY, |packets| packets.min(ACK_EVERY_LIMIT));
    ReceiverConfig { ack_every, ack_delay_max: ACK_DELAY_MAX, chunks_max }
}

/// Options of the data socket. `cc` is the controller that sends from it, if this side sends.
pub fn udp_options(cc: Option<&str>) -> UdpOptions {
    let send_buffer = if cc == Some("greedy") { GREEDY_SEND_BUFFER } else { SOCKET_BUFFER };
    UdpOptions { recv_buffer: SOCKET_BUFFER, send_buffer, gro: true }
}

/// How this side sets up streams, whose data it writes or reads. Congestion control is the sender's.
///
/// # Errors
/// `Usage` for a congestion control that this host does not have, or not for us.
pub fn tcp_tuning(sending: &Sending, ours: Direction) -> Result<TcpTuning> {
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
pub fn transport_of(sending: &Sending) -> Result<Transport> {
    let Some(name) = sending.transport.as_deref() else { return Ok(Transport::Auto) };
    name.parse().map_err(|possible| {
        let name = printable(name, WORD_CHARS_MAX);
        Error::new(ErrorKind::Usage, format!("there is no transport {name:?}; {possible}"))
    })
}

/// What the sender decides by; `None` where only UDP is allowed.
pub fn choice_of(transport: Transport) -> Option<TransportChoice> {
    match transport {
        Transport::Auto => Some(TransportChoice::Auto),
        Transport::Udp => None,
        Transport::Tcp { count } => Some(TransportChoice::Tcp { count }),
        // The door makes no other stream.
        Transport::Channel => Some(TransportChoice::Tcp { count: Some(1) }),
    }
}

/// How many streams a sender of this priority wants, where the user gives no number.
pub fn stream_target(priority: Option<&str>) -> StreamTarget {
    match priority.and_then(|name| name.parse().ok()).unwrap_or_default() {
        Priority::Scavenger => StreamTarget::Fixed(1),
        Priority::Fair | Priority::Greedy => StreamTarget::Found { remembered: None },
    }
}

/// The figures of a transfer, from the final messages of both ends. `side` is this end.
pub fn summary(
    side: Direction,
    complete: &Complete,
    finished: &Finished,
    cipher: Cipher,
    began: Clock,
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
    let ours = began.usage();
    let peers = match side {
        Direction::Sender => (complete.cpu_seconds, complete.max_rss_bytes),
        Direction::Receiver => (finished.cpu_seconds, finished.max_rss_bytes),
    };
    Summary {
        bytes: complete.bytes,
        resumed_bytes: complete.resumed_bytes,
        matched_bytes: complete.matched_bytes.min(complete.bytes),
        deltas: DeltaFigures { matched: complete.matched, literal: finished.literal },
        files: complete.files,
        others: complete.others,
        seconds,
        seconds_total: began.seconds(),
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
        max_rss_bytes: ours.max_rss_bytes,
        cpu_seconds: ours.cpu_seconds,
        cpu_seconds_peer: sane(peers.0),
        max_rss_bytes_peer: peers.1,
        lanes: finished
            .lanes
            .iter()
            .take(LANES_MAX + 1)
            .map(|lane| printable(lane, LANE_CHARS_MAX))
            .collect(),
        storage: Storage::of_a_peer(&finished.read, &complete.written),
        deletions_left: 0,
        errors,
    }
}
