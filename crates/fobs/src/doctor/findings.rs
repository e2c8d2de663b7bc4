//! From facts to findings: what each fact allows, and what mends it. Texts are parts of sentences: no capital
//! at the start, no full stop.

use super::facts::{
    Carried, DiskFacts, Examination, HostFacts, InterfaceFacts, KeyFacts, MemoryFacts, PacketSpeed,
    PathFacts, PathOutcome, PeerFacts, SocketFacts, ThreadLimit,
};
use fobs_explain::LARGER_BUFFER;
use fobs_model::options::DEFAULT_UDP_PORTS;
use fobs_model::walls::Walls;
use fobs_model::words::{bytes, percent, rate};
use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::session::chunks_within;
use serde::Serialize;

/// As long as a busy host may keep a thread off its CPU, seconds: what arrives then must fit the socket
/// buffer (docs/tuning.md).
const PAUSE_S: f64 = 0.010;
/// Data bytes of a packet on a path of 1500 bytes, and what the kernel charges the buffer for it.
const DATA_SHARE: f64 = 1444.0 / 2304.0;
/// The kernel grants twice what is requested, for its own overhead (socket(7)).
const GRANT: u64 = 2;
/// Bandwidth-delay products that a side holds on a path that is full: one in flight, and what is sent again,
/// verified and stored meanwhile (docs/tuning.md).
const PRODUCTS_HELD: f64 = 2.0;
/// The round trip of a far host, seconds.
const FAR_S: f64 = 0.1;
/// Clocks that differ by more are named, seconds: modification times are compared in whole seconds.
const CLOCK_TOLERANCE_S: f64 = 1.0;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spot {
    /// This end.
    Here,
    /// The other end.
    There,
    /// The path to the other end.
    Forth,
    /// The path back.
    Back,
}

/// Which property of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Version, kernel, CPUs.
    Host,
    /// Buffers of UDP sockets.
    SocketBuffers,
    /// Segmentation and receive offloads.
    Offloads,
    /// The network interface.
    Interface,
    /// Sealing packets.
    Cipher,
    /// Hashing content.
    Hash,
    /// Sealing and sending packets, receiving and opening them.
    Packets,
    /// Reading and writing files.
    Disk,
    /// What a copy may hold.
    Memory,
    /// What the kernel keeps a session to.
    Walls,
    /// The clock.
    Clock,
    /// What this client's key allows.
    Key,
    /// Whether UDP passes, and how fast.
    Udp,
    /// Packet size.
    Mtu,
}

impl Subject {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Host => "host",
            Subject::SocketBuffers => "socket buffers",
            Subject::Offloads => "offloads",
            Subject::Interface => "interface",
            Subject::Cipher => "cipher",
            Subject::Hash => "hash",
            Subject::Packets => "packets",
            Subject::Disk => "disk",
            Subject::Memory => "memory",
            Subject::Walls => "walls",
            Subject::Clock => "clock",
            Subject::Key => "key",
            Subject::Udp => "UDP",
            Subject::Mtu => "packet size",
        }
    }
}

/// Whether a fact was found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It was measured or read.
    Known,
    /// It was not: nothing says that it is fine.
    Unknown,
}

/// One fact, what it allows, and what mends it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Of what.
    pub spot: Spot,
    /// Which property.
    pub subject: Subject,
    /// The fact.
    pub text: String,
    /// The rate at which it lets that end send, or the path carry data, bits per second; `None` for no limit.
    pub sends_bps: Option<f64>,
    /// The rate at which it lets that end receive, bits per second; `None` for no limit.
    pub receives_bps: Option<f64>,
    /// What mends it; `None` where nothing is wrong.
    pub mend: Option<Mend>,
    /// Whether there is a fact at all; `text` says why not.
    #[serde(skip)]
    pub known: Known,
}

/// What mends a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mend {
    /// What to do: the command, and where.
    pub action: String,
    /// The rate then, bits per second; `None` if it is not known.
    pub predicted_bps: Option<f64>,
}

