//! Trees as they were, and as they are, where programs make them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::bytes::{draw, lines, random};

/// Files of a tree of modules, and which of them an update changes.
const MODULES: u64 = 4000;
const CHANGED_EVERY: u64 = 12;
/// Where Debian puts the programs of PostgreSQL.
const POSTGRES: &str = "/usr/lib/postgresql";
/// The user that they run as; they refuse root.
const POSTGRES_USER: &str = "postgres";

/// Runs a program to its end.
///
/// # Errors
/// Its own complaint, or that it cannot be started.
fn run(command: &mut Command) -> Result<(), String> {
    let named = format!("{command:?}");
    let done =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {named}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("{named} failed: {}", said.lines().last().unwrap_or("it did not say why")))
}

/// A copy of a tree, with its times.
///
/// # Errors
/// One sentence.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    run(Command::new("cp").arg("-a").arg(from).arg(to))
}

/// `node_modules`: small texts, of which an update changes some, takes some away and adds some.
pub fn modules(directory: &Path, is_new: bool) -> std::io::Result<()> {
    for number in 0..MODULES {
        let (is_gone, is_added) = (number % 97 == 3, number % 89 == 5);
        if if is_new { is_gone } else { is_added } {
            continue;
        }
        let package = directory.join(format!("package-{}", number / 40)).join("lib");
        fs::create_dir_all(&package)?;
        let count = 3 + draw(number, 400) as u64;
        let mut text = lines(number * 1000..number * 1000 + count);
        if is_new && number % CHANGED_EVERY == 1 {
            let at = draw(number + 1, text.len());
            text.splice(at..at, b"// version 2\n".iter().copied());
        }
        fs::write(package.join(format!("{number}.js")), text)?;
    }
    Ok(())
}

/// How many files a tree has that moves.
const MOVED: usize = 300;

/// Such a tree, of `bytes` bytes.
pub fn numbered(directory: &Path, bytes: usize) -> std::io::Result<()> {
    for number in 0..MOVED {
        let part = directory.join(format!("part-{}", number % 10));
        fs::create_dir_all(&part)?;
        fs::write(part.join(format!("{number}.bin")), random(bytes / MOVED, number as u64))?;
    }
    Ok(())
}

/// A pack of a repository whose files changed for `rounds` commits, of `bytes` bytes at first.
///
/// # Errors
/// What git says.
pub fn pack(scratch: &Path, to: &Path, bytes: usize, rounds: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write below {}: {error}", scratch.display());
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(scratch).args(["-c", "user.name=lab", "-c", "user.email=lab@example.org"]);
        command.args(words).env("GIT_AUTHOR_DATE", "2000-01-01T00:00:00Z");
        run(command.env("GIT_COMMITTER_DATE", "2000-01-01T00:00:00Z"))
    };
    if !scratch.exists() {
        fs::create_dir_all(scratch).map_err(failed)?;
        git(&["init", "--quiet"])?;
        let files = (bytes / 50_000) as u64;
        for number in 0..files {
            // Half of it is what does not compress.
            let content = [random(25_000, number), lines(number * 9000..number * 9000 + 320)].concat();
            fs::write(scratch.join(format!("{number}.c")), content).map_err(failed)?;
        }
        git(&["add", "."])?;
        git(&["commit", "--quiet", "-m", "first"])?;
    }
    let files = fs::read_dir(scratch).map_err(failed)?.count().saturating_sub(1);
    for round in 0..rounds {
        let name = scratch.join(format!("{}.c", draw(round, files)));
        let mut content = fs::read(&name).map_err(failed)?;
        let at = draw(round + 7, content.len());
        content.splice(at..at, random(300, 1_000_000 + round));
        fs::write(&name, content).map_err(failed)?;
        git(&["commit", "--quiet", "-a", "-m", &format!("round {round}")])?;
    }
    git(&["repack", "--quiet", "-a", "-d", "-f"])?;
    let packs = scratch.join(".git/objects/pack");
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pack");
    let mut all = fs::read_dir(&packs).map_err(failed)?.flatten().map(|entry| entry.path()).filter(is_pack);
    let pack = all.next().ok_or_else(|| format!("git left no pack in {}", packs.display()))?;
    fs::copy(pack, to.join("repository.pack")).map(drop).map_err(failed)
}

/// The programs of PostgreSQL, where they are.
fn postgres() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> =
        fs::read_dir(POSTGRES).ok()?.flatten().map(|entry| entry.path()).collect();
    versions.sort();
    versions.pop().map(|version| version.join("bin")).filter(|bin| bin.join("pgbench").exists())
}

/// Whether PostgreSQL is installed.
pub fn has_postgres() -> bool {
    postgres().is_some()
}

/// A cluster of PostgreSQL, filled by pgbench if `old` is none, else the one in `old` after more of pgbench.
///
/// # Errors
/// It is not installed, or what it says.
pub fn cluster(scratch: &Path, to: &Path, old: Option<&Path>, scale: u64) -> Result<(), String> {
    let bin = postgres().ok_or("PostgreSQL is not here; apt-get install postgresql postgresql-contrib")?;
    let failed = |error: std::io::Error| format!("cannot prepare {}: {error}", scratch.display());
    let data = scratch.join("data");
    let as_user = |program: &str, words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", POSTGRES_USER, "--regid", POSTGRES_USER, "--clear-groups"]);
        command.arg(bin.join(program)).args(words).current_dir("/");
        run(&mut command)
    };
    let (at, socket) = (data.display().to_string(), scratch.display().to_string());
    if old.is_none() {
        fs::create_dir_all(scratch).map_err(failed)?;
        fs::set_permissions(scratch, fs::Permissions::from_mode(0o777)).map_err(failed)?;
        as_user("initdb", &["-D", &at, "-A", "trust", "--no-sync"])?;
    }
    let options = format!("-c listen_addresses='' -c fsync=off -c unix_socket_directories={socket}");
    as_user("pg_ctl", &["-D", &at, "-o", &options, "-l", &format!("{socket}/log"), "-w", "start"])?;
    let worked = match old {
        None => as_user("pgbench", &["-h", &socket, "-i", "-q", "-s", &scale.to_string(), "postgres"]),
        Some(_) => as_user("pgbench", &["-h", &socket, "-n", "-c", "4", "-t", "250", "postgres"]),
    };
    let stopped = as_user("pg_ctl", &["-D", &at, "-m", "fast", "-w", "stop"]);
    worked.and(stopped)?;
    copy(&data, &to.join("data"))
}
