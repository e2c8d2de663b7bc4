use fobs::options::AddressFamily;
use fobs::{Access, Privileges, Rights};

use super::*;
use crate::args::{Cli, Command};
use clap::Parser;
use fobs::options::{Chatter, MinRate, PushBinary, SshOptions, StreamAllotment, TcpTuning, Transport};
use std::path::PathBuf;
use std::time::Duration;

/// The result for `fobs cp` with these words.
fn resolved(words: &str) -> Result<Copy> {
    match Cli::try_parse_from(["fobs", "cp"].into_iter().chain(words.split(' '))) {
        Ok(Cli { command: Command::Cp(args) }) => copy(&args),
        other => panic!("cp {words}: {other:?}"),
    }
}

fn options(words: &str) -> TransferOptions {
    resolved(&format!("{words} a host:b")).unwrap_or_else(|error| panic!("{words}: {error}")).options
}

#[test]
fn without_flags_all_options_are_defaults() {
    let copy = resolved("a b host:c").expect("valid");
    assert_eq!(copy.sources, [Location::Local("a".into()), Location::Local("b".into())]);
    assert!(
        matches!(copy.destination, Location::Remote(remote) if remote.host == "host" && remote.path == b"c")
    );
    assert_eq!(copy.options, TransferOptions::default());
}

#[test]
fn flags_become_options() {
    type Expect = fn(&mut TransferOptions);
    let table: &[(&str, Expect)] = &[
        ("-r", |o| o.recursive = true),
        ("-r -r", |o| o.recursive = true),
        ("-rpC", |o| (o.recursive, o.preserve, o.compress) = (true, true, true)),
        ("--fsync", |o| o.fsync = true),
        ("--no-partial", |o| o.no_partial = true),
        ("--append-verify", |o| o.append_verify = true),
        ("--checksum", |o| o.checksum = true),
        ("-l 500", |o| o.rate_limit = Some(500_000)),
        ("--rate 2Gbit", |o| o.rate_limit = Some(2_000_000_000)),
        ("--rate 1M --rate 2M", |o| o.rate_limit = Some(2_000_000)),
        ("--cc greedy", |o| o.congestion_control = CongestionControl::Greedy),
        ("--cc greedy -l 1", |o| {
            (o.congestion_control, o.rate_limit) = (CongestionControl::Greedy, Some(1000));
        }),
        ("--cc fixed --rate 64MiB", |o| {
            o.congestion_control = CongestionControl::Fixed { bits_per_second: 536_870_912 };
        }),
        ("--timeout 90s", |o| {
            (o.timeout, o.opening) = (Duration::from_secs(90), Some(Duration::from_secs(90)));
        }),
        ("--min-rate 1Mbit/30s", |o| {
            o.min_rate = Some(MinRate { bits_per_second: 1_000_000, over: Duration::from_secs(30) });
        }),
        ("--ack-every 64 --burst 2", |o| (o.ack_every, o.burst) = (Some(64), Some(2))),
        ("--memory 1GiB", |o| o.memory = Some(1 << 30)),
        ("--packet-size 8KiB", |o| o.packet_size = Some(8192)),
        ("--udp-ports 5000-5009", |o| o.udp_ports = Some((5000, 5009))),
        ("-4", |o| o.address_family = AddressFamily::V4),
        ("-6", |o| o.address_family = AddressFamily::V6),
        ("-6 -4", |o| o.address_family = AddressFamily::V4),
        ("-4 -6", |o| o.address_family = AddressFamily::V6),
        ("-i key -P 2222", |o| (o.identity, o.port) = (Some("key".into()), Some(2222))),
        ("--fobs-path /opt/fobs", |o| o.fobs_path = "/opt/fobs".into()),
        ("-F conf -J hop -o A=b -o C=d -vv", |o| {
            o.ssh = SshOptions {
                config_file: Some("conf".into()),
                jump: Some("hop".into()),
                options: vec!["A=b".into(), "C=d".into()],
                chatter: Chatter::Told,
                ..SshOptions::default()
            };
        }),
        ("--push-binary", |o| o.ssh.push = PushBinary::IfMissing),
        ("--push-binary --no-push-binary", |_| {}),
        ("-S myssh", |o| o.ssh.program = Some("myssh".into())),
        ("--ssh myssh", |o| o.ssh.program = Some("myssh".into())),
        ("-q -o A=b", |o| o.ssh.options = vec!["A=b".into(), "LogLevel=ERROR".into()]),
        ("--transport udp", |o| o.transport = Transport::Udp),
        ("--transport tcp:4", |o| o.transport = Transport::Tcp { count: Some(4) }),
        ("--tcp-cc cubic --tcp-buffer 64KiB", |o| {
            o.tcp = TcpTuning { congestion: Some("cubic".to_owned()), buffer: Some(64 << 10) };
        }),
        ("--transport channel --stream-allotment equal-parts", |o| {
            (o.transport, o.stream_allotment) = (Transport::Channel, StreamAllotment::EqualParts);
        }),
        ("--json", |_| {}),
    ];
    for (words, expect) in table {
        let mut expected = TransferOptions::default();
        expect(&mut expected);
        assert_eq!(options(words), expected, "{words}");
    }
}

