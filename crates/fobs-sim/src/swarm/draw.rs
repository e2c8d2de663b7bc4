//! A seed's world.

use crate::flow::fobs::{Dies, FobsConfig, Kill, Object};
use crate::flow::source::{Pattern, SourceConfig};
use crate::flow::tcp::{Algorithm, TcpConfig};
use crate::flow::{FlowConfig, Outcome, Traffic};
use crate::host::{CpuConfig, DiskConfig, HostConfig, Sync};
use crate::link::{Change, Discipline, Faults, GilbertElliott, LinkConfig, PolicerConfig};
use crate::rng::{Chance, Rng};
use crate::time::{MS, Nanos, SEC, US, time_for};
use crate::topology::{Dumbbell, Edge};
use crate::world::{Config, Happening, World};
use fobs_proto::Rate;
use fobs_proto::congestion::CongestionControl;
use fobs_proto::session::{ANSWER_WAIT, HEARTBEAT, UDP_SILENCE_MAX};

/// Faults end here at the latest.
const CALM: Nanos = 4 * SEC;
/// A blackout at the start ends here at the latest. Probe timeouts double, so the first packet after it
/// leaves before twice this time; a quarter of the limit is left for stalls of the hosts.
const BLACK_AT_START_MAX: Nanos = UDP_SILENCE_MAX.as_nanos() as Nanos * 3 / 8;
/// What a world may take beyond that and its turns: probe timeouts of up to 2 s, mismatches, a slow start
/// after the faults.
const PATIENCE: Nanos = 60 * SEC;
/// The same where a controller other than `auto` recovers from the faults by its equation or its window:
/// after many loss episodes hstfrc still crawls a minute later.
const PATIENCE_OTHERS: Nanos = 4 * PATIENCE;
/// A turn of all the chunks that may be in flight takes at most this many times what it must: reports get
/// lost, too.
const TURN_FACTOR: u64 = 8;
/// What the attempts of a killed transfer that end in silence may take, with the pauses after them: three of
/// them, one more than faults before calm have time for.
const SILENCES: Nanos = 3 * (UDP_SILENCE_MAX.as_nanos() as Nanos + 2 * SEC);
/// Most deaths of a transfer's ends in one world.
const KILLS_MAX: u64 = 4;
/// Stream of the draws: no actor's.
const STREAM: u64 = 0x5eed;

/// A world and its excuses.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The world; flow 0 is the transfer that counts.
    pub config: Config,
    /// Chunks that never verify.
    hopeless: bool,
    /// The receiver's disk cannot hold the object.
    too_small: bool,
    /// The receiver's disk begins to fail.
    fails: bool,
    /// A host crashes.
    crashes: bool,
}

impl Plan {
    /// Whether the transfer may have ended like this in its world.
    pub fn allows(&self, outcome: Outcome, world: &World) -> bool {
        match outcome {
            Outcome::Complete => !self.hopeless && !self.too_small,
            Outcome::GaveUp => self.hopeless,
            Outcome::Silent => was_silent(world),
            Outcome::DiskFull => self.too_small,
            Outcome::DiskFailed => self.fails,
            Outcome::Crashed => self.crashes,
            Outcome::Running | Outcome::Stopped => false,
        }
    }
}

/// Whether the path gave flow 0, which has just ended, no answer for as long as the session's policy waits,
/// and faults were on all that time: after calm, silence has no excuse.
fn was_silent(world: &World) -> bool {
    let passages = world.net.passages[0];
    let limit = if passages.have_answer() { ANSWER_WAIT } else { UDP_SILENCE_MAX };
    let faults_end = CALM + HEARTBEAT.as_nanos() as Nanos;
    let since = world.now().checked_sub(limit.as_nanos() as Nanos);
    world.now() <= faults_end && since.is_some_and(|since| passages.are_silent_since(since))
}

