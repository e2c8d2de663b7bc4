//! Two ends of a session, and what stands between them: a relay of datagrams and one of control messages.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, UdpSocket as PlainSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fobs_proto::wire::{DataHeader, Header, decode_packet_number};
use fobs_sys::{UdpSocket, Waker};
use tempfile::TempDir;

use crate::control::frame::{FrameReader, encode};
use crate::control::message::{Message, Sending};
use crate::control::{ControlChannel, Peer};
use crate::engine::receive::{ReceiveJob, ReceiveOutcome, receive};
use crate::engine::send::{SendJob, SendOutcome, send};
use crate::engine::{CHUNKS_MAX, Clock, LinkSetup, Reporter, tell_abort};
use crate::error::{ErrorKind, Result};
use crate::event::{Event, EventSink, FileError};
use crate::options::Carrier;
use crate::secure::datagram::{Cipher, Direction, Opener, Sealer, SessionSecret};
use crate::session::{receiver_config, sender_config, udp_options};
use crate::storage::{Base, Sink, SinkSpec, Source, SourceSpec};

const SECRET: [u8; 32] = [7; 32];
const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
/// How often a relay looks whether it is to end.
const RELAY_LOOK: Duration = Duration::from_millis(10);
/// How long a test waits for what must come; only a failing one waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of the data's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

impl End {
    pub const BOTH: [End; 2] = [End::Sender, End::Receiver];
}

/// What a meddler makes of one datagram.
pub enum Out {
    /// Delivered as if it came from the peer.
    Peer(Vec<u8>),
    /// Delivered from an address that nobody knows.
    Stranger(Vec<u8>),
}

/// Decides on a datagram of one end: what reaches the other.
pub type Datagrams = Box<dyn FnMut(End, &[u8]) -> Vec<Out> + Send>;
/// The same for control messages.
pub type Messages = Box<dyn FnMut(End, Message) -> Vec<Message> + Send>;

/// What a session is made of.
pub struct Spec {
    pub source: Source,
    pub sink: Sink,
    /// Who called: the client speaks first.
    pub client: End,
    pub datagrams: Option<Datagrams>,
    pub messages: Option<Messages>,
}

/// A running session.
pub struct Session {
    sender: JoinHandle<Result<SendOutcome>>,
    receiver: JoinHandle<Result<ReceiveOutcome>>,
    pub control: Arc<Control>,
    pub at_sender: Told,
    pub at_receiver: Told,
    _relay: Option<Relay>,
}

/// What one end told.
#[derive(Clone)]
pub struct Told {
    events: Arc<Events>,
    reporter: Arc<OnceLock<Arc<Reporter>>>,
}

#[derive(Default)]
pub struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Told {
    fn new() -> Told {
        Told { events: Arc::default(), reporter: Arc::default() }
    }

    fn reporter(&self, channel: &ControlChannel) -> Arc<Reporter> {
        let new = || Reporter::new(self.events.clone(), channel.writer.clone());
        self.reporter.get_or_init(new).clone()
    }

    /// Names of the files that were told done, in order.
    pub fn files(&self) -> Vec<String> {
        let events = self.events.0.lock().unwrap();
        let done = events.iter().filter_map(|event| match event {
            Event::FileDone { path, .. } => Some(String::from_utf8(path.clone()).unwrap()),
            _ => None,
        });
        done.collect()
    }

    pub fn errors(&self) -> Vec<FileError> {
        self.reporter.get().expect("the session has begun").errors()
    }
}

