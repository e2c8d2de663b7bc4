//! How fast a session of this host with itself carries data from memory to memory: sealed, sent over the
//! loopback interface, received, opened, verified and thrown away, by the threads that copy files.

use super::stream::Zeros;
use crate::session::{receiver_config, sender_config, udp_options};
use fobs_channel::control::pair::connected;
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_channel::secure::datagram::{Cipher, Direction};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_engine::memory::history::RememberedPath;
use fobs_engine::memory::lessons::Lessons;
use fobs_engine::{
    Clock, Endurance, LinkSetup, PathValidation, ReceiveJob, RemedyPolicy, Reporter, SendJob, Steering,
    Throttle, tell_abort,
};
use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::event::Event;
use fobs_model::host_facts::{PacketSpeed, ThreadLimit};
use fobs_model::measured::Measured;
use fobs_model::message::Sending;
use fobs_model::options::sync::Delta;
use fobs_model::sample::{ReceiverSample, SenderSample};
use fobs_proto::session::{CHUNKS_MAX, LANES_UNCHOSEN_MAX, Side, ThreadCosts};
use fobs_store::{Sink, Source, SourceShape};
use fobs_sys::confine::spawn;
use fobs_sys::{UdpSocket, Waker};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For how long data is sent: a thousand round trips of the loopback interface, so that the opening of the
/// controller counts for little.
const TIME: Duration = Duration::from_millis(300);
/// When a session that has not ended is ended: what arrived until then counts.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Data bytes of a packet on a path of 1500 bytes.
const PACKET_LEN: u16 = 1444;
/// Least data by which the costs of threads are judged, bytes: what a session of 1 Gbit/s carries in a third
/// of its time.
const SEEN_MIN: u64 = 12 << 20;
/// Chunks that the receiver has room for: a few, for the memory of a daemon is not a client's to fill.
const CHUNKS: u32 = 16;

/// The speeds; `None` where no data passes over the loopback interface.
pub(super) fn speed() -> Option<PacketSpeed> {
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let bind = || UdpSocket::bind(SocketAddr::new(here, 0), &udp_options(None)).ok();
    let (from, to) = (bind()?, bind()?);
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).ok()?;
    let called = to.local_addr();
    let (sending, receiving) = connected("the sender", "the receiver").ok()?;
    let cancel = CancelToken::new();
    let tally = Tally::default();
    let link = |socket, direction| link(socket, direction, &secret, called);
    let threads_seen = ThreadsSeen::default();
    let send = send_job(link(from, Direction::Sender)?, sending, &cancel, threads_seen.clone()).ok()?;
    let receive = receive_job(link(to, Direction::Receiver)?, receiving, &cancel, tally.clone()).ok()?;
    let began = Instant::now();
    let (left, over) = sync_channel::<()>(2);
    let threads = [
        end("fobs-try-send", left.clone(), send, |job| fobs_engine::send(job).map(drop)),
        end("fobs-try-receive", left, receive, |job| fobs_engine::receive(job).map(drop)),
    ];
    for _ in &threads {
        if over.recv_timeout((began + TIME_MAX).saturating_duration_since(Instant::now())).is_err() {
            cancel.cancel();
            break;
        }
    }
    for thread in threads.into_iter().flatten() {
        // A session that failed has carried what the tally says.
        let _ = thread.join();
    }
    let bps = tally.bps(began)?;
    let apart = threads_seen.limit();
    Some(PacketSpeed { send_bps: bps, receive_bps: bps, apart })
}

/// What one end of the session runs with.
struct Job<J> {
    job: J,
    writer: ControlWriter,
}

/// Runs an end in a thread, which tells the other one why it ends early.
fn end<J: Send + 'static>(
    name: &str,
    left: SyncSender<()>,
    Job { job, writer }: Job<J>,
    run: impl FnOnce(J) -> Result<()> + Send + 'static,
) -> Option<thread::JoinHandle<()>> {
    let work = move || {
        if let Err(error) = run(job) {
            tell_abort(&writer, &error);
        }
        writer.close();
        // Nobody waits for an end that takes too long.
        let _ = left.send(());
    };
    spawn(name, work).ok()
}

