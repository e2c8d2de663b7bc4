//! Options about how data travels: congestion control, what carries it, rates, times and memory.

use super::{CP, DOCTOR, Flag, Names, PIPE, Rank, SYNC, Side, Sizes, Takes, TransferOptions};
use crate::options::{
    CongestionControl, JudgeMethod, MEMORY_RANGE, PACKET_SIZE_RANGE, Priority, RESUME_WINDOW_MAX,
    TCP_BUFFER_RANGE,
};

use fobs_proto::session::LANES_MAX;

type Row = Flag<TransferOptions>;

/// How data travels.
pub const SENDING: &[Row] = &[
    Row::new("cc", "CC", Takes::OneOf(controllers, |it, name| {
        let all = || controllers().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        it.congestion_control = name.parse().map_err(|_| format!("give one of {}", all()))?;
        Ok(())
    }))
    .help("Congestion control algorithm")
    .on(&[CP, SYNC, PIPE])
    .default("auto")
    .yields(&["priority", "deadline"])
    .library("cc")
    .side(Side::Sender),
    Row::new("transport", "TRANSPORT", Takes::Form(|it, text| {
        it.transport = text.parse()?;
        Ok(())
    }))
    .help("What carries the data")
    .detail(
        "auto: UDP, and TCP where UDP is blocked or much slower. udp: UDP alone. tcp: TCP alone, with as many \
         connections as the path needs; tcp:N: with N of them, at most 64. ssh: one stream inside the control \
         connection (ssh, or that to a daemon), which gets through wherever that does.",
    )
    .on(&[
        CP,
        SYNC.help("What carries the data: auto, udp, tcp, tcp:N or ssh, as for fobs cp"),
        PIPE.help("What carries the data: auto, udp, tcp, tcp:N or ssh, as for fobs cp"),
    ])
    .default("auto")
    .library("transport")
    .side(Side::Both),
    // For experiments: without a name in the library, as is all else that people need not choose.
    Row::new("tcp-cc", "NAME", Takes::Text(Names::Other, |it, name| it.tcp.congestion = Some(name)))
        .help("Congestion control of TCP connections that carry data [default: the sending host's]")
        .detail(
            "One that the sending host's kernel has loaded and permits: \
             net.ipv4.tcp_allowed_congestion_control.",
        )
        .on(&[CP, PIPE])
        .side(Side::Sender),
    Row::new("tcp-buffer", "BYTES", Takes::Size(TCP_BUFFERS, |it, bytes| {
        it.tcp.buffer = u32::try_from(bytes).ok();
    }))
    .help("Send and receive buffers of TCP connections that carry data [default: the kernels adapt them]")
    .detail("Both kernels cut it to net.core.wmem_max and rmem_max. Units as in 64KiB or 4MiB.")
    .on(&[CP, PIPE])
    .side(Side::Both),
    Row::new("stream-allotment", "ALLOTMENT", Takes::Form(|it, text| {
        it.stream_allotment = text.parse()?;
        Ok(())
    }))
    .help("How data is given to TCP connections: next-free, or equal-parts fixed in advance to compare with")
    .on(&[CP])
    .default("next-free")
    .rank(Rank::Long)
    .side(Side::Sender),
    Row::new("priority", "PRIORITY", Takes::OneOf(priorities, |it, name| {
        it.priority = name.parse().map_err(|_| "give scavenger, fair or greedy".to_owned())?;
        Ok(())
    }))
    .help("Priority of --cc auto on a shared link")
    .on(&[CP, SYNC, PIPE])
    .default("fair")
    .library("priority")
    .side(Side::Sender),
    // A time of this host's clock, which the text of a library would have to make of a day and a zone.
    Row::new("deadline", "WHEN", Takes::Moment(|it, at| it.deadline = Some(at)))
        .help("Time by which the copy should be complete; until then, use no more of the path than necessary")
        .detail(
            "A duration (90s, 30m, 2h, 1d12h) or a point in time (06:00, 2026-11-23T06:00, 2026-11-23T06:00Z; \
             local time without a zone). The copy gives way to other traffic while it is ahead of schedule and \
             shares fairly when it is behind, up to --priority. It continues after a missed deadline.",
        )
        .on(&[CP, SYNC.help("Time by which the sync should be complete, as for fobs cp")])
        .side(Side::Sender),
    Row::new("loss-cause", "METHOD", Takes::OneOf(methods, |it, name| {
        it.loss_cause = name.parse().map_err(|_| "give a method that fobs knows".to_owned())?;
        Ok(())
    }))
    .help("Method that attributes packet losses to the network or to the receiver")
    .on(&[CP])
    .default("on")
    .side(Side::Sender),
    Row::new("rate", "RATE", Takes::Rate(|it, rate| it.rate_limit = Some(rate)))
        .help("Rate of --cc fixed; maximum rate of the other algorithms")
        .detail(
            "A number without a unit is bits per second. Units: k M G T (powers of 1000) and Ki Mi Gi Ti \
             (powers of 1024), alone or with 'bit' for bits per second, with 'B' for bytes per second: 100M, \
             10Gbit, 64MiB.",
        )
        .on(&[
            CP,
            SYNC.help("Maximum rate as for fobs cp, or the rate of --cc fixed"),
            DOCTOR.help("Maximum rate at which the path is tried, as in fobs cp"),
            PIPE.help("Maximum rate in each direction as for fobs cp, or the rate of --cc fixed"),
        ])
        .library("rate")
        .side(Side::Sender),
    Row::new("timeout", "TIME", Takes::Time(|it, time| (it.timeout, it.opening) = (time, Some(time))))
        .help("How long to wait for the other host when the network fails [default: 10m]")
        .detail(
            "While the path is silent, both ends probe it and the copy goes on as soon as it is back, also if \
             an address has changed. A number without a unit is seconds; units as in 90s, 10m, 2h.",
        )
        .on(&[
            CP,
            SYNC.help("How long to wait for the other host once data has flowed, as for fobs cp"),
            PIPE.help("How long to wait for the other host when the network fails, and with --listen for the other end"),
        ])
        .library("timeout")
        .side(Side::Both),
    Row::new("min-rate", "RATE/TIME", Takes::MinRate(|it, least| it.min_rate = Some(least)))
        .help("End the copy when it is slower than this, as in 1Mbit/30s: on average over the last 30 s")
        .on(&[CP, SYNC.help("End a sync that is slower than this over this time, as in 1Mbit/30s")])
        .library("min_rate")
        .side(Side::Both),
    Row::new("ack-every", "N", Takes::Number(1, u32::MAX as u64, |it, count| {
        it.ack_every = u32::try_from(count).ok();
    }))
    .help("Number of new packets per acknowledgement")
    .on(&[CP])
    .library("ack_every")
    .side(Side::Receiver),
    Row::new("burst", "N", Takes::Number(1, u32::MAX as u64, |it, count| {
        it.burst = u32::try_from(count).ok();
    }))
    .help("Maximum packets per burst")
    .on(&[CP])
    .library("burst")
    .side(Side::Sender),
    Row::new("lanes", "N", Takes::Number(1, LANES_MAX as u64, |it, count| {
        it.lanes.each = u8::try_from(count).ok();
    }))
    .help("Lanes of each path, for experiments: together they take what one would")
    .on(&[CP])
    .library("lanes"),
    Row::new("memory", "BYTES", Takes::Size(MEMORY, |it, bytes| it.memory = Some(bytes)))
        .help(
            "Memory that this side of the copy may hold, 64 MiB to 64 GiB [default: an eighth of what is available, \
             64MiB to 1GiB]",
        )
        .detail(
            "Long paths need about two bandwidth-delay products: 400 MB at 10 Gbit/s and 160 ms. The other side \
             has its own. A number without a unit is bytes; units as in 512MiB or 2G.",
        )
        .on(&[
            CP,
            SYNC.help("Memory that this side may hold, as for fobs cp"),
            PIPE.help("Memory that this side may hold for each direction, as for fobs cp"),
        ])
        .library("memory"),
    Row::new("resume-window", "BYTES", Takes::Size(RESUMED, |it, bytes| it.resume_window = bytes))
        .help("Bytes kept until the other end has them, so that a pipe goes on over a new connection [default: 256MiB]")
        .detail(
            "A connection that breaks is made again while both ends' programs live, and the pipe goes on at the \
             first byte that is not confirmed. No more than BYTES wait to be confirmed in each direction; 0 has the pipe \
             end with its connection. A number without a unit is bytes; units as in 64MiB.",
        )
        .on(&[PIPE])
        .library("resume_window")
        .side(Side::Both),
    Row::new("packet-size", "BYTES", Takes::Size(PACKETS, |it, bytes| {
        it.packet_size = u16::try_from(bytes).ok();
    }))
    .help("Data bytes per packet [default: as many as the path carries]")
    .detail("A number without a unit is bytes; units as in 1.4k or 8KiB.")
    .on(&[CP, PIPE])
    .library("packet_size")
    .side(Side::Both),
];

