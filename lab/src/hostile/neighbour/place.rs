//! One run: a tree that stands there, a command, a neighbour, and what is looked at afterwards.

use std::fs::{self, File, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, linkat, mknodat, utimensat};

use super::attacker::Attacker;
use super::check::{Snapshot, brought, in_own, in_shared};
use super::{Figures, MARK, NEIGHBOUR, PLAIN, PRIVATE, Random, SECRET};

/// Longest time that a command may take, or a daemon to listen.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time until a kill, ms.
const KILL_WITHIN_MS: u64 = 600;
/// The rate of a run that is killed, so that kills fall everywhere in it.
const RATE: &str = "100Mbit";
/// Commands and letters: a verb, and what follows it.
const VERBS: [&[&str]; 14] = [
    &["sync", "-a"],
    &["sync", "-aH"],
    &["sync", "-aHAX"],
    &["sync", "-rltH"],
    &["sync", "-rlt"],
    &["sync", "-ac", "--delete"],
    &["sync", "-aH", "--backup"],
    &["sync", "-a", "--size-only"],
    &["sync", "-aH", "--numeric-ids", "--existing"],
    &["cp", "-r"],
    &["cp", "-rp"],
    &["cp", "-rp", "--append-verify"],
    &["cp", "big"],
    &["cp", "-p", "s0"],
];
/// Names that the neighbour exchanges in a loop, in half of the runs.
const FAVOURITES: [&str; 8] = ["f0", "two", "suid", "d", "private", "link", "fifo", "big"];

/// Who runs the command that stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Root,
    Plain,
}

/// Which tree has the neighbour's directory in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Source,
    Destination,
}

/// A process that is killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run as it was drawn.
#[derive(Debug)]
struct Plan {
    actor: Actor,
    /// The client sends, and a daemon stores; the other way round otherwise.
    pushes: bool,
    verb: &'static [&'static str],
    at: At,
    /// Mode and owner of the neighbour's directory.
    shared: (u32, u32),
    favourite: Option<&'static str>,
    killed: bool,
}

impl Plan {
    /// The one file that is copied, if it is one.
    fn file(&self) -> Option<&'static str> {
        self.verb.last().copied().filter(|last| !last.starts_with('-'))
    }

    fn letters(&self) -> &[&str] {
        &self.verb[..self.verb.len() - usize::from(self.file().is_some())]
    }

    /// Whether it is a right end: done, done but for some paths, or, of one file whose name the neighbour has
    /// made something else, a refusal to read, to write or to be led elsewhere (docs/guide.md).
    fn may_end_with(&self, code: Option<i32>) -> bool {
        let is_refused = match self.at {
            At::Source => matches!(code, Some(1 | 3 | 5)),
            At::Destination => matches!(code, Some(4 | 5)),
        };
        matches!(code, Some(0 | 23)) || (self.file().is_some() && is_refused)
    }

    /// Whether a directory that the neighbour made before belongs to root, as at the source, before files
    /// come. Without owners and modes it stays its own, as with cp and rsync.
    fn keeps_directories(&self) -> bool {
        self.at == At::Destination
            && self.actor == Actor::Root
            && self.verb.iter().any(|letters| letters.starts_with("-a"))
    }
}

/// Where runs take place.
pub struct Place {
    directory: PathBuf,
    fobs: PathBuf,
    random: Random,
    seed: u64,
}

type Done<T> = Result<T, String>;

impl Place {
    /// Makes keys below `directory`, which other users must be able to enter.
    pub fn new(directory: &Path, fobs: &Path, seed: u64) -> Done<Place> {
        let program = directory.join("fobs");
        for name in ["home", "plain-home"] {
            make_directory(&directory.join(name), 0o755, 0)?;
        }
        give(&directory.join("plain-home"), PLAIN)?;
        fs::copy(fobs, &program).map_err(|error| error.to_string())?;
        set_mode(&program, 0o755)?;
        let place = Place { directory: directory.to_owned(), fobs: program, random: Random(seed), seed };
        for (actor, rights) in [(Actor::Root, "read-write,privileged"), (Actor::Plain, "read-write")] {
            let public = place.keys(actor)?;
            let home = place.home(actor);
            write(&home.join("keys"), &[rights.as_bytes(), b" ", &public].concat(), 0o644)?;
            give(&home.join("keys"), owner_of(actor))?;
        }
        Ok(place)
    }