fn link(socket: UdpSocket, direction: Direction, secret: &[u8; 32], called: SocketAddr) -> Option<LinkSetup> {
    let keys = SessionKeys::derive(SessionSecret::told(secret)?, KeySchedule::Second, Cipher::Aes128Gcm);
    let (side, candidates) = match direction {
        Direction::Sender => (Side::Client, vec![called]),
        Direction::Receiver => (Side::Server, Vec::new()),
    };
    Some(LinkSetup {
        socket,
        waker: Waker::new().ok()?,
        clock: Clock::start(),
        keys: keys.datagrams,
        direction,
        side,
        candidates,
        named: Vec::new(),
        validation: PathValidation::Challenge { proven: Some(called.ip()) },
    })
}

fn send_job(
    link: LinkSetup,
    channel: ControlChannel,
    cancel: &CancelToken,
    seen: ThreadsSeen,
) -> Result<Job<SendJob>> {
    let sending = Sending { cc: "auto".to_owned(), ..Sending::default() };
    let writer = channel.writer.clone();
    let job = SendJob {
        link,
        lanes: None,
        late: None,
        streams: None,
        source: Source::from_stream(Box::new(Zeros::new(TIME)), false)?,
        survey: None,
        delta: Delta::Never,
        config: sender_config(&sending, Some(PACKET_LEN), CHUNKS, CHUNKS_MAX)?,
        endurance: Endurance::for_peer(None),
        reader: channel.reader,
        writer: channel.writer.clone(),
        reporter: Reporter::new(Arc::new(move |event| seen.take(event)), channel.writer),
        cancel: cancel.clone(),
        throttle: Throttle::default(),
        far_limit_bps: None,
        deadline: None,
        remembered: RememberedPath::nowhere(),
        answered: None,
        lessons: Lessons::nowhere(),
        steering: Steering::new(),
        peer_name: channel.peer.description,
        ports: String::new(),
    };
    Ok(Job { job, writer })
}

fn receive_job(
    link: LinkSetup,
    channel: ControlChannel,
    cancel: &CancelToken,
    tally: Tally,
) -> Result<Job<ReceiveJob>> {
    let writer = channel.writer.clone();
    let job = ReceiveJob {
        link,
        lanes: None,
        late: None,
        streams: None,
        sink: Sink::to_stream(Box::new(tally), SourceShape::Stream)?,
        survey: None,
        config: receiver_config(None, CHUNKS_MAX),
        remedies: RemedyPolicy::Leave,
        endurance: Endurance::for_peer(None),
        reader: channel.reader,
        writer: channel.writer.clone(),
        reporter: Reporter::new(Arc::new(|_: Event| ()), channel.writer),
        cancel: cancel.clone(),
        throttle: Throttle::default(),
        steering: Steering::new(),
        peer_name: channel.peer.description,
        ports: String::new(),
    };
    Ok(Job { job, writer })
}

/// The newest samples of both ends: each tells the other.
#[derive(Clone, Default)]
struct ThreadsSeen(Arc<Mutex<(SenderSample, ReceiverSample)>>);

impl ThreadsSeen {
    fn take(&self, event: Event) {
        let Event::Measured(measured) = event else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *measured {
            Measured::Sender(sample) => seen.0 = sample,
            Measured::Receiver(sample) => seen.1 = sample,
            _ => {}
        }
    }

    /// What the costs of the threads say of a session of two such hosts; `None` where too little was seen.
    fn limit(&self) -> Option<ThreadLimit> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        limit_of(&seen.0, &seen.1, fobs_sys::cores())
    }
}

