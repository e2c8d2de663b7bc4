//! Two ends of a session, and between them a relay of datagrams and one of control messages.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fobs_proto::session::{Side, TransportChoice};
use fobs_sys::{UdpSocket, Waker};
use tempfile::TempDir;

pub use super::channel::{Control, Messages};
pub use super::content::content;
use super::content::tree;
use super::doors::streams_of;
pub use super::doors::{Doors, Fate};
pub use super::relay::{
    Datagrams, FaultyMemory, Out, data_header, hold_back, hold_back_until, spoiling, spoiling_chunk,
    spoiling_from,
};

use super::lanes::Lanes;
use super::late_lanes::late_lanes;
use super::relay::Relay;
use crate::memory::history::RememberedPath;
use crate::memory::lessons::Lessons;
use crate::receive::{ReceiveJob, ReceiveOutcome, receive};
use crate::send::{SendJob, SendOutcome, send};
use crate::{
    CHUNKS_MAX, Clock, LinkSetup, RemedyPolicy, Reporter, Steering, Throttle, receiver_config, sender_config,
    tell_abort, udp_options,
};
pub use crate::{Endurance, PathValidation};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_channel::secure::schedule::{DatagramKeys, KeySchedule, SessionKeys, SessionSecret};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{ErrorKind, Result};
use fobs_model::event::{Event, EventSink, FileError};
use fobs_model::measured::Measured;
use fobs_model::message::Sending;
use fobs_model::options::Preserve;
use fobs_model::options::sync::Delta;
use fobs_store::delta::{Cutting, Offers};
use fobs_store::survey::{Checksums, Compare, CompareBy, ListingForm, Rules};
use fobs_store::{Above, Base, Partial, Sink, SinkSpec, Source, SourceSpec, SpecialThere};

pub const SECRET: [u8; 32] = [7; 32];
/// New addresses are challenged, and the first one need not be: the control channel proves the loopback.
pub const VALIDATION: PathValidation =
    PathValidation::Challenge { proven: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)) };
pub const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
/// Ports of lanes that are added.
pub const LATE_PORTS: (u16, u16) = (40_000, 60_000);
/// How long a test waits for an event; only a failing one waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any session takes on a busy machine.
const SESSION_MAX: Duration = Duration::from_secs(120);

/// One end of the data's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

impl End {
    pub const BOTH: [End; 2] = [End::Sender, End::Receiver];
}

/// Parts of a session.
pub struct Spec {
    pub source: Source,
    pub sink: Sink,
    /// Whether the sender lists and the receiver decides.
    pub survey: Option<Rules>,
    /// The end that called: the client sends first.
    pub client: End,
    pub endurance: Endurance,
    /// That of the end that was called, where it is another one.
    pub of_server: Option<Endurance>,
    pub validation: PathValidation,
    pub datagrams: Option<Datagrams>,
    /// A lane beside the first for each, with what its path does.
    pub lanes: Vec<Option<Datagrams>>,
    /// Lanes that the client adds, one after another, whatever the threads do.
    pub late: u8,
    /// Where the other end binds them.
    pub late_ports: (u16, u16),
    /// The user's limit on the rate, bits per second.
    pub limit_bps: Option<u64>,
    /// What makes streams, and what the user chose.
    pub streams: Option<(Doors, TransportChoice)>,
    pub messages: Option<Messages>,
    /// With a survey: the key of the names of pieces, where the receiver lists what it has.
    pub pieces: Option<[u8; 32]>,
    /// How files of one length may be listed then.
    pub cutting: Cutting,
}

impl Spec {
    fn endurance_of(&self, end: End) -> Endurance {
        if end == self.client { self.endurance } else { self.of_server.unwrap_or(self.endurance) }
    }
}

/// A running session.
pub struct Session {
    sender: JoinHandle<Result<SendOutcome>>,
    receiver: JoinHandle<Result<ReceiveOutcome>>,
    pub control: Arc<Control>,
    pub at_sender: Reported,
    pub at_receiver: Reported,
    /// What the user changes at the sender.
    pub steering: Steering,
    pub relay: Option<Arc<Relay>>,
    /// Those of further lanes.
    _relays: Vec<Relay>,
}

/// How both ends of a session ended.
pub type Ends = (Result<SendOutcome>, Result<ReceiveOutcome>);

/// Events and errors that one end reported.
#[derive(Clone)]
pub struct Reported {
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

impl Reported {
    fn new() -> Reported {
        Reported { events: Arc::default(), reporter: Arc::default() }
    }

    fn reporter(&self, channel: &ControlChannel) -> Arc<Reporter> {
        let new = || Reporter::new(self.events.clone(), channel.writer.clone());
        self.reporter.get_or_init(new).clone()
    }

    /// Names of the files that were reported as done, in order.
    pub fn files(&self) -> Vec<String> {
        let events = self.events.0.lock().unwrap();
        let done = events.iter().filter_map(|event| match event {
            Event::FileDone(fobs_model::event::FileDone { path, .. }) => {
                Some(String::from_utf8(path.clone()).unwrap())
            }
            _ => None,
        });
        done.collect()
    }

