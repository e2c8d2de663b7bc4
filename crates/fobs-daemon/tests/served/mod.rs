//! A daemon in a thread of this process, with keys and a directory of its own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::fmt::Debug;
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
use fobs_daemon::{Server, ServerHandle};
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

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
    log: Log,
    client_events: Arc<Events>,
    /// Cancels the daemon.
    pub cancel: CancelToken,
    /// Drains the daemon, and looks at it.
    pub handle: ServerHandle,
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

/// The records of a daemon's log: field names and values.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|record| record["message"].clone()).collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fobs")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
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
            identity: Some(path("server")),
            udp_ports: (first, first + UDP_PORTS - 1),
            sessions_max: 8,
            queue_wait: Duration::ZERO,
            ..ServeOptions::new(path("root"), path("authorized_keys"))
        };
        adjust(&mut options);
        fs::write(&options.authorized_keys, "").unwrap();
        let (udp_ports, log) = (options.udp_ports, Log::default());
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let server = tracing::subscriber::with_default(log.clone(), || Server::bind(&options)).unwrap();
        let (listening, handle) = (server.addresses()[0], server.handle());
        let thread = thread::spawn(move || server.run(&token));
        let client_events = Arc::default();
        let served = Served {
            directory,
            client,
            address: listening,
            udp_ports,
            log,
            client_events,
            cancel,
            handle,
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
        self.authorize_client_with("read-write");
    }

    /// The client's key with these options.
    pub fn authorize_client_with(&self, options: &str) {
        self.authorize(&format!("{options} {} ann@laptop\n", self.client.public_line));
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

    /// Forgets the daemon's log, which this process holds and a daemon does not.
    pub fn forget_log(&self) {
        self.log.0.lock().unwrap().clear();
    }

    /// The daemon's log so far.
    pub fn notices(&self) -> Vec<String> {
        self.log.lines()
    }

    /// The daemon's log so far, with all fields: `message`, `event`, ...
    pub fn records(&self) -> Vec<BTreeMap<String, String>> {
        self.log.0.lock().unwrap().clone()
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