impl Mend {
    /// Promises no more than was carried, and nothing where that is no more than `now`.
    pub(super) fn within(self, proven: Option<f64>, now: f64) -> Mend {
        let predicted = self.predicted_bps.zip(proven).map(|(predicted, proven)| predicted.min(proven));
        Mend { predicted_bps: predicted.filter(|&predicted| predicted > now), ..self }
    }
}

impl Finding {
    fn new(spot: Spot, subject: Subject, text: String) -> Finding {
        let (sends_bps, receives_bps, mend) = (None, None, None);
        Finding { spot, subject, text, sends_bps, receives_bps, mend, known: Known::Known }
    }

    fn unknown(spot: Spot, subject: Subject, why: String) -> Finding {
        Finding { known: Known::Unknown, ..Finding::new(spot, subject, why) }
    }

    fn allows(self, sends_bps: Option<f64>, receives_bps: Option<f64>) -> Finding {
        Finding { sends_bps, receives_bps, ..self }
    }

    fn mended(self, mend: Option<Mend>) -> Finding {
        Finding { mend, ..self }
    }
}

/// Everything that is to be said, in order.
pub(super) fn findings(facts: &Examination) -> Vec<Finding> {
    let mut all = of_host(Spot::Here, &facts.here);
    if let Some(peer) = &facts.there {
        all.extend(of_host(Spot::There, &peer.host));
        all.extend(versions(&facts.here, peer));
        all.extend(clock(peer));
        all.extend(of_path(Spot::Forth, &peer.there, facts));
        all.extend(peer.back.iter().flat_map(|back| of_path(Spot::Back, back, facts)));
    }
    let proven = facts.proven_bps();
    for finding in &mut all {
        if finding.subject == Subject::Packets {
            // What the path carried, both ends handled.
            let (forth, back) = facts.carried_bps();
            let (sent, received) = if finding.spot == Spot::There { (back, forth) } else { (forth, back) };
            finding.sends_bps = finding.sends_bps.map(|own| own.max(sent));
            finding.receives_bps = finding.receives_bps.map(|own| own.max(received));
        }
        let bound = finding.sends_bps.into_iter().chain(finding.receives_bps).reduce(f64::min);
        finding.mend = finding.mend.take().map(|mend| mend.within(proven, bound.unwrap_or(0.0)));
    }
    all
}

fn of_host(spot: Spot, host: &HostFacts) -> Vec<Finding> {
    let cpus = if host.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", host.cpus) };
    let one = (host.cpus == 1).then(|| Mend {
        action: "give it a second CPU: a session keeps two threads busy".to_owned(),
        predicted_bps: None,
    });
    let text = format!("{}, Linux {}, {cpus}", host.program, host.kernel);
    let mut all = vec![Finding::new(spot, Subject::Host, text).mended(one), buffers(spot, &host.sockets)];
    all.push(offloads(spot, &host.sockets, host.interface.as_ref()));
    all.extend(host.interface.as_ref().map(|interface| line(spot, interface)));
    let speeds = host.ciphers.iter().map(|speed| format!("{} {}", speed.name, rate(speed.bps)));
    let speeds = speeds.collect::<Vec<_>>().join(", ");
    let best = host.ciphers.iter().map(|speed| speed.bps).reduce(f64::max);
    all.push(Finding::new(spot, Subject::Cipher, format!("{speeds} on one core")).allows(best, best));
    let hash = Some(host.hash_bps);
    let text = format!("BLAKE3 {} on one core", rate(host.hash_bps));
    all.push(Finding::new(spot, Subject::Hash, text).allows(hash, hash));
    all.extend(host.packets.as_ref().map(|PacketSpeed { send_bps, receive_bps, apart }| {
        let (send_bps, receive_bps) = (*send_bps, *receive_bps);
        let both = if send_bps == receive_bps {
            format!("{} each way", rate(send_bps))
        } else {
            format!("sends {}, receives {}", rate(send_bps), rate(receive_bps))
        };
        let apart = apart.as_ref().map_or_else(String::new, apart_from_itself);
        let text = format!("a session with itself, from memory to memory: {both}, of 1500 bytes each{apart}");
        Finding::new(spot, Subject::Packets, text).allows(Some(send_bps), Some(receive_bps))
    }));
    all.push(match &host.disk {
        DiskFacts::Measured(speed) => {
            let (write, read, size) = (rate(speed.write_bps), rate(speed.read_bps), bytes(speed.bytes));
            let cache = match (&speed.storage, speed.past_cache) {
                (Some(storage), _) => storage.expectation().map_or_else(String::new, |it| format!("; {it}")),
                (None, Some(true)) => "; large files are written past the page cache".to_owned(),
                (None, Some(false)) => "; large files are written through the page cache".to_owned(),
                (None, None) => String::new(),
            };
            let text = format!("{}: writes {write}, reads {read} ({size}, synced){cache}", speed.directory);
            Finding::new(spot, Subject::Disk, text).allows(Some(speed.read_bps), Some(speed.write_bps))
        }
        DiskFacts::Unmeasured { reason } => {
            Finding::unknown(spot, Subject::Disk, format!("not measured: {reason}"))
        }
    });
    all.extend(host.memory.map(|memory| of_memory(spot, memory)));
    all.extend(host.walls.map(|walls| around_sessions(spot, walls)));
    all.extend(host.key.as_ref().map(|key| allowed_by(spot, key)));
    all
}