impl Session {
    pub fn start(spec: Spec) -> Session {
        let [sender, receiver] = [(); 2].map(|()| {
            UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &udp_options(None)).unwrap()
        });
        let server = match spec.client {
            End::Sender => receiver.local_addr(),
            End::Receiver => sender.local_addr(),
        };
        let relay = spec.datagrams.map(|decide| Relay::start(spec.client, server, decide));
        let called = relay.as_ref().map_or(server, |relay| relay.address);
        let link = |end: End, socket: UdpSocket| LinkSetup {
            socket,
            waker: Waker::new().unwrap(),
            clock: Clock::start(),
            secret: SessionSecret::new(SECRET),
            cipher: CIPHER,
            direction: match end {
                End::Sender => Direction::Sender,
                End::Receiver => Direction::Receiver,
            },
            candidates: if end == spec.client { vec![called] } else { Vec::new() },
        };
        let (control, sender_channel, receiver_channel) = Control::start(spec.messages);
        let (at_sender, at_receiver) = (Told::new(), Told::new());
        let credit = if spec.client == End::Sender { CHUNKS_MAX } else { 0 };
        let auto = Sending { cc: "auto".to_owned(), ..Sending::default() };
        let job = SendJob {
            link: link(End::Sender, sender),
            source: spec.source,
            config: sender_config(&auto, 0, credit).unwrap(),
            reporter: at_sender.reporter(&sender_channel),
            reader: sender_channel.reader,
            writer: sender_channel.writer.clone(),
            peer_name: "the receiver".to_owned(),
            ports: "port 7".to_owned(),
        };
        // As client and server do: say why, then hang up.
        let sender = thread::spawn(move || {
            let writer = sender_channel.writer;
            let outcome = send(job).inspect_err(|error| tell_abort(&writer, error));
            writer.close();
            outcome
        });
        let job = ReceiveJob {
            link: link(End::Receiver, receiver),
            sink: spec.sink,
            config: receiver_config(0),
            reporter: at_receiver.reporter(&receiver_channel),
            reader: receiver_channel.reader,
            writer: receiver_channel.writer.clone(),
            peer_name: "the sender".to_owned(),
            ports: "port 7".to_owned(),
        };
        let receiver = thread::spawn(move || {
            let writer = receiver_channel.writer;
            let outcome = receive(job).inspect_err(|error| tell_abort(&writer, error));
            writer.close();
            outcome
        });
        Session { sender, receiver, control, at_sender, at_receiver, _relay: relay }
    }

    /// Waits for both ends.
    pub fn join(self) -> (Result<SendOutcome>, Result<ReceiveOutcome>) {
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }

    /// Waits for both ends, which must fail with errors of this kind; their sentences, the sender's first.
    #[track_caller]
    pub fn expect_failure(self, kind: ErrorKind) -> [String; 2] {
        let (sent, received) = self.join();
        let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
        assert_eq!((sent.kind, received.kind), (kind, kind), "{sent} / {received}");
        [sent.message, received.message]
    }
}

/// The control channel of a session, with somebody in the middle.
pub struct Control {
    to_sender: Mutex<UnixStream>,
    to_receiver: Mutex<UnixStream>,
}

impl Control {
    fn start(messages: Option<Messages>) -> (Arc<Control>, ControlChannel, ControlChannel) {
        let (sender, to_sender) = UnixStream::pair().unwrap();
        let (receiver, to_receiver) = UnixStream::pair().unwrap();
        let channel = |stream: UnixStream| {
            let peer = Peer { description: "the peer".to_owned(), address: None, key: None };
            ControlChannel::over(stream.try_clone().unwrap(), ShutOnDrop(stream), Carrier::Ssh, peer)
        };
        let heard = [(End::Sender, &to_sender), (End::Receiver, &to_receiver)]
            .map(|(end, stream)| (end, stream.try_clone().unwrap()));
        let control =
            Arc::new(Control { to_sender: Mutex::new(to_sender), to_receiver: Mutex::new(to_receiver) });
        let messages = Arc::new(Mutex::new(messages));
        for (from, stream) in heard {
            let (control, messages) = (control.clone(), messages.clone());
            // Ends with its stream.
            thread::spawn(move || control.forward(from, stream, &messages));
        }
        (control, channel(sender), channel(receiver))
    }

