//! What any correct simulator shows: known laws of TCP, limits of hosts, and transfers of any size in the
//! memory of a small one.

use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::source::{Pattern, SourceConfig};
use fobs_sim::flow::tcp::{Algorithm, SEGMENT, TcpConfig};
use fobs_sim::flow::{FlowConfig, Outcome, Traffic};
use fobs_sim::host::{CpuConfig, DiskConfig, HostConfig, Sync};
use fobs_sim::link::{Faults, LinkConfig};
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos, SEC};
use fobs_sim::topology::{Dumbbell, Edge};
use fobs_sim::world::{Config, FlowView, World};

const MBIT: u64 = 1_000_000;

fn bell(bottleneck: LinkConfig, flows: Vec<Traffic>, lasts: Nanos) -> Config {
    let back = LinkConfig::wire("back", bottleneck.delay);
    let interface_rate = bottleneck.rate * 10;
    let edges = Dumbbell { pairs: flows.len(), interface_rate, bottleneck, back }.edges();
    let mut config = Config { edges, ..Config::new("physics", 1, lasts) };
    for (i, traffic) in flows.into_iter().enumerate() {
        let (from, to) = (format!("s{i}"), format!("r{i}"));
        config.hosts.extend([HostConfig::ordinary(&from), HostConfig::ordinary(&to)]);
        config.flows.push(FlowConfig::new(&format!("flow{i}"), &from, &to, traffic));
    }
    config
}

fn fobs(object: Object) -> Traffic {
    Traffic::Fobs(Box::new(FobsConfig::new(object, CongestionControl::Auto)))
}

fn run(config: Config) -> World {
    let mut world = World::new(config).expect("hosts and routes exist");
    world.run().unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
    world
}

fn mbit(view: &FlowView, time: Nanos) -> f64 {
    view.figures.delivered as f64 * 8e3 / time as f64
}

#[test]
fn tcp_models_fill_a_clean_link() {
    for &algorithm in Algorithm::ALL {
        let link = LinkConfig::new("l", 100 * MBIT, 13 * MS, 325_000);
        let mut world = run(bell(link, vec![Traffic::Tcp(TcpConfig::endless(algorithm))], 30 * SEC));
        let rate = mbit(&world.flow(0), 30 * SEC);
        // 1448 of 1500 bytes are payload: 96.5 Mbit/s is all there is.
        assert!((80.0..96.6).contains(&rate), "{}: {rate} Mbit/s", algorithm.name());
    }
}

#[test]
fn reno_obeys_the_square_root_law() {
    // Mathis and others 1997: rate = segment / RTT * sqrt(3/2) / sqrt(p), with an acknowledgement for every
    // second segment sqrt(3/4).
    for (loss, rtt) in [(0.001, 40 * MS), (0.0001, 20 * MS)] {
        let faults = Faults { loss: Chance::of(loss), ..Faults::default() };
        let link = LinkConfig { faults, ..LinkConfig::new("l", 10_000 * MBIT, rtt / 2, 50_000_000) };
        let reno = Traffic::Tcp(TcpConfig::endless(Algorithm::Reno));
        let mut world = run(bell(link, vec![reno], 200 * SEC));
        let law = SEGMENT as f64 * 8.0 / 1e6 / (rtt as f64 / SEC as f64) * (1.5f64 / loss).sqrt();
        let rate = mbit(&world.flow(0), 200 * SEC);
        assert!((0.6..1.25).contains(&(rate / law)), "{rate} Mbit/s; the law says {law} at {loss}");
    }
}

#[test]
fn highspeed_beats_cubic_beats_reno_at_large_windows() {
    let faults = Faults { loss: Chance::of(0.00003), ..Faults::default() };
    let rates = [Algorithm::Reno, Algorithm::Cubic, Algorithm::HighSpeed].map(|algorithm| {
        let link = LinkConfig {
            faults: faults.clone(),
            ..LinkConfig::new("l", 10_000 * MBIT, 50 * MS, 100_000_000)
        };
        let mut world = run(bell(link, vec![Traffic::Tcp(TcpConfig::endless(algorithm))], 100 * SEC));
        mbit(&world.flow(0), 100 * SEC)
    });
    assert!(rates[0] < rates[1] && rates[1] < rates[2], "reno, cubic, highspeed: {rates:?}");
}