    /// The public key of a fresh pair.
    fn keys(&self, actor: Actor) -> Done<Vec<u8>> {
        let mut lines = Vec::new();
        for name in ["client-key", "server-key"] {
            let made =
                self.command(actor).args(["keygen", "--out"]).arg(self.home(actor).join(name)).output();
            let made = made.map_err(|error| format!("cannot run fobs: {error}"))?;
            if !made.status.success() {
                return Err(format!("keygen: {}", String::from_utf8_lossy(&made.stderr)));
            }
            lines.push(made.stdout);
        }
        Ok(lines.swap_remove(0))
    }

    fn home(&self, actor: Actor) -> PathBuf {
        self.directory.join(if actor == Actor::Root { "home" } else { "plain-home" })
    }

    fn command(&self, actor: Actor) -> Command {
        let mut command = Command::new(&self.fobs);
        command.env("HOME", self.home(actor)).env("XDG_RUNTIME_DIR", self.home(actor));
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        if actor == Actor::Plain {
            command.uid(PLAIN).gid(PLAIN);
        }
        command
    }

    fn draw(&mut self, run: u64) -> Plan {
        // Letters, sides and users in turn, so that few runs have them all.
        let actor = if run % 4 == 3 { Actor::Plain } else { Actor::Root };
        let shared = match (actor, self.random.below(3)) {
            (Actor::Root, 0) => (0o755, NEIGHBOUR),
            (_, 1) => (0o1777, 0),
            _ => (0o777, NEIGHBOUR),
        };
        let favourite = FAVOURITES[self.random.below(FAVOURITES.len() as u64) as usize];
        Plan {
            actor,
            pushes: self.random.below(2) == 0,
            at: if run % 3 == 2 { At::Source } else { At::Destination },
            verb: VERBS[(run * 5 % VERBS.len() as u64) as usize],
            shared,
            favourite: (self.random.below(2) == 0).then_some(favourite),
            killed: self.random.below(3) == 0,
        }
    }

    /// Makes a tree and plays one run in it.
    pub fn run(&mut self, figures: &mut Figures) -> Done<()> {
        let plan = self.draw(figures.runs);
        let top = self.directory.join("run");
        if top.exists() {
            fs::remove_dir_all(&top).map_err(|error| format!("cannot remove the last run: {error}"))?;
        }
        self.lay_out(&top, &plan)?;
        let before = Snapshot::of(&top.join("outside"))?;
        let kept = top.join(if plan.at == At::Source { "from/vault" } else { "from" });
        let source = Snapshot::of(&kept)?;
        let seed = self.random.next();
        let shared = top.join(if plan.at == At::Source { "from/shared" } else { "to/shared" });
        let attacker = Attacker::start(&shared, &top.join("outside"), plan.favourite, seed);
        let code = self.play(&top, &plan, figures);
        let deeds = attacker.finish();
        figures.runs += 1;
        figures.by_root += u64::from(plan.actor == Actor::Root);
        figures.acts += deeds.acts;
        let code = code?;
        figures.reported += u64::from(code == Some(23));
        let mut findings = before.compare(&Snapshot::of(&top.join("outside"))?);
        findings.extend(source.compare(&Snapshot::of(&kept)?));
        findings.extend(in_own(&top.join("from/vault"), &top.join("to/vault"))?);
        findings.extend(match plan.at {
            At::Source => brought(&top.join("to"), &top.join("outside"))?,
            At::Destination => in_shared(&shared)?,
        });
        findings.extend(deeds.leaks);
        if plan.keeps_directories() {
            findings.extend(deeds.looked_in);
        }
        if !plan.may_end_with(code) {
            let said = fs::read_to_string(self.directory.join("client.log")).unwrap_or_default();
            findings.push(format!("the command ended with {code:?}: {said}"));
        }
        let (run, seed) = (figures.runs, self.seed);
        findings.sort();
        findings.dedup();
        figures.findings.extend(findings.iter().map(|it| format!("seed {seed}, run {run}, {plan:?}: {it}")));
        Ok(())
    }

    /// Runs the command, killed once or not; its exit code.
    fn play(&mut self, top: &Path, plan: &Plan, figures: &mut Figures) -> Done<Option<i32>> {
        let mut daemon = Some(self.serve(top, plan)?);
        if plan.killed {
            let mut client = self.client(top, plan, daemon.as_ref().map_or(0, |(_, port)| *port))?;
            sleep(Duration::from_millis(self.random.below(KILL_WITHIN_MS)));
            figures.killed += u64::from(matches!(client.0.try_wait(), Ok(None)));
            // The side that stores; the client of a daemon would call again.
            drop(daemon.take().filter(|_| plan.pushes));
            drop(client);
            sleep(Duration::from_millis(self.random.below(60)));
            daemon = Some(self.serve(top, plan)?);
        }
        let mut client = self.client(top, plan, daemon.as_ref().map_or(0, |(_, port)| *port))?;
        let begin = Instant::now();
        loop {
            match client.0.try_wait() {
                Ok(Some(status)) => return Ok(status.code()),
                Ok(None) if begin.elapsed() < PATIENCE => sleep(Duration::from_millis(5)),
                _ => return Err(format!("the command did not end: {plan:?}")),
            }
        }
    }