/// The world of a seed.
pub fn draw(seed: u64) -> Plan {
    let rng = &mut Rng::stream(seed, STREAM);
    // Half of the worlds have the product's default.
    let controller =
        if happens(rng, 50) { CongestionControl::Auto } else { rng.pick(&CongestionControl::ALL) };
    let greedy = controller == CongestionControl::Greedy;
    let rates: &[u64] = if greedy {
        &[2_000_000, 20_000_000, 100_000_000]
    } else {
        &[2_000_000, 20_000_000, 100_000_000, 1_000_000_000, 0]
    };
    let rate = rng.pick(rates);
    let rtt = rng.pick(&[200 * US, 5 * MS, 30 * MS, 120 * MS]);
    // What a slow link carries in a few seconds.
    let bytes_max = if rate == 0 { 6_000_000 } else { (rate / 8 * 3).min(6_000_000) };
    let object = draw_object(rng, bytes_max);
    let mut fobs = draw_fobs(rng, object, controller, rate);
    // A stream of its own: what other draws give stays as it was.
    fobs.replay_window = !happens(&mut Rng::stream(seed, STREAM + 1), 20);
    let (from, mut to) = (draw_host(rng, "s0"), draw_host(rng, "r0"));
    let total = fobs.object.total();
    let (too_small, fails) = draw_disk(rng, &mut to.disk, total);
    let crashes = happens(rng, 3);
    if crashes {
        to.crash = Some(rng.range(0, CALM));
    }
    let probes = fobs.payload.is_none();
    let (edges, changes) = draw_network(rng, rate, rtt, greedy, probes);
    let spoiled = too_small || fails || crashes;
    let hopeless = fobs.mismatches.values().any(|count| *count >= 3);
    let patience = if controller == CongestionControl::Auto { PATIENCE } else { PATIENCE_OTHERS };
    if !spoiled && !hopeless {
        fobs.kills = draw_kills(&mut Rng::stream(seed, STREAM + 2));
    }
    let pauses: Nanos = fobs.kills.iter().map(|kill| kill.after + kill.pause).sum();
    let silences = if fobs.kills.is_empty() { 0 } else { SILENCES };
    let slack = TURN_FACTOR * turns(&fobs, &to, rtt, rate) + pauses + silences;
    let mut config = Config {
        hosts: vec![from, to],
        edges,
        changes,
        flows: vec![FlowConfig::new("transfer", "s0", "r0", Traffic::Fobs(Box::new(fobs)))],
        ..Config::new("swarm", seed, CALM + patience + slack)
    };
    draw_neighbours(rng, &mut config, rate);
    config.changes.push((CALM, Happening::Calm));
    Plan { config, hopeless, too_small, fails, crashes }
}

fn happens(rng: &mut Rng, percent: u32) -> bool {
    rng.happens(Chance::ppm(percent * 10_000))
}

fn draw_object(rng: &mut Rng, bytes_max: u64) -> Object {
    let mut left = rng.range(1, bytes_max);
    if happens(rng, 20) {
        return Object::Bytes(left);
    }
    let largest = rng.pick(&[700, 5_000, 100_000, 1_000_000, 4_000_000]);
    let mut chunks = Vec::new();
    while left > 0 && chunks.len() < 400 {
        let len = rng.range(1, largest).min(left);
        chunks.push(len as u32);
        left -= len;
    }
    Object::Chunks(chunks)
}

fn draw_fobs(rng: &mut Rng, object: Object, controller: CongestionControl, rate: u64) -> FobsConfig {
    let greedy = controller == CongestionControl::Greedy;
    let chunks = object.chunks();
    let fixed = Rate::bits_per_second(if rate == 0 { 200_000_000 } else { rate * 9 / 10 });
    let mut fobs = FobsConfig::new(object, controller.with_rate(fixed));
    if happens(rng, 20) {
        fobs.rate_limit = Some(30_000_000);
    }
    // The circular schedule repeats as fast as controller and link allow: without a limit a run is all
    // repeats.
    let limited = matches!(controller, CongestionControl::Auto | CongestionControl::Fixed { .. });
    fobs.circular = limited && (1..1_000_000_000).contains(&rate) && happens(rng, 15);
    fobs.payload = rng.pick(&[None, None, None, Some(512), Some(1024), Some(1300)]);
    fobs.burst = if greedy { None } else { rng.pick(&[None, None, Some(1), Some(2), Some(10)]) };
    fobs.sender_chunks = rng.range(2, 40) as u32;
    fobs.receiver_chunks = rng.range(1, 40) as u32;
    fobs.ack_every = rng.pick(&[1, 2, 10, 64, 64, 64, 500]);
    fobs.ack_delay = rng.pick(&[100 * US, MS, 5 * MS, 5 * MS, 25 * MS]);
    for _ in 0..rng.pick(&[0, 0, 0, 1, 3]) {
        let chunk = rng.range(0, chunks - 1) as u32;
        let count = rng.pick(&[1, 1, 2, 2, 3]);
        fobs.mismatches.insert(chunk, count);
    }
    fobs
}

