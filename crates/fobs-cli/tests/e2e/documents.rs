//! Every block of shell commands in the documents is run here, or says beside itself why not: so a command
//! that a reader types works. A block's mark stands behind ```` ```sh ````: `runs`, or `not run: REASON`.
//!
//! Lines run one after the other in a scratch home, against an sshd and a daemon on another host: it is
//! `host`, `a`, `b`, `c`, `gate` and `vault`, whose home is a scratch directory, too. A comment `# N: ...` is
//! the exit code that is expected; `/srv` is a directory of the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::case::{Case, fobs_path, peer_path, wait_until_listening};
use super::files::write_random;
use super::needs;
use super::net::Side;
use super::process::Running;
use super::sshd::Sshd;

/// The documents whose commands have a test of their own.
const ALONE: [&str; 2] = ["README.md", "docs/guide.md"];
/// Fewest blocks that run, so that marks do not hide all of them.
const RUNNING_MIN: usize = 31;
/// What a block may hold: commands under another name would be run by no test.
const LANGUAGES: [&str; 8] = ["", "sh", "python", "rust", "toml", "json", "text", "mermaid"];
/// What the commands of one document may take beyond one test's time.
const MORE_TIME: Duration = Duration::from_secs(240);
/// The daemon's usual port: the commands name none.
const PORT: u16 = 45_600;
/// Stands in a document for the fingerprint that a keeper of jobs prints.
const FINGERPRINT: &str = "1f2e...";

/// A block of commands.
struct Block {
    line: usize,
    mark: String,
    commands: Vec<String>,
}

/// README.md and every page of docs/, in this order: a new page is looked at, too.
fn documents() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let entries = fs::read_dir(folder).expect("the documents").map(|entry| entry.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().into_string().expect("text"));
    let mut pages: Vec<String> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.sort();
    pages.insert(0, "README.md".to_owned());
    pages
}

pub(super) fn text(document: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(info) if info.split(' ').next() == Some("sh") => {
                inside = true;
                let mark = info.trim_start_matches("sh").trim().to_owned();
                found.push(Block { line: index + 1, mark, commands: Vec::new() });
            }
            _ if inside => found.last_mut().expect("a block").commands.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

#[test]
fn every_block_says_in_one_way_what_it_holds() {
    for document in documents() {
        let mut inside = None;
        for (index, line) in text(&document).lines().enumerate() {
            let line = line.trim_start();
            let place = format!("{document}:{}: {line}", index + 1);
            assert!(!line.starts_with("~~~") && !line.starts_with("````"), "{place}: three back-ticks");
            // What a program prints, or a file has, needs no name.
            let is_command = line.starts_with("fobs ") || line.starts_with("$ ");
            assert!(
                inside.as_deref() != Some("") || !is_command,
                "{place}: a command, in a block without `sh`"
            );
            let Some(info) = line.strip_prefix("```") else { continue };
            let language = info.split(' ').next().unwrap_or_default().to_owned();
            match inside.take() {
                None => {
                    assert!(LANGUAGES.contains(&language.as_str()), "{place}: one of {LANGUAGES:?}");
                    inside = Some(language);
                }
                Some(_) => assert!(info.is_empty(), "{place}: nothing behind the end of a block"),
            }
        }
        assert_eq!(inside, None, "{document}: the last block has no end");
    }
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let mut running = 0;
    for document in documents() {
        for Block { line, mark, commands } in blocks(&text(&document)) {
            let reason = mark.strip_prefix("not run: ").unwrap_or_default();
            assert!(
                mark == "runs" || reason.len() > 8,
                "{document}:{line}: ```sh {mark}: runs, or not run: WHY?"
            );
            assert!(!commands.is_empty(), "{document}:{line}");
            running += usize::from(mark == "runs");
        }
    }
    assert!(running >= RUNNING_MIN, "{running} blocks run");
}

/// The two hosts of a reader.
pub(super) struct Desk {
    pub(super) case: Case,
    sshd: Sshd,
    /// What is mounted for the commands: what root installs does not stay, either.
    mounts: String,
    daemon: Running,
}

impl Drop for Desk {
    /// Ends the keeper that a `fobs submit` has started.
    fn drop(&mut self) {
        let note = fs::read_to_string(self.case.path("home/.local/state/fobs/jobs/jobs.lock"));
        let keeper = note.ok().and_then(|note| note.split_whitespace().nth(1)?.parse().ok());
        if let Some(keeper) = keeper.and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(keeper, Signal::TERM);
        }
    }
}