    /// What the number of lanes became, in order.
    pub fn lanes(&self) -> Vec<u8> {
        let events = self.events.0.lock().unwrap();
        let lanes = events.iter().filter_map(|event| match event {
            Event::Measured(measured) => match &**measured {
                Measured::Way(change) => change.lanes,
                _ => None,
            },
            _ => None,
        });
        lanes.collect()
    }

    /// The sentences for a person.
    pub fn notices(&self) -> Vec<String> {
        let events = self.events.0.lock().unwrap();
        let notices = events.iter().filter_map(|event| match event {
            Event::Notice(sentence) => Some(sentence.clone()),
            _ => None,
        });
        notices.collect()
    }

    /// Verified file bytes so far.
    pub fn bytes(&self) -> u64 {
        self.reporter.get().map_or(0, |reporter| reporter.bytes())
    }

    pub fn errors(&self) -> Vec<FileError> {
        self.reporter.get().expect("the session has begun").errors()
    }
}

impl Session {
    pub fn start(spec: Spec) -> Session {
        let [of_sender, of_receiver] = End::BOTH.map(|end| spec.endurance_of(end));
        let ([sender, receiver], server) = sockets(spec.client);
        let relay = spec.datagrams.map(|decide| Arc::new(Relay::start(spec.client, server, decide)));
        let called = relay.as_ref().map_or(server, |relay| relay.address);
        let link = |end: End, socket: UdpSocket| {
            let candidates = if end == spec.client { vec![called] } else { Vec::new() };
            let link = link_of(end, keys().datagrams, (socket, candidates), spec.validation);
            let keys = link.keys.with_pieces(spec.pieces.unwrap_or([1; 32]));
            LinkSetup { keys, ..link }
        };
        let (control, sender_channel, receiver_channel) = Control::start(spec.messages);
        let (at_sender, at_receiver, steering) = (Reported::new(), Reported::new(), Steering::new());
        let credit = if spec.client == End::Sender { CHUNKS_MAX } else { 0 };
        let (source, sink, listing, compare) =
            surveyed(spec.source, spec.sink, spec.survey, spec.pieces.map(|_| spec.cutting));
        let auto = Sending { cc: "auto".to_owned(), limit_bps: spec.limit_bps, ..Sending::default() };
        let Lanes { of_sender: lanes_of_sender, of_receiver: lanes_of_receiver, relays } =
            Lanes::start(spec.client, &auto, spec.lanes, spec.validation);
        let (late_of_sender, late_of_receiver) = late_lanes(spec.client, (spec.late, spec.late_ports), &auto);
        let job = SendJob {
            lanes: lanes_of_sender,
            late: late_of_sender,
            streams: streams_of(spec.streams.as_ref(), End::Sender),
            link: link(End::Sender, sender),
            source,
            survey: listing,
            delta: spec.pieces.map_or(Delta::Never, |_| Delta::Always),
            config: sender_config(&auto, None, credit, CHUNKS_MAX).unwrap(),
            endurance: of_sender,
            deadline: None,
            reporter: at_sender.reporter(&sender_channel),
            throttle: Throttle::default(),
            far_limit_bps: None,
            cancel: CancelToken::new(),
            reader: sender_channel.reader,
            writer: sender_channel.writer.clone(),
            remembered: RememberedPath::nowhere(),
            answered: None,
            lessons: Lessons::nowhere(),
            steering: steering.clone(),
            peer_name: "the receiver".to_owned(),
            ports: "port 7".to_owned(),
        };
        let writer = sender_channel.writer;
        let sender = thread::spawn(move || hanging_up(&writer, || send(job)));
        let job = ReceiveJob {
            lanes: lanes_of_receiver,
            late: late_of_receiver,
            streams: streams_of(spec.streams.as_ref(), End::Receiver),
            link: link(End::Receiver, receiver),
            survey: compare,
            sink,
            config: receiver_config(None, CHUNKS_MAX),
            remedies: RemedyPolicy::Leave,
            endurance: of_receiver,
            reporter: at_receiver.reporter(&receiver_channel),
            throttle: Throttle::default(),
            cancel: CancelToken::new(),
            reader: receiver_channel.reader,
            writer: receiver_channel.writer.clone(),
            steering: Steering::new(),
            peer_name: "the sender".to_owned(),
            ports: "port 7".to_owned(),
        };
        let writer = receiver_channel.writer;
        let receiver = thread::spawn(move || hanging_up(&writer, || receive(job)));
        Session { sender, receiver, control, at_sender, at_receiver, steering, relay, _relays: relays }
    }

    /// Waits for both ends, which must end some time.
    #[track_caller]
    pub fn join(self) -> (Result<SendOutcome>, Result<ReceiveOutcome>) {
        self.join_within(SESSION_MAX).expect("the session ends")
    }

