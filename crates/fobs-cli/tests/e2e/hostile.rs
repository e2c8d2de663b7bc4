//! Hostile peers and networks: paths and links that lead out of the served directory, forged datagrams.

use std::fs;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::case::Case;
use super::daemon::Daemon;
use super::files::{hash, names, write_random};
use super::needs;
use super::net::{Side, namespaces_work};
use super::packets::{flood, forge, forged_payload, udp_ports_of};
use super::process::Running;

/// Content that no client may read.
const SECRET: &[u8] = b"nobody outside may read this: 6f1b2c";

/// A daemon with a secret file beside its root.
fn daemon_beside_a_secret(case: &Case) -> Daemon {
    let daemon = Daemon::start(case, "read-write");
    fs::write(case.path("secret"), SECRET).expect("a fresh file");
    fs::create_dir(case.path("outside")).expect("a fresh directory");
    fs::write(case.path("outside/secret"), SECRET).expect("a fresh file");
    daemon
}

/// Fails the test if the secret is anywhere below a directory.
#[track_caller]
fn assert_nothing_leaked(below: &Path) {
    for entry in fs::read_dir(below).expect("a directory").flatten() {
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            assert_nothing_leaked(&entry.path());
        } else if kind.is_file() {
            let content = fs::read(entry.path()).expect("own file");
            assert!(!content.windows(SECRET.len()).any(|window| window == SECRET), "{:?}", entry.path());
            assert!(!content.starts_with(b"root:"), "{:?}", entry.path());
        }
    }
}

#[test]
fn no_path_leads_out_of_the_served_directory() {
    let case = Case::new("no_path_leads_out_of_the_served_directory");
    let daemon = daemon_beside_a_secret(&case);
    fs::create_dir(daemon.root.join("sub")).expect("a fresh directory");
    write_random(&case.local("mine"), 1000, &mut case.random());
    let absolute = format!("/{}", case.path("secret").display());
    let attempts = [
        "../secret",
        "../../etc/passwd",
        "../../../../../../../../etc/passwd",
        "sub/../../secret",
        "./../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "sub/..%2F../secret",
        "..",
        "../",
        &absolute,
    ];
    for attempt in attempts {
        let url = daemon.url(attempt);
        let pull = case.run(daemon.cp(&case).arg("-r").arg(&url).arg(case.local("pulled")));
        assert!(matches!(pull.code, Some(1 | 3 | 5)), "{attempt}: {:?} {}", pull.code, pull.said());
        pull.failed();
        assert!(!pull.said().contains("root:x:"), "{attempt}");
        assert!(!case.local("pulled").exists(), "{attempt}");
    }
    for attempt in ["../planted", "sub/../../planted", "%2e%2e/planted", "../outside/planted", "../outside/"]
    {
        let push = case.run(daemon.cp(&case).arg(case.local("mine")).arg(daemon.url(attempt)));
        assert!(matches!(push.code, Some(1 | 4 | 5)), "{attempt}: {:?} {}", push.code, push.said());
    }
    assert!(!case.path("planted").exists());
    assert_eq!(names(&case.path("outside")), ["secret"]);
    assert_eq!(names(&daemon.root), ["sub"]);
}

#[test]
fn no_link_leads_out_of_the_served_directory() {
    let case = Case::new("no_link_leads_out_of_the_served_directory");
    let daemon = daemon_beside_a_secret(&case);
    let links = [
        ("up", "../secret".into()),
        ("absolute", case.path("secret").into_os_string()),
        ("directory", case.path("outside").into_os_string()),
        ("passwd", "/etc/passwd".into()),
    ];
    for (name, target) in &links {
        symlink(target, daemon.root.join(name)).expect("a link");
    }
    write_random(&case.local("mine"), 1000, &mut case.random());

    for attempt in ["up", "absolute", "directory", "directory/", "directory/secret", "passwd"] {
        let pull = case.run(daemon.cp(&case).arg("-r").arg(daemon.url(attempt)).arg(case.local("pulled")));
        assert_eq!(pull.code, Some(5), "{attempt}: {}", pull.said());
        assert_nothing_leaked(&case.local(""));
    }
    for attempt in ["directory/planted", "directory/", "absolute", "directory/secret"] {
        let push = case.run(daemon.cp(&case).arg(case.local("mine")).arg(daemon.url(attempt)));
        assert_eq!(push.code, Some(5), "{attempt}: {}", push.said());
    }
    // The whole tree: links are copied as links, without their targets.
    let mut whole = daemon.cp(&case);
    case.run(whole.arg("-r").arg(daemon.url("")).arg(case.local("whole"))).expect_success();
    assert_nothing_leaked(&case.local("whole"));
    for (name, target) in &links {
        assert_eq!(fs::read_link(case.local("whole").join(name)).expect("a link").as_os_str(), target);
    }
    // Pushing a tree through a link that stands in its way writes nothing outside either.
    fs::create_dir_all(case.local("tree/directory")).expect("a fresh directory");
    fs::write(case.local("tree/directory/secret"), b"planted").expect("a fresh file");
    let through = case.run(daemon.cp(&case).arg("-r").arg(case.local("tree/")).arg(daemon.url("")));
    eprintln!("through a link: {:?}", through.code);

    assert_eq!(fs::read(case.path("secret")).expect("untouched"), SECRET);
    assert_eq!(fs::read(case.path("outside/secret")).expect("untouched"), SECRET);
    assert_eq!(names(&case.path("outside")), ["secret"]);
}

