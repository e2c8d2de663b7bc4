//! Pipes whose connections break: they go on over new ones while both ends live, and what either end was
//! given is right whatever happens.

mod relay;
mod served;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fobs::options::Transport;
use fobs::{ErrorKind, Location, Remote, Stream, StreamBuilder, TransferOptions};
use fobs_rng::Rng;
use relay::Relay;
use served::{Served, content, wait_for};

/// How long anything may take; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a pipe is waited for that may have been given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// Runs at once: most of their time is that of waits.
const WORKERS: usize = 8;
/// A window that holds everything of these tests.
const WINDOW: u64 = 8 << 20;

/// A daemon behind a relay that can cut its connections.
struct Behind {
    served: Served,
    relay: Relay,
}

impl Behind {
    fn start(rights: &str) -> Behind {
        let served = Served::start(|options| options.sessions_max = 64);
        served.authorize_client_with(rights);
        let relay = Relay::start(served.address());
        Behind { served, relay }
    }

    fn remote(&self, path: &str) -> Remote {
        let Location::Remote(remote) = self.served.remote(path) else { panic!("a remote") };
        Remote { port: Some(self.relay.address().port()), ..remote }
    }

    fn options(&self) -> TransferOptions {
        TransferOptions { resume_window: WINDOW, ..self.served.options() }
    }

    fn to(&self, name: &str) -> StreamBuilder {
        Stream::to(self.remote(name)).options(self.options())
    }

    fn expect_nothing_left(&self) {
        wait_for(|| (self.served.handle.sessions() == 0).then_some(()));
    }
}

/// Reads `count` bytes.
fn read(mut stream: &Stream, count: usize) -> Vec<u8> {
    let mut got = vec![0; count];
    stream.read_exact(&mut got).unwrap();
    got
}

#[test]
fn a_command_goes_on_where_its_connection_broke() {
    let behind = Behind::start("pipe=\"cat\"");
    for transport in [Transport::Auto, Transport::Udp, Transport::Tcp { count: None }, Transport::Channel] {
        let options = TransferOptions { transport, ..behind.options() };
        let stream = behind.to("").options(options).open().unwrap();
        let bytes = content(3_000_000);
        for (round, piece) in bytes.chunks(1_000_000).enumerate() {
            (&stream).write_all(&piece[..500_000]).unwrap();
            assert!(read(&stream, 500_000) == piece[..500_000], "{transport:?}, round {round}");
            behind.relay.cut();
            (&stream).write_all(&piece[500_000..]).unwrap();
            assert!(read(&stream, 500_000) == piece[500_000..], "{transport:?}, round {round}");
        }
        stream.shutdown_write().unwrap();
        behind.relay.cut();
        let mut rest = Vec::new();
        (&stream).read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        let ended = stream.finish().unwrap();
        assert_eq!((ended.sent.bytes, ended.received.bytes), (3_000_000, 3_000_000));
        assert_eq!(ended.end.exit_code(), 0);
    }
    behind.expect_nothing_left();
}

#[test]
fn two_programs_that_met_go_on_where_either_broke() {
    let behind = Behind::start("pipe-names");
    let listener = Stream::listen(behind.remote(""), "name", PATIENCE).options(behind.options());
    let listener = thread::spawn(move || listener.open().unwrap());
    let caller = wait_for(|| behind.to("name").open().ok());
    let listener = listener.join().unwrap();
    for round in 0..3_u8 {
        (&caller).write_all(&[round; 70_000]).unwrap();
        assert_eq!(read(&listener, 70_000), [round; 70_000]);
        behind.relay.cut();
        (&listener).write_all(&[round; 30_000]).unwrap();
        assert_eq!(read(&caller, 30_000), [round; 30_000]);
    }
    for stream in [&caller, &listener] {
        stream.shutdown_write().unwrap();
    }
    let others = thread::spawn(move || listener.finish().unwrap());
    caller.finish().unwrap();
    others.join().unwrap();
    behind.expect_nothing_left();
}

#[test]
fn without_a_window_a_pipe_ends_with_its_connection() {
    let behind = Behind::start("pipe=\"cat\"");
    let options = TransferOptions { resume_window: 0, ..behind.options() };
    let stream = behind.to("").options(options).open().unwrap();
    (&stream).write_all(b"half").unwrap();
    assert_eq!(read(&stream, 4), b"half");
    behind.relay.cut();
    let error = stream.wait().unwrap_err();
    assert!(error.kind == ErrorKind::Connect && error.message.contains("4 bytes had come"), "{error}");
    behind.expect_nothing_left();
}

