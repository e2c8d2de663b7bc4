//! Sessions of several lanes: over unequal paths, over paths that die and return, over many cores.

use fobs_sim::report::SessionReport;
use fobs_sim::{Scenario, SimReport, World};
use std::fmt::Write as _;

const SEEDS: [u64; 3] = [1, 2, 3];

/// A path between the two hosts: Mbit/s, round trip in ms, loss, further keys of its link.
struct Path(f64, f64, f64, &'static str);

/// A session of these lanes, which name their paths, over these paths.
fn text(paths: &[Path], lanes: &[usize], size_mb: u32, more: &str) -> String {
    let mut text = format!("duration_s = 200\n{more}\n");
    for (id, Path(rate, rtt, loss, keys)) in paths.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[link]]\nfrom = \"a\"\nto = \"r{id}\"\nrate_mbit = {}\ndelay_ms = 0\nmtu = 9000\n\
             [[link]]\nname = \"path{id}\"\nfrom = \"r{id}\"\nto = \"b\"\nrate_mbit = {rate}\ndelay_ms = {}\n\
             queue_ms = {rtt}\nloss = {loss}\n{keys}\n",
            rate * 10.0,
            rtt / 2.0,
        );
    }
    let lanes: Vec<String> = lanes.iter().map(|path| format!("[\"a\", \"r{path}\", \"b\"]")).collect();
    // As above.
    let _ = write!(
        text,
        "[[flow]]\nname = \"copy\"\nkind = \"fobs\"\nfrom = \"a\"\nto = \"b\"\nsize_mb = {size_mb}\nchunks = 60\n\
         lanes = [{}]\n",
        lanes.join(", ")
    );
    text
}

fn play(text: &str, seed: u64) -> SimReport {
    let mut config = Scenario::parse("lanes", text).unwrap_or_else(|error| panic!("{error}\n{text}")).config;
    config.seed = seed;
    let mut world = World::new(config).expect("parsing has made it once");
    world.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}\n{}", world.describe()));
    SimReport::of(&mut world)
}

/// The session of a run that completed.
fn session(text: &str, seed: u64) -> SessionReport {
    let report = play(text, seed);
    let session = report.sessions.into_iter().next().expect("a session");
    let complete = report.flows.iter().any(|flow| flow.outcome == "complete");
    assert!(complete, "seed {seed}: {session:?}");
    session
}

/// The rate of a session over both paths, as a share of the sum of sessions over each alone.
fn share_of_both(paths: [Path; 2], size_mb: u32, seed: u64) -> f64 {
    let rate = |lanes: &[usize]| session(&text(&paths, lanes, size_mb, ""), seed).goodput_mbit;
    rate(&[0, 1]) / (rate(&[0]) + rate(&[1]))
}

#[test]
fn unequal_paths_give_nearly_their_sum() {
    for seed in SEEDS {
        let paths = [Path(300.0, 10.0, 0.0, ""), Path(80.0, 30.0, 0.0, "")];
        let rate = session(&text(&paths, &[0, 1], 400, ""), seed).goodput_mbit;
        println!("seed {seed}: {:.1}% of 380 Mbit/s", rate / 3.8);
        assert!(rate >= 0.95 * 380.0, "seed {seed}: {rate} Mbit/s");
    }
}

#[test]
fn a_long_lossy_path_adds_to_a_short_one() {
    for seed in SEEDS {
        let share = share_of_both([Path(60.0, 20.0, 0.0, ""), Path(100.0, 100.0, 0.001, "")], 250, seed);
        println!("seed {seed}: {:.1}% of both alone", share * 100.0);
        assert!(share >= 0.9, "seed {seed}: {share}");
    }
}

#[test]
fn equal_paths_give_their_sum() {
    for seed in SEEDS {
        let share = share_of_both([Path(100.0, 20.0, 0.0, ""), Path(100.0, 20.0, 0.0, "")], 250, seed);
        println!("seed {seed}: {:.1}% of both alone", share * 100.0);
        assert!(share >= 0.95, "seed {seed}: {share}");
    }
}