impl Desk {
    pub(super) fn set_up(name: &'static str) -> Desk {
        let mut case = Case::new(name);
        // Some fifty commands, one after the other.
        case.deadline += MORE_TIME;
        let (far, srv) = (case.path("far"), case.path("srv"));
        let usr_local = case.path("usr-local");
        for directory in [&far, &srv, &usr_local, &case.path("home/.ssh"), &case.path("root/sets")] {
            fs::create_dir_all(directory).expect("a directory");
        }
        let hosts = case.path("hosts");
        let server = case.net.address(Side::Server);
        fs::write(&hosts, format!("127.0.0.1 localhost\n{server} host\n")).expect("a file");
        let bind = |from: &Path, to: &str| format!("mount --bind '{}' {to}", from.display());
        let binds = [bind(&srv, "/srv"), bind(&hosts, "/etc/hosts"), bind(&usr_local, "/usr/local")];
        let of =
            |binds: &[String]| format!("mount --make-rprivate / && {} && exec \"$@\"", binds.join(" && "));
        let (mounts, here) = (of(&binds[..2]), of(&binds));
        let bin = fobs_path().parent().expect("a directory").display();
        let home = far.display();
        let sshd = Sshd::start_as(&case, |command| within(&mounts, &command));
        // The home directory of the other host is not that of the user who runs the tests.
        let keys = case.path("ssh/authorized_keys");
        let key = fs::read_to_string(&keys).expect("the user's key");
        let shell =
            format!("cd {home} && exec env HOME={home} XDG_RUNTIME_DIR={home} PATH={bin}:$PATH /bin/sh -c");
        let line = format!("command=\"{shell} \\\"$SSH_ORIGINAL_COMMAND\\\"\" {key}");
        fs::write(&keys, line).expect("a file of ours");
        let config = fs::read_to_string(&sshd.config).expect("a file of ours");
        let names = config.replacen("Host peer", "Host host gate vault a b c", 1);
        fs::write(case.path("home/.ssh/config"), names).expect("a file");
        // The system's ssh takes the home directory from the password file. `scp -O` needs no server of SFTP.
        let config = case.path("home/.ssh/config").display().to_string();
        for program in ["ssh", "scp -O"] {
            let name = program.split(' ').next().unwrap_or_default();
            let words = format!("/usr/bin/{program} -F '{config}'");
            script(&case.path("bin").join(name), &words);
        }
        fill(&case, &far);
        release(&case);
        let daemon = serve(&case);
        Desk { case, sshd, mounts: here, daemon }
    }

    /// Runs the blocks of a document that run.
    fn run(&mut self, document: &str) {
        let page = text(document);
        let keeper = page.contains(FINGERPRINT).then(|| self.keep());
        for Block { line, mark, commands } in blocks(&page) {
            if mark != "runs" {
                continue;
            }
            for command in whole(&commands) {
                let expected =
                    command.rsplit_once("# ").and_then(|(_, why)| why.split_once(": ")?.0.parse().ok());
                let printed = keeper.as_ref().map_or("", |(_, fingerprint)| fingerprint);
                let command = command.replace(FINGERPRINT, printed);
                self.play(&command, expected.unwrap_or(0), &format!("{document}:{line}"));
            }
            self.prepare_next(&commands);
        }
        assert!(self.daemon.exited().is_none(), "the daemon still serves");
        assert!(self.sshd.logins() > 0);
    }

    /// A keeper of jobs at the other host, and its certificate's fingerprint.
    fn keep(&self) -> (Running, String) {
        let mut command = self.case.fobs(Side::Server);
        command.args(["jobs", "serve", "--listen", "0.0.0.0:8443"]);
        let mut keeper = self
            .case
            .start(command.env("HOME", self.case.path("far")).env("XDG_RUNTIME_DIR", self.case.path("far")));
        let printed = |said: &str| Some(said.split_once("SHA-256: ")?.1.split_once(')')?.0.to_owned());
        self.case.wait_for("the keeper listens", || {
            assert!(keeper.exited().is_none(), "the keeper ended: {}", keeper.stderr_so_far());
            printed(&keeper.stderr_so_far()).is_some()
        });
        let fingerprint = printed(&keeper.stderr_so_far()).expect("it listens");
        (keeper, fingerprint)
    }

    /// Runs a command that ends with this code.
    #[track_caller]
    pub(super) fn play(&self, command: &str, code: i32, place: &str) {
        let finished = self.case.run(&mut self.shell(command));
        assert_eq!(
            finished.code,
            Some(code),
            "{place}: {command}\n{}\n{}",
            String::from_utf8_lossy(&finished.stdout),
            finished.stderr
        );
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = self.case.command(Side::Client, "sh");
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = fobs_path().parent().expect("a directory").display();
        let path = format!("{}:{bin}:{path}", self.case.path("bin").display());
        shell.args(["-c", command]).env("PATH", path).env("USER", "ann");
        let mut shell = within(&self.mounts, &shell);
        shell.current_dir(self.case.local(""));
        shell
    }