/// Deaths of the transfer's ends, in two fifths of the worlds. A short transfer is complete before some.
fn draw_kills(rng: &mut Rng) -> Vec<Kill> {
    if !happens(rng, 40) {
        return Vec::new();
    }
    let longest = rng.pick(&[100 * MS, SEC, CALM]);
    let count = rng.range(1, KILLS_MAX);
    let kill = |_| Kill {
        after: rng.range(1, longest),
        dies: rng.pick(&[Dies::Sender, Dies::Receiver, Dies::Both]),
        pause: rng.pick(&[1, 50 * MS, SEC]),
    };
    (0..count).map(kill).collect()
}

fn draw_host(rng: &mut Rng, name: &str) -> HostConfig {
    let mut host = if happens(rng, 30) { HostConfig::ideal(name) } else { HostConfig::ordinary(name) };
    host.wake = rng.pick(&[(0, 0), (0, 100 * US), (50 * US, 100 * US), (0, 4 * MS)]);
    host.packet_cost = host.packet_cost.max(200);
    host.send_buffer = rng.pick(&[96 << 10, 1 << 20, 8 << 20]);
    if happens(rng, 25) {
        host.cpu.competitors = rng.pick(&[1, 3, 7]);
        let from = rng.range(0, CALM);
        host.cpu.competitors_during = rng.pick(&[None, Some((from, CALM))]);
    }
    if happens(rng, 15) {
        host.cpu = CpuConfig { stalls: stretches(rng, SEC), ..host.cpu };
    }
    if happens(rng, 25) {
        host.receive_buffer = rng.pick(&[20_000, 212_992, 1 << 20]);
    }
    host
}

fn draw_disk(rng: &mut Rng, disk: &mut DiskConfig, total: u64) -> (bool, bool) {
    disk.rate = rng.pick(&[0, 1_000_000_000, 100_000_000, 10_000_000]);
    disk.cache = rng.pick(&[0, 1 << 20, 1 << 30]);
    disk.sync = rng.pick(&[Sync::Never, Sync::End]);
    if happens(rng, 15) {
        disk.stalls = stretches(rng, SEC);
    }
    if happens(rng, 4) {
        disk.capacity = rng.range(1, total);
    }
    if happens(rng, 4) {
        disk.fails_at = Some(rng.range(0, CALM));
    }
    (disk.capacity > 0 && disk.capacity < total, disk.fails_at.is_some())
}

/// One to three stretches of time before calm, ascending and apart.
fn stretches(rng: &mut Rng, longest: Nanos) -> Vec<(Nanos, Nanos)> {
    let (mut list, mut at) = (Vec::new(), 0);
    for _ in 0..rng.range(1, 3) {
        let from = at + rng.range(1, CALM / 3);
        at = (from + rng.range(MS, longest)).min(CALM);
        if from < at {
            list.push((from, at));
        }
    }
    list
}

type Network = (Vec<Edge>, Vec<(Nanos, Happening)>);