#[test]
fn equal_tcp_flows_share_equally() {
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        let link = LinkConfig::new("l", 50 * MBIT, 10 * MS, 125_000);
        let flows = vec![Traffic::Tcp(TcpConfig::endless(algorithm)); 4];
        let mut world = run(bell(link, flows, 120 * SEC));
        let shares: Vec<f64> = (0..4).map(|i| mbit(&world.flow(i), 120 * SEC)).collect();
        let index = fobs_sim::report::jain(&shares);
        assert!(index > 0.9, "{}: {shares:?}", algorithm.name());
    }
}

#[test]
fn a_tcp_transfer_of_some_bytes_completes() {
    let faults = Faults { loss: Chance::of(0.02), ..Faults::default() };
    let link = LinkConfig { faults, ..LinkConfig::new("l", 20 * MBIT, 10 * MS, 100_000) };
    let tcp = TcpConfig { bytes: Some(3_000_000), ..TcpConfig::endless(Algorithm::Cubic) };
    let mut world = run(bell(link, vec![Traffic::Tcp(tcp)], 100 * SEC));
    let view = world.flow(0);
    assert_eq!(
        (view.outcome, view.figures.delivered),
        (Outcome::Complete, 3_000_000u64.div_ceil(SEGMENT) * SEGMENT)
    );
}

#[test]
fn sources_send_at_their_rate() {
    let on_off = Pattern::OnOff { on: 50 * MS, off: 150 * MS };
    for (pattern, wanted) in [(Pattern::Constant, 10.0), (Pattern::Poisson, 10.0), (on_off, 2.5)] {
        let link = LinkConfig::new("l", 100 * MBIT, MS, 1_000_000);
        let source = SourceConfig { rate: 10 * MBIT, packet: 1500, pattern };
        let mut world = run(bell(link, vec![Traffic::Source(source)], 100 * SEC));
        let rate = mbit(&world.flow(0), 100 * SEC);
        assert!((rate / wanted - 1.0).abs() < 0.12, "{pattern:?}: {rate} instead of {wanted} Mbit/s");
    }
}

#[test]
fn the_slowest_part_decides() {
    let link = || LinkConfig::new("l", 1000 * MBIT, 5 * MS, 2_000_000);
    let lasts = 20 * SEC;
    let rate_with = |change: &dyn Fn(&mut HostConfig)| {
        let mut config = bell(link(), vec![fobs(Object::Bytes(1 << 50))], lasts);
        change(&mut config.hosts[1]);
        mbit(&run(config).flow(0), lasts)
    };
    let free = rate_with(&|_| {});
    assert!((900.0..970.0).contains(&free), "{free}");
    // A disk of 30 MB/s: 240 Mbit/s and what the buffers hold (40 chunks are 67 Mbit/s over 20 s).
    let disk = rate_with(&|host| host.disk = DiskConfig { rate: 30_000_000, ..DiskConfig::default() });
    assert!((200.0..320.0).contains(&disk), "{disk}");
    // 40 us a packet are 25,000 packets a second: 289 Mbit/s.
    let slow = rate_with(&|host| host.packet_cost = 40_000);
    assert!((200.0..295.0).contains(&slow), "{slow}");
}

#[test]
fn a_receiver_that_is_off_its_cpu_drops_at_its_socket() {
    let link = LinkConfig::new("l", 1000 * MBIT, 5 * MS, 2_000_000);
    let mut config = bell(link, vec![fobs(Object::Bytes(200_000_000))], 100 * SEC);
    config.hosts[1].receive_buffer = 212_992;
    config.hosts[1].cpu = CpuConfig { competitors: 3, ..CpuConfig::default() };
    let mut world = run(config);
    let view = world.flow(0);
    assert_eq!(view.outcome, Outcome::Complete);
    assert!(view.figures.socket_drops > 100, "{}", view.figures.socket_drops);
    assert!(view.figures.off_cpu > SEC / 10);
    let bottleneck = world.link(0).stats;
    assert_eq!(bottleneck.lost, 0);
}

