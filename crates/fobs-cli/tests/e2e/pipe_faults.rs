//! What befalls the processes of a pipe at random: the client, the other client, the command, the server and
//! the `ssh` are killed, ended or stopped, one after the other. What either program was given is right,
//! half of it is not taken for the whole, and everybody ends.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::case::Case;
use super::files::Random;
use super::pipe::{piping, processes_with, write_slowly};
use super::pipe_names::Served;
use super::sshd::Sshd;

/// Most bytes of a direction.
const BYTES_MAX: u64 = 4_000_000;

/// What leads to the other program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `ssh`, and a command there.
    Ssh,
    /// A daemon that runs the command of a key's line.
    Key,
    /// A daemon where two clients meet by a name.
    Name,
}

/// The process that it befalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Client,
    /// The other client, or the command.
    Far,
    Server,
    /// The client's `ssh`, where there is one.
    Ssh,
}

/// What befalls a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Signal(Signal),
    Stop(Duration),
}

/// What befalls a pipe, each after so long.
type Faults = Vec<(Duration, Who, Fault)>;

fn faults(random: &mut Random, way: Way) -> Faults {
    let mut of = |choices: u64| random.below(choices);
    let count = of(4);
    let mut some = Vec::new();
    for _ in 0..count {
        let wait = Duration::from_millis(of(300));
        let who = match (of(8), way) {
            (0 | 1, _) => Who::Client,
            (2 | 3, _) => Who::Far,
            (4, _) => Who::Server,
            (_, Way::Ssh) => Who::Ssh,
            (_, _) => Who::Client,
        };
        let fault = match of(6) {
            _ if who == Who::Ssh => Fault::Signal(Signal::KILL),
            0 => Fault::Signal(Signal::KILL),
            1 => Fault::Signal(Signal::TERM),
            2 => Fault::Signal(Signal::INT),
            _ => Fault::Stop(Duration::from_millis(of(800))),
        };
        some.push((wait, who, fault));
    }
    some
}

/// Sends a signal to a process that may have ended.
fn send(pid: Option<u32>, signal: Signal) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).expect("a number of a process")));
    // It may have ended.
    let _ = pid.map(|pid| kill_process(pid, signal));
}

fn befall(fault: Fault, pid: Option<u32>) {
    match fault {
        Fault::Signal(signal) => send(pid, signal),
        Fault::Stop(time) => {
            send(pid, Signal::STOP);
            thread::sleep(time);
            send(pid, Signal::CONT);
        }
    }
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The process of this name that started another one, or one of those before it.
fn ancestor(mut pid: u32, name: &str) -> Option<u32> {
    for _ in 0..8 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        pid = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        if name_of(pid) == name {
            return Some(pid);
        }
    }
    None
}

/// The `ssh` that a client has started.
fn ssh_of(client: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{client}/task/{client}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|&pid| name_of(pid) == "ssh")
}

/// A client that runs, and what goes through it.
struct Client {
    child: Child,
    writing: JoinHandle<()>,
    /// Bytes that have come out of it so far.
    came: Arc<AtomicU64>,
    reading: JoinHandle<Vec<u8>>,
    said: JoinHandle<Vec<u8>>,
}

/// What it came to.
struct Ended {
    status: ExitStatus,
    got: Vec<u8>,
    said: String,
}

fn read_all(mut from: impl Read + Send + 'static, came: Arc<AtomicU64>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut all, mut room) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let count = from.read(&mut room).expect("a pipe of this process");
            all.extend(&room[..count]);
            came.fetch_add(count as u64, Ordering::SeqCst);
            if count == 0 {
                return all;
            }
        }
    })
}

impl Client {
    fn start(command: &mut Command, input: &[u8], pause: Duration) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("fobs");
        let writing = write_slowly(child.stdin.take().unwrap(), input.to_vec(), pause);
        let came = Arc::<AtomicU64>::default();
        let reading = read_all(child.stdout.take().unwrap(), came.clone());
        let said = read_all(child.stderr.take().unwrap(), Arc::default());
        Client { child, writing, came, reading, said }
    }

    fn end(mut self, case: &Case, what: &str) -> Ended {
        let mut status = None;
        case.wait_for(what, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.writing.join().unwrap();
        let said = String::from_utf8_lossy(&self.said.join().unwrap()).into_owned();
        Ended { status: status.unwrap(), got: self.reading.join().unwrap(), said }
    }
}