#[test]
fn a_path_that_is_cut_costs_its_open_chunks_and_no_more() {
    for seed in SEEDS {
        let paths = [Path(100.0, 20.0, 0.0, "outages_s = [[4, 200]]"), Path(60.0, 20.0, 0.0, "")];
        let cut = session(&text(&paths, &[0, 1], 150, ""), seed);
        println!("seed {seed}: {cut:?}");
        assert!(cut.given_up > 0, "seed {seed}: {cut:?}");
        // A lane has up to two chunks of 1 MiB that are not verified, beside a flight of 250 kB.
        assert!(cut.bytes_twice <= 4 << 20, "seed {seed}: {cut:?}");
        // 4 s at 160 Mbit/s, the rest at 60, a second to notice.
        assert!(cut.seconds <= 4.0 + (150.0 - 80.0) * 8.0 / 60.0 + 2.5, "seed {seed}: {cut:?}");
    }
}

#[test]
fn a_path_that_comes_back_is_used_again() {
    for seed in SEEDS {
        let paths = [Path(100.0, 20.0, 0.0, "outages_s = [[2, 5]]"), Path(60.0, 20.0, 0.0, "")];
        let (text, ends) = (text(&paths, &[0, 1], 300, ""), (300.0 - 45.0 - 22.5) * 8.0 / 160.0 + 5.0);
        let back = session(&text, seed);
        println!("seed {seed}: {back:?}, without delay after {ends} s");
        assert!(back.seconds <= ends + 2.0, "seed {seed}: {back:?}, {ends}");
        assert_eq!(back.bytes_delivered_twice, 0, "seed {seed}: nothing verified is sent again: {back:?}");
    }
}

#[test]
fn a_lane_that_leads_nowhere_does_not_hold_up_the_others() {
    for seed in SEEDS {
        let paths = [Path(100.0, 20.0, 0.0, "outages_s = [[0, 200]]"), Path(100.0, 20.0, 0.0, "")];
        let report = play(&text(&paths, &[0, 1], 100, ""), seed);
        let session = &report.sessions[0];
        println!("seed {seed}: {session:?}");
        assert_eq!((report.flows[0].outcome, report.flows[1].outcome), ("silent", "complete"), "seed {seed}");
        assert!(session.goodput_mbit >= 85.0, "seed {seed}: {session:?}");
    }
}

#[test]
fn lanes_that_all_lead_nowhere_end() {
    let paths =
        [Path(100.0, 20.0, 0.0, "outages_s = [[0, 200]]"), Path(50.0, 20.0, 0.0, "outages_s = [[0, 200]]")];
    let report = play(&text(&paths, &[0, 1], 100, ""), 1);
    assert!(report.flows.iter().all(|flow| flow.outcome == "silent"), "{:?}", report.flows);
    assert!(report.seconds < 10.0, "{} s", report.seconds);
}

#[test]
fn a_slow_lane_does_not_hold_up_a_fast_one() {
    for seed in SEEDS {
        let paths = [Path(400.0, 10.0, 0.0, ""), Path(2.0, 50.0, 0.0, "")];
        let rate = |lanes: &[usize]| session(&text(&paths, lanes, 400, ""), seed).goodput_mbit;
        let (alone, both) = (rate(&[0]), rate(&[0, 1]));
        println!("seed {seed}: {alone:.1} Mbit/s alone, {both:.1} with the slow lane");
        assert!(both >= 0.97 * alone, "seed {seed}: {both} and {alone}");
    }
}

/// Rates, Mbit/s, of a session with this many lanes over one path of 100 Mbit/s and 20 ms and of an endless
/// TCP flow, over 50 s.
fn beside_tcp(lanes: usize, tcp: &str, seed: u64) -> (f64, f64) {
    let flow = format!(
        "[[flow]]\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\nvia = [\"a\", \"r0\", \"b\"]\ncc = \"{tcp}\"\n"
    );
    let text = text(&[Path(100.0, 20.0, 0.0, "")], &vec![0; lanes], 10_000, &flow)
        .replace("duration_s = 200", "duration_s = 60");
    let report = play(&text, seed);
    let rate = |flow: &fobs_sim::report::FlowReport| {
        let late: Vec<f64> = flow.samples.iter().filter(|at| at.t > 10.0).map(|at| at.goodput_mbit).collect();
        late.iter().sum::<f64>() / late.len() as f64
    };
    let (tcp, ours): (Vec<_>, Vec<_>) = report.flows.iter().partition(|flow| flow.kind == "tcp");
    (ours.into_iter().map(rate).sum(), tcp.into_iter().map(rate).sum())
}

