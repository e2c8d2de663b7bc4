//! Rights by the command line: the guide's backup recipe, and every option under every right of `fobs server
//! --restrict`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use fobs::Access;

use super::case::{Case, fobs_path};
use super::daemon::{Daemon, Key, Spec};
use super::files::{Compare, Entry, Listing, assert_same_tree, hash, list, names, write_random};
use super::net::Side;
use super::process::Finished;
use super::restricted::Restricted;
use super::sshd::HOST;

const GUIDE: &str = include_str!("../../../../docs/guide.md");
const SECURITY: &str = include_str!("../../../../docs/security.md");

/// A host for backups, reached over ssh or at a daemon.
enum Vault {
    Ssh(Box<Restricted>),
    Daemon(Box<Daemon>),
}

impl Vault {
    fn start(case: &Case, over_ssh: bool) -> Vault {
        if over_ssh {
            return Vault::Ssh(Box::new(Restricted::start(case, "--append-only")));
        }
        let server = Key::generate(case, "server-key");
        let file = case.path("client-key");
        let mut keygen = case.fobs(Side::Client);
        keygen.args(["keygen", "--for-upload", "--comment", "backup of laptop", "--out"]).arg(&file);
        let line = String::from_utf8(case.run(&mut keygen).expect_success().stdout).expect("text");
        let (right, public) = line.trim().split_once(' ').expect("a right and a key");
        let key = Key { file, public: public.to_owned() };
        Vault::Daemon(Box::new(Daemon::start_with(case, Spec::new(case, &[(right, &key)], &server))))
    }

    /// Where its backups are.
    fn root(&self) -> &Path {
        match self {
            Vault::Ssh(restricted) => &restricted.inside,
            Vault::Daemon(daemon) => &daemon.root,
        }
    }

    /// A command of the guide, which names the host `vault` and the key.
    fn command(&self, case: &Case, line: &str) -> Command {
        let mut words = line.split_whitespace().skip_while(|word| *word != "fobs").skip(1);
        let mut command = match (self, words.next()) {
            (Vault::Ssh(restricted), Some("sync")) => restricted.sshd.sync(case),
            (Vault::Ssh(restricted), Some("cp")) => restricted.sshd.plain_cp(case),
            (Vault::Daemon(daemon), Some("sync")) => daemon.sync(case),
            (Vault::Daemon(daemon), Some("cp")) => daemon.cp(case),
            (_, other) => panic!("{other:?} in {line}"),
        };
        while let Some(word) = words.next() {
            let arg: OsString = match (word, word.split_once("vault:")) {
                ("-i" | "--identity", _) => {
                    words.next();
                    continue;
                }
                // A test reads what it says.
                ("-q", _) => continue,
                (_, Some((_, path))) => self.location(path),
                ("-", _) => "-".into(),
                (option, _) if option.starts_with('-') || option == "scavenger" => option.into(),
                (local, _) => {
                    let mut path =
                        case.local(local.trim_start_matches("~/").trim_end_matches('/')).into_os_string();
                    path.push(if local.ends_with('/') { "/" } else { "" });
                    path
                }
            };
            command.arg(arg);
        }
        command
    }

    fn location(&self, path: &str) -> OsString {
        match self {
            Vault::Ssh(_) => format!("{HOST}:{path}").into(),
            Vault::Daemon(daemon) => daemon.url(path).into(),
        }
    }
}

/// The lines of the guide's recipe that begin so, up to their comment, and the comment.
fn recipe(beginning: &str) -> Vec<(String, String)> {
    let (_, recipe) = GUIDE.split_once("### A nightly backup with a restricted key").expect("the recipe");
    let (recipe, _) = recipe.split_once("\n### ").expect("another recipe follows");
    let lines = recipe.lines().filter(|line| line.starts_with(beginning));
    let cut = |line: &str| match line.split_once('#') {
        Some((command, comment)) => (command.trim().to_owned(), comment.trim().to_owned()),
        None => (line.to_owned(), String::new()),
    };
    lines.map(cut).collect()
}

/// A day in place of the shell's.
fn on_day(line: &str, day: &str) -> String {
    line.replace("$(date +\\%F)", day)
}

fn laptop(case: &Case) {
    let mut random = case.random();
    for name in ["data/letters/one", "data/letters/two", "data/photo"] {
        fs::create_dir_all(case.local(name).parent().expect("it has one")).expect("own directory");
        write_random(&case.local(name), 30_000, &mut random);
    }
    // A thief of the laptop chooses times.
    fs::File::open(case.local("data/photo"))
        .expect("own file")
        .set_modified(SystemTime::UNIX_EPOCH)
        .expect("own");
    fs::create_dir(case.local("empty")).expect("a fresh directory");
}

/// What the recipe's `find` would remove, and that it does remove what is old.
fn pruned(case: &Case, root: &Path) -> String {
    let (line, _) = recipe("find ").pop().expect("how old backups go");
    let days =
        line.split_whitespace().skip_while(|word| *word != "-mtime").nth(1).expect("-mtime N").to_owned();
    let mut find = case.command(Side::Server, "find");
    find.arg(root).args(["-mindepth", "1", "-maxdepth", "1", "-mtime", &days]);
    String::from_utf8(case.run(&mut find).expect_success().stdout).expect("plain names")
}