const TCP_BUFFERS: Sizes = Sizes {
    least: TCP_BUFFER_RANGE.0 as u64,
    most: TCP_BUFFER_RANGE.1 as u64,
    wrong: "a buffer holds 4KiB to 1GiB",
};
const MEMORY: Sizes =
    Sizes { least: MEMORY_RANGE.0, most: MEMORY_RANGE.1, wrong: "a side may hold 64 MiB to 64 GiB" };
const RESUMED: Sizes = Sizes { least: 0, most: RESUME_WINDOW_MAX, wrong: "a window has at most 64 GiB" };
const PACKETS: Sizes = Sizes {
    least: PACKET_SIZE_RANGE.0 as u64,
    most: PACKET_SIZE_RANGE.1 as u64,
    wrong: "a packet carries 512 to 65000 bytes",
};

fn controllers() -> Vec<(&'static str, &'static str)> {
    CongestionControl::ALL.map(|cc| (cc.name(), cc.summary())).to_vec()
}

fn priorities() -> Vec<(&'static str, &'static str)> {
    Priority::ALL.iter().map(|priority| (priority.name(), priority.summary())).collect()
}

fn methods() -> Vec<(&'static str, &'static str)> {
    JudgeMethod::ALL.iter().map(|method| (method.name(), method.summary())).collect()
}