#[test]
fn a_pipe_whose_server_is_gone_is_told_with_its_bytes() {
    let behind = Behind::start("pipe=\"cat\"");
    let options = TransferOptions { timeout: Duration::from_secs(3), ..behind.options() };
    let stream = behind.to("").options(options).open().unwrap();
    (&stream).write_all(b"half").unwrap();
    assert_eq!(read(&stream, 4), b"half");
    behind.relay.refuse();
    behind.relay.cut();
    let error = stream.wait().unwrap_err();
    assert!(error.kind == ErrorKind::Timeout && error.message.contains("4 bytes had come"), "{error}");
}

#[test]
fn a_server_that_shuts_down_ends_the_pipes_that_wait() {
    let mut behind = Behind::start("pipe=\"cat\"");
    let stream = behind.to("").open().unwrap();
    (&stream).write_all(b"half").unwrap();
    assert_eq!(read(&stream, 4), b"half");
    behind.relay.refuse();
    behind.relay.cut();
    behind.served.wait_for_notice(|line| line.contains("waits 60 s for its client"));
    behind.served.handle.drain();
    behind.served.thread.take().unwrap().join().unwrap().unwrap();
    stream.abort("enough");
    assert!(stream.wait().is_err());
}

/// What a run of the random test is made of.
#[derive(Debug, Clone)]
struct Run {
    transport: Transport,
    window: u64,
    /// Bytes each way.
    lens: [usize; 2],
    /// Bytes after which this end reads no more.
    reads: Option<usize>,
    /// When it is cut, milliseconds after each other.
    cuts: Vec<u64>,
    /// How long nothing gets through before the first cut.
    stall: u64,
    /// When this end is given up.
    abort: Option<u64>,
}

impl Run {
    fn of(random: &mut Rng) -> Run {
        let mut below = |most: usize| random.below(most);
        let transports =
            [Transport::Auto, Transport::Udp, Transport::Tcp { count: Some(2) }, Transport::Channel];
        Run {
            transport: transports[below(4)],
            window: [0, 1, 100_000, WINDOW, WINDOW, WINDOW][below(6)],
            lens: [below(400_000), below(400_000)],
            reads: (below(6) == 0).then(|| below(200_000)),
            cuts: (0..below(4)).map(|_| below(60) as u64).collect(),
            stall: if below(4) == 0 { below(150) as u64 } else { 0 },
            abort: (below(6) == 0).then(|| below(100) as u64),
        }
    }

    fn is_harmless(&self) -> bool {
        self.abort.is_none() && (self.window > 0 || self.cuts.is_empty())
    }
}

/// Writes in pieces, then ends; what it does not get rid of is its end's.
fn write_all(mut stream: &Stream, bytes: &[u8]) {
    let written = bytes.chunks(60_000).try_for_each(|piece| stream.write_all(piece));
    if written.is_ok() {
        // It may have failed meanwhile.
        let _ = stream.shutdown_write();
    }
}

/// What came; whether it came to its end.
fn read_all(mut stream: &Stream, most: Option<usize>) -> (Vec<u8>, io::Result<()>) {
    let (mut got, mut room) = (Vec::new(), vec![0; 50_000]);
    loop {
        if most.is_some_and(|most| got.len() >= most) {
            return (got, stream.shutdown_read());
        }
        match stream.read(&mut room) {
            Ok(0) => return (got, Ok(())),
            Ok(count) => got.extend(&room[..count]),
            Err(error) => return (got, Err(error)),
        }
    }
}