    /// What the text between two blocks has its reader do.
    fn prepare_next(&self, commands: &[String]) {
        if commands.iter().any(|command| command.starts_with("ssh-keygen")) {
            let public = fs::read_to_string(self.case.path("home/.ssh/backup.pub")).expect("the new key");
            let vault = self.case.path("far/vault");
            fs::create_dir_all(&vault).expect("a directory");
            let line = format!(
                "restrict,command=\"{} server --restrict {} --append-only\" {public}",
                peer_path().display(),
                vault.display()
            );
            let keys = self.case.path("ssh/authorized_keys");
            let before = fs::read_to_string(&keys).expect("a file of ours");
            fs::write(&keys, before + &line).expect("a file of ours");
        }
    }
}

/// A command with these mounts before it.
fn within(mounts: &str, command: &Command) -> Command {
    let mut words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut all: Vec<_> = Vec::new();
    // `ip netns exec NAME` stays in front: it has mounts of its own.
    if command.get_program() == "ip" {
        all.extend(words.by_ref().take(4));
    }
    let mut wrapped = Command::new(all.first().copied().unwrap_or("unshare".as_ref()));
    if !all.is_empty() {
        wrapped.args(&all[1..]).arg("unshare");
    }
    wrapped.args(["--mount", "sh", "-c", mounts, "sh"]).args(words);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

/// Commands that go over several lines are one.
fn whole(lines: &[String]) -> Vec<String> {
    let several = lines.iter().any(|line| line.starts_with("until ") || line.ends_with('\\'));
    if several { vec![lines.join("\n")] } else { lines.iter().map(|line| line.trim().to_owned()).collect() }
}

/// The files that the documents' commands name.
fn fill(case: &Case, far: &Path) {
    let mut random = case.random();
    let mut put = |path: PathBuf| {
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        write_random(&path, 300_000, &mut random);
    };
    for name in ["big.tar", "data.tar", "data/one", "data/two", "a:b", "run42/out"] {
        put(case.local(name));
    }
    let there = ["results.h5", "run-1/out.h5", "notes 1.txt", "two words & a \"quote\".txt", "x", "y", "z"];
    for name in there.iter().chain(&["data/far", "vault/2026-01-01/file"]) {
        put(far.join(name));
    }
    put(case.path("srv/mon/one"));
    put(case.path("root/ann/old"));
    fs::create_dir_all(far.join(".local/bin")).expect("a directory");
    std::os::unix::fs::symlink(peer_path(), far.join(".local/bin/fobs")).expect("a link");
    fs::write(case.local("authorized_keys"), "# keys\n").expect("a file");
}

/// A program that begins another one.
fn script(path: &Path, words: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, format!("#!/bin/sh\nexec {words} \"$@\"\n")).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
}

/// What a reader has fetched of a release: the program, and the archive with its install script. Both begin
/// the program under test.
fn release(case: &Case) {
    let name = concat!("fobs-", env!("CARGO_PKG_VERSION"), "-x86_64-linux");
    let folder = case.path("release").join(name);
    let program = fobs_path().display().to_string();
    script(&folder.join("bin/fobs"), &program);
    script(&case.local("fobs-x86_64-unknown-linux-musl"), &program);
    fs::create_dir_all(folder.join("share/man/man1")).expect("a directory");
    fs::write(folder.join("share/man/man1/fobs.1"), "a page").expect("a file");
    fs::write(folder.join("install.sh"), include_str!("../../../../packaging/tarball/install.sh"))
        .expect("a file");
    fs::set_permissions(folder.join("install.sh"), fs::Permissions::from_mode(0o755)).expect("own file");
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(case.local(format!("{name}.tar.gz"))).arg("-C").arg(case.path("release")).arg(name);
    case.run(&mut tar).expect_success();
}

fn serve(case: &Case) -> Running {
    let mut command = case.fobs(Side::Server);
    command.arg("serve").arg("--root").arg(case.path("root"));
    command.arg("--authorized-keys").arg(case.local("authorized_keys"));
    command.arg("--identity").arg(case.path("server-key"));
    let mut running = case.start(&mut command);
    wait_until_listening(case, &mut running, PORT);
    running
}

#[test]
fn the_commands_of_the_readme_work() {
    let name = "the_commands_of_the_readme_work";
    if needs::given(name) {
        Desk::set_up(name).run("README.md");
    }
}

#[test]
fn the_commands_of_the_guide_work() {
    let name = "the_commands_of_the_guide_work";
    if needs::given(name) {
        Desk::set_up(name).run("docs/guide.md");
    }
}

#[test]
fn the_commands_of_the_other_documents_work() {
    let name = "the_commands_of_the_other_documents_work";
    if !needs::given(name) {
        return;
    }
    for document in documents().iter().filter(|document| !ALONE.contains(&document.as_str())) {
        if blocks(&text(document)).iter().any(|block| block.mark == "runs") {
            Desk::set_up(name).run(document);
        }
    }
}
