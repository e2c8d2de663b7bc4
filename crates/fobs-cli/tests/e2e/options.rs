//! Effects of the options of `fobs cp`.

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, write_random};
use super::net::{Side, namespaces_work};
use super::remote::{Carrier, Direction, Route};

/// Copies one random file with some flags and returns its `done` line.
fn copy_with(route: &Route<'_>, case: &Case, flags: &[&str], bytes: u64) -> serde_json::Value {
    let expected = write_random(&route.source_path("file"), bytes, &mut case.random());
    let done = case.run(&mut route.copy(flags, "file", "copy")).expect_success().done();
    assert_eq!(hash(&route.target_path("copy")), expected, "{flags:?}");
    done
}

fn stays_below_its_rate(name: &'static str, direction: Direction) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    for (flags, cap) in [(["--rate", "80Mbit"], 80e6), (["-l", "120000"], 120e6)] {
        let done = copy_with(&route, &case, &flags, 24 << 20);
        let rate =
            done["bytes"].as_f64().expect("a number") * 8.0 / done["seconds"].as_f64().expect("a number");
        assert!(rate <= 1.2 * cap, "{flags:?}: {rate} bit/s; {done}");
    }
}

#[test]
fn a_push_stays_below_its_rate() {
    stays_below_its_rate("a_push_stays_below_its_rate", Direction::Push);
}

#[test]
fn a_pull_stays_below_its_rate() {
    stays_below_its_rate("a_pull_stays_below_its_rate", Direction::Pull);
}

#[test]
fn greedy_and_fixed_arrive_byte_for_byte_and_report_their_cc() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("greedy_and_fixed_arrive_byte_for_byte_and_report_their_cc");
        let route = Route::open(&case, Carrier::Daemon, direction);
        let runs = [
            ("greedy", &["--cc", "greedy"][..]),
            ("fixed", &["--cc", "fixed", "--rate", "300Mbit"]),
            ("greedy", &["--cc", "greedy", "--ack-every", "64", "--burst", "2"]),
        ];
        for (name, flags) in runs {
            let done = copy_with(&route, &case, flags, 30_000_000);
            assert_eq!(done["cc"], name, "{done}");
        }
    }
}

#[test]
fn every_controller_of_the_family_keeps_every_byte() {
    let case = Case::new("every_controller_of_the_family_keeps_every_byte");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let family = "linear tricolor hstfrc hstfrc-rate tfrc scalable fast udt sabul rbudp cubic bbr";
    for name in family.split(' ') {
        let done = copy_with(&route, &case, &["--cc", name], 6_000_000);
        assert_eq!(done["cc"], name, "{done}");
    }
}

#[test]
fn the_knobs_of_the_papers_keep_every_byte() {
    let case = Case::new("the_knobs_of_the_papers_keep_every_byte");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    for flags in
        [&["--ack-every", "1"][..], &["--ack-every", "100000"], &["--burst", "1"], &["--burst", "1000"]]
    {
        copy_with(&route, &case, flags, 6_000_000);
    }
    for size in ["512", "1400"] {
        let done = copy_with(&route, &case, &["--packet-size", size], 6_000_000);
        assert_eq!(done["packet_size"].to_string(), size, "{done}");
    }
}

#[test]
fn compression_sends_less_and_changes_nothing() {
    let case = Case::new("compression_sends_less_and_changes_nothing");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let text = "All work and no play makes a dull test. ".repeat(200_000);
    std::fs::write(route.source_path("text"), &text).expect("a file");
    let plain = case.run(&mut route.copy(&[], "text", "plain")).expect_success().done();
    let packed = case.run(&mut route.copy(&["-C"], "text", "packed")).expect_success().done();
    for copy in ["plain", "packed"] {
        assert_eq!(hash(&route.target_path(copy)), hash(&route.source_path("text")));
    }
    let sent = |done: &serde_json::Value| done["packets_needed"].as_u64().expect("a number");
    assert!(sent(&packed) * 4 < sent(&plain), "{packed}\n{plain}");
    assert_eq!(packed["bytes"], text.len());
    // Incompressible data does not grow.
    copy_with(&route, &case, &["-C"], 5_000_000);
}

#[test]
fn quiet_prints_nothing_and_verbose_names_files() {
    let case = Case::new("quiet_prints_nothing_and_verbose_names_files");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("some-file"), 1_000_000, &mut case.random());
    let run = |flags: &[&str]| {
        let mut command = route.plain_cp(flags);
        command.arg(route.source("some-file")).arg(route.target("copy"));
        case.run(&mut command).expect_success()
    };
    // The first call pins the server's key, with a notice that is not tested here.
    run(&[]);
    let quiet = run(&["-q"]);
    assert_eq!((quiet.stdout.as_slice(), quiet.stderr.as_str()), (&b""[..], ""));
    let verbose = run(&["-v"]);
    assert!(verbose.said().contains("some-file"), "{}", verbose.said());
}

#[test]
fn ipv6_carries_a_transfer_as_ipv4_does() {
    let case = Case::new("ipv6_carries_a_transfer_as_ipv4_does");
    if std::net::UdpSocket::bind("[::1]:0").is_err() && !namespaces_work() {
        super::needs::say("skipped: ipv6_carries_a_transfer_as_ipv4_does needs IPv6");
        return;
    }
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let authorized = [("read-write", &client)];
    let mut spec = Spec::new(&case, &authorized, &server);
    spec.listen = format!("[{}]", case.net.address_v6(Side::Server));
    let daemon = Daemon::start_with(&case, spec);
    let expected = write_random(&case.local("file"), 10_000_000, &mut case.random());
    for flags in [&[][..], &["-6"]] {
        let mut push = daemon.cp(&case);
        case.run(push.args(flags).arg(case.local("file")).arg(daemon.url("file"))).expect_success();
        assert_eq!(hash(&daemon.root.join("file")), expected);
        let mut pull = daemon.cp(&case);
        case.run(pull.args(flags).arg(daemon.url("file")).arg(case.local("back"))).expect_success();
        assert_eq!(hash(&case.local("back")), expected);
    }
    // An address of the other family is not used.
    let mut wrong = daemon.cp(&case);
    let finished = case.run(wrong.arg("-4").arg(case.local("file")).arg(daemon.url("file")));
    assert!(matches!(finished.code, Some(1 | 35)), "{:?}: {}", finished.code, finished.said());
}
