//! Pipes at random: connections that are cut, held up and refused, programs that rest, end a direction, give
//! up, or are killed. What either end was given is right, what it is told of it is so, and nobody waits for
//! ever. `crates/fobs-cli/tests/e2e/pipe_faults.rs` kills the processes of pipes.
//!
//! `FOBS_TEST_SEED` plays the run of that seed; `FOBS_TEST_RUNS` is the number of runs from there on.

mod relay;
mod served;

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fobs::options::Transport;
use fobs::{ErrorKind, Piped, Stream, TransferOptions};
use fobs_rng::Rng;
use relay::{Behind, WINDOW};
use served::{content, wait_for};

/// How long a run may take; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a pipe is waited for that may have been given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
/// Runs at once: most of their time is that of waits.
const WORKERS: usize = 12;
/// Runs that `make test` plays, and `make test-long`.
const RUNS: u32 = if cfg!(feature = "long") { 10_000 } else { 80 };
/// Most bytes of one direction.
const BYTES_MAX: usize = 400_000;
/// What a command says after it has closed its input.
const LAST_WORDS: &[u8] = b"and that is all";
/// The command of the key's line: what its name says.
const SCRIPT: &str = "#!/bin/sh\n\
    bytes=${1#*-}\n\
    case $1 in\n\
    echo) exec cat ;;\n\
    killed-*) head -c \"$bytes\"; kill -KILL $$ ;;\n\
    fails-*) head -c \"$bytes\"; exit 7 ;;\n\
    closes-*) head -c \"$bytes\"; exec <&-; sleep 0.05; printf 'and that is all' ;;\n\
    esac\n";

/// What is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Far {
    /// Another stream, which meets this one by a name.
    Stream,
    /// A command that sends back what it gets.
    Echo,
    /// One that does so for some bytes, and is killed, fails, or closes its input.
    Killed(usize),
    Fails(usize),
    Closes(usize),
}

impl Far {
    /// The name that says so to the script.
    fn name(self, seed: u64) -> String {
        match self {
            Far::Stream => format!("run{seed}"),
            Far::Echo => "echo".to_owned(),
            Far::Killed(bytes) => format!("killed-{bytes}"),
            Far::Fails(bytes) => format!("fails-{bytes}"),
            Far::Closes(bytes) => format!("closes-{bytes}"),
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Far::Killed(_) => 128 + 9,
            Far::Fails(_) => 7,
            Far::Stream | Far::Echo | Far::Closes(_) => 0,
        }
    }
}

/// What a program does with its end.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// Bytes that it writes before it ends that direction.
    len: usize,
    /// Whether it first reads everything that comes.
    order: Order,
    /// Bytes after which it reads no more.
    reads: Option<usize>,
    /// How long it rests between reads, milliseconds.
    rests: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    BothAtOnce,
    ReadsFirst,
}

/// What befalls a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Cut,
    /// Nothing gets through for this time, milliseconds.
    Stall(u64),
    /// A cut, and no new connections for this time, milliseconds.
    Refuse(u64),
    /// This program gives up its end, or the other one does.
    Abort,
    AbortFar,
}

/// What a run is made of.
#[derive(Debug, Clone)]
struct Run {
    far: Far,
    transport: Transport,
    window: u64,
    /// This program, and the other one.
    programs: [Program; 2],
    /// What befalls it, and after how many milliseconds.
    harms: Vec<(u64, Harm)>,
}

impl Run {
    fn of(random: &mut Rng) -> Run {
        let transports =
            [Transport::Auto, Transport::Udp, Transport::Tcp { count: Some(2) }, Transport::Channel];
        let bytes = random.below(BYTES_MAX / 2);
        let far = random.pick(&[
            Far::Stream,
            Far::Stream,
            Far::Stream,
            Far::Echo,
            Far::Echo,
            Far::Killed(bytes),
            Far::Fails(bytes),
            Far::Closes(bytes),
        ]);
        let mut programs = [0, 1].map(|_| Program {
            len: random.below(BYTES_MAX),
            order: Order::BothAtOnce,
            reads: random.chance(0.15).then(|| random.below(BYTES_MAX / 2)),
            rests: if random.chance(0.15) { random.range(1, 20) } else { 0 },
        });
        if far == Far::Stream && random.chance(0.3) {
            // One alone: two would wait for each other.
            programs[random.below(2)].order = Order::ReadsFirst;
        }
        let harms = (0..random.below(5)).map(|_| (random.below(60) as u64, Harm::of(random))).collect();
        let window = random.pick(&[0, 1, 100_000, WINDOW, WINDOW, WINDOW]);
        Run { far, transport: random.pick(&transports), window, programs, harms }
    }