    /// A daemon of the actor, and its port.
    fn serve(&self, top: &Path, plan: &Plan) -> Done<(Process, u16)> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = port.map_err(|error| format!("no port: {error}"))?.port();
        let home = self.home(plan.actor);
        let mut command = self.command(plan.actor);
        command.args(["serve", "--listen"]).arg(format!("127.0.0.1:{port}"));
        command.arg("--root").arg(if plan.pushes { top.join("to") } else { top.join("from") });
        command
            .arg("--authorized-keys")
            .arg(home.join("keys"))
            .arg("--identity")
            .arg(home.join("server-key"));
        let log = File::create(self.directory.join("daemon.log")).map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let process = Process(child.map_err(|error| format!("cannot start the daemon: {error}"))?);
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > PATIENCE {
                let said = fs::read_to_string(self.directory.join("daemon.log")).unwrap_or_default();
                return Err(format!("the daemon does not listen: {said}"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok((process, port))
    }

    fn client(&self, top: &Path, plan: &Plan, port: u16) -> Done<Process> {
        let home = self.home(plan.actor);
        // The address is pinned anew: each run has a port of its own.
        let pins = home.join("known_hosts");
        let mut command = self.command(plan.actor);
        command
            .args(plan.letters())
            .arg("--identity")
            .arg(home.join("client-key"))
            .arg("--known-hosts")
            .arg(pins);
        if plan.killed {
            command.args(["--rate", RATE]);
        }
        let remote = format!("fobs://127.0.0.1:{port}/");
        let (from, to) = (top.join("from"), top.join("to"));
        // One file into the neighbour's directory, or all.
        let (here, below) = match plan.file() {
            Some(name) => (Path::new("shared").join(name), format!("shared/{name}")),
            None => (PathBuf::new(), String::new()),
        };
        if plan.pushes {
            command.arg(from.join(here)).arg(remote + &below)
        } else {
            command.arg(remote + &below).arg(to.join(here))
        };
        let log = File::create(self.directory.join("client.log")).map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        child.map(Process).map_err(|error| format!("cannot start a client: {error}"))
    }

    /// The source, what lies outside, and a destination where the neighbour has been before.
    fn lay_out(&mut self, top: &Path, plan: &Plan) -> Done<()> {
        let owner = owner_of(plan.actor);
        make_directory(top, 0o755, 0)?;
        let own = (0o755, owner);
        let (at_source, at_destination) = match plan.at {
            At::Source => (plan.shared, own),
            At::Destination => (own, plan.shared),
        };
        for (path, mode, owner) in [
            ("outside", 0o755, 0),
            ("from", 0o755, owner),
            ("to", 0o755, owner),
            ("to/vault", 0o755, owner),
            ("to/shared", at_destination.0, at_destination.1),
        ] {
            make_directory(&top.join(path), mode, owner)?;
        }
        self.make_source(&top.join("from"), plan.actor)?;
        let outside = top.join("outside");
        for (name, mode) in [("secret", 0o600), ("public", 0o644), ("program", 0o755)] {
            write(&outside.join(name), &[SECRET, name.as_bytes()].concat(), mode & 0o700 | mode & 0o055)?;
        }
        write(&outside.join("public"), b"anybody may read this\n", 0o644)?;
        set_mode(&outside.join("secret"), 0o600)?;
        set_mode(&outside.join("program"), 0o700)?;
        if plan.at == At::Source {
            give(&top.join("from/shared"), at_source.1)?;
            return set_mode(&top.join("from/shared"), at_source.0);
        }
        self.plant(&top.join("to/shared"), &top.join("from/shared"), &outside)
    }

    fn make_source(&mut self, from: &Path, actor: Actor) -> Done<()> {
        let shared = from.join("shared");
        for (path, mode) in [
            ("shared", 0o755),
            ("shared/d", 0o755),
            ("shared/d/dd", 0o755),
            ("shared/private", 0o700),
            ("vault", 0o755),
        ] {
            make_directory(&from.join(path), mode, 0)?;
        }
        for at in 0..6_u64 {
            write(&shared.join(format!("f{at}")), &self.content(200 + 3000 * at), 0o644)?;
            write(&shared.join(format!("d/e{at}")), &self.content(100), 0o644)?;
            write(&shared.join(format!("d/dd/g{at}")), &self.content(100), 0o644)?;
            write(&from.join(format!("vault/o{at}")), &self.content(1000), 0o644)?;
            let secret = [SECRET, &self.content(500)].concat();
            write(&shared.join(format!("s{at}")), &secret, 0o600)?;
            let private = [PRIVATE, &self.content(500)].concat();
            write(&shared.join(format!("private/p{at}")), &private, 0o644)?;
        }
        write(&shared.join("big"), &self.content(3 << 20), 0o644)?;
        write(&shared.join("suid"), &self.content(900), 0o4755)?;
        for (first, second) in [("two", "two-more"), ("suid-two", "suid-two-more")] {
            write(&shared.join(first), &self.content(700), if first == "two" { 0o644 } else { 0o4755 })?;
            fs::hard_link(shared.join(first), from.join("vault").join(second))
                .map_err(|error| error.to_string())?;
        }
        symlink("f0", shared.join("link")).map_err(|error| error.to_string())?;
        let mode = Mode::from_raw_mode(0o644);
        mknodat(CWD, shared.join("fifo"), FileType::Fifo, mode, 0).map_err(|errno| errno.to_string())?;
        if actor == Actor::Plain { give_all(from, PLAIN) } else { Ok(()) }
    }

    /// What the neighbour made before: files as they will come by size and time, a fifo, a directory that is
    /// to be private, and further names of files that it cannot read.
    fn plant(&mut self, shared: &Path, source: &Path, outside: &Path) -> Done<()> {
        for name in ["f1", "f2", "s1", "suid", "two", "suid-two", "private", "journal"] {
            if self.random.below(2) == 0 {
                continue;
            }
            let path = shared.join(name);
            match name {
                "private" => {
                    make_directory(&path, 0o755, NEIGHBOUR)?;
                    continue;
                }
                "journal" => {
                    for name in [".big.fobs-journal", ".s0.fobs-journal"] {
                        write(&shared.join(name), MARK, 0o644)?;
                        give(&shared.join(name), NEIGHBOUR)?;
                    }
                }
                _ => {
                    let stat = fs::metadata(source.join(name)).map_err(|error| error.to_string())?;
                    let content = MARK.iter().copied().cycle().take(stat.len() as usize).collect::<Vec<u8>>();
                    write(&path, &content, 0o666)?;
                    let now = stat.modified().map_err(|error| error.to_string())?;
                    let file = File::options().write(true).open(&path).map_err(|error| error.to_string())?;
                    file.set_modified(now).map_err(|error| error.to_string())?;
                    give(&path, NEIGHBOUR)?;
                }
            }
        }
        for (name, target) in [("bait-hard", "secret"), ("f3", "program"), ("s3", "public")] {
            linkat(CWD, outside.join(target), CWD, shared.join(name), AtFlags::empty())
                .map_err(|errno| format!("cannot plant {name}: {errno}"))?;
        }
        // As the source's: only its mode and owner differ.
        same_time(&source.join("f3"), &outside.join("program"))
    }

    fn content(&mut self, len: u64) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.random.next().to_le_bytes()).take(len as usize).collect()
    }
}

