//! One copy, killed several times. Knows nothing of the laboratory: the end-to-end tests use it too.

mod cuts;
mod disk;
mod serving;
mod ssh;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use disk::Disk;
use ssh::Ssh;

/// The rate of a copy, bits a second: so slow that kills fall everywhere in it.
const RATE: &str = "400Mbit";
/// Longest time until a kill, ms: about as long as a copy takes.
const KILL_WITHIN_MS: u64 = 1500;
/// Longest time in which a server does not start, or a copy gets no further.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most that may be sent twice at a kill, bytes: a chunk (4 MiB), and as much for what is in flight, verified
/// or written but not recorded at that moment.
pub const TWICE_MAX: u64 = 8 << 20;
/// Share of what the loopback carries that is payload, in thousandths: headers of data packets, acks, and the
/// control channel are the rest.
const PAYLOAD_PER_MILLE: u64 = 960;

/// What was found over all copies.
#[derive(Debug, Default)]
pub struct Figures {
    /// Complete copies.
    pub copies: u64,
    /// Kills.
    pub kills: u64,
    /// Of the client; the others were of the server.
    pub client_kills: u64,
    /// In copies over ssh; the others were with a daemon.
    pub ssh_kills: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Runs that found something to go on with.
    pub resumed: u64,
    /// What was sent twice after each kill, bytes; empty where it is not counted.
    pub twice: Vec<u64>,
}

impl Route {
    /// To the daemon.
    const PUSH: Route = Route { pushes: true, ssh: false };
}

impl Figures {
    /// A line of them.
    pub fn summary(&self) -> String {
        let mut twice = self.twice.clone();
        twice.sort_unstable();
        let counted = match (twice.get(twice.len() / 2), twice.get(twice.len() * 9 / 10), twice.last()) {
            (Some(median), Some(tenth), Some(most)) => format!(
                "sent twice after a kill: median {median} bytes, one in ten above {tenth}, most {most}"
            ),
            _ => "what was sent twice was not counted".to_owned(),
        };
        let Figures { copies, kills, client_kills, ssh_kills, bytes, resumed, .. } = self;
        format!(
            "{kills} kills ({client_kills} of the client, {ssh_kills} over ssh) in {copies} copies of {bytes} bytes, every byte compared; {resumed} runs went on where one had ended; {counted}"
        )
    }
}

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// A process that is killed when dropped.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        // SIGKILL; it may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where copies are made, by a daemon and clients of one program.
pub struct Place {
    directory: PathBuf,
    fobs: PathBuf,
    random: Random,
    rate: &'static str,
    port: u16,
    counts: bool,
    daemon: Option<Process>,
    /// The boot that daemons find themselves in; `None`: this host's.
    boot: Option<PathBuf>,
    ssh: Option<Ssh>,
}

/// How a copy goes.
#[derive(Debug, Clone, Copy)]
struct Route {
    pushes: bool,
    /// Over ssh; with a daemon otherwise.
    ssh: bool,
}

/// The command of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verb(&'static [&'static str]);

impl Verb {
    const COPY: Verb = Verb(&["cp", "-r"]);
}

impl Place {
    /// Makes keys and directories below `directory`. `counts`: the loopback carries nothing else. `ssh`:
    /// every other copy is over ssh, where there is an sshd that this user may start.
    pub fn new(directory: &Path, fobs: &Path, seed: u64, counts: bool, ssh: bool) -> Result<Place, String> {
        for name in ["home", "served", "local"] {
            fs::create_dir_all(directory.join(name)).map_err(|error| error.to_string())?;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = port.map_err(|error| format!("no port: {error}"))?.port();
        let place = Place {
            directory: directory.to_owned(),
            fobs: fobs.to_owned(),
            random: Random(seed),
            rate: RATE,
            port,
            counts,
            daemon: None,
            boot: None,
            ssh: if ssh { Ssh::start(directory, fobs)? } else { None },
        };
        let mut lines = Vec::new();
        for name in ["client-key", "server-key"] {
            let made = place.command(&["keygen", "--out"]).arg(place.directory.join(name)).output();
            let made = made.map_err(|error| format!("cannot run fobs: {error}"))?;
            if !made.status.success() {
                return Err(format!("keygen: {}", String::from_utf8_lossy(&made.stderr)));
            }
            lines.push(made.stdout);
        }
        fs::write(place.directory.join("keys"), [b"read-write ", &lines[0][..]].concat())
            .map_err(|error| error.to_string())?;
        Ok(place)
    }

    /// Whether copies over ssh are among them.
    pub fn has_ssh(&self) -> bool {
        self.ssh.is_some()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.fobs);
        self.environment(command.args(args));
        command
    }

