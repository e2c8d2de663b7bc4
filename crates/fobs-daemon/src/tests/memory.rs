//! A daemon whose address space is limited, and clients that make it keep as much as it lets them: each is
//! refused in a sentence, the daemon lives, and others are served meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

use crate::served::Served;
use fobs::Transfer;
use fobs_channel::control::{ControlChannel, hello, tls};
use fobs_channel::secure::identity::Identity;
use fobs_model::budget::SESSION_KEPT_MAX;
use fobs_model::cancel::CancelToken;
use fobs_model::message::Message;
use fobs_model::options::{AddressFamily, Carrier, Location, Remote, TransferOptions};

/// What a daemon's process may map: three sessions at their bounds, or fourteen that just begin. Its code,
/// stacks and arenas are in it.
const ADDRESS_SPACE: u64 = 3 << 30;
const SMALL_ADDRESS_SPACE: u64 = 900 << 20;
/// In the process that is the daemon: how much that is.
const DAEMON: &str = "FOBS_TEST_LIMITED_DAEMON";
/// Files in the root that filters are asked about.
const FILES: usize = 2000;
/// What the daemon may take beside its sessions: code, its own threads, and what others do in this process.
const PROGRAM_BYTES: u64 = 64 << 20;

/// A daemon in a process of its own.
struct Limited {
    process: Child,
    address: SocketAddr,
    key: PathBuf,
    here: tempfile::TempDir,
}