/// How much a copy may hold. It allows no rate by itself: that depends on the round trip.
fn of_memory(spot: Spot, memory: MemoryFacts) -> Finding {
    let (copy, available) = (bytes(memory.copy), bytes(memory.available));
    let held = f64::from(chunks_within(memory.copy)) * f64::from(CHUNK_LEN_MAX);
    let far = rate(held * 8.0 / (PRODUCTS_HELD * FAR_S));
    let text = format!("a copy may hold {copy} of {available} that are available: up to {far} at 100 ms");
    Finding::new(spot, Subject::Memory, text)
}

/// What the session's threads would do with another host of this kind.
fn apart_from_itself(limit: &ThreadLimit) -> String {
    let with = if limit.lanes > 1 {
        format!(", up to {} with {} lanes", rate(limit.lanes_bps), limit.lanes)
    } else {
        String::new()
    };
    format!(
        "; by what its threads cost, with a host like this: up to {} ({} is next){with}",
        rate(limit.bps),
        limit.thread
    )
}

/// What the key allows there: a rate of 0 where it allows nothing.
fn allowed_by(spot: Spot, key: &KeyFacts) -> Finding {
    let does = match (key.may_push, key.may_pull) {
        (true, true) => "push and pull",
        (true, false) => "push, not pull",
        (false, true) => "pull, not push",
        (false, false) => "neither push nor pull",
    };
    let right = if key.access.is_empty() { String::new() } else { format!(" ({})", key.access) };
    let most = key.rate_bps.map(|bps| bps as f64);
    let limit =
        most.map_or_else(String::new, |bps| format!("; all its copies together at most {}", rate(bps)));
    let bound = |may: bool| if may { most } else { Some(0.0) };
    Finding::new(spot, Subject::Key, format!("this client may {does}{right}{limit}"))
        .allows(bound(key.may_pull), bound(key.may_push))
}

fn around_sessions(spot: Spot, walls: Walls) -> Finding {
    let action = match walls.landlock {
        0 => Some("a kernel with Landlock: Linux 6.12 or newer, with landlock among its lsm= at boot"),
        _ if walls.missing().iter().any(|missing| *missing != Walls::CALLS) => {
            Some("Linux 6.12 or newer keeps a session to all of it")
        }
        _ => None,
    };
    let mend = action.map(|action| Mend { action: action.to_owned(), predicted_bps: None });
    Finding::new(spot, Subject::Walls, format!("around each session: {walls}")).mended(mend)
}

/// The rate at which a receive buffer of `buffer` bytes overflows in the longest usual pause.
fn fits(buffer: u64) -> f64 {
    buffer as f64 * DATA_SHARE * 8.0 / PAUSE_S
}