fn the_recipe_holds(case: &Case, over_ssh: bool) {
    laptop(case);
    let vault = Vault::start(case, over_ssh);
    let nightly = recipe("30 2 * * *");
    let [(tree, _), (archive, _)] = &nightly[..] else { panic!("two forms: {nightly:?}") };
    for day in ["2026-11-24", "2026-11-25"] {
        case.run(&mut vault.command(case, &on_day(tree, day))).expect_success();
        assert_same_tree(&case.local("data"), &vault.root().join(day), Compare::Content);
        let sent = case.random().bytes(50_000);
        let mut command = vault.command(case, on_day(archive, day).split_once('|').expect("tar first").1);
        case.run_with_input(&mut command, sent.clone()).expect_success();
        assert!(fs::read(vault.root().join(format!("{day}.tar"))).expect("it is there") == sent);
    }
    assert_eq!(pruned(case, vault.root()), "", "no backup is old, whatever its files' times were");

    let before = list(vault.root(), Compare::Metadata);
    let refused = recipe("fobs ");
    assert_eq!(refused.len(), 3, "what the key may not do: {refused:?}");
    for (line, comment) in &refused {
        let (code, why) = comment.split_once(": ").expect("an exit code and a sentence");
        let done = case.run(&mut vault.command(case, line)).expect_code(code.parse().expect("a code"));
        assert!(done.said().contains(why) && done.said().contains("append-only"), "{line}: {}", done.said());
    }
    // What a session of the issue's kind asks for: names, guesses of content, and all that could destroy.
    fs::create_dir_all(case.local("guess")).expect("own directory");
    fs::copy(case.local("data/photo"), case.local("guess/photo")).expect("own file");
    for options in [
        "-rcii -n guess/ vault:2026-11-24",
        "-a --ignore-existing guess/ vault:2026-11-24",
        "-a --existing guess/ vault:2026-11-24",
        "-au guess/ vault:2026-11-24",
        "-ab guess/ vault:2026-11-24",
        "-a --size-only guess/ vault:2026-11-24",
        "-a --link-dest=../2026-11-24 guess/ vault:2026-11-26",
        "-a --delete-before empty/ vault:",
        "-a --remove-source-files vault:2026-11-24/ stolen",
    ] {
        let done = case.run(&mut vault.command(case, &format!("fobs sync {options}"))).expect_code(5);
        let said = done.said();
        for secret in ["letters", "one", "two", "photo", "tar"].iter().filter(|_| !said.contains("'2026")) {
            assert!(
                !said.split(|c: char| !c.is_alphanumeric()).any(|word| word == *secret),
                "{options}: {said}"
            );
        }
    }
    // Other content under a name that exists: refused by name, and it stays.
    let again = case.run(&mut vault.command(case, "fobs sync -a guess/ vault:2026-11-24")).expect_code(23);
    assert!(again.said().contains("name was taken"), "{}", again.said());
    let without_directories = |mut all: Listing| {
        all.retain(|_, (entry, _)| !matches!(entry, Entry::Directory));
        all
    };
    assert_eq!(without_directories(list(vault.root(), Compare::Metadata)), without_directories(before));
    assert_eq!(names(&case.local("")), ["data", "empty", "guess"]);
    age(&vault.root().join("2026-11-24"));
    assert!(pruned(case, vault.root()).ends_with("2026-11-24\n"));
}

/// As if it were 100 days old.
fn age(directory: &Path) {
    let then = SystemTime::now() - Duration::from_secs(100 * 24 * 3600);
    fs::File::open(directory).expect("a directory").set_modified(then).expect("own directory");
}

#[test]
fn the_guides_backup_recipe_holds_over_ssh() {
    the_recipe_holds(&Case::new("the_guides_backup_recipe_holds_over_ssh"), true);
}

#[test]
fn the_guides_backup_recipe_holds_at_a_daemon() {
    the_recipe_holds(&Case::new("the_guides_backup_recipe_holds_at_a_daemon"), false);
}

/// `fobs server --restrict` at the end of a pipe, in place of ssh.
struct Pipe {
    program: PathBuf,
    inside: PathBuf,
}