/// Likewise, of hosts with `cores`.
fn limit_of(sender: &SenderSample, receiver: &ReceiverSample, cores: usize) -> Option<ThreadLimit> {
    let for_a_gigabyte = |us: u64, bytes: u64| us as f64 / 1e6 / (bytes as f64 / 1e9);
    if sender.bytes_sent < SEEN_MIN || receiver.bytes < SEEN_MIN {
        return None;
    }
    let [sealing, reading] =
        [sender.cpu, sender.reader.cpu].map(|cpu| for_a_gigabyte(cpu.run_us, sender.bytes_sent));
    let [opening, verifying] =
        [receiver.cpu, receiver.writer.cpu].map(|cpu| for_a_gigabyte(cpu.run_us, receiver.bytes));
    let ends = [sealing + reading, opening + verifying];
    let costs = ThreadCosts { sealing, reading, opening, verifying, storing: 0.0, ends };
    let (stage, gbps) = costs.limit(cores, 1);
    let lanes = costs.lanes(cores, usize::from(LANES_UNCHOSEN_MAX));
    let (_, lanes_gbps) = costs.limit(cores, lanes);
    gbps.is_finite().then(|| ThreadLimit {
        bps: gbps * 1e9,
        thread: stage.name().to_owned(),
        lanes: u32::try_from(lanes).unwrap_or(1),
        lanes_bps: lanes_gbps * 1e9,
    })
}

/// Counts what has arrived, and when the last of it did.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<(u64, Option<Instant>)>>);

impl Tally {
    /// Bits per second from `began` until the last arrival.
    fn bps(&self, began: Instant) -> Option<f64> {
        let (bytes, last) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let time = last?.saturating_duration_since(began);
        (bytes > 0 && !time.is_zero()).then(|| bytes as f64 * 8.0 / time.as_secs_f64())
    }
}

impl Write for Tally {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *tally = (tally.0 + data.len() as u64, Some(Instant::now()));
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_model::sample::{Cpu, Work};

    #[test]
    fn a_session_with_itself_carries_data() {
        let began = Instant::now();
        let speed = speed().expect("the loopback interface carries packets");
        assert!(speed.send_bps > 1e6 && speed.receive_bps == speed.send_bps, "{speed:?}");
        assert!(began.elapsed() > TIME, "data is sent for the whole time");
    }

    #[test]
    fn the_thread_that_costs_most_is_next() {
        let cpu = |run_us| Cpu { run_us, delay_us: 0 };
        let work = |run_us| Work { cpu: cpu(run_us), ..Work::default() };
        let gigabyte = 1_000_000_000;
        let sender = |sealing, reading| SenderSample {
            bytes_sent: gigabyte,
            cpu: cpu(sealing),
            reader: work(reading),
            ..SenderSample::default()
        };
        let receiver = ReceiverSample {
            bytes: gigabyte,
            cpu: cpu(200_000),
            writer: work(100_000),
            ..Default::default()
        };
        let limit = limit_of(&sender(250_000, 100_000), &receiver, 8).expect("enough was seen");
        assert!(limit.thread == "sealing and sending" && (limit.bps - 32e9).abs() < 1e6, "{limit:?}");
        assert!(limit.lanes > 1 && limit.lanes_bps > limit.bps, "{limit:?}");
        let limit = limit_of(&sender(100_000, 100_000), &receiver, 8).expect("enough was seen");
        assert!(limit.thread == "receiving and opening" && (limit.bps - 40e9).abs() < 1e6, "{limit:?}");
        let limit = limit_of(&sender(250_000, 100_000), &receiver, 1).expect("enough was seen");
        assert!(limit.thread == "all cores" && limit.lanes == 1, "{limit:?}");
        assert_eq!(limit_of(&SenderSample::default(), &receiver, 8), None);
    }

    #[test]
    fn a_rate_counts_until_the_last_arrival() {
        let (mut tally, began) = (Tally::default(), Instant::now());
        assert_eq!(tally.bps(began), None, "nothing arrived");
        assert_eq!(tally.write(&[0; 1000]).unwrap(), 1000);
        let bps = tally.bps(began - Duration::from_secs(1)).expect("a rate");
        assert!((4000.0..=8000.0).contains(&bps), "{bps}");
    }
}
