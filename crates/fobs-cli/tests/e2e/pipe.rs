//! `fobs pipe` over ssh: what a pipeline of a shell promises, with a network in its middle.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;

use super::case::Case;
use super::needs;
use super::net::Side;
use super::process::Finished;
use super::sshd::{HOST, Sshd};

/// More than both ends and everything between them hold of a stream that is not read: 222 MiB at each end
/// ([protocol 8]), a few in pipes and sockets.
const MORE_THAN_FITS: u64 = 600 << 20;

/// `fobs pipe HOST -- COMMAND` with more options.
pub(super) fn piping(case: &Case, sshd: &Sshd, options: &[&str], command: &str) -> Command {
    let mut pipe = sshd.pipe(case);
    pipe.args(options).args([HOST, "--", command]);
    pipe
}

/// Runs it with this input.
#[track_caller]
fn piped(case: &Case, sshd: &Sshd, options: &[&str], command: &str, input: &[u8]) -> Finished {
    case.run_with_input(&mut piping(case, sshd, options, command), input.to_vec())
}

/// A line for a shell on the client's side in which `FOBS` stands for `fobs pipe -q HOST --`.
#[track_caller]
fn shell(case: &Case, sshd: &Sshd, line: &str) -> Finished {
    shell_with(case, sshd, &["-q"], line)
}

/// Likewise, with these options.
#[track_caller]
fn shell_with(case: &Case, sshd: &Sshd, options: &[&str], line: &str) -> Finished {
    let pipe = piping(case, sshd, options, "");
    let quote = |word: &OsStr| format!("'{}'", word.to_str().expect("text"));
    let mut words: Vec<String> =
        std::iter::once(pipe.get_program()).chain(pipe.get_args()).map(quote).collect();
    words.pop();
    let line = line.replace("FOBS", &words.join(" "));
    let mut command = Command::new("bash");
    command.args(["-c", &line]);
    for (name, value) in pipe.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    case.run(&mut command)
}

/// The processes below this host whose command line has a word.
pub(super) fn processes_with(word: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes()) && !line.starts_with(b"ssh\0")
    };
    let all = fs::read_dir("/proc").expect("proc").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has).collect()
}

#[test]
fn a_pipe_carries_bytes_errors_and_exit_codes() {
    let case = Case::new("a_pipe_carries_bytes_errors_and_exit_codes");
    let sshd = Sshd::start(&case);
    let input = case.random().bytes(3_000_001);
    let whole = piped(&case, &sshd, &["-q"], "cat; echo beside >&2; exit 7", &input).expect_code(7);
    assert!(whole.stdout == input && whole.stderr == "beside\n", "{}", whole.stderr);
    // As ssh: 128 and the signal, 127 for what is not there, a shell that reads all words.
    piped(&case, &sshd, &["-q"], "kill -15 $$", b"").expect_code(143);
    piped(&case, &sshd, &["-q"], "no-such-program-at-all", b"").expect_code(127);
    let words =
        case.run(sshd.pipe(&case).args(["-q", HOST, "--", "echo", "a  b", "$((1+1))"])).expect_success();
    assert_eq!(words.stdout, b"a b 2\n");
    let told = piped(&case, &sshd, &[], "cat", b"12345").expect_success();
    assert!(
        told.stderr.contains("sent 5 bytes") && told.stderr.contains("received 5 bytes"),
        "{}",
        told.stderr
    );
}

#[test]
fn every_transport_carries_a_pipe_both_ways_at_once() {
    let case = Case::new("every_transport_carries_a_pipe_both_ways_at_once");
    let sshd = Sshd::start(&case);
    let input = case.random().bytes(8_000_000);
    for options in [&["--transport", "udp"][..], &["--transport", "tcp"], &["--transport", "ssh"], &["-C"]] {
        let done = piped(&case, &sshd, options, "cat", &input).expect_success();
        assert!(done.stdout == input, "{options:?}: {} bytes", done.stdout.len());
    }
}

#[test]
fn the_end_of_input_arrives_while_output_still_comes() {
    let case = Case::new("the_end_of_input_arrives_while_output_still_comes");
    let sshd = Sshd::start(&case);
    let done =
        piped(&case, &sshd, &["-q"], "cat; echo ended; sleep 1; echo later", b"all\n").expect_success();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "all\nended\nlater\n");
}