#[test]
fn disks_that_fill_fail_or_crash_end_the_transfer_by_name() {
    let end_of = |change: &dyn Fn(&mut HostConfig)| {
        let link = LinkConfig::new("l", 100 * MBIT, 5 * MS, 200_000);
        let mut config = bell(link, vec![fobs(Object::Bytes(100_000_000))], 60 * SEC);
        change(&mut config.hosts[1]);
        run(config).flow(0)
    };
    let disk = DiskConfig { rate: 50_000_000, cache: 16 << 20, ..DiskConfig::default() };
    let full = end_of(&|host| host.disk = DiskConfig { capacity: 50_000_000, ..disk.clone() });
    assert_eq!(full.outcome, Outcome::DiskFull);
    let failed = end_of(&|host| host.disk = DiskConfig { fails_at: Some(2 * SEC), ..disk.clone() });
    assert_eq!(failed.outcome, Outcome::DiskFailed);
    let slow = DiskConfig { rate: 5_000_000, ..disk.clone() };
    let crashed = end_of(&|host| {
        host.disk = slow.clone();
        host.crash = Some(3 * SEC);
    });
    assert_eq!(crashed.outcome, Outcome::Crashed);
    // 5 MB/s for not quite three seconds have reached the medium; what was in the cache is lost.
    assert!((8_000_000..15_000_000).contains(&crashed.figures.durable), "{}", crashed.figures.durable);
    assert!(crashed.figures.delivered > crashed.figures.durable + 8_000_000);
    let synced = end_of(&|host| host.disk = DiskConfig { sync: Sync::End, ..slow.clone() });
    assert_eq!((synced.outcome, synced.figures.durable >= 100_000_000), (Outcome::Complete, true));
}

#[test]
fn a_damaged_packet_is_refused_and_sent_again() {
    let faults = Faults { corruption: Chance::of(0.01), ..Faults::default() };
    let link = LinkConfig { faults, ..LinkConfig::new("l", 100 * MBIT, 5 * MS, 200_000) };
    let mut world = run(bell(link, vec![fobs(Object::Bytes(50_000_000))], 60 * SEC));
    let view = world.flow(0);
    assert_eq!(view.outcome, Outcome::Complete);
    assert!((200..600).contains(&view.figures.damaged), "{} of 35,000 packets", view.figures.damaged);
}

#[test]
fn a_petabyte_is_no_larger_than_a_gigabyte() {
    let link = LinkConfig::new("l", 1000 * MBIT, 5 * MS, 2_000_000);
    let petabyte = fobs(Object::Bytes(1_000_000_000_000_000));
    let mut world = run(bell(link, vec![petabyte], 5 * SEC));
    let view = world.flow(0);
    assert_eq!(view.outcome, Outcome::Running);
    assert!(view.figures.delivered > 400_000_000);
    // Forty chunks at the most, however many are to come.
    assert!(view.figures.chunks_open_max <= 40, "{}", view.figures.chunks_open_max);
}

#[test]
fn a_change_of_route_changes_the_round_trip() {
    let there = LinkConfig::new("there", 100 * MBIT, 10 * MS, 500_000);
    let mut config = Config::new("route", 1, 12 * SEC);
    config.hosts = vec![HostConfig::ordinary("a"), HostConfig::ordinary("b")];
    config.edges = vec![Edge::new("a", "b", there), Edge::new("b", "a", LinkConfig::wire("back", 10 * MS))];
    config.flows = vec![FlowConfig::new("fobs", "a", "b", fobs(Object::Bytes(1 << 50)))];
    let change = |delay| fobs_sim::world::Happening::Link(0, fobs_sim::link::Change::Delay(delay));
    config.changes = vec![(4 * SEC, change(60 * MS)), (8 * SEC, change(2 * MS))];
    let mut world = run(config);
    let view = world.flow(0);
    let rtt_at =
        |at: Nanos| view.samples.iter().find(|s| s.at >= at).and_then(|s| s.rtt).expect("sampled") / MS;
    let seen = [3 * SEC, 7 * SEC, 11 * SEC].map(rtt_at);
    assert!(
        (20..30).contains(&seen[0]) && (70..80).contains(&seen[1]) && (12..22).contains(&seen[2]),
        "{seen:?}"
    );
}