#[test]
fn contradictory_options_are_refused() {
    let table = [
        ("--cc fixed a host:b", "--cc fixed needs its rate"),
        ("--cc fixed -l 5 a host:b", "--cc fixed needs its rate"),
        ("--cc bbr --priority scavenger a host:b", "--priority scavenger works only with --cc auto"),
        ("--cc bbr --deadline 2h a host:b", "--deadline works only with --cc auto"),
        ("--json host:a -", "both write to standard output"),
        ("--known-hosts f a host:b", "--known-hosts is for daemons"),
        ("-F f a fobs://host/b", "-F is for copies over SSH"),
        ("-J f fobs://host/b .", "-J is for copies over SSH"),
        ("-o A=b a fobs://host/b", "-o is for copies over SSH"),
        ("-S f a fobs://host/b", "-S is for copies over SSH"),
        ("--fobs-path f a fobs://host/b", "--fobs-path is for copies over SSH"),
        ("- -", "use cp"),
        ("a", "needs a source and a destination"),
        ("-- a -o:b", "cannot start with '-'"),
    ];
    for (words, why) in table {
        let error = resolved(words).expect_err(words);
        assert_eq!(error.kind, ErrorKind::Usage, "{words}");
        assert!(error.message.contains(why), "{words}: {}", error.message);
    }
}

#[test]
fn daemon_copies_take_their_options() {
    let copy = resolved("-q -i key --known-hosts known -P 9 fobs://host/a .").expect("valid");
    assert_eq!(copy.options.known_hosts, Some(PathBuf::from("known")));
    assert_eq!(copy.options.identity, Some(PathBuf::from("key")));
    assert_eq!(copy.options.port, Some(9));
}

#[test]
fn arguments_of_serve_become_options() {
    let served = |words: &str| {
        let words = format!("fobs serve --root r --authorized-keys k {words}");
        match Cli::try_parse_from(words.split_whitespace()) {
            Ok(Cli { command: Command::Serve(args) }) => serve(&args),
            other => panic!("{words}: {other:?}"),
        }
    };
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
    let defaults = ServeOptions {
        listen: addresses(&["0.0.0.0:45600", "[::]:45600"]),
        udp_ports: (45_601, 45_664),
        sessions_max: 64,
        queue_wait: Duration::from_secs(10),
        drain: Duration::from_secs(30),
        ..ServeOptions::new("r".into(), "k".into())
    };
    assert_eq!(served(""), Ok(defaults.clone()));
    let given = "--listen 127.0.0.1 --listen [::1]:9 --read-only --third-party --identity id --udp-ports 10-12 \
                 --sessions-max 2 --queue-wait 0 --drain 3600";
    let expected = ServeOptions {
        listen: addresses(&["127.0.0.1:45600", "[::1]:9"]),
        read_only: true,
        third_party: true,
        identity: Some("id".into()),
        udp_ports: (10, 12),
        sessions_max: 2,
        queue_wait: Duration::ZERO,
        drain: Duration::from_secs(3600),
        ..defaults
    };
    assert_eq!(served(given), Ok(expected));
    for words in ["--sessions-max 0", "--sessions-max 65", "--udp-ports 5 --sessions-max 2"] {
        let error = served(words).expect_err(words);
        assert!(error.message.contains("every session needs its own UDP port"), "{words}: {}", error.message);
    }
}

#[test]
fn a_restriction_needs_its_directory() {
    let server_of = |words: &str| {
        let words = format!("fobs server {words}");
        match Cli::try_parse_from(words.split_whitespace()) {
            Ok(Cli { command: Command::Server(args) }) => Ok(server(&args)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(server_of(""), Ok(None));
    for &access in Access::ALL {
        let flag = match access {
            Access::ReadWrite => String::new(),
            other => format!("--{}", other.name()),
        };
        for (word, privileges) in [("", Privileges::Withheld), ("--privileged", Privileges::OfTheUser)] {
            let words = format!("--restrict /d {flag} {word}");
            match Rights::new(access).with_privileges(privileges) {
                Ok(rights) => {
                    let restriction = Restriction { directory: "/d".into(), rights };
                    assert_eq!(server_of(&words), Ok(Some(restriction)), "{words}");
                }
                Err(_) => {
                    assert!(matches!(access, Access::ReadOnly | Access::AppendOnly), "{words}");
                    server_of(&words).expect_err("it is about what files are given");
                }
            }
        }
    }
    for words in [
        "--read-only",
        "--write-only",
        "--append-only",
        "--privileged",
        "--restrict /d --read-write",
        "--restrict /d --read-only --write-only",
        "--restrict /d --append-only --write-only",
        "--restrict",
    ] {
        server_of(words).expect_err(words);
    }
}