/// A command that notes what it gets and sends it back.
fn both_ways(at: &Path) -> String {
    let at = at.display();
    format!("tee {at}/got && echo all > {at}/ended")
}

/// The process of the command: not the clients whose command line has the same words.
fn command_below(at: &Path) -> Option<u32> {
    let got = at.join("got");
    let all = processes_with(&got.display().to_string());
    all.into_iter().find(|&pid| name_of(pid) == "tee")
}

/// What a run plays with.
struct Run<'r> {
    case: &'r Case,
    at: &'r Path,
    name: &'r str,
    options: [&'r str; 5],
    what: &'r str,
    whole: &'r [u8],
    pause: Duration,
}

impl Run<'_> {
    /// Over ssh, or at a daemon that has a command; `there` is what leads to it.
    fn with_command(&self, client: &mut Command, faults: &Faults) {
        let Run { case, at, what, whole, .. } = *self;
        let mut client = Client::start(client, whole, self.pause);
        let id = client.child.id();
        for &(wait, who, fault) in faults {
            if who == Who::Ssh {
                // Before the pipe has begun there is nothing to return to.
                let begun = || fs::metadata(at.join("got")).is_ok_and(|got| got.len() > 0);
                case.wait_for(what, || begun() || client.child.try_wait().unwrap().is_some());
            }
            thread::sleep(wait);
            let command = || command_below(at);
            befall(
                fault,
                match who {
                    Who::Client => Some(id),
                    Who::Far => command(),
                    Who::Server => command().and_then(|pid| ancestor(pid, "fobs")),
                    Who::Ssh => ssh_of(id),
                },
            );
        }
        let ended = client.end(case, what);
        let what = format!("{what}: {}, {}", ended.status, ended.said);
        case.wait_for(&format!("the command is gone: {what}"), || {
            processes_with(&at.display().to_string()).is_empty()
        });
        let there = fs::read(at.join("got")).unwrap_or_default();
        assert!(whole.starts_with(&there), "{what}: what the command got is not what was sent");
        assert!(whole.starts_with(&ended.got), "{what}: what came back is not what was sent");
        let counts = format!("{} there and {} back of {}", there.len(), ended.got.len(), whole.len());
        if ended.status.success() {
            assert!(there == whole && ended.got == whole, "{what}: {counts}");
        }
        // With the server itself its pipes go, as with ssh.
        let server_was_killed = faults.contains_kill_of(Who::Server);
        if at.join("ended").exists() && !server_was_killed {
            assert!(there == whole, "{what}: it took {counts} for the whole");
        }
        assert!(ended.status.success() || !faults.are_harmless(), "{what}: nothing was wrong");
    }

    /// Two clients that meet by a name.
    fn by_name(&self, served: &Served, faults: &Faults) {
        let Run { case, name, what, whole, .. } = *self;
        let (url, host) = (served.daemon.url(name), served.daemon.url(""));
        let other: Vec<u8> = whole.iter().rev().copied().collect();
        let listen = [&self.options[1..], &["--listen", name, &host]].concat();
        let listener = Client::start(&mut served.pipe(case, 0, &listen), &other, self.pause);
        case.wait_for("the listener listens", || {
            served.daemon.log().contains(&format!("listens as '{name}'"))
        });
        let call = [&self.options[1..], &[&*url]].concat();
        let caller = loop {
            let mut caller = Client::start(&mut served.pipe(case, 0, &call), whole, self.pause);
            let mut code = None;
            case.wait_for(what, || {
                code = caller.child.try_wait().unwrap().and_then(|status| status.code());
                code.is_some() || caller.came.load(Ordering::SeqCst) > 0
            });
            // It came before the name was there to be asked for.
            if code != Some(3) {
                break caller;
            }
        };
        let (here, there) = (caller.child.id(), listener.child.id());
        for &(wait, who, fault) in faults {
            thread::sleep(wait);
            befall(
                fault,
                match who {
                    Who::Client | Who::Ssh => Some(here),
                    Who::Far => Some(there),
                    Who::Server => Some(served.daemon.id()),
                },
            );
        }
        let ends = [(caller.end(case, what), &other[..]), (listener.end(case, what), whole)];
        for (ended, expected) in ends {
            let what = format!("{what}: {}, {}", ended.status, ended.said);
            assert!(expected.starts_with(&ended.got), "{what}: what came is not what was sent");
            let counts = format!("{} of {}", ended.got.len(), expected.len());
            // One that had ended its own when the other one was killed has succeeded.
            assert!(!ended.status.success() || ended.got == expected, "{what}: {counts}");
            assert!(
                ended.status.success() || !faults.are_harmless(),
                "{what}: {counts}, and nothing was wrong"
            );
        }
    }
}

