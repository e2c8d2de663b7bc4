//! Earlier releases, as `transcripts/RELEASE/` has recorded them (`examples/transcript.rs`), against this
//! tree: their clients with our server, their servers with our client.
//!
//! The recorded side is played: its messages as they were, its packets under the recorded keys, or sealed
//! again where our side makes the secret. Ours is real, and must do its part in the recorded order: its
//! messages are waited for, its packets need not be the same.

mod scene;
mod tree;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{fs, thread};

use serde_json::Value;

use self::scene::{Player, Transcript, Who};
use fobs::Transfer;
use fobs::server::{Host, LanesAt, Leave, Policy, SessionFigures, StreamEntrance, Wanted, open_session};
use fobs_channel::control::{ControlChannel, Peer};
use fobs_engine::Throttle;
use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::event::{Event, EventSink};
use fobs_model::message::PathRole;
use fobs_model::options::{Carrier, Location, Remote, TransferOptions};
use fobs_model::permit::Permit;
use fobs_store::{Base, expand_here};

/// Where the transcripts lie, a directory for each release.
const TRANSCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/transcripts");
/// All scenarios. In the last one the data goes through the control channel's lane; only a server plays it.
const SCENARIOS: [&str; 4] = ["push", "pull", "pull-pattern", "pull-lane"];
/// What a recorded server finds for the pattern of `pull-pattern`.
const FOUND: &str = "there/tree";
/// UDP ports of our server.
const UDP_PORTS: (u16, u16) = (19_000, 19_063);

struct Silent;

impl EventSink for Silent {
    fn event(&self, _: Event) {}
}

/// Every release that was recorded.
fn releases() -> Vec<PathBuf> {
    let mut releases: Vec<_> =
        fs::read_dir(TRANSCRIPTS).unwrap().map(|entry| entry.unwrap().path()).collect();
    releases.sort();
    releases
}

fn transcript(release: &Path, scenario: &str) -> Transcript {
    let path = release.join(format!("{scenario}.jsonl"));
    Transcript::parse(
        &fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    )
}

#[test]
fn every_release_of_the_list_is_recorded() {
    let list = include_str!("../../../../packaging/releases.toml");
    let versions: Vec<_> =
        list.lines().filter_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).collect();
    assert!(!versions.is_empty());
    for version in versions {
        for scenario in SCENARIOS {
            let recorded = transcript(&Path::new(TRANSCRIPTS).join(version), scenario);
            assert_eq!(recorded.hello(Who::Client)["program"], format!("fobs {version}"));
            assert_eq!(recorded.hello(Who::Server)["program"], format!("fobs {version}"));
        }
    }
}

/// Our client copies with a recorded server.
fn against_recorded_server(release: &Path, scenario: &str) {
    eprintln!("our client, the server of {} ({scenario})", release.display());
    let recorded = transcript(release, scenario);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    fs::create_dir(path("to")).unwrap();
    tree::write(&path("from")).unwrap();
    // A script in place of ssh, whose streams the player holds. Another process installs it, as in
    // fobs-channel/control/ssh/tests.rs.
    let made = Command::new("mkfifo").args([path("up"), path("down")]).status().unwrap();
    assert!(made.success());
    let (up, down) = (path("up"), path("down"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' -G '*) exit 1 ;; esac\ncat '{}' &\nexec cat >'{}'\n",
        down.display(),
        up.display()
    );
    fs::write(path("script"), script).unwrap();
    let installed = Command::new("install").args(["-m", "755"]).args([path("script"), path("ssh")]).status();
    assert!(installed.unwrap().success());

    let far = Location::Remote(Remote {
        carrier: Carrier::Ssh,
        user: None,
        host: "127.0.0.1".to_owned(),
        port: None,
        path: if scenario == "pull-pattern" { b"there/tr*".to_vec() } else { FOUND.into() },
    });
    let (source, destination) = if recorded.is_push() {
        (Location::Local(path("from/tree")), far)
    } else {
        (far, Location::Local(path("to")))
    };
    let mut options = TransferOptions { recursive: true, preserve: true, ..TransferOptions::default() };
    options.ssh.program = Some(path("ssh"));
    options.transport = recorded.transport();
    let playing = thread::spawn(move || {
        let up = fs::File::open(up).unwrap();
        let down = fs::File::options().write(true).open(down).unwrap();
        Player::new(recorded, Who::Server, up, down, Some(FOUND.into())).play();
    });
    let transfer = Transfer::builder([source], destination).options(options).events(Arc::new(Silent));
    let outcome = transfer.start().unwrap().wait();
    playing.join().expect("the client does its part");
    outcome.unwrap();
    if scenario.starts_with("pull") {
        tree::compare(&path("to")).unwrap();
    }
}

