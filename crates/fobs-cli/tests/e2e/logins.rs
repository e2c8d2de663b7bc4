//! The user's own ssh as people have it: commands in its configuration, start-up files that print.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use super::case::Case;
use super::files::{hash, write_random};
use super::net::Side;
use super::process::Finished;
use super::sshd::{HOST, Sshd};

/// What the far side prints before fobs: an escape, lines, and no new line at its end.
const CHATTER: &str = "printf '\\033[31mWelcome!\\nyou have mail'";

fn copy(case: &Case, sshd: &Sshd, flags: &[&str], name: &str) -> Finished {
    let mut command = sshd.plain_cp(case);
    case.run(command.args(flags).arg(case.local("file")).arg(sshd.location(name)))
}

#[test]
fn commands_in_the_configuration_are_passed_off() {
    let case = Case::new("commands_in_the_configuration_are_passed_off");
    let sshd = Sshd::start(&case);
    let mut config = fs::read_to_string(&sshd.config).expect("ours");
    config.push_str(
        "  RemoteCommand tmux attach\n  RequestTTY yes\n  PermitLocalCommand yes\n  LocalCommand echo hi\n",
    );
    fs::write(&sshd.config, config).expect("ours");
    let expected = write_random(&case.local("file"), 1 << 20, &mut case.random());
    copy(&case, &sshd, &[], "there").expect_success();
    assert_eq!(hash(&sshd.root.join("there")), expected);
}

#[test]
fn a_login_shell_that_prints_something_is_no_hindrance() {
    let case = Case::new("a_login_shell_that_prints_something_is_no_hindrance");
    let sshd = Sshd::start(&case);
    // As a shell's start-up file would: before the program that ssh asks for.
    let wrapper = case.path("chatty");
    let program = super::case::peer_path().display();
    fs::write(
        &wrapper,
        format!("#!/bin/sh\n{CHATTER}\nprintf '\\033]0;title\\007' >&2\nexec {program} \"$@\"\n"),
    )
    .expect("ours");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("ours");
    let expected = write_random(&case.local("file"), 1 << 20, &mut case.random());
    for (flags, told) in [(&[][..], false), (&["-v"][..], true)] {
        let mut command = sshd.cp_with(&case, &wrapper);
        let ran = case.run(command.args(flags).arg(case.local("file")).arg(sshd.location("there")));
        let ran = ran.expect_success();
        assert_eq!(hash(&sshd.root.join("there")), expected);
        assert_eq!(ran.stderr.contains("you have mail"), told, "{}", ran.stderr);
        assert!(!ran.stderr.contains('\u{1b}'), "an escape reaches the terminal: {:?}", ran.stderr);
        assert!(ran.stderr.contains("]0;title"), "what ssh says is shown: {:?}", ran.stderr);
    }
    // What never comes to frames is named.
    let mut command = sshd.cp_with(&case, "/bin/echo".as_ref());
    let ran = case.run(command.arg(case.local("file")).arg(sshd.location("there")));
    assert!(ran.stderr.contains(HOST) && ran.stderr.contains("\"server\""), "{}", ran.stderr);
}

#[test]
fn top_ends_with_its_terminal() {
    let case = Case::new("top_ends_with_its_terminal");
    // Without a signal: as below nohup, or where the shell has gone.
    let mut command = case.command(Side::Client, "sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" top >&0"]).arg(super::case::fobs_path());
    let (mut running, mut terminal) = case.start_on_a_terminal(&command);
    // It draws, and waits for keys.
    let mut drawn = [0; 4096];
    assert!(terminal.read(&mut drawn).expect("it draws") > 0);
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(running.exited(), None, "it runs while its terminal is there");
    drop(terminal);
    case.wait_for("its end", || running.exited().is_some());
}