#[test]
fn a_question_is_answered_before_the_next_one_is_asked() {
    let case = Case::new("a_question_is_answered_before_the_next_one_is_asked");
    let sshd = Sshd::start(&case);
    let mut command = piping(&case, &sshd, &["-q"], "while read x; do echo \"[$x]\"; done");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("fobs");
    let (mut asks, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(answers));
    for n in 0..50 {
        writeln!(asks, "{n}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), format!("[{n}]"));
    }
    drop(asks);
    assert!(lines.next().is_none() && child.wait().unwrap().success());
}

#[test]
fn a_program_that_reads_no_more_ends_the_one_before_it() {
    let case = Case::new("a_program_that_reads_no_more_ends_the_one_before_it");
    let sshd = Sshd::start(&case);
    // At this end, at the other, and at the other while it goes on (dropbear 379, znapzend 151, btrbk 275).
    for (line, said) in [
        ("FOBS 'cat /dev/zero' | head -c 10 | wc -c; echo ${PIPESTATUS[0]}", "10\n141\n"),
        ("FOBS 'cat /dev/zero' | false; echo ${PIPESTATUS[0]}", "141\n"),
        ("yes | FOBS 'head -1; exit 3'; echo ${PIPESTATUS[@]}", "y\n141 3\n"),
        (
            "yes | FOBS 'exec <&-; echo closed; sleep 1; echo on'; echo ${PIPESTATUS[@]}",
            "closed\non\n141 0\n",
        ),
        // The input is quiet when the command ends.
        ("{ sleep 3; echo -n; } | { FOBS 'exit 4'; echo $? at $SECONDS >&2; }", ""),
    ] {
        let done = shell(&case, &sshd, line);
        assert_eq!(String::from_utf8_lossy(&done.stdout), said, "{line}: {}", done.stderr);
        let codes = ["4 at 0\n", "4 at 1\n", "4 at 2\n"];
        assert!(done.stderr.is_empty() || codes.contains(&done.stderr.as_str()), "{line}: {}", done.stderr);
    }
    case.wait_for("no command runs on", || processes_with("/dev/zero").is_empty());
}

#[test]
fn a_command_that_rests_holds_up_the_sender_and_nothing_is_lost() {
    let case = Case::alone("a_command_that_rests_holds_up_the_sender_and_nothing_is_lost");
    let sshd = Sshd::start(&case);
    // For longer than the time after which a copy in which nothing moves is given up.
    let rest = "sleep 6; sha256sum | cut -c1-64";
    let line = format!(
        "head -c {MORE_THAN_FITS} /dev/zero | tee >(sha256sum | cut -c1-64 >&2) | FOBS '{rest}'; echo ${{PIPESTATUS[@]}}"
    );
    let done = shell_with(&case, &sshd, &["-q", "--timeout", "3"], &line);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(said.trim_end(), format!("{}\n0 0 0", done.stderr.trim_end()), "{}", done.stderr);
}

#[test]
fn programs_may_be_silent_for_longer_than_the_timeout() {
    let case = Case::new("programs_may_be_silent_for_longer_than_the_timeout");
    let sshd = Sshd::start(&case);
    let options = ["-q", "--timeout", "2"];
    let done = piped(&case, &sshd, &options, "sleep 5; echo quiet", b"").expect_success();
    assert_eq!(done.stdout, b"quiet\n");
    // One that is not read, at this end.
    let input = case.random().bytes(1000);
    let mut command = piping(&case, &sshd, &options, "cat; head -c 300000000 /dev/zero | tail -c 5; sleep 4");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("fobs");
    child.stdin.take().unwrap().write_all(&input).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let mut all = Vec::new();
    std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut all).unwrap();
    assert!(child.wait().unwrap().success() && all.len() == 1005 && all.starts_with(&input));
}

#[test]
fn what_a_command_says_is_all_there_however_late_it_is_read() {
    let case = Case::new("what_a_command_says_is_all_there_however_late_it_is_read");
    let sshd = Sshd::start(&case);
    let line = "FOBS 'head -c 9000000 /dev/zero >&2; exit 5' 2> >(sleep 2; wc -c); echo $?; wait";
    let done = shell(&case, &sshd, line);
    let mut said: Vec<String> = String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect();
    said.sort();
    assert_eq!(said, ["5", "9000000"]);
}

#[test]
fn what_the_command_left_behind_is_waited_for_as_ssh_does() {
    let case = Case::new("what_the_command_left_behind_is_waited_for_as_ssh_does");
    let sshd = Sshd::start(&case);
    let done = piped(&case, &sshd, &["-q"], "(sleep 1; echo late) & echo now", b"").expect_success();
    assert_eq!(done.stdout, b"now\nlate\n");
    let quick = piped(&case, &sshd, &["-q"], "sleep 100 >/dev/null 2>&1 & echo now", b"").expect_success();
    assert!(quick.stdout == b"now\n" && quick.took < Duration::from_secs(60), "{:?}", quick.took);
}