impl Limited {
    fn start(space: u64) -> Limited {
        let itself = std::env::current_exe().unwrap();
        let mut process = Command::new(itself)
            .args(["--exact", "tests::memory::a_limited_daemon_serves", "--nocapture", "--test-threads=1"])
            .env(DAEMON, space.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said =
            lines.map(|line| line.unwrap()).find(|line| line.contains("DAEMON ")).expect("its address");
        let mut words = said.split("DAEMON ").nth(1).unwrap().split(' ');
        let address = words.next().unwrap().parse().unwrap();
        let key = PathBuf::from(words.next().unwrap());
        Limited { process, address, key, here: tempfile::tempdir().unwrap() }
    }

    fn connected(&self) -> ControlChannel {
        let identity = Identity::load(&self.key).unwrap();
        let (host, port) = (self.address.ip().to_string(), self.address.port());
        let any = AddressFamily::Any;
        let mut channel = tls::connect(&host, port, any, &identity, &CancelToken::new(), |_| Ok(())).unwrap();
        hello(&mut channel).unwrap();
        channel
    }

    /// What the daemon says to a request; with what is sent once it is granted.
    fn ask(&self, request: &Value, then: impl FnOnce(&mut ControlChannel)) -> String {
        let mut channel = self.connected();
        channel.writer.send_json(&request.to_string());
        let mut then = Some(then);
        loop {
            match channel.reader.recv() {
                Ok(Some(Message::Accept(_))) => then.take().expect("it is granted once")(&mut channel),
                Ok(Some(Message::Abort { message, .. })) => return message,
                Ok(Some(_)) => {}
                Ok(None) => return String::new(),
                Err(error) => return format!("broken: {error}"),
            }
        }
    }

    /// Another session: a file comes whole.
    #[track_caller]
    fn serves_others(&mut self) {
        let exited = self.process.try_wait().unwrap();
        assert_eq!(exited, None, "the daemon lives");
        let target = self.here.path().join("other");
        let remote = Remote {
            carrier: Carrier::Daemon,
            user: None,
            host: self.address.ip().to_string(),
            port: Some(self.address.port()),
            path: b"f1".to_vec(),
        };
        let options = TransferOptions {
            identity: Some(self.key.clone()),
            known_hosts: Some(self.here.path().join("known_hosts")),
            ..TransferOptions::default()
        };
        let done = Transfer::builder([Location::Remote(remote)], Location::Local(target.clone()))
            .options(options)
            .start()
            .and_then(|transfer| transfer.wait());
        done.unwrap();
        assert_eq!(fs::read(target).unwrap(), b"content");
    }

    /// Its peak of resident memory, bytes.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// A pull of the root as a sync.
fn pull(sync: Value) -> Value {
    json!({
        "type": "open", "direction": "pull", "paths": [encoded("")], "recursive": true, "preserve": false,
        "compress": false, "payload_size": 0, "ack_every": 0, "sending": {"cc": "auto"}, "survey": true,
        "sync": sync,
    })
}

fn rules(rules: impl Iterator<Item = String>) -> Value {
    json!({"directories": "all", "filter": {"rules": rules.map(|rule| encoded(&rule)).collect::<Vec<_>>()}})
}

fn names(names: impl Iterator<Item = String>) -> Value {
    json!({"directories": "all", "names": names.map(|name| encoded(&name)).collect::<Vec<_>>()})
}

/// Requests that a client's own program would not send, or would: what each is, and a part of the refusal;
/// none where it is served.
fn requests() -> Vec<(&'static str, Value, Option<&'static str>)> {
    vec![
        ("a name of 200 kB", pull(names(["b/".repeat(100_000)].into_iter())), Some("longer than 4096 bytes")),
        (
            "180 names of 4 kB",
            pull(names((0..180).map(|at| format!("{at}/{}", "b/".repeat(1999) + "b")))),
            None,
        ),
        ("75,000 names", pull(names((0..75_000).map(|at| format!("n{at}")))), None),
        (
            "75,000 directory files",
            pull(rules((0..75_000).map(|_| ": x".to_owned()))),
            Some("more than 64 rules"),
        ),
        ("64 directory files", pull(rules((0..64).map(|at| format!(": x{at}")))), None),
        ("70,000 rules", pull(rules((0..70_000).map(|at| format!("- x{at}")))), None),
        ("50,000 wildcards", pull(rules((0..50_000).map(|at| format!("- *y{at}*")))), None),
        ("empty paths", json!({"type": "open", "paths": vec![""; 300_000]}), Some("values")),
        ("lists in lists", json!({"type": "open", "a": vec![json!([[], [[]]]); 60_000]}), Some("values")),
        (
            "60,000 paths",
            {
                let mut request = pull(json!({}));
                request["paths"] = (0..60_000).map(|at| Value::from(encoded(&format!("no{at}")))).collect();
                request["sync"] = Value::Null;
                request
            },
            Some("nor can 59999 more be read"),
        ),
    ]
}

#[test]
fn no_request_ends_a_limited_daemon() {
    let mut daemon = Limited::start(ADDRESS_SPACE);
    daemon.serves_others();
    let before = daemon.peak();
    for (what, request, refusal) in requests() {
        assert!(request.to_string().len() < 1 << 20, "{what}: it fits a message");
        let answer = daemon.ask(&request, |channel| {
            if refusal.is_none() {
                channel.writer.close();
            }
        });
        let expected = refusal.unwrap_or("");
        assert!(
            answer.contains(expected) && (refusal.is_some() || !answer.contains("memory")),
            "{what}: {answer}"
        );
        daemon.serves_others();
    }
    // A receiver that is flooded with failures of the longest kind, and with listings.
    let push = json!({
        "type": "open", "direction": "push", "paths": [encoded("into")], "recursive": true, "preserve": false,
        "compress": false, "payload_size": 0, "ack_every": 0, "sending": {"cc": "auto"}, "survey": true,
        "shape": {"sources": 1, "contents": true, "stream": false},
        "sync": {"directories": "all", "delete": {}},
    });
    let (path, reason) = ("p".repeat(4000), "r".repeat(4000));
    let answer = daemon.ask(&push, |channel| {
        for at in 0..15_000 {
            let failed = json!({"type": "failed", "path": encoded(&format!("{path}{at}")), "reason": reason});
            channel.writer.send_json(&failed.to_string());
        }
        channel.writer.close();
    });
    assert!(!answer.contains("broken"), "{answer}");
    daemon.serves_others();
    let grown = daemon.peak() - before.min(daemon.peak());
    // What is in transit is an eighth of what sessions may have at most.
    let session = SESSION_KEPT_MAX as u64 + ADDRESS_SPACE * 3 / 4 / 8;
    assert!(grown < session + PROGRAM_BYTES, "{grown} bytes");
}

#[test]
fn sessions_beyond_the_memory_of_the_process_are_refused() {
    let mut daemon = Limited::start(SMALL_ADDRESS_SPACE);
    // Each takes its least as long as it is open; three quarters of the address space are for sessions.
    let mut held = Vec::new();
    let refusal = loop {
        let mut channel = daemon.connected();
        channel.writer.send_json(&pull(json!({"directories": "all"})).to_string());
        match channel.reader.recv() {
            Ok(Some(Message::Abort { code, message, .. })) => break (code, message),
            Ok(Some(_)) => held.push(channel),
            other => panic!("{other:?} after {}", held.len()),
        }
        assert!(held.len() < 100, "nothing refuses them");
    };
    assert!(refusal.1.contains("all sessions of this server") || refusal.1.contains("full"), "{refusal:?}");
    assert_eq!(refusal.0, "connect");
    drop(held);
    std::thread::sleep(Duration::from_millis(500));
    daemon.serves_others();
}

/// Serves: in a process of its own for the tests above, with a limit; else for a client here.
#[test]
fn a_limited_daemon_serves() {
    let space = std::env::var(DAEMON).ok().map(|space| space.parse::<u64>().unwrap());
    if space.is_some() {
        setrlimit(Resource::As, Rlimit { current: space, maximum: space }).unwrap();
    }
    let served = Served::start(|options| options.sessions_max = 64);
    for at in 0..FILES {
        fs::write(served.root().join(format!("f{at}")), "content").unwrap();
    }
    if space.is_some() {
        println!("DAEMON {} {}", served.address(), served.client_key().display());
        std::io::stdout().flush().unwrap();
        // Until the test ends this process.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let here = served.directory("here");
    served.pull("f1", &here, &served.options()).unwrap();
    assert_eq!(fs::read(here.join("f1")).unwrap(), b"content");
    assert!(Path::new(&served.client_key()).exists());
}