    /// Likewise, for so long; which ends are not there then, the sender first.
    pub fn join_within(self, most: Duration) -> std::result::Result<Ends, [bool; 2]> {
        let began = Instant::now();
        loop {
            let [sender, receiver] = [self.sender.is_finished(), self.receiver.is_finished()];
            if sender && receiver {
                return Ok((self.sender.join().unwrap(), self.receiver.join().unwrap()));
            }
            if began.elapsed() > most {
                return Err([!sender, !receiver]);
            }
            thread::sleep(Duration::from_millis(1));
        }
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

/// Sockets of both ends, the sender's first, and the address of the one that is called.
pub fn sockets(client: End) -> ([UdpSocket; 2], SocketAddr) {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let [sender, receiver] = [(); 2].map(|()| UdpSocket::bind(here, &udp_options(None)).unwrap());
    let server = match client {
        End::Sender => receiver.local_addr(),
        End::Receiver => sender.local_addr(),
    };
    ([sender, receiver], server)
}

/// All keys of a test's session, once more.
pub fn keys() -> SessionKeys {
    SessionKeys::derive(SessionSecret::new(SECRET), KeySchedule::Second, CIPHER)
}

/// One end's part of the data plane, with the keys of one lane.
pub fn link_of(
    end: End,
    keys: DatagramKeys,
    (socket, candidates): (UdpSocket, Vec<SocketAddr>),
    validation: PathValidation,
) -> LinkSetup {
    LinkSetup {
        socket,
        waker: Waker::new().unwrap(),
        clock: Clock::start(),
        keys,
        direction: match end {
            End::Sender => Direction::Sender,
            End::Receiver => Direction::Receiver,
        },
        side: if candidates.is_empty() { Side::Server } else { Side::Client },
        candidates,
        named: Vec::new(),
        validation,
    }
}

/// Ends a session as client and server do: sends the reason, then hangs up.
fn hanging_up<T>(writer: &ControlWriter, session: impl FnOnce() -> Result<T>) -> Result<T> {
    let outcome = session().inspect_err(|error| tell_abort(writer, error));
    writer.close();
    outcome
}

/// Both ends' parts of a survey, if there is one.
fn surveyed(
    mut source: Source,
    mut sink: Sink,
    rules: Option<Rules>,
    lists: Option<Cutting>,
) -> (Source, Sink, Option<ListingForm>, Option<Compare>) {
    source.tell_identities();
    let listing = rules.map(|rules| match rules.compare {
        CompareBy::Content => Checksums::Listed.into(),
        CompareBy::Identity => Checksums::Omitted.into(),
    });
    let mut compare = rules.map(|rules| Compare::new(&mut sink, rules));
    if let (Some(compare), Some(cutting)) = (&mut compare, lists) {
        compare.offer(&mut sink);
        compare.offers().filter(|_| cutting.is_in_place()).iter().for_each(Offers::may_be_in_place);
    }
    (source, sink, listing, compare)
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
        Source::open(self.source_spec()).unwrap()
    }

    /// Specification of a source of `from`.
    pub fn source_spec(&self) -> SourceSpec {
        let path = [self.from().as_os_str().as_bytes(), b"/"].concat();
        SourceSpec {
            budget: fobs_model::budget::MemoryBudget::default(),
            privileges: fobs_model::options::Privileges::OfTheUser,
            sync: None,
            base: Base::Ambient,
            paths: vec![path],
            recursive: true,
            preserve: Preserve::default(),
            compress: false,
        }
    }

    /// Into `to`.
    pub fn sink(&self, source: &Source) -> Sink {
        Sink::open(self.sink_spec(source)).unwrap()
    }

    /// Specification of a sink into `to`.
    pub fn sink_spec(&self, source: &Source) -> SinkSpec {
        let destination = self.to().as_os_str().as_bytes().to_vec();
        SinkSpec {
            base: Base::Ambient,
            destination,
            shape: source.shape(),
            above: Above::Required,
            xattr_rules: Default::default(),
            preserve: Preserve::default(),
            fsync: false,
            keep: Partial::Discard,
            link_dest: Vec::new(),
            backup_dir: None,
            temp_dir: None,
            partial_dir: None,
            special: SpecialThere::default(),
            transfer_id: [0; 16],
            names: Vec::new(),
            client: None,
            privileges: fobs_model::options::Privileges::OfTheUser,
            terms: fobs_model::options::Terms::default(),
            holder: "tester".to_owned(),
            budget: fobs_model::budget::MemoryBudget::default(),
        }
    }

    /// A session from `from` to `to`, pushed, without relays.
    pub fn spec(&self) -> Spec {
        let source = self.source();
        let sink = self.sink(&source);
        let (endurance, validation) = (Endurance::for_peer(None), VALIDATION);
        Spec {
            source,
            sink,
            survey: None,
            client: End::Sender,
            endurance,
            of_server: None,
            validation,
            datagrams: None,
            lanes: Vec::new(),
            late: 0,
            late_ports: LATE_PORTS,
            limit_bps: None,
            streams: None,
            messages: None,
            pieces: None,
            cutting: Cutting::ByContent,
        }
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