fn buffers(spot: Spot, sockets: &SocketFacts) -> Finding {
    let shown = |max: Option<u64>| max.map_or_else(|| "unknown".to_owned(), |max| max.to_string());
    let text = format!(
        "receive {}, send {} ({} requested and twice that possible; rmem_max {}, wmem_max {})",
        bytes(sockets.receive),
        bytes(sockets.send),
        bytes(sockets.requested),
        shown(sockets.rmem_max),
        shown(sockets.wmem_max)
    );
    let whole = GRANT * sockets.requested;
    let place = match spot {
        Spot::Here => "here",
        Spot::There | Spot::Forth | Spot::Back => "there",
    };
    let larger_send = format!("net.core.wmem_max={}", sockets.requested);
    let action = match (sockets.receive < whole, sockets.send < whole) {
        (false, false) => None,
        (true, false) => Some(LARGER_BUFFER.to_owned()),
        (false, true) => Some(format!("sysctl -w {larger_send}")),
        (true, true) => Some(format!("{LARGER_BUFFER} {larger_send}")),
    };
    let mend = action.map(|command| Mend {
        action: format!("as root {place}: {command}"),
        predicted_bps: (sockets.receive < whole).then(|| fits(whole)),
    });
    Finding::new(spot, Subject::SocketBuffers, text).allows(None, Some(fits(sockets.receive))).mended(mend)
}