fn draw_network(rng: &mut Rng, rate: u64, rtt: Nanos, greedy: bool, probes: bool) -> Network {
    // Greedy fills any queue with what is known already: on a slow link each turn would take as long as the
    // queue.
    let queue = rng.pick(if greedy { &[30_000] } else { &[20_000, 100_000, 1_000_000][..] });
    let mut there = LinkConfig {
        // A size that is given must pass; only senders that probe meet a path that shrinks.
        mtu: rng.pick(&[1500, 1500, 1400, 9000]),
        faults: draw_faults(rng),
        discipline: draw_discipline(rng, queue),
        ecn: happens(rng, 50),
        policer: (rate > 0 && happens(rng, 8)).then(|| PolicerConfig {
            rate: rate / 2,
            depth: rng.pick(&[20_000, 500_000]),
            refill: 0,
        }),
        ..LinkConfig::new("there", rate, rtt / 2, queue)
    };
    let back_rate = if rate == 0 { 0 } else { rate.max(20_000_000) };
    let mut back = LinkConfig {
        faults: draw_faults(rng),
        mtu: 9000,
        ..LinkConfig::new("back", back_rate, rtt / 2, 1_000_000)
    };
    shorten_first_blackout(&mut there.faults.outages, &mut back.faults.outages, 2 * rtt + 100 * MS);
    let mut changes = Vec::new();
    let mut change =
        |rng: &mut Rng, change| changes.push((rng.range(0, CALM - 1), Happening::Link(0, change)));
    if probes && happens(rng, 15) {
        change(rng, Change::Mtu(1300));
    }
    if happens(rng, 15) {
        let delay = rng.pick(&[rtt / 8, rtt, rtt * 2]);
        change(rng, Change::Delay(delay));
    }
    if rate > 0 && happens(rng, 15) {
        let new = rng.pick(&[rate / 2, rate * 2]);
        change(rng, Change::Rate(new));
    }
    // The sender's own interface as the narrow place, or a router behind a faster one.
    let edges = if greedy || happens(rng, 30) {
        vec![Edge::new("s0", "r0", there), Edge::new("r0", "s0", back)]
    } else {
        let interface_rate = rate.saturating_mul(rng.pick(&[2, 10]));
        let mut edges = Dumbbell { pairs: 2, interface_rate, bottleneck: there, back }.edges();
        edges.iter_mut().skip(2).for_each(|edge| edge.link.mtu = 9000);
        edges
    };
    changes.sort_by_key(|(at, _)| *at);
    (edges, changes)
}

/// Ends the blackout at the start, in whichever direction, at [`BLACK_AT_START_MAX`]. It includes outages
/// that begin before the first packet after the one before has its answer, which takes `answer_time`.
fn shorten_first_blackout(
    there: &mut Vec<(Nanos, Nanos)>,
    back: &mut Vec<(Nanos, Nanos)>,
    answer_time: Nanos,
) {
    let mut all = [there.as_slice(), back.as_slice()].concat();
    all.sort_unstable();
    let mut black_until = 0;
    for (from, until) in all {
        if from <= 2 * black_until + answer_time {
            black_until = black_until.max(until);
        }
    }
    for outages in [there, back] {
        for (from, until) in outages.iter_mut() {
            if *from < black_until {
                *until = (*until).min(BLACK_AT_START_MAX);
            }
        }
        outages.retain(|(from, until)| from < until);
    }
}

fn draw_discipline(rng: &mut Rng, queue: u64) -> Discipline {
    match rng.range(0, 9) {
        0 => Discipline::Red { low: queue / 6, high: queue / 2, probability_max: 0.1 },
        1 => Discipline::CODEL,
        2 => Discipline::MarkAbove { bytes: 10_000 },
        _ => Discipline::DropTail,
    }
}