/// What is asked about faults.
trait Judged {
    fn are_harmless(&self) -> bool;
    fn contains_kill_of(&self, who: Who) -> bool;
}

impl Judged for Faults {
    fn are_harmless(&self) -> bool {
        self.iter().all(|&(_, who, fault)| matches!(fault, Fault::Stop(_)) || who == Who::Ssh)
    }

    fn contains_kill_of(&self, which: Who) -> bool {
        self.iter().any(|&(_, who, fault)| who == which && fault == Fault::Signal(Signal::KILL))
    }
}

/// What one case plays with.
enum Server {
    Ssh(Sshd),
    Daemon(Box<Served>),
}

impl Server {
    fn start(case: &Case, way: Way) -> Server {
        // The daemon finds the script of a run by the name that is asked for.
        let script = format!("pipe=\"sh {}/%k.sh\"", case.path("").display());
        let daemon = |rights| Server::Daemon(Box::new(Served::start(case, &[rights], &["--drain", "1"])));
        match way {
            Way::Ssh => Server::Ssh(Sshd::start(case)),
            Way::Key => daemon(&script),
            Way::Name => daemon("pipe-names"),
        }
    }
}

fn play(case: &Case, server: &mut Server, way: Way, number: u32, random: &mut Random) {
    let transport = ["udp", "tcp", if way == Way::Ssh { "ssh" } else { "auto" }, "auto"];
    let transport = transport[random.below(4) as usize];
    let (faults, at) = (faults(random, way), case.path(format!("run{number}")));
    fs::create_dir(&at).unwrap();
    let len = 1 + random.below(BYTES_MAX) as usize;
    let run = Run {
        case,
        at: &at,
        name: &format!("run{number}"),
        // A client that was killed is waited for so long.
        options: ["-q", "--timeout", "5", "--transport", transport],
        what: &format!("run {number}, {way:?}, {transport}, {faults:?}"),
        whole: &random.bytes(len),
        pause: Duration::from_millis(random.below(3) * 20),
    };
    match server {
        Server::Ssh(sshd) => {
            run.with_command(&mut piping(case, sshd, &run.options, &both_ways(&at)), &faults);
        }
        Server::Daemon(served) if way == Way::Key => {
            fs::write(case.path(format!("run{number}.sh")), both_ways(&at)).unwrap();
            let url = served.daemon.url(run.name);
            let words = [&run.options[1..], &[&*url]].concat();
            run.with_command(&mut served.pipe(case, 0, &words), &faults);
        }
        Server::Daemon(served) => run.by_name(served, &faults),
    }
    if let Server::Daemon(served) = server
        && faults.iter().any(|&(_, who, _)| who == Who::Server)
    {
        served.daemon.kill();
        served.daemon.start_again(case);
    }
}

fn play_some(name: &'static str, way: Way) {
    for sequence in 0..if cfg!(feature = "long") { 30 } else { 1 } {
        let case = Case::new(name);
        let mut server = Server::start(&case, way);
        // Each sequence has its own numbers.
        let mut random = Random::new(case.random().next().wrapping_add(sequence));
        for number in 0..10 {
            play(&case, &mut server, way, number, &mut random);
        }
    }
}

#[test]
fn random_faults_of_the_processes_of_a_pipe_over_ssh() {
    play_some("random_faults_of_the_processes_of_a_pipe_over_ssh", Way::Ssh);
}

#[test]
fn random_faults_of_the_processes_of_a_pipe_of_a_key() {
    play_some("random_faults_of_the_processes_of_a_pipe_of_a_key", Way::Key);
}

#[test]
fn random_faults_of_the_processes_of_a_pipe_by_name() {
    play_some("random_faults_of_the_processes_of_a_pipe_by_name", Way::Name);
}