    fn forward(&self, from: End, stream: UnixStream, messages: &Mutex<Option<Messages>>) {
        let to = if from == End::Sender { End::Receiver } else { End::Sender };
        let mut frames = FrameReader::new(BufReader::new(stream));
        while let Ok(Some(message)) = frames.read() {
            let passed = match &mut *messages.lock().unwrap() {
                Some(decide) => decide(from, message),
                None => vec![message],
            };
            passed.iter().for_each(|message| self.say(to, message));
        }
        let _ = self.way_to(to).lock().unwrap().shutdown(Shutdown::Write);
    }

    fn way_to(&self, end: End) -> &Mutex<UnixStream> {
        match end {
            End::Sender => &self.to_sender,
            End::Receiver => &self.to_receiver,
        }
    }

    /// Says something to one end in the other's name. An end that is gone hears nothing.
    pub fn say(&self, to: End, message: &Message) {
        self.say_bytes(to, &encode(message).unwrap());
    }

    pub fn say_bytes(&self, to: End, bytes: &[u8]) {
        let _ = self.way_to(to).lock().unwrap().write_all(bytes);
    }

    /// A frame of any JSON.
    pub fn say_json(&self, to: End, json: &str) {
        let length = u32::try_from(json.len()).unwrap().to_be_bytes();
        self.say_bytes(to, &[&length, json.as_bytes()].concat());
    }

    /// Ends the channel for both.
    pub fn cut(&self) {
        for end in End::BOTH {
            self.way_to(end).lock().unwrap().shutdown(Shutdown::Both).unwrap();
        }
    }
}

/// A socket's end is told by shutting it down, because the reading half keeps it open.
struct ShutOnDrop(UnixStream);

impl Write for ShutOnDrop {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for ShutOnDrop {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// Passes datagrams between client and server.
struct Relay {
    /// Where the client finds it.
    address: SocketAddr,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn start(client: End, server: SocketAddr, decide: Datagrams) -> Relay {
        let socket = || {
            let socket = PlainSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(RELAY_LOOK)).unwrap();
            socket
        };
        let (before, behind, stranger) = (socket(), socket(), Arc::new(socket()));
        let address = before.local_addr().unwrap();
        let (over, decide) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(decide)));
        let caller: Arc<OnceLock<SocketAddr>> = Arc::default();
        let both =
            [(before.try_clone().unwrap(), behind.try_clone().unwrap(), true), (behind, before, false)];
        let threads = both.map(|(hear, speak, from_client)| {
            let (over, decide, caller, stranger) =
                (over.clone(), decide.clone(), caller.clone(), stranger.clone());
            let server_end = if client == End::Sender { End::Receiver } else { End::Sender };
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while !over.load(Ordering::Relaxed) {
                    let Ok((len, from)) = hear.recv_from(&mut buffer) else { continue };
                    let (end, to) = match from_client {
                        true => {
                            caller.get_or_init(|| from);
                            (client, server)
                        }
                        false => (server_end, *caller.get().expect("the client speaks first")),
                    };
                    let passed = (*decide.lock().unwrap())(end, &buffer[..len]);
                    for out in passed {
                        // A peer that has gone hears nothing.
                        let _ = match out {
                            Out::Peer(datagram) => speak.send_to(&datagram, to),
                            Out::Stranger(datagram) => stranger.send_to(&datagram, to),
                        };
                    }
                }
            })
        });
        Relay { address, over, threads: threads.into() }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let joined = thread.join();
            assert!(joined.is_ok() || thread::panicking(), "the relay failed");
        }
    }
}

/// Whose datagram this is, as far as anyone can see.
pub fn data_header(datagram: &[u8]) -> Option<DataHeader> {
    match Header::decode(datagram) {
        Ok((Header::Data(header), _)) => Some(header),
        _ => None,
    }
}

/// Lets everything pass but data of chunks above the first: so a session is in its middle for as long as it takes.
pub fn hold_back() -> Datagrams {
    Box::new(|_, datagram| match data_header(datagram) {
        Some(header) if header.chunk > 0 => Vec::new(),
        _ => vec![Out::Peer(datagram.to_vec())],
    })
}