    fn has(&self, which: impl Fn(Harm) -> bool) -> bool {
        self.harms.iter().any(|&(_, harm)| which(harm))
    }

    /// Whether one of both gives up.
    fn is_given_up(&self) -> bool {
        self.has(|harm| harm == Harm::Abort || (harm == Harm::AbortFar && self.far == Far::Stream))
    }

    /// Whether it must end well.
    fn is_harmless(&self) -> bool {
        let breaks = self.has(|harm| matches!(harm, Harm::Cut | Harm::Refuse(_)));
        !self.is_given_up() && (self.window > 0 || !breaks)
    }

    /// What comes to this program of what both write.
    fn comes(&self, bytes: &[Vec<u8>; 2]) -> Vec<u8> {
        let first = |count: usize| bytes[0][..count.min(bytes[0].len())].to_vec();
        match self.far {
            Far::Stream => bytes[1].clone(),
            Far::Echo => bytes[0].clone(),
            Far::Killed(count) | Far::Fails(count) => first(count),
            Far::Closes(count) => [&first(count), LAST_WORDS].concat(),
        }
    }
}

impl Harm {
    fn of(random: &mut Rng) -> Harm {
        let time = random.below(150) as u64;
        match random.below(20) {
            0..=9 => Harm::Cut,
            10..=14 => Harm::Stall(time),
            15..=17 => Harm::Refuse(4 * time),
            18 => Harm::Abort,
            _ => Harm::AbortFar,
        }
    }

    fn befall(self, behind: &Behind, near: &Stream, far: Option<&Stream>) {
        match self {
            Harm::Cut => behind.relay.cut(),
            Harm::Stall(time) => behind.relay.stall(Duration::from_millis(time)),
            Harm::Refuse(time) => {
                behind.relay.refuse();
                behind.relay.cut();
                thread::sleep(Duration::from_millis(time));
                behind.relay.admit();
            }
            Harm::Abort => near.abort("it is a test"),
            Harm::AbortFar => {
                if let Some(far) = far {
                    far.abort("it is a test");
                }
            }
        }
    }
}

/// What a program had at the end.
struct Had {
    got: Vec<u8>,
    /// How its reading ended.
    read: io::Result<()>,
    end: fobs::Result<Piped>,
}

impl Program {
    /// Does what it does with its end.
    fn run(self, stream: &Stream, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        if self.order == Order::ReadsFirst {
            let had = self.read_all(stream);
            write_all(stream, bytes);
            return had;
        }
        thread::scope(|scope| {
            scope.spawn(|| write_all(stream, bytes));
            self.read_all(stream)
        })
    }

    /// What came; how it ended.
    fn read_all(self, mut stream: &Stream) -> (Vec<u8>, io::Result<()>) {
        let (mut got, mut room) = (Vec::new(), vec![0; 50_000]);
        loop {
            if self.reads.is_some_and(|most| got.len() >= most) {
                return (got, stream.shutdown_read());
            }
            match stream.read(&mut room) {
                Ok(0) => return (got, Ok(())),
                Ok(count) => got.extend(&room[..count]),
                Err(error) => return (got, Err(error)),
            }
            thread::sleep(Duration::from_millis(self.rests));
        }
    }