/// Starts a push that takes some seconds and waits until its data flows.
fn slow_push(case: &Case, daemon: &Daemon, bytes: u64) -> (Running, String) {
    let expected = write_random(&case.local("file"), bytes, &mut case.random());
    let mut command = daemon.cp(case);
    command.args(["--rate", "100Mbit"]).arg(case.local("file")).arg(daemon.url("file"));
    let mut running = case.start(&mut command);
    running.wait_until_data_flows();
    (running, expected)
}

/// Waits for a transfer's end and checks that it succeeded.
#[track_caller]
fn finishes_right(mut daemon: Daemon, running: Running, expected: &str) {
    let done = running.finish().expect_success().done();
    assert_eq!(done["errors"].as_array().map(Vec::len), Some(0), "{done}");
    assert_eq!(hash(&daemon.root.join("file")), expected);
    daemon.expect_alive();
}

#[test]
fn a_blast_of_garbage_at_every_port_changes_nothing() {
    let case = Case::new("a_blast_of_garbage_at_every_port_changes_nothing");
    let daemon = Daemon::start(&case, "read-write");
    let (running, expected) = slow_push(&case, &daemon, 48 << 20);
    let mut targets = Vec::new();
    for (side, pid) in [(Side::Server, daemon.id()), (Side::Client, running.id())] {
        let ports = udp_ports_of(pid);
        assert!(!ports.is_empty(), "{side:?} has a UDP socket while data flows");
        targets.extend(ports.into_iter().map(|port| (case.net.address(side), port)));
    }
    let mut random = case.random();
    let blast = move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        for round in 0..20_000 {
            for target in &targets {
                // A port may be closed again, or the socket full: both are fine.
                let _ = socket.send_to(&forged_payload(&mut random), target);
            }
            if round % 8 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    };
    let blaster =
        if namespaces_work() { case.net.thread(Side::Client, blast) } else { std::thread::spawn(blast) };
    finishes_right(daemon, running, &expected);
    blaster.join().expect("no panic");
}

#[test]
fn forged_datagrams_from_the_peers_own_address_change_nothing() {
    let name = "forged_datagrams_from_the_peers_own_address_change_nothing";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let daemon = Daemon::start(&case, "read-write");
    let (running, expected) = slow_push(&case, &daemon, 48 << 20);
    let address = |side, pid| {
        let port = *udp_ports_of(pid).first().expect("a UDP socket while data flows");
        SocketAddrV4::new(case.net.address(side).parse().expect("an address"), port)
    };
    let (client, server) = (address(Side::Client, running.id()), address(Side::Server, daemon.id()));
    let to_server = forge(&case.net, Side::Client, client, server, case.random());
    let to_client = forge(&case.net, Side::Server, server, client, case.random());
    finishes_right(daemon, running, &expected);
    let sent = [to_server.stop(), to_client.stop()];
    assert!(sent.iter().all(|sent| *sent > 100), "forged datagrams: {sent:?}");
}

/// Forged datagrams a second in the name of each end; `fobs-lab flood` sends 100,000.
const FORGED_PER_SECOND: u64 = 5_000;

#[test]
fn datagrams_forged_from_a_capture_change_nothing() {
    let name = "datagrams_forged_from_a_capture_change_nothing";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    // So that the capture has datagrams and no super-packets, which could not be sent again.
    case.net.single_datagrams();
    let daemon = Daemon::start(&case, "read-write");
    let attacks =
        [Side::Client, Side::Server].map(|side| flood(&case.net, side, FORGED_PER_SECOND, case.seed()));
    let (running, expected) = slow_push(&case, &daemon, 32 << 20);
    finishes_right(daemon, running, &expected);
    let [data, acks] = attacks.map(super::packets::Attack::stop);
    assert!(data > 1000 && acks > 100, "forged datagrams: {data} with data, {acks} with acks");
}
