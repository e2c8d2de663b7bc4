//! A pipe over ssh whose `ssh` dies: the programs at both ends live, and it goes on. What an end keeps for
//! that.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::case::Case;
use super::sshd::{HOST, Sshd};

fn piping(case: &Case, sshd: &Sshd, options: &[&str], command: &str) -> Command {
    let mut pipe = sshd.pipe(case);
    pipe.args(options).args([HOST, "--", command]);
    pipe.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pipe
}

/// Kills the `ssh` of a client; whether there was one.
fn kill_ssh_of(client: &Child) -> bool {
    let client = client.id();
    let children = fs::read_to_string(format!("/proc/{client}/task/{client}/children")).unwrap_or_default();
    let of = |pid: &str| fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let ssh = children.split_whitespace().find(|pid| of(pid) == b"ssh\n");
    let pid = ssh.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

#[test]
fn a_pipe_goes_on_where_its_ssh_was_killed() {
    let case = Case::new("a_pipe_goes_on_where_its_ssh_was_killed");
    let sshd = Sshd::start(&case);
    for transport in ["udp", "tcp", "ssh"] {
        let input = case.random().bytes(900_000);
        // It says what it is given too late for one connection, and ends as it will.
        let command = "cat; echo beside >&2; exit 7";
        let mut child = piping(&case, &sshd, &["--transport", transport], command).spawn().expect("fobs");
        let (mut into, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut got = vec![0; input.len()];
        for (piece, room) in input.chunks(300_000).zip(got.chunks_mut(300_000)) {
            into.write_all(piece).unwrap();
            from.read_exact(room).unwrap();
            assert!(kill_ssh_of(&child), "{transport}: it has one");
        }
        drop(into);
        from.read_to_end(&mut got).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(got == input, "{transport}: {} bytes; {said}", got.len());
        assert_eq!(ended.status.code(), Some(7), "{transport}: {said}");
        // Data that has a way of its own may still come until the death of its ssh is seen.
        let goes_on =
            ["300000", "600000", "900000"].map(|at| said.contains(&format!("goes on at byte {at}\n")));
        assert!(said.contains("beside") && goes_on.contains(&true), "{transport}: {said}");
    }
}

#[test]
fn without_a_window_a_pipe_ends_with_its_ssh() {
    let case = Case::new("without_a_window_a_pipe_ends_with_its_ssh");
    let sshd = Sshd::start(&case);
    let at = case.path("ended");
    let command = format!("cat; echo all > {}", at.display());
    let mut child = piping(&case, &sshd, &["-q", "--resume-window", "0"], &command).spawn().expect("fobs");
    let (mut into, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    into.write_all(b"half").unwrap();
    from.read_exact(&mut [0; 4]).unwrap();
    assert!(kill_ssh_of(&child));
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("4 bytes had come from there"), "{said}");
    assert!(!at.exists(), "half of it is not all");
}

/// The most memory that a process had, in the words of proc(5), bytes.
fn peak_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of status");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

#[test]
fn an_end_takes_no_more_than_its_window_and_some() {
    let case = Case::new("an_end_takes_no_more_than_its_window_and_some");
    let sshd = Sshd::start(&case);
    // Beyond the window: what moves, the program itself, and threads.
    let (window, beside) = (64 << 20, 100 << 20);
    let options = ["-q", "--resume-window", "64MiB"];
    // It rests while more comes than all queues hold, and its parent is the other end.
    let command = "sleep 3; cat > /dev/null; cat /proc/$PPID/status";
    let mut child = piping(&case, &sshd, &options, command).spawn().expect("fobs");
    let mut into = child.stdin.take().unwrap();
    let piece = vec![7; 1 << 20];
    for _ in 0..500 {
        into.write_all(&piece).unwrap();
    }
    let here = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    drop(into);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let there = String::from_utf8_lossy(&ended.stdout).into_owned();
    let peaks = [peak_in(&here), peak_in(&there)];
    println!("{} MiB here, {} MiB there", peaks[0] >> 20, peaks[1] >> 20);
    assert!(peaks.iter().all(|&peak| peak < window + beside), "{peaks:?}");
}