fn draw_faults(rng: &mut Rng) -> Faults {
    let mut faults = Faults::default();
    if happens(rng, 35) {
        faults.loss = rng.pick(&[1_000, 20_000, 100_000, 400_000].map(Chance::ppm));
    }
    if happens(rng, 12) {
        let (begin, end) = (rng.pick(&[200, 3_000]), rng.pick(&[30_000, 300_000]));
        let loss = rng.pick(&[Chance::of(1.0), Chance::of(0.5)]);
        faults.bursts = Some(GilbertElliott { begin: Chance::ppm(begin), end: Chance::ppm(end), loss });
    }
    if happens(rng, 12) {
        faults.duplication = rng.pick(&[10_000, 300_000].map(Chance::ppm));
    }
    if happens(rng, 12) {
        faults.corruption = rng.pick(&[1_000, 50_000].map(Chance::ppm));
    }
    if happens(rng, 18) {
        faults.reordering = rng.pick(&[1_000, 50_000, 500_000].map(Chance::ppm));
        faults.reordering_delay = rng.pick(&[MS, 20 * MS]);
    }
    if happens(rng, 18) {
        faults.jitter = rng.pick(&[200 * US, 5 * MS]);
    }
    if happens(rng, 25) {
        faults.outages = stretches(rng, 2 * SEC);
    }
    faults
}

/// Other flows on the same way; only where their packets do not take longer to simulate than the transfer's.
fn draw_neighbours(rng: &mut Rng, config: &mut Config, rate: u64) {
    if config.edges.len() < 3 || rate == 0 || rate > 100_000_000 {
        return;
    }
    config.hosts.push(HostConfig::ideal("s1"));
    config.hosts.push(HostConfig::ideal("r1"));
    if happens(rng, 30) {
        let algorithm = rng.pick(Algorithm::ALL);
        config.flows.push(FlowConfig::new("tcp", "s1", "r1", Traffic::Tcp(TcpConfig::endless(algorithm))));
    }
    if happens(rng, 30) {
        let phases = Pattern::OnOff { on: 100 * MS, off: 100 * MS };
        let pattern = rng.pick(&[Pattern::Poisson, Pattern::Constant, phases]);
        let source = SourceConfig { rate: rate / 2, packet: rng.pick(&[200, 1400]), pattern };
        config.flows.push(FlowConfig::new("source", "s1", "r1", Traffic::Source(source)));
    }
}

/// How long the object takes if each turn of chunks waits for the one before it, at the slowest that anything
/// is after calm.
fn turns(fobs: &FobsConfig, to: &HostConfig, rtt: Nanos, rate: u64) -> Nanos {
    let at_once = u64::from(fobs.receiver_chunks.min(fobs.sender_chunks));
    let (chunks, bytes) = (fobs.object.chunks(), fobs.object.total());
    // A chunk that does not verify comes again, and the link's rate may have been halved.
    let again: u64 =
        fobs.mismatches.iter().map(|(id, count)| u64::from(*count) * u64::from(fobs.object.len(*id))).sum();
    let link = 2 * time_for(bytes + again, rate);
    let disk = if to.disk.rate == 0 { 0 } else { time_for(bytes, to.disk.rate * 8) };
    let turn = 4 * rtt + 4 * to.wake.1 + 40 * MS;
    chunks.div_ceil(at_once) * turn + disk + link
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(there: &[(Nanos, Nanos)], back: &[(Nanos, Nanos)]) -> [Vec<(Nanos, Nanos)>; 2] {
        let (mut there, mut back) = (there.to_vec(), back.to_vec());
        shorten_first_blackout(&mut there, &mut back, 100 * MS);
        [there, back]
    }

    #[test]
    fn a_blackout_at_the_start_ends_in_time() {
        let both = shortened(&[(1, 2 * SEC)], &[(SEC, 3 * SEC), (3 * SEC, 4 * SEC)]);
        assert_eq!(both, [vec![(1, BLACK_AT_START_MAX)], vec![(SEC, BLACK_AT_START_MAX)]]);
    }

    #[test]
    fn a_blackout_after_the_first_answer_stays() {
        let there = [(200 * MS, 2 * SEC), (2 * SEC, 4 * SEC)];
        assert_eq!(shortened(&there, &[]), [there.to_vec(), Vec::new()]);
    }

    #[test]
    fn a_short_blackout_at_the_start_cuts_no_later_one() {
        let there = [(1, 200 * MS), (SEC, 3 * SEC)];
        assert_eq!(shortened(&there, &[]), [there.to_vec(), Vec::new()]);
    }
}