    /// Without the user's own configuration.
    fn environment(&self, command: &mut Command) {
        command.env("HOME", self.directory.join("home"));
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
    }

    /// Copies something new, killing one side up to `kills` times, and compares it.
    pub fn copy(&mut self, kills: u64, figures: &mut Figures) -> Result<(), String> {
        let name = format!("copy{}", figures.copies);
        let route =
            Route { pushes: self.random.below(2) == 0, ssh: self.ssh.is_some() && figures.copies % 2 == 1 };
        let (from, to) = if route.pushes {
            (self.directory.join("local"), self.directory.join("served"))
        } else {
            (self.directory.join("served"), self.directory.join("local"))
        };
        let bytes = self.make(&from.join(&name)).map_err(|error| format!("cannot make files: {error}"))?;
        let before = names(&to)?;
        let kills = kills.min(1 + self.random.below(8));
        let mut is_complete = false;
        for _ in 0..kills {
            let (carried, kept) = (self.carried(), self.kept(&to)?);
            let killed = self.run_and_kill(&name, route, figures)?;
            if killed == 0 {
                is_complete = true;
                break;
            }
            figures.kills += killed;
            figures.ssh_kills += if route.ssh { killed } else { 0 };
            let kept_now = self.kept(&to)?;
            figures.resumed += u64::from(kept_now > 0);
            if let (Some(before), Some(after)) = (carried, self.carried()) {
                let payload = (after - before) / 1000 * PAYLOAD_PER_MILLE;
                let gained = kept_now.saturating_sub(kept);
                let twice = payload.saturating_sub(gained) / killed;
                if twice > TWICE_MAX {
                    println!("{twice} bytes were sent twice after a kill ({route:?}), more than {TWICE_MAX}");
                }
                figures.twice.push(twice);
            }
        }
        if !is_complete {
            self.run_to_the_end(Verb::COPY, &name, route)?;
        }
        let (original, copied) = (tree(&from.join(&name))?, tree(&to.join(&name))?);
        if original != copied {
            return Err(format!("'{name}' differs from its source"));
        }
        let mut expected = before;
        expected.push(name.clone());
        expected.sort();
        let after = names(&to)?;
        if after != expected {
            return Err(format!("the destination holds {after:?}, not {expected:?}"));
        }
        for top in [&from, &to] {
            remove(&top.join(&name)).map_err(|error| error.to_string())?;
        }
        figures.copies += 1;
        figures.bytes += bytes;
        Ok(())
    }

    /// Makes a file, or a tree of large and small ones; its size.
    fn make(&mut self, path: &Path) -> std::io::Result<u64> {
        let size = (8 << 20) + self.random.below(56 << 20);
        if self.random.below(3) == 0 {
            return self.write(path, size);
        }
        let mut total = 0;
        for directory in 0..4 {
            let directory = path.join(format!("d{directory}"));
            fs::create_dir_all(&directory)?;
            for file in 0..self.random.below(150) {
                let size = self.random.below(20_000);
                total += self.write(&directory.join(format!("small{file}")), size)?;
            }
            total += self.write(&directory.join("large"), size / 4)?;
        }
        Ok(total)
    }

    fn write(&mut self, path: &Path, size: u64) -> std::io::Result<u64> {
        let mut file = std::io::BufWriter::new(File::create(path)?);
        for _ in 0..size / 8 {
            file.write_all(&self.random.next().to_le_bytes())?;
        }
        file.write_all(&vec![7; (size % 8) as usize])?;
        file.flush()?;
        Ok(size)
    }

    fn client(&self, verb: Verb, name: &str, route: Route) -> Result<Process, String> {
        let local = self.directory.join("local");
        let mut command = self.command(verb.0);
        command.args(["--json", "--rate", self.rate]);
        let remote = |path: &str| match &self.ssh {
            Some(ssh) if route.ssh => ssh.location(&self.directory.join("served").join(path)),
            _ => format!("fobs://127.0.0.1:{}/{path}", self.port),
        };
        match &self.ssh {
            Some(ssh) if route.ssh => command.args(ssh.options()),
            _ => command
                .arg("--identity")
                .arg(self.directory.join("client-key"))
                .arg("--known-hosts")
                .arg(self.directory.join("known_hosts")),
        };
        if route.pushes {
            command.arg(local.join(name)).arg(remote(""))
        } else {
            command.arg(remote(name)).arg(local)
        };
        let out = File::create(self.directory.join("client.json")).map_err(|error| error.to_string())?;
        let err = File::create(self.directory.join("client.log")).map_err(|error| error.to_string())?;
        let child = command.stdout(out).stderr(err).stdin(Stdio::null()).spawn();
        child.map(Process).map_err(|error| format!("cannot start a client: {error}"))
    }