fn owner_of(actor: Actor) -> u32 {
    if actor == Actor::Root { 0 } else { PLAIN }
}

fn set_mode(path: &Path, mode: u32) -> Done<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn give(path: &Path, owner: u32) -> Done<()> {
    chown(path, Some(owner), Some(owner)).map_err(|error| format!("{}: {error}", path.display()))
}

fn give_all(path: &Path, owner: u32) -> Done<()> {
    std::os::unix::fs::lchown(path, Some(owner), Some(owner)).map_err(|error| error.to_string())?;
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).map_err(|error| error.to_string())?.flatten() {
            give_all(&entry.path(), owner)?;
        }
    }
    Ok(())
}

fn make_directory(path: &Path, mode: u32, owner: u32) -> Done<()> {
    fs::create_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    give(path, owner)?;
    set_mode(path, mode)
}

fn write(path: &Path, content: &[u8], mode: u32) -> Done<()> {
    fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    set_mode(path, mode)
}

fn same_time(from: &Path, to: &Path) -> Done<()> {
    use rustix::fs::{Timespec, Timestamps};
    let stat = rustix::fs::stat(from).map_err(|errno| errno.to_string())?;
    let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
    let times = Timestamps { last_access: time, last_modification: time };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    File::options()
        .write(true)
        .open(to)
        .and_then(|file| file.set_len(size))
        .map_err(|error| error.to_string())?;
    utimensat(CWD, to, &times, AtFlags::empty()).map_err(|errno| errno.to_string())
}
