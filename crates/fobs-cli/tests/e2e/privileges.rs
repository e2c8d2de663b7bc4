//! What a pushing client may give files at a server of root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use super::case::{Case, fobs_path};
use super::daemon::Daemon;
use super::needs;
use super::net::Side;
use super::sshd::{HOST, Sshd};

/// A number that no account of a host has.
const USER: u32 = 1_234_567;
const NOTICE: &str = "not privileged";

/// Syncs a setuid file of another user twice, and compares what arrives at `target` with what the client's
/// key may give.
fn expect(case: &Case, sync: impl Fn() -> Command, target: &Path, is_privileged: bool) {
    let file = case.local("tree/file");
    fs::create_dir_all(case.local("tree")).expect("own directory");
    fs::write(&file, "content").expect("own file");
    chown(&file, Some(USER), Some(USER)).expect("root can");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).expect("own file");
    let first = case.run(&mut sync()).expect_success();
    assert_eq!(first.stderr.contains(NOTICE), !is_privileged, "{}", first.said());
    let stat = fs::metadata(target.join("file")).expect("it arrived");
    let wanted = if is_privileged { (USER, 0o4755) } else { (0, 0o755) };
    assert_eq!((stat.uid(), stat.mode() & 0o7777), wanted);
    let second = case.run(&mut sync()).expect_success();
    assert_eq!(String::from_utf8_lossy(&second.stdout), "", "what is left out is no change");
}

#[test]
fn a_daemon_of_root_gives_owners_and_setuid_to_privileged_keys_only() {
    let name = "a_daemon_of_root_gives_owners_and_setuid_to_privileged_keys_only";
    if !needs::given(name) {
        return;
    }
    for (rights, is_privileged) in [("read-write", false), ("read-write,privileged", true)] {
        let case = Case::new(name);
        let daemon = Daemon::start(&case, rights);
        let sync = || {
            let mut sync = daemon.sync(&case);
            sync.args(["-ai"]).arg(case.local("tree/")).arg(daemon.url(""));
            sync
        };
        expect(&case, sync, &daemon.root, is_privileged);
    }
}

#[test]
fn a_restricted_key_of_root_gives_owners_and_setuid_only_if_privileged() {
    let name = "a_restricted_key_of_root_gives_owners_and_setuid_only_if_privileged";
    if !needs::given(name) {
        return;
    }
    for (option, is_privileged) in [("", false), ("--privileged", true)] {
        let case = Case::new(name);
        let sshd = Sshd::start(&case);
        let public = fs::read_to_string(case.path("ssh/user_key.pub")).expect("the key of the case");
        let (fobs, directory) = (fobs_path().display(), sshd.root.display());
        let line = format!("restrict,command=\"{fobs} server --restrict {directory} {option}\" {public}");
        fs::write(case.path("ssh/authorized_keys"), line).expect("a file of ours");
        let sync = || {
            let mut sync = case.fobs(Side::Client);
            sync.args(["sync", "-ai", "--ssh-config"]).arg(&sshd.config);
            sync.arg(case.local("tree/")).arg(format!("{HOST}:"));
            sync
        };
        expect(&case, sync, &sshd.root, is_privileged);
    }
}