/// A login over ssh from this host.
pub(super) struct Login;

impl Host for Login {
    fn expand(&mut self, paths: &[Vec<u8>], _role: PathRole) -> Result<Vec<Vec<u8>>> {
        expand_here(paths)
    }

    fn judge(&mut self, _wanted: Wanted<'_>) -> Result<Policy> {
        Ok(Policy {
            budget: fobs_model::budget::MemoryBudget::default(),
            here: fobs_store::SourcesHere::default(),
            base: Base::Ambient,
            permit: Permit::of_the_user(),
            within: Vec::new(),
            udp_ip: [127, 0, 0, 1].into(),
            lanes_at: LanesAt { reached: [127, 0, 0, 1].into(), other: None },
            udp_ports: UDP_PORTS,
            streams: StreamEntrance::Own,
            addresses: Vec::new(),
            size_max: None,
            client: Some([127, 0, 0, 1].into()),
            throttle: Throttle::default(),
            events: Arc::new(Silent),
        })
    }

    fn ended(&mut self, _outcome: &Result<SessionFigures>) {}

    fn answered(&mut self, _outcome: &Result<fobs::server::Answered>) {}

    fn rest(&mut self, _hang_up: Box<dyn FnOnce() + Send>) -> Option<Leave> {
        None
    }
}

/// Our server copies with a recorded client.
fn against_recorded_client(release: &Path, scenario: &str) {
    eprintln!("our server, the client of {} ({scenario})", release.display());
    let recorded = transcript(release, scenario);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    fs::create_dir(path("to")).unwrap();
    tree::write(&path("from")).unwrap();
    let at = if recorded.is_push() { path("to") } else { path("from/tree") };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serving = thread::spawn(move || {
        let peer = Peer { description: "a recording".to_owned(), address: None, zone: 0, key: None };
        let channel = ControlChannel::over(ours.try_clone().unwrap(), ours, Carrier::Ssh, peer);
        let cancel = CancelToken::new();
        open_session(channel, &cancel, &mut Login)?.serve(&cancel, &mut Login)
    });
    let reading = theirs.try_clone().unwrap();
    Player::new(recorded, Who::Client, reading, theirs, Some(at)).play();
    serving.join().unwrap().unwrap();
    if scenario.starts_with("push") {
        tree::compare(&path("to")).unwrap();
    }
}

#[test]
fn our_client_works_with_servers_of_earlier_releases() {
    for release in releases() {
        for scenario in SCENARIOS {
            against_recorded_server(&release, scenario);
        }
    }
}

#[test]
fn our_server_works_with_clients_of_earlier_releases() {
    for release in releases() {
        for scenario in ["push", "pull", "pull-pattern"] {
            against_recorded_client(&release, scenario);
        }
    }
}

/// A value as a frame.
fn send(to: &mut impl Write, bits: u32, body: &[u8]) {
    // A peer that has ended early is found by what it said.
    let _ = to.write_all(&[&(bits | body.len() as u32).to_be_bytes()[..], body].concat());
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}