    /// Runs the command and kills one side; how often. 0: it was complete before.
    fn run_and_kill(&mut self, name: &str, route: Route, figures: &mut Figures) -> Result<u64, String> {
        self.serve(route)?;
        let mut client = self.client(Verb::COPY, name, route)?;
        // In three of four cases the time counts from the session's begin, which a busy machine delays.
        let begin = Instant::now();
        let waits = self.random.below(4) != 0;
        while waits && begin.elapsed() < PATIENCE && !self.has_begun() {
            if !matches!(client.0.try_wait(), Ok(None)) {
                break;
            }
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(self.random.below(KILL_WITHIN_MS)));
        if let Ok(Some(status)) = client.0.try_wait() {
            return if status.success() { Ok(0) } else { Err(self.said("the client failed by itself")) };
        }
        let mut kills = 1;
        // Where the client has not called yet, there is no server that ssh could have started.
        if self.random.below(2) == 0 || !self.kill_server(route) {
            figures.client_kills += 1;
        } else {
            // In half of the cases the client finds the next server by itself, before it is killed too.
            if self.random.below(2) == 0 {
                self.serve(route)?;
                sleep(Duration::from_millis(self.random.below(2 * KILL_WITHIN_MS)));
                match client.0.try_wait() {
                    Ok(Some(status)) if status.success() => {
                        figures.kills += 1;
                        figures.ssh_kills += u64::from(route.ssh);
                        return Ok(0);
                    }
                    // It had not reached the first server, so it does not wait for the next one.
                    Ok(Some(_)) => {}
                    _ => {
                        figures.client_kills += 1;
                        kills = 2;
                    }
                }
            }
        }
        client.kill();
        Ok(kills)
    }

    fn run_to_the_end(&mut self, verb: Verb, name: &str, route: Route) -> Result<(), String> {
        self.serve(route)?;
        let mut client = self.client(verb, name, route)?;
        let (mut seen, mut since) = (String::new(), Instant::now());
        loop {
            match client.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(_)) => return Err(self.said("the last run failed")),
                _ => sleep(Duration::from_millis(5)),
            }
            // A machine that has no time for it makes it slow, but not still.
            if since.elapsed() > PATIENCE {
                let stands = self.progress();
                if stands == seen {
                    return Err(self.said("the last run has stopped"));
                }
                (seen, since) = (stands, Instant::now());
            }
        }
    }

    /// Whether the session of the running client has begun: then it says `start`.
    fn has_begun(&self) -> bool {
        fs::metadata(self.directory.join("client.json")).is_ok_and(|file| file.len() > 0)
    }

    /// How far the running client is: file bytes, as it says them.
    fn progress(&self) -> String {
        let text = fs::read_to_string(self.directory.join("client.json")).unwrap_or_default();
        let line = text.lines().rev().find_map(|line| line.split_once("\"bytes\":")).map(|(_, rest)| rest);
        line.and_then(|rest| rest.split(',').next()).unwrap_or_default().to_owned()
    }

    fn said(&self, what: &str) -> String {
        let read = |name: &str| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        let (out, log) = (read("client.json"), read("client.log"));
        let last = out.lines().last().unwrap_or_default();
        format!("{what}: {last}\n{log}\ndaemon:\n{}", read("daemon.log"))
    }

    /// Bytes that the loopback has carried, where that is counted.
    fn carried(&self) -> Option<u64> {
        if !self.counts {
            return None;
        }
        let file = File::open("/proc/self/net/dev").ok()?;
        let mut lines = BufReader::new(file).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.trim().strip_prefix("lo:").map(str::to_owned))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

/// The names in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Every file at or below `path`, with its content.
fn tree(path: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![path.to_owned()];
    while let Some(next) = waiting.pop() {
        if next.is_dir() {
            waiting.extend(names(&next)?.iter().map(|name| next.join(name)));
        } else {
            let content = fs::read(&next).map_err(|error| format!("{}: {error}", next.display()))?;
            found.insert(next.strip_prefix(path).unwrap_or(&next).to_owned(), content);
        }
    }
    Ok(found)
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