/// A command that notes what it got, and whether its input ended.
fn noting(directory: &Path) -> String {
    let at = directory.display();
    format!("echo $$ > {at}/pid; cat > {at}/got; echo $? all > {at}/ended")
}

#[test]
fn an_interrupted_pipe_ends_its_command_before_the_input_does() {
    let case = Case::new("an_interrupted_pipe_ends_its_command_before_the_input_does");
    let sshd = Sshd::start(&case);
    for (signal, code) in [(Signal::INT, Some(20)), (Signal::TERM, Some(20)), (Signal::KILL, None)] {
        let at = case.path(signal.as_raw().to_string());
        fs::create_dir(&at).unwrap();
        // One that was killed is waited for so long.
        let mut command = piping(&case, &sshd, &["-q", "--timeout", "5"], &noting(&at));
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fobs");
        child.stdin.as_mut().unwrap().write_all(&[7; 100_000]).unwrap();
        let got = || fs::metadata(at.join("got")).map_or(0, |it| it.len());
        case.wait_for("the command has what was sent", || got() == 100_000);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        // Its input stays open until it is gone.
        let input = child.stdin.take();
        let ended = child.wait_with_output().unwrap();
        drop(input);
        assert_eq!(ended.status.code(), code, "{signal:?}");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(signal == Signal::KILL || said.contains("interrupted"), "{said}");
        let pid = fs::read_to_string(at.join("pid")).unwrap();
        case.wait_for("the command is gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
        let ended = fs::read_to_string(at.join("ended")).unwrap_or_default();
        assert_eq!(ended, "", "{signal:?}: it took the half for the whole; {said}");
    }
}

#[test]
fn ctrl_c_at_a_terminal_ends_the_far_command_and_leaves_the_terminal_as_it_was() {
    let case = Case::new("ctrl_c_at_a_terminal_ends_the_far_command_and_leaves_the_terminal_as_it_was");
    let sshd = Sshd::start(&case);
    let at = case.path("far");
    fs::create_dir(&at).unwrap();
    let command = piping(&case, &sshd, &[], &noting(&at));
    let (mut running, mut keyboard) = case.start_on_a_terminal(&command);
    let before = rustix::termios::tcgetattr(&keyboard).unwrap().local_modes;
    keyboard.write_all(b"typed\n").unwrap();
    let got = || fs::read(at.join("got")).unwrap_or_default();
    case.wait_for("a line that was typed is there", || got() == b"typed\n");
    keyboard.write_all(b"\x03").unwrap();
    case.wait_for("it has ended", || running.exited().is_some());
    assert_eq!(running.exited().unwrap().code(), Some(20));
    let pid = fs::read_to_string(at.join("pid")).unwrap();
    case.wait_for("the command is gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    assert!(!at.join("ended").exists());
    assert_eq!(rustix::termios::tcgetattr(&keyboard).unwrap().local_modes, before);
}

#[test]
fn json_tells_both_directions_and_what_the_command_says() {
    let case = Case::new("json_tells_both_directions_and_what_the_command_says");
    let sshd = Sshd::start(&case);
    let done =
        piped(&case, &sshd, &["--json"], "cat; echo one >&2; printf two >&2; exit 3", b"data").expect_code(3);
    assert_eq!(done.stdout, b"data");
    let events: Vec<serde_json::Value> =
        done.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(events.iter().all(|event| event["v"] == 1));
    let said: Vec<_> =
        events.iter().filter(|it| it["event"] == "errors").map(|it| it["text"].clone()).collect();
    assert_eq!(said, ["one", "two"]);
    let last = events.iter().find(|it| it["event"] == "done").expect("an end");
    assert_eq!((&last["exit_code"], &last["sent"]["bytes"]), (&3.into(), &4.into()));
    assert_eq!(last["received"]["bytes"], 4);
    assert!(last["explain_sent"].is_object(), "{last}");
    let failed = case.run(sshd.pipe(&case).args(["--json", "no-such-host-here.invalid", "--", "cat"]));
    let last: serde_json::Value = serde_json::from_str(failed.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["exit_code"]), (&"failed".into(), &255.into()));
    assert_eq!(failed.code, Some(255));
}

#[test]
fn a_rate_holds_and_the_limit_is_explained() {
    let case = Case::alone("a_rate_holds_and_the_limit_is_explained");
    let sshd = Sshd::start(&case);
    let input = vec![1; 5_000_000];
    let options = ["--rate", "16Mbit", "--explain"];
    let done = piped(&case, &sshd, &options, "cat >/dev/null", &input).expect_success();
    assert!(done.took >= Duration::from_secs_f64(5_000_000.0 * 8.0 / 16e6 * 0.8), "{:?}", done.took);
    assert!(done.stderr.contains("what was sent:") && done.stderr.contains("--rate"), "{}", done.stderr);
}

#[test]
fn a_restricted_login_runs_no_command() {
    let case = Case::new("a_restricted_login_runs_no_command");
    let sshd = Sshd::start(&case);
    let key = fs::read_to_string(case.path("ssh/user_key.pub")).unwrap();
    let fobs = super::case::peer_path().display();
    let served = sshd.root.display();
    let line = format!("restrict,command=\"{fobs} server --restrict {served}\" {key}");
    fs::write(case.path("ssh/authorized_keys"), line).unwrap();
    let refused = piped(&case, &sshd, &["-q"], "touch /tmp/never", b"").expect_code(5);
    assert!(refused.stderr.contains("run"), "{}", refused.stderr);
}

/// Writes pieces of this with pauses, and ends.
pub(super) fn write_slowly(
    mut into: impl Write + Send + 'static,
    all: Vec<u8>,
    pause: Duration,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for piece in all.chunks(1 << 19) {
            if into.write_all(piece).is_err() {
                return;
            }
            std::thread::sleep(pause);
        }
    })
}

