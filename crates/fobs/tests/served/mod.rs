//! A daemon in a thread of this process, with keys and a directory of its own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fobs::event::{Event, EventSink, Outcome};
use fobs::options::{Carrier, Location, Remote, ServeOptions, TransferOptions};
use fobs::{CancelToken, KeygenOutcome, Transfer, keygen};
use tempfile::TempDir;

/// UDP ports of one daemon, and the first of all: below the kernel's ephemeral ports.
const UDP_PORTS: u16 = 16;
const UDP_PORTS_BEGIN: u16 = 20_000;
/// Most daemons of one process with ports of their own; each process has another range, by its id.
const DAEMONS: u16 = 32;
/// Longest wait; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon. Its thread ends with the process.
pub struct Served {
    directory: TempDir,
    client: KeygenOutcome,
    address: SocketAddr,
    udp_ports: (u16, u16),
    log: Arc<Events>,
    client_events: Arc<Events>,
    /// Cancels the daemon.
    pub cancel: CancelToken,
    pub thread: Option<JoinHandle<fobs::Result<()>>>,
}

#[derive(Default)]
pub struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Events {
    pub fn notices(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let notices = events.iter().filter_map(|event| match event {
            Event::Notice(line) => Some(line.clone()),
            _ => None,
        });
        notices.collect()
    }

    pub fn any(&self, is_so: impl Fn(&Event) -> bool) -> bool {
        self.0.lock().unwrap().iter().any(is_so)
    }
}

impl Served {
    /// A daemon that one client may read from and write to, its options changed by `adjust`.
    pub fn start(adjust: impl FnOnce(&mut ServeOptions)) -> Served {
        static STARTED: AtomicU16 = AtomicU16::new(0);
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("root")).unwrap();
        let client = keygen(Some(&path("client"))).unwrap();
        let process = (std::process::id() % 20) as u16;
        let number = process * DAEMONS + STARTED.fetch_add(1, Ordering::SeqCst) % DAEMONS;
        let first = UDP_PORTS_BEGIN + number * UDP_PORTS;
        let mut options = ServeOptions {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            root: path("root"),
            read_only: false,
            authorized_keys: path("authorized_keys"),
            identity: Some(path("server")),
            udp_ports: (first, first + UDP_PORTS - 1),
            sessions_max: 8,
        };
        adjust(&mut options);
        fs::write(&options.authorized_keys, "").unwrap();
        let (udp_ports, log) = (options.udp_ports, Arc::new(Events::default()));
        let events = log.clone();
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let thread = thread::spawn(move || fobs::serve(&options, events, &token));
        let listening = wait_for(|| log.notices().into_iter().find_map(|line| listen_address(&line)));
        let client_events = Arc::default();
        let served = Served {
            directory,
            client,
            address: listening,
            udp_ports,
            log,
            client_events,
            cancel,
            thread: Some(thread),
        };
        served.authorize_client();
        served
    }

    /// Replaces the authorized keys.
    pub fn authorize(&self, lines: &str) {
        fs::write(self.directory.path().join("authorized_keys"), lines).unwrap();
    }

    pub fn authorize_client(&self) {
        self.authorize(&format!("read-write {}\n", self.client.public_line));
    }

    pub fn client_key(&self) -> PathBuf {
        self.client.path.clone()
    }

    pub fn fingerprint(&self) -> String {
        self.client.fingerprint.clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn udp_ports(&self) -> (u16, u16) {
        self.udp_ports
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// A new directory on the client's side.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// The options that a client of this daemon needs.
    pub fn options(&self) -> TransferOptions {
        TransferOptions {
            identity: Some(self.client_key()),
            known_hosts: Some(self.directory.path().join("known_hosts")),
            ..TransferOptions::default()
        }
    }

    pub fn remote(&self, path: &str) -> Location {
        Location::Remote(Remote {
            carrier: Carrier::Daemon,
            user: None,
            host: self.address.ip().to_string(),
            port: Some(self.address.port()),
            path: path.as_bytes().to_vec(),
        })
    }

    pub fn push(&self, from: &Path, to: &str, options: &TransferOptions) -> Outcome {
        self.push_until(from, to, options, &CancelToken::new())
    }

    pub fn push_until(
        &self,
        from: &Path,
        to: &str,
        options: &TransferOptions,
        cancel: &CancelToken,
    ) -> Outcome {
        let from = Location::Local(from.to_path_buf());
        self.run([from], self.remote(to), options, cancel)
    }

    pub fn pull(&self, from: &str, to: &Path, options: &TransferOptions) -> Outcome {
        self.pull_until(from, to, options, &CancelToken::new())
    }

    pub fn pull_until(
        &self,
        from: &str,
        to: &Path,
        options: &TransferOptions,
        cancel: &CancelToken,
    ) -> Outcome {
        let to = Location::Local(to.to_path_buf());
        self.run([self.remote(from)], to, options, cancel)
    }

    fn run(
        &self,
        sources: [Location; 1],
        destination: Location,
        options: &TransferOptions,
        cancel: &CancelToken,
    ) -> Outcome {
        Transfer::builder(sources, destination)
            .options(options.clone())
            .events(self.client_events.clone())
            .cancel_token(cancel.clone())
            .start()?
            .wait()
    }

    /// The client's events so far.
    pub fn client_events(&self) -> Arc<Events> {
        self.client_events.clone()
    }

    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.client_events.0.lock().unwrap())
    }

    /// The daemon's log so far.
    pub fn notices(&self) -> Vec<String> {
        self.log.notices()
    }

    /// Waits for a line of the log.
    #[track_caller]
    pub fn wait_for_notice(&self, is_it: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let notices = self.notices();
            if let Some(line) = notices.iter().find(|line| is_it(line)) {
                return line.clone();
            }
            assert!(Instant::now() < end, "no such line: {notices:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Out of `listening on ADDRESS, root ...`.
fn listen_address(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("listening on ")?.split(", ").next()?.parse().ok()
}

/// Waits until `look` finds something.
#[track_caller]
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited for nothing");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Temporary files below `top`.
pub fn temporary_files(top: &Path) -> Vec<PathBuf> {
    let walk = walkdir::WalkDir::new(top).into_iter().filter_map(|entry| entry.ok());
    let is_temporary =
        |path: &PathBuf| path.file_name().is_some_and(|n| n.as_bytes().windows(6).any(|w| w == b".fobs-"));
    walk.map(|entry| entry.into_path()).filter(is_temporary).collect()
}

/// Bytes that do not compress and that no two offsets share.
pub fn content(len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    blake3::Hasher::new().update(b"content").finalize_xof().fill(&mut data);
    data
}