    /// Compares what it had with what was to come.
    fn check(self, who: &str, had: &Had, expected: &[u8], is_harmless: bool) {
        let Had { got, read, end } = had;
        assert!(expected.starts_with(got), "{who}: what came is not what was sent");
        let all = format!("{who}: {} of {} bytes", got.len(), expected.len());
        match (read, self.reads) {
            (Ok(()), None) => assert!(got == expected, "{all}, and an end"),
            (Err(error), None) => {
                let said = error.to_string();
                assert!(said.contains(&format!("; {} bytes had come", got.len())), "{all}: {said}");
                assert!(end.is_err(), "{all}: it ended well after {said}");
            }
            (_, Some(_)) => {}
        }
        if let Err(error) = end {
            assert!(!is_harmless, "{all}: {error}");
            assert!(error.kind != ErrorKind::Internal, "{all}: {error}");
        }
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

/// The two ends of a run, or the one where the other is a command.
fn open(behind: &Behind, run: &Run, seed: u64) -> (Stream, Option<Stream>) {
    // A server waits for one that was given up while it was away, for so long.
    let timeout = if run.is_given_up() { GIVEN_UP_AFTER } else { behind.options().timeout };
    let options =
        TransferOptions { transport: run.transport, resume_window: run.window, timeout, ..behind.options() };
    let name = run.far.name(seed);
    if run.far != Far::Stream {
        let script = behind.served.root().join("script");
        behind.served.authorize_client_with(&format!("pipe=\"{} %k\"", script.display()));
        return (behind.to(&name).options(options).open().unwrap(), None);
    }
    behind.served.authorize_client_with("pipe-names");
    let listener = Stream::listen(behind.remote(""), name.clone(), PATIENCE).options(options.clone());
    let listener = thread::spawn(move || listener.open());
    let caller = wait_for(|| behind.to(&name).options(options.clone()).open().ok());
    (caller, Some(listener.join().unwrap().unwrap()))
}

fn play(behind: &Behind, seed: u64, run: &Run, content: &[Vec<u8>; 2]) {
    let (near, far) = open(behind, run, seed);
    let bytes = [0, 1].map(|end: usize| content[end][..run.programs[end].len].to_vec());
    let [here, there] = run.programs;
    let ends = |program: Program, stream: &Stream, bytes: &[u8]| {
        let (got, read) = program.run(stream, bytes);
        Had { got, read, end: stream.end() }
    };
    let (near_had, far_had) = thread::scope(|scope| {
        let near_end = scope.spawn(|| ends(here, &near, &bytes[0]));
        let far_end = far.as_ref().map(|far| scope.spawn(|| ends(there, far, &bytes[1])));
        for &(wait, harm) in &run.harms {
            thread::sleep(Duration::from_millis(wait));
            harm.befall(behind, &near, far.as_ref());
        }
        (near_end.join().unwrap(), far_end.map(|it| it.join().unwrap()))
    });
    here.check("this end", &near_had, &run.comes(&bytes), run.is_harmless());
    if let Some(far_had) = far_had {
        there.check("the other end", &far_had, &bytes[0], run.is_harmless());
    } else if let Ok(piped) = &near_had.end
        && here.reads.is_none()
    {
        assert_eq!(piped.end.exit_code(), run.far.exit_code());
    }
}

/// A daemon with the script that its key may run.
fn with_script() -> Behind {
    let behind = Behind::start("pipe-names");
    let script = behind.served.root().join("script");
    std::fs::write(&script, SCRIPT).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    behind
}

/// Plays runs from this seed on, some at once; none may take for ever.
fn play_many(first_seed: u64, runs: u32) {
    let behind = Arc::new((0..WORKERS).map(|_| with_script()).collect::<Vec<_>>());
    let content = content(2 * BYTES_MAX);
    let bytes = Arc::new([content[..BYTES_MAX].to_vec(), content[BYTES_MAX..].to_vec()]);
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
                // The test may have failed meanwhile.
                let _ = done.send((seed, None));
                // Each relay serves one worker: a cut is of one run.
                let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    play(&behind[worker], seed, &run, &bytes);
                }));
                behind[worker].served.forget_log();
                let _ = done.send((seed, Some((run, played.is_ok()))));
            }
        });
    }
    drop(done);
    let mut running = std::collections::BTreeMap::new();
    loop {
        match ended.recv_timeout(Duration::from_secs(1)) {
            Ok((seed, None)) => drop(running.insert(seed, Instant::now())),
            Ok((seed, Some((run, is_right)))) => {
                assert!(is_right, "FOBS_TEST_SEED={seed}: {run:?}");
                running.remove(&seed);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let late = running.iter().find(|(_, began)| began.elapsed() > PATIENCE);
        assert!(late.is_none(), "a run takes for ever: FOBS_TEST_SEED={}", late.unwrap().0);
    }
    behind.iter().for_each(Behind::expect_nothing_left);
}

/// A number from the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn pipes_at_random_lose_nothing_in_silence_and_end() {
    let seed = given("FOBS_TEST_SEED");
    let runs = given("FOBS_TEST_RUNS").map_or(RUNS, |runs| u32::try_from(runs).unwrap());
    let runs = if seed.is_some() && given("FOBS_TEST_RUNS").is_none() { 1 } else { runs };
    play_many(seed.unwrap_or(1), runs);
}