/// The same until the gate is opened.
pub fn hold_back_until(open: Arc<AtomicBool>) -> Datagrams {
    let mut held = hold_back();
    Box::new(move |from, datagram| match open.load(Ordering::Relaxed) {
        true => vec![Out::Peer(datagram.to_vec())],
        false => held(from, datagram),
    })
}

/// Changes packets before they are sealed, as a faulty memory would: one that knows the keys and stands on the way.
pub struct FaultyMemory {
    opener: Opener,
    sealer: Sealer,
    largest: u64,
}

impl FaultyMemory {
    pub fn new() -> FaultyMemory {
        let secret = SessionSecret::new(SECRET);
        FaultyMemory {
            opener: Opener::new(&secret, CIPHER, Direction::Sender),
            sealer: Sealer::new(&secret, CIPHER, Direction::Sender),
            largest: 0,
        }
    }

    /// The datagram with the first bit of its payload changed.
    pub fn change(&mut self, datagram: &[u8]) -> Vec<u8> {
        let (header, truncated) = Header::decode(datagram).unwrap();
        let number = decode_packet_number(truncated, self.largest + 1);
        self.largest = self.largest.max(number);
        let mut changed = datagram.to_vec();
        let (clear, sealed) = changed.split_at_mut(header.len());
        let len = self.opener.open(number, clear, sealed).expect("the keys fit");
        let (body, tag) = sealed.split_at_mut(len);
        body[0] ^= 1;
        tag.copy_from_slice(&self.sealer.seal(number, clear, body));
        changed
    }
}

/// A `from` and a `to` directory.
pub struct World(TempDir);

impl World {
    pub fn new() -> World {
        let world = World(tempfile::tempdir().unwrap());
        for name in ["from", "to"] {
            fs::create_dir(world.0.path().join(name)).unwrap();
        }
        world
    }

    /// With one file of incompressible bytes in `from`.
    pub fn with_file(name: &str, len: usize) -> World {
        let world = World::new();
        world.write(name, &content(len, 1));
        world
    }

    pub fn from(&self) -> PathBuf {
        self.0.path().join("from")
    }

    pub fn to(&self) -> PathBuf {
        self.0.path().join("to")
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.from().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The contents of `from`.
    pub fn source(&self) -> Source {
        let path = [self.from().as_os_str().as_bytes(), b"/"].concat();
        let spec = SourceSpec {
            base: Base::Ambient,
            paths: vec![path],
            recursive: true,
            preserve: false,
            compress: false,
        };
        Source::open(spec).unwrap()
    }

    /// Into `to`.
    pub fn sink(&self, source: &Source) -> Sink {
        let destination = self.to().as_os_str().as_bytes().to_vec();
        Sink::open(SinkSpec { base: Base::Ambient, destination, shape: source.shape(), preserve: false })
            .unwrap()
    }

    /// A session from `from` to `to`, pushed, with nobody between.
    pub fn spec(&self) -> Spec {
        let source = self.source();
        let sink = self.sink(&source);
        Spec { source, sink, client: End::Sender, datagrams: None, messages: None }
    }

    #[track_caller]
    pub fn expect_copied(&self) {
        assert_eq!(tree(&self.to()), tree(&self.from()));
    }

    /// Nothing under its final name, and nothing temporary.
    #[track_caller]
    pub fn expect_nothing(&self) {
        assert_eq!(tree(&self.to()).into_keys().collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }

    /// Waits until something is being stored.
    pub fn wait_for_storing(&self) {
        wait_until("something is stored", || !tree(&self.to()).is_empty());
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "still not so: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Everything below `top`: files with their content, directories with none.
fn tree(top: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    // What vanishes meanwhile was temporary.
    walk.filter_map(|entry| entry.ok())
        .filter_map(|entry| {
            let content = match entry.file_type().is_dir() {
                true => None,
                false => Some(fs::read(entry.path()).ok()?),
            };
            Some((entry.path().strip_prefix(top).unwrap().to_owned(), content))
        })
        .collect()
}

/// Bytes that differ everywhere and do not compress.
pub fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut data);
    data
}