fn offloads(spot: Spot, sockets: &SocketFacts, interface: Option<&InterfaceFacts>) -> Finding {
    let yes = |works: bool| if works { "works" } else { "does not work" };
    let on = |state: Option<bool>| match state {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let mut text = format!("GSO {}, GRO {} for UDP sockets", yes(sockets.segments), yes(sockets.merges));
    let mut mend = None;
    if let Some(InterfaceFacts { name, segments, merges, .. }) = interface {
        text += &format!("; {name}: segmentation {}, receive offload {}", on(*segments), on(*merges));
        let off =
            [("gso", segments), ("gro", merges)].into_iter().filter(|(_, state)| **state == Some(false));
        let words = off.map(|(word, _)| format!("{word} on")).collect::<Vec<_>>().join(" ");
        mend = (!words.is_empty()).then(|| format!("as root: ethtool -K {name} {words}"));
    }
    if !sockets.segments || !sockets.merges {
        mend = mend
            .or_else(|| Some("a kernel of Linux 5.0 or newer, without a sandbox around sockets".to_owned()));
    }
    let mend = mend.map(|action| Mend { action, predicted_bps: None });
    Finding::new(spot, Subject::Offloads, text).mended(mend)
}

fn line(spot: Spot, interface: &InterfaceFacts) -> Finding {
    let InterfaceFacts { name, mtu, speed_mbit, .. } = interface;
    let mtu = mtu.map_or_else(|| "MTU unknown".to_owned(), |mtu| format!("MTU {mtu}"));
    let bps = speed_mbit.map(|mbit| f64::from(mbit) * 1e6);
    let speed = bps.map_or_else(|| "line rate unknown".to_owned(), rate);
    Finding::new(spot, Subject::Interface, format!("{name}: {mtu}, {speed}")).allows(bps, bps)
}

fn versions(here: &HostFacts, peer: &PeerFacts) -> Option<Finding> {
    (here.program != peer.host.program || here.features != peer.host.features).then(|| {
        let text = format!("{} there, {} here", peer.host.program, here.program);
        let action = "install the same version at both ends".to_owned();
        Finding::new(Spot::There, Subject::Host, text).mended(Some(Mend { action, predicted_bps: None }))
    })
}

fn clock(peer: &PeerFacts) -> Option<Finding> {
    let (ahead, error) = (peer.clock_ahead_s, peer.clock_error_s);
    let side = if ahead < 0.0 { "behind" } else { "ahead of" };
    let text = format!("{:.3} s {side} ours, give or take {error:.3} s", ahead.abs());
    let mend = (ahead.abs() - error > CLOCK_TOLERANCE_S).then(|| Mend {
        action:
            "as root at the end that is wrong: timedatectl set-ntp true (modification times are compared)"
                .to_owned(),
        predicted_bps: None,
    });
    Some(Finding::new(Spot::There, Subject::Clock, text).mended(mend))
}

fn of_path(spot: Spot, path: &PathFacts, facts: &Examination) -> Vec<Finding> {
    let port = path.port.map_or_else(|| "its UDP port".to_owned(), |port| format!("UDP port {port}"));
    match &path.outcome {
        PathOutcome::Carried(carried) => {
            vec![measured(spot, carried, &port), packet_size(spot, carried, facts)]
        }
        PathOutcome::Blocked { arrived, .. } => vec![blocked(spot, path.port, &port, *arrived)],
        PathOutcome::Failed { message, .. } => {
            vec![
                Finding::new(spot, Subject::Udp, format!("the session at {port} failed: {message}"))
                    .allows(Some(0.0), None),
            ]
        }
    }
}

fn measured(spot: Spot, carried: &Carried, port: &str) -> Finding {
    let rtt = carried.rtt_ms.map_or_else(|| "RTT unknown".to_owned(), |rtt_ms| format!("RTT {rtt_ms:.1} ms"));
    let drops = match carried.socket_drops {
        0 => String::new(),
        drops => format!(", {drops} packets dropped at the receiver's socket"),
    };
    let text = format!(
        "passes both ways at {port}; {} for {:.1} s, {rtt}, loss {}{drops}; {}",
        rate(carried.bps),
        carried.seconds,
        percent(carried.loss_rate),
        carried.why.sentence.trim_end_matches('.')
    );
    let fix = carried.why.fix.split("; predicted").next().unwrap_or_default().trim_end_matches('.');
    let mend =
        (!fix.is_empty()).then(|| Mend { action: fix.to_owned(), predicted_bps: carried.why.predicted_bps });
    Finding::new(spot, Subject::Udp, text).allows(Some(carried.bps), None).mended(mend)
}

fn packet_size(spot: Spot, carried: &Carried, facts: &Examination) -> Finding {
    let Some(mtu) = carried.mtu else {
        return Finding::unknown(spot, Subject::Mtu, "unknown: the session was ended before".to_owned());
    };
    let hosts = [Some(&facts.here), facts.there.as_ref().map(|peer| &peer.host)];
    let widest = hosts.into_iter().flatten().filter_map(|host| host.interface.as_ref()?.mtu).min();
    // The first packets are smaller; what is tried beyond 9000 bytes does not pass (docs/tuning.md).
    let usual = widest.map(|widest| widest.min(9000)).filter(|&widest| mtu < widest);
    let (text, mend) = match usual {
        None => (format!("IP packets of up to {mtu} bytes pass"), None),
        Some(widest) => {
            let name = facts.there.as_ref().map_or("HOST", |peer| &peer.name);
            let action = format!("look for the hop that is narrower: tracepath -n {name}");
            let text = format!("IP packets of up to {mtu} bytes pass, though both interfaces take {widest}");
            (text, Some(Mend { action, predicted_bps: None }))
        }
    };
    Finding::new(spot, Subject::Mtu, text).mended(mend)
}

fn blocked(spot: Spot, number: Option<u16>, port: &str, arrived: Option<bool>) -> Finding {
    let (first, last) = DEFAULT_UDP_PORTS;
    let ports = match number {
        Some(port) if !(first..=last).contains(&port) => port.to_string(),
        _ => format!("{first}:{last}"),
    };
    let (text, action) = match arrived {
        Some(true) => (
            format!("datagrams arrive at {port}, but no answer comes back"),
            format!(
                "as root here: iptables -A INPUT -p udp --sport {ports} -j ACCEPT, and on firewalls between"
            ),
        ),
        Some(false) => (
            format!("datagrams to {port} do not arrive there"),
            format!(
                "as root there: iptables -A INPUT -p udp --dport {ports} -j ACCEPT, and on firewalls between"
            ),
        ),
        None => (
            format!("no datagram came back from {port}"),
            format!(
                "as root there: iptables -A INPUT -p udp --dport {ports} -j ACCEPT, and on firewalls between"
            ),
        ),
    };
    let mend = Some(Mend { action, predicted_bps: None });
    Finding::new(spot, Subject::Udp, text).allows(Some(0.0), None).mended(mend)
}
