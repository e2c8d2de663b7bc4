//! Keys of sshd that run `fobs server --restrict`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::case::{Case, fobs_path};
use super::files::{hash, names, write_random};
use super::net::Side;
use super::sshd::{HOST, Sshd};

/// An sshd whose only key runs `fobs server --restrict` for `inside/`, with more options.
pub struct Restricted {
    pub sshd: Sshd,
    pub inside: PathBuf,
}

impl Restricted {
    #[track_caller]
    pub fn start(case: &Case, options: &str) -> Restricted {
        let sshd = Sshd::start(case);
        let inside = sshd.root.join("inside");
        fs::create_dir(&inside).expect("a fresh directory");
        let public = fs::read_to_string(case.path("ssh/user_key.pub")).expect("the key of the case");
        let (fobs, directory) = (fobs_path().display(), inside.display());
        let line = format!("restrict,command=\"{fobs} server --restrict {directory} {options}\" {public}");
        fs::write(case.path("ssh/authorized_keys"), line).expect("a file of ours");
        Restricted { sshd, inside }
    }

    /// `fobs cp --json` of one source.
    fn cp(&self, case: &Case, source: &str, target: &str) -> Command {
        let mut command = self.sshd.plain_cp(case);
        command.args(["--json", "-r", source, target]);
        command
    }
}

#[test]
fn a_restricted_key_copies_below_its_directory_only() {
    let case = Case::new("a_restricted_key_copies_below_its_directory_only");
    let restricted = Restricted::start(&case, "");
    let local = |name: &str| case.local(name).display().to_string();
    let sent = write_random(&case.local("file"), 100_000, &mut case.random());
    let secret = restricted.sshd.root.join("secret");
    fs::write(&secret, "not for this key").expect("the remote directory");
    symlink("../secret", restricted.inside.join("link")).expect("a fresh name");
    symlink("..", restricted.inside.join("up")).expect("a fresh name");

    case.run(&mut restricted.cp(&case, &local("file"), &format!("{HOST}:"))).expect_success();
    assert_eq!(hash(&restricted.inside.join("file")), sent);
    // An absolute path begins at the directory.
    case.run(&mut restricted.cp(&case, &format!("{HOST}:/file"), &local("back"))).expect_success();
    assert_eq!(hash(&case.local("back")), sent);

    for outside in ["../secret", "link", "up/secret", "/../secret"] {
        let from = format!("{HOST}:{outside}");
        let pulled = case.run(&mut restricted.cp(&case, &from, &local("stolen")));
        assert!(matches!(pulled.code, Some(3 | 5)), "{outside}: {}", pulled.said());
        assert!(!case.local("stolen").exists(), "{outside}");
    }
    for outside in ["../planted", "up/planted", "/../planted"] {
        let to = format!("{HOST}:{outside}");
        let pushed = case.run(&mut restricted.cp(&case, &local("file"), &to));
        assert!(matches!(pushed.code, Some(4 | 5 | 23)), "{outside}: {}", pushed.said());
    }
    assert_eq!(names(&restricted.sshd.root), ["inside", "secret"]);
}

/// With another key the program was once sent to the host, so the client begins with what sends it.
#[test]
fn a_restricted_key_serves_a_client_that_sends_the_program() {
    let case = Case::new("a_restricted_key_serves_a_client_that_sends_the_program");
    let restricted = Restricted::start(&case, "--append-only");
    let state = case.path("home/.local/state/fobs");
    fs::create_dir_all(&state).expect("a directory of the case");
    fs::write(state.join("pushed-hosts"), format!("{HOST}\n")).expect("a file of ours");
    fs::write(case.local("file"), "content").expect("own directory");
    let (first, last) = case.net.udp_ports();
    for (number, target) in ["one", "two"].into_iter().enumerate() {
        let mut command = case.fobs(Side::Client);
        command.args(["cp", "-q", "--udp-ports", &format!("{first}-{last}"), "--ssh-config"]);
        command.arg(&restricted.sshd.config).arg(case.local("file")).arg(format!("{HOST}:{target}"));
        let done = case.run(&mut command);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{target}");
        assert_eq!(fs::read_to_string(restricted.inside.join(target)).expect("it came"), "content");
        assert_eq!(restricted.sshd.logins(), number + 1, "one login each");
    }
}

#[test]
fn a_restricted_key_moves_data_one_way_only_if_so_asked() {
    let case = Case::new("a_restricted_key_moves_data_one_way_only_if_so_asked");
    let mut restricted = Restricted::start(&case, "--write-only");
    fs::write(case.local("file"), "content").expect("own directory");
    let (local, remote) = (case.local("file").display().to_string(), format!("{HOST}:file"));
    case.run(&mut restricted.cp(&case, &local, &remote)).expect_success();
    let pulled = case.run(&mut restricted.cp(&case, &remote, &local)).expect_code(5).failed();
    assert!(pulled["message"].as_str().is_some_and(|text| text.contains("write-only")), "{pulled}");

    drop(restricted);
    case.start_over();
    restricted = Restricted::start(&case, "--read-only");
    fs::write(restricted.inside.join("file"), "content").expect("the remote directory");
    case.run(&mut restricted.cp(&case, &remote, &local)).expect_success();
    let pushed = case.run(&mut restricted.cp(&case, &local, &remote)).expect_code(5).failed();
    assert!(pushed["message"].as_str().is_some_and(|text| text.contains("read-only")), "{pushed}");
}

#[test]
fn a_restricted_key_runs_nothing_but_fobs() {
    let case = Case::new("a_restricted_key_runs_nothing_but_fobs");
    let restricted = Restricted::start(&case, "");
    let ssh = |words: &[&str]| {
        let mut ssh = case.command(Side::Client, "ssh");
        case.run(ssh.arg("-F").arg(&restricted.sshd.config).arg(HOST).args(words)).expect_code(5)
    };
    for words in [&["ls", "/"][..], &["fobs", "cp", "a", "b"], &["fobs server --restrict /"]] {
        let ran = ssh(words);
        assert!(ran.stdout.is_empty() && ran.stderr.contains("may run only 'fobs server'"), "{ran:?}");
    }
    assert!(ssh(&[]).stderr.contains("gives no shell"));
}