#[test]
fn tar_to_tar_moves_a_tree() {
    let case = Case::new("tar_to_tar_moves_a_tree");
    let sshd = Sshd::start(&case);
    let (from, to) = (case.local("tree"), case.path("there"));
    fs::create_dir_all(&from).unwrap();
    fs::create_dir(&to).unwrap();
    super::files::make_odd_tree(&from, &mut case.random());
    let (source, target) = (from.display(), to.display());
    let line = format!("tar c -C {source} . | FOBS 'tar x -C {target}'; echo ${{PIPESTATUS[@]}}");
    let done = shell(&case, &sshd, &line);
    assert_eq!(done.stdout, b"0 0\n", "{}", done.stderr);
    super::files::assert_same_tree(&from, &to, super::files::Compare::Content);
}

/// Everything that arrives at either host vanishes, or no longer does.
fn vanish(case: &Case, rule: &str) {
    for side in [Side::Client, Side::Server] {
        case.net.iptables(side, rule);
    }
}

#[test]
fn a_pipe_outlives_an_outage_and_loses_nothing() {
    let name = "a_pipe_outlives_an_outage_and_loses_nothing";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let sshd = Sshd::start(&case);
    let input = case.random().bytes(12_000_000);
    let mut command = piping(&case, &sshd, &["-q", "--rate", "30Mbit"], "cat");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("fobs");
    let writing = write_slowly(child.stdin.take().unwrap(), input.clone(), Duration::ZERO);
    let mut from = child.stdout.take().unwrap();
    let mut got = vec![0; 1_000_000];
    std::io::Read::read_exact(&mut from, &mut got).unwrap();
    vanish(&case, "-I INPUT -j DROP");
    std::thread::sleep(Duration::from_secs(12));
    vanish(&case, "-D INPUT -j DROP");
    std::io::Read::read_to_end(&mut from, &mut got).unwrap();
    writing.join().unwrap();
    assert!(child.wait().unwrap().success() && got == input, "{} bytes", got.len());
}

#[test]
fn a_path_that_stays_away_ends_both_programs_within_the_timeout() {
    let name = "a_path_that_stays_away_ends_both_programs_within_the_timeout";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let sshd = Sshd::start(&case);
    let at = case.path("far");
    fs::create_dir(&at).unwrap();
    let mut command = piping(&case, &sshd, &["-q", "--timeout", "4"], &noting(&at));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fobs");
    let mut into = child.stdin.take().unwrap();
    into.write_all(&[5; 300_000]).unwrap();
    let got = || fs::metadata(at.join("got")).map_or(0, |it| it.len());
    case.wait_for("the command has what was sent", || got() == 300_000);
    vanish(&case, "-I INPUT -j DROP");
    // Bytes that nobody confirms: of an idle pipe nothing is missed.
    into.write_all(&[6; 300_000]).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(matches!(ended.status.code(), Some(30 | 35)), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("bytes had come from there"), "{said}");
    let pid = fs::read_to_string(at.join("pid")).unwrap();
    case.wait_for("the command is gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    assert!(!at.join("ended").exists() && got() == 300_000);
    drop(into);
}