impl Pipe {
    fn new(case: &Case, access: Access) -> Pipe {
        let (program, inside) = (case.path("pipe"), case.path("inside"));
        let flag = match access {
            Access::ReadWrite => String::new(),
            other => format!("--{}", other.name()),
        };
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *-G*) echo hostname 127.0.0.1; exit ;; esac\nexec {} server --restrict {} {flag}\n",
            fobs_path().display(),
            inside.display()
        );
        fs::write(&program, script).expect("a file of ours");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).expect("own file");
        Pipe { program, inside }
    }

    /// Both sides as they are before each command.
    fn fresh(&self, case: &Case) {
        for directory in [self.inside.clone(), case.local("source")] {
            let _ = fs::remove_dir_all(&directory);
            fs::create_dir_all(directory.join("dir")).expect("own directory");
        }
        for (name, content) in [("secret", "one"), ("same", "equal"), ("dir/deep", "two")] {
            fs::write(self.inside.join(name), content).expect("own file");
        }
        for (name, content) in [("new", "content"), ("dir/inner", "inner")] {
            fs::write(case.local("source").join(name), content).expect("own file");
        }
    }

    fn run(&self, case: &Case, verb: &str, options: &[&str], back: bool) -> Finished {
        let mut command = case.fobs(Side::Client);
        command.args([verb, "--transport", "ssh", "--ssh"]).arg(&self.program).args(options);
        let _ = fs::remove_dir_all(case.local("pulled"));
        let mut here = case.local(if back { "pulled" } else { "source" }).into_os_string();
        here.push("/");
        let there = "vault:";
        if back {
            command.arg(format!("{there}./")).arg(here)
        } else {
            command.arg(here).arg(there)
        };
        case.run(&mut command)
    }
}

/// Whether docs/security.md says that a right allows an action.
fn printed(access: Access, action: &str) -> bool {
    let table: Vec<&str> = SECURITY.lines().skip_while(|line| !line.starts_with("| may |")).collect();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let column = cells(table[0]).iter().position(|cell| *cell == format!("`{}`", access.name()));
    let row =
        table.iter().map(|line| cells(line)).find(|cells| cells.get(1).is_some_and(|name| name == action));
    row.expect("the action has a row")[column.expect("the right has a column")] == "yes"
}

#[test]
fn every_option_under_every_restriction_is_as_printed() {
    const CREATE: &str = "make new names";
    const LOOK: &str = "look at what is there";
    const COMPARE: &str = "compare or hash contents";
    const READ: &str = "read contents";
    let pushes: [(&str, &[&str], &[&str]); 20] = [
        ("cp", &["-r"], &[CREATE]),
        ("cp", &["-rp"], &[CREATE]),
        ("cp", &["-r", "--checksum"], &[CREATE, COMPARE]),
        ("cp", &["-r", "--append-verify"], &[CREATE, COMPARE]),
        ("sync", &["-a"], &[CREATE]),
        ("sync", &["-avii"], &[CREATE]),
        ("sync", &["-aHAXSI"], &[CREATE]),
        ("sync", &["-a", "--remove-source-files"], &[CREATE]),
        ("sync", &["-ain"], &[CREATE, LOOK]),
        ("sync", &["-ac"], &[CREATE, COMPARE]),
        ("sync", &["-au"], &[CREATE, LOOK]),
        ("sync", &["-ab"], &[CREATE, "rename"]),
        ("sync", &["-a", "--size-only"], &[CREATE, LOOK]),
        ("sync", &["-a", "--existing"], &[CREATE, LOOK]),
        ("sync", &["-a", "--ignore-existing"], &[CREATE, LOOK]),
        ("sync", &["-a", "--link-dest=dir"], &[CREATE, LOOK]),
        ("sync", &["-a", "--delete"], &[CREATE, "delete"]),
        ("sync", &["-a", "--delete-before"], &[CREATE, "delete"]),
        ("sync", &["-a", "--delete-after"], &[CREATE, "delete"]),
        ("sync", &["-a", "--delete-excluded"], &[CREATE, "delete"]),
    ];
    let pulls: [(&str, &[&str], &[&str]); 5] = [
        ("cp", &["-r"], &["list names", LOOK, READ]),
        ("sync", &["-a"], &["list names", LOOK, READ]),
        ("sync", &["-ain", "--delete"], &["list names", LOOK, READ]),
        ("sync", &["-ac"], &["list names", LOOK, READ, COMPARE]),
        ("sync", &["-a", "--remove-source-files"], &["list names", LOOK, READ, "delete"]),
    ];
    let case = Case::new("every_option_under_every_restriction_is_as_printed");
    for &access in Access::ALL {
        let pipe = Pipe::new(&case, access);
        let all = pushes.iter().map(|it| (false, it)).chain(pulls.iter().map(|it| (true, it)));
        for (back, (verb, options, needs)) in all {
            pipe.fresh(&case);
            let before = list(&pipe.inside, Compare::Metadata);
            let done = pipe.run(&case, verb, options, back);
            let what =
                format!("{verb} {options:?} {} with {}", if back { "back" } else { "" }, access.name());
            if needs.iter().all(|need| printed(access, need)) {
                assert_eq!(done.code, Some(0), "{what}: {}", done.said());
                continue;
            }
            assert_eq!(done.code, Some(5), "{what}: {}", done.said());
            assert!(done.said().contains(access.name()), "{what}: {}", done.said());
            assert!(
                !done.said().contains("secret") && !done.said().contains("deep"),
                "{what}: {}",
                done.said()
            );
            assert_eq!(list(&pipe.inside, Compare::Metadata), before, "{what}");
        }
    }
    assert_ne!(hash(&case.local("source/new")), hash(&case.path("inside/secret")));
}