#[test]
fn several_lanes_of_one_path_are_one_flow_to_others() {
    for tcp in ["cubic", "bbr"] {
        let jain = |lanes| {
            let all = SEEDS.map(|seed| {
                let (ours, theirs) = beside_tcp(lanes, tcp, seed);
                println!("{lanes} lanes beside {tcp}: {ours:.1} and {theirs:.1} Mbit/s");
                fobs_sim::report::jain(&[ours, theirs])
            });
            all.iter().sum::<f64>() / all.len() as f64
        };
        let (one, four) = (jain(1), jain(4));
        println!("{tcp}: {one:.3} with one lane, {four:.3} with four");
        assert!(four >= one - 0.1, "{tcp}: {one} and {four}");
    }
}

#[test]
fn several_lanes_of_one_path_fill_it_as_one_does() {
    for seed in SEEDS {
        let path = || [Path(200.0, 30.0, 0.0, "")];
        let rate = |lanes: &[usize]| session(&text(&path(), lanes, 400, ""), seed).goodput_mbit;
        let (one, four) = (rate(&[0]), rate(&[0, 0, 0, 0]));
        println!("seed {seed}: {one:.1} and {four:.1} Mbit/s");
        assert!(four >= 0.97 * one, "seed {seed}: {one} and {four}");
    }
}

/// The rate of a session over these paths with `rate_mbit`, Mbit/s.
fn capped(paths: &[Path], lanes: &[usize], rate_mbit: u32, seed: u64) -> f64 {
    let text =
        text(paths, lanes, 60, "").replace("chunks = 60", &format!("chunks = 60\nrate_mbit = {rate_mbit}"));
    session(&text, seed).goodput_mbit
}

#[test]
fn a_cap_is_shared_by_need() {
    let wide = || Path(200.0, 20.0, 0.0, "");
    for seed in SEEDS {
        let alone = capped(&[wide()], &[0], 60, seed);
        for (paths, lanes) in [
            (vec![wide(), wide()], vec![0, 1]),
            // One path can carry less than half of the cap.
            (vec![wide(), Path(10.0, 40.0, 0.0, "")], vec![0, 1]),
            (vec![Path(10.0, 40.0, 0.0, ""), wide()], vec![0, 1]),
            (vec![wide()], vec![0, 0, 0]),
        ] {
            let shared = capped(&paths, &lanes, 60, seed);
            println!("seed {seed}: {alone:.1} Mbit/s alone, {shared:.1} over lanes {lanes:?}");
            // The cap counts datagrams, headers included.
            assert!(shared <= 60.0 && shared >= 0.95 * alone, "seed {seed}: {alone} and {shared}: {lanes:?}");
        }
    }
}

/// Hosts whose cores seal or open 13 Gbit/s in packets of 9000 bytes each.
const FAST_HOSTS: &str = "[[host]]\nname = \"a\"\npacket_us = 5.5\nhash_mbyte = 4000\ndisk = { rate_mbyte = 4000 }\n\
     [[host]]\nname = \"b\"\npacket_us = 5.5\nhash_mbyte = 4000\ndisk = { rate_mbyte = 4000 }\n";

/// The rate of `lanes` lanes over 100 Gbit/s and 50 ms, Mbit/s.
fn over_a_fast_path(lanes: usize, size_mb: u32, seed: u64) -> f64 {
    let paths = [Path(100_000.0, 50.0, 0.0, "mtu = 9000")];
    // `auto` sends at up to 20 Gbit/s for each lane.
    let text = text(&paths, &vec![0; lanes], size_mb, FAST_HOSTS).replace("chunks = 60", "chunks = 1000");
    session(&text, seed).goodput_mbit
}

#[test]
fn cores_add_up() {
    let (one, four) = (over_a_fast_path(1, 1_500, 1), over_a_fast_path(4, 6_000, 1));
    println!("one lane: {one:.0} Mbit/s, four: {four:.0} Mbit/s");
    assert!(four >= 3.0 * one, "{one} and {four} Mbit/s");
}

/// With the chunks that 256 MiB of memory hold.
#[test]
fn ten_gbit_at_100_ms_are_filled() {
    for seed in SEEDS {
        let paths = [Path(10_000.0, 100.0, 0.0, "mtu = 9000")];
        let rate = session(&text(&paths, &[0], 15_000, FAST_HOSTS), seed).goodput_mbit;
        println!("seed {seed}: {rate:.0} Mbit/s");
        assert!(rate >= 9_000.0, "seed {seed}: {rate} Mbit/s");
    }
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "millions of packets")]
fn eight_cores_fill_most_of_100_gbit() {
    let rate = over_a_fast_path(8, 60_000, 1);
    println!("eight lanes: {rate:.0} Mbit/s");
    assert!(rate >= 80_000.0, "{rate} Mbit/s");
}