/// Plays a run between two programs that meet by this name, or with a command that sends everything back.
fn play(behind: &Behind, name: Option<&str>, run: &Run, bytes: &[Vec<u8>; 2]) {
    // A server waits for one that was given up while it was away, for so long.
    let timeout = if run.abort.is_some() { GIVEN_UP_AFTER } else { behind.options().timeout };
    let options =
        TransferOptions { transport: run.transport, resume_window: run.window, timeout, ..behind.options() };
    let (near, far) = match name {
        Some(name) => {
            let listener = Stream::listen(behind.remote(""), name, PATIENCE).options(options.clone());
            let listener = thread::spawn(move || listener.open());
            let caller = wait_for(|| behind.to(name).options(options.clone()).open().ok());
            (caller, Some(listener.join().unwrap().unwrap()))
        }
        None => (behind.to("").options(options).open().unwrap(), None),
    };
    let expected = if far.is_some() { &bytes[1] } else { &bytes[0] };
    thread::scope(|scope| {
        let writing = scope.spawn(|| write_all(&near, &bytes[0]));
        let reading = scope.spawn(|| read_all(&near, run.reads));
        let there = far.as_ref().map(|far| {
            (scope.spawn(move || write_all(far, &bytes[1])), scope.spawn(move || read_all(far, None)))
        });
        let harming = scope.spawn(|| {
            behind.relay.stall(Duration::from_millis(run.stall));
            for &wait in &run.cuts {
                thread::sleep(Duration::from_millis(wait));
                behind.relay.cut();
            }
            if let Some(at) = run.abort {
                thread::sleep(Duration::from_millis(at));
                near.abort("it is a test");
            }
        });
        let (got, read) = reading.join().unwrap();
        assert!(expected.starts_with(&got), "what came is not what was sent");
        writing.join().unwrap();
        harming.join().unwrap();
        let near_end = near.wait_or_finish();
        let far_end = there.map(|(writing, reading)| {
            writing.join().unwrap();
            let (got, read) = reading.join().unwrap();
            assert!(bytes[0].starts_with(&got), "what came there is not what was sent");
            (far.as_ref().unwrap().wait_or_finish(), read.is_ok().then_some(got))
        });
        if near_end.is_ok() && read.is_ok() && run.reads.is_none() {
            assert!(&got == expected, "{} of {} bytes, and no error", got.len(), expected.len());
        }
        if let Some((Ok(()), Some(got))) = &far_end {
            assert!(*got == bytes[0], "{} of {} bytes there, and no error", got.len(), bytes[0].len());
        }
        if run.is_harmless() {
            near_end.unwrap();
            far_end.map_or(Ok(()), |(end, _)| end).unwrap();
        }
    });
}

/// How a stream has ended, once it has.
trait Ends {
    fn wait_or_finish(&self) -> fobs::Result<()>;
}

impl Ends for Stream {
    fn wait_or_finish(&self) -> fobs::Result<()> {
        self.end().map(drop)
    }
}

/// Plays runs of a seed in some threads at once; none may take for ever.
fn play_many(runs: u32, first_seed: u64) {
    let rights = |worker: usize| if worker % 3 == 1 { "pipe=\"cat\"" } else { "pipe-names" };
    let behind = Arc::new((0..WORKERS).map(|worker| Behind::start(rights(worker))).collect::<Vec<_>>());
    let bytes = Arc::new([content(400_000), content(400_000).into_iter().rev().collect::<Vec<u8>>()]);
    let next = Arc::new(AtomicU32::new(0));
    let (done, ended) = channel();
    for worker in 0..WORKERS {
        let (behind, bytes, next, done) = (behind.clone(), bytes.clone(), next.clone(), done.clone());
        thread::spawn(move || {
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if number >= runs {
                    return;
                }
                let seed = first_seed + u64::from(number);
                let run = Run::of(&mut Rng::new(seed));
                let lens = run.lens;
                let parts = [bytes[0][..lens[0]].to_vec(), bytes[1][..lens[1]].to_vec()];
                // Each relay serves one worker: a cut is of one run.
                let name = (worker % 3 != 1).then(|| format!("run{number}"));
                println!("seed {seed}: {run:?}");
                let began = std::time::Instant::now();
                let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    play(&behind[worker], name.as_deref(), &run, &parts);
                }));
                println!("seed {seed} took {:?}", began.elapsed());
                let _ = done.send((seed, run, played.is_ok()));
            }
        });
    }
    drop(done);
    for _ in 0..runs {
        let (seed, run, is_right) =
            ended.recv_timeout(PATIENCE).expect("a run takes for ever; see the last seeds");
        assert!(is_right, "FOBS_TEST_SEED={seed}: {run:?}");
    }
    behind.iter().for_each(Behind::expect_nothing_left);
}

#[test]
fn random_cuts_stalls_and_ends_lose_nothing_in_silence() {
    let seed = std::env::var("FOBS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let runs = if cfg!(feature = "long") { 10_000 } else { 60 };
    play_many(seed.map_or(runs, |_| 1), seed.unwrap_or(1));
}
