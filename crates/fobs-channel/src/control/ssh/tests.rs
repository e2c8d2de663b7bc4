use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use super::super::frame;
use super::patience::SilenceLimit;
use super::*;
use fobs_model::event::EventSink;
use fobs_model::message::Message;
use fobs_model::options::{AddressFamily, ShellGrammar};

fn remote(host: &str) -> Remote {
    Remote { carrier: Carrier::Ssh, user: None, host: host.to_owned(), port: None, path: b"/data".to_vec() }
}

/// A script in place of `ssh`. Another process installs it: if this one held it open for writing, a fork in
/// another test's thread would inherit that, and it could not be run.
fn fake_ssh(directory: &tempfile::TempDir, script: &str) -> TransferOptions {
    let (source, program) = (directory.path().join("source"), directory.path().join("ssh"));
    std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
    let installed = Command::new("install").args(["-m", "755"]).args([&source, &program]).status().unwrap();
    assert!(installed.success());
    let mut options = TransferOptions::default();
    options.ssh.program = Some(program);
    options
}

fn hello_through(script: &str) -> Result<Hello> {
    let directory = tempfile::tempdir().unwrap();
    let options = fake_ssh(&directory, script);
    connect(&remote("far"), &options)?.hello()
}

fn texts(arguments: &[OsString]) -> Vec<&str> {
    arguments.iter().map(|argument| argument.to_str().unwrap()).collect()
}

#[test]
fn the_plain_argument_list() {
    let arguments = line(&remote("far"), &TransferOptions::default()).unwrap();
    assert_eq!(
        texts(&arguments),
        [
            "-T",
            "-x",
            "-oRemoteCommand=none",
            "-oPermitLocalCommand=no",
            "-oClearAllForwardings=yes",
            "--",
            "far",
            "fobs server"
        ]
    );
}

#[test]
fn every_option_is_passed_on() {
    let mut options = TransferOptions {
        compress: true,
        address_family: AddressFamily::V6,
        identity: Some(PathBuf::from("/keys/id")),
        port: Some(2022),
        fobs_path: "nice -n 5 /opt/fobs".to_owned(),
        ..TransferOptions::default()
    };
    options.ssh.config_file = Some(PathBuf::from("my config"));
    options.ssh.jump = Some("gate,inner".to_owned());
    options.ssh.options = vec!["BatchMode=yes".to_owned(), "ConnectTimeout=3".to_owned()];
    let mut remote = Remote { user: Some("ann".to_owned()), ..remote("fe80::1%eth0") };
    let expected = |port: &'static str| {
        [
            [
                "-T",
                "-x",
                "-oRemoteCommand=none",
                "-oPermitLocalCommand=no",
                "-F",
                "my config",
                "-J",
                "gate,inner",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=3",
            ]
            .as_slice(),
            &["-i", "/keys/id", "-p", port, "-6", "-oClearAllForwardings=yes", "-C", "--"],
            &["ann@fe80::1%eth0", "nice -n 5 /opt/fobs server"],
        ]
        .concat()
    };
    assert_eq!(texts(&line(&remote, &options).unwrap()), expected("2022"));
    remote.port = Some(2222);
    assert_eq!(texts(&line(&remote, &options).unwrap()), expected("2222"), "the location's port goes first");
    options.address_family = AddressFamily::V4;
    assert!(texts(&line(&remote, &options).unwrap()).contains(&"-4"));
}

#[test]
fn another_remote_shell_is_called_as_rsync_calls_it() {
    let mut options = TransferOptions { compress: true, port: Some(9), ..TransferOptions::default() };
    options.ssh.arguments = ["-p", "2222", "-o", "A b"].map(OsString::from).to_vec();
    let with_ssh = line(&remote("far"), &options).unwrap();
    let ours = [
        "-T",
        "-x",
        "-oRemoteCommand=none",
        "-oPermitLocalCommand=no",
        "-p",
        "9",
        "-oClearAllForwardings=yes",
        "-C",
        "--",
        "far",
        "fobs server",
    ];
    assert_eq!(texts(&with_ssh), [&["-p", "2222", "-o", "A b"][..], &ours].concat());
    options.ssh.grammar = ShellGrammar::HostAndCommand;
    options.ssh.arguments = ["exec", "-i"].map(OsString::from).to_vec();
    options.fobs_path = "sudo fobs".to_owned();
    let ann = Remote { user: Some("ann".to_owned()), ..remote("box") };
    let plain = line(&remote("box"), &options).unwrap();
    assert_eq!(texts(&plain), ["exec", "-i", "box", "sudo", "fobs", "server"]);
    let with_user = line(&ann, &options).unwrap();
    assert_eq!(texts(&with_user), ["exec", "-i", "-l", "ann", "box", "sudo", "fobs", "server"]);
    assert_eq!(resolve_host(&remote("box"), &options), ["box"]);
    line(&remote("--privileged"), &options).unwrap_err();
}

#[test]
fn names_that_are_options_are_refused() {
    let options = TransferOptions::default();
    for host in ["", "-oProxyCommand=rm", "a b", "a\nb", "a\0b"] {
        assert_eq!(connect(&remote(host), &options).unwrap_err().kind, ErrorKind::Usage, "{host:?}");
        assert_eq!(resolve_host(&remote(host), &options), [host]);
    }
    for user in ["", "-l", "a\nb"] {
        let remote = Remote { user: Some(user.to_owned()), ..remote("far") };
        assert_eq!(connect(&remote, &options).unwrap_err().kind, ErrorKind::Usage, "{user:?}");
    }
    for fobs_path in ["", " ", "fo\0bs"] {
        let options = TransferOptions { fobs_path: fobs_path.to_owned(), ..options.clone() };
        assert_eq!(connect(&remote("far"), &options).unwrap_err().kind, ErrorKind::Usage, "{fobs_path:?}");
    }
}

#[test]
fn a_missing_ssh_is_named() {
    let mut options = TransferOptions::default();
    options.ssh.program = Some(PathBuf::from("/nonexistent/ssh"));
    let error = connect(&remote("far"), &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Ssh);
    assert!(error.message.contains("/nonexistent/ssh"), "{error}");
    assert_eq!(resolve_host(&remote("far"), &options), ["far"]);
}

#[test]
fn a_missing_fobs_is_explained() {
    for script in ["exit 127", "/nonexistent/fobs server", "echo Welcome!; exit 127"] {
        let error = hello_through(script).unwrap_err();
        assert_eq!(error.kind, ErrorKind::RemoteMissing, "{script}: {error}");
        for part in ["far", "\"fobs\"", "--fobs-path"] {
            assert!(error.message.contains(part), "{part} is missing: {error}");
        }
    }
    assert_eq!(hello_through("exit 126").unwrap_err().kind, ErrorKind::RemoteMissing);
}

#[test]
fn a_failing_ssh_is_its_own_error() {
    let error = hello_through("exit 255").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Ssh);
    assert!(error.message.contains("far"), "{error}");
    let error = hello_through("kill -9 $$").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Ssh);
    assert!(error.message.contains("signal 9"), "{error}");
}

#[test]
fn other_endings_name_their_status() {
    for status in [0, 3] {
        let error = hello_through(&format!("exit {status}")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.contains(&format!("status {status}")), "{error}");
    }
}

#[test]
fn a_chatty_shell_is_shown_what_it_says() {
    let long = "Welcome to far, ".repeat(20);
    for script in [
        format!("echo '{long}'; exec cat >/dev/null"),
        format!("printf '\\033[1m{long}'; exit 0"),
        format!("echo '{long}'; exit 255"),
    ] {
        let error = hello_through(&script).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        assert!(error.message.contains("does not begin to speak"), "{error}");
        assert!(error.message.contains("Welcome to far"), "{error}");
        assert!(!error.message.contains(&long[..HEAD_CHARS_SHOWN + 10]), "{error}");
        assert!(!error.message.contains('\u{1b}'));
    }
    let error = hello_through("echo; exec cat >/dev/null").unwrap_err();
    assert!(error.message.contains("does not begin to speak"), "an empty line: {error}");
}

#[test]
fn a_shell_that_prints_something_is_no_hindrance() {
    for before in ["echo 'Welcome to far!'", "printf '\\033[2J\\000zero\\n'", "seq 5000"] {
        let directory = tempfile::tempdir().unwrap();
        let options = fake_ssh(&directory, &format!("{before}; exec cat"));
        let mut session = connect(&remote("far"), &options).unwrap();
        assert!(session.hello().unwrap().program.starts_with("fobs "), "{before}");
        let chatter = session.process.chatter();
        assert!(!chatter.is_empty() && !chatter.contains(char::is_control), "{chatter:?}");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut session = connect(&remote("far"), &fake_ssh(&directory, "exec cat")).unwrap();
    session.hello().unwrap();
    assert_eq!(session.process.chatter(), "");
}

#[test]
fn a_peer_of_another_version_speaks_for_itself() {
    let theirs = Hello {
        protocol: 7,
        newest: None,
        program: "fobs 7".to_owned(),
        fast_aes: false,
        features: Vec::new(),
    };
    let frame = frame::encode(&Message::Hello(theirs)).unwrap();
    let octal: String = frame.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let error = hello_through(&format!("printf '{octal}'; exec cat >/dev/null")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert!(error.message.contains("speaks 7"), "{error}");
}

#[test]
fn only_what_ssh_reaches_is_named_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = fake_ssh(&directory, "exec cat");
    options.ssh.grammar = ShellGrammar::HostAndCommand;
    let session = connect(&remote("a-container"), &options).unwrap();
    assert_eq!(session.channel.peer.description, "a-container");
}

#[test]
fn an_echoing_peer_says_hello_and_ends_with_its_input() {
    let directory = tempfile::tempdir().unwrap();
    let options = fake_ssh(&directory, "cat; exit 5");
    let mut session = connect(&remote("far"), &options).unwrap();
    assert!(session.hello().unwrap().program.starts_with("fobs "));
    assert_eq!(session.channel.peer.description, "far via ssh");
    session.channel.writer.close();
    assert_eq!(session.process.finish().unwrap().code(), Some(5));
}

#[test]
fn a_dropped_session_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let options = fake_ssh(&directory, "exec sleep 1000");
    let session = connect(&remote("far"), &options).unwrap();
    let process = PathBuf::from(format!("/proc/{}", locked(&session.process.child).id()));
    assert!(process.exists());
    drop(session);
    assert!(!process.exists());
}

#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl EventSink for Notices {
    fn event(&self, event: fobs_model::event::Event) {
        if let fobs_model::event::Event::Notice(line) = event {
            self.0.lock().unwrap().push(line);
        }
    }
}

/// The outcome of a hello under this patience, and the notices meanwhile.
fn watched_hello(script: &str, patience: Patience) -> (Result<Hello>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let options = fake_ssh(&directory, script);
    let mut session = connect(&remote("far"), &options).unwrap();
    let notices = Arc::new(Notices::default());
    let watch = session.process.watch(patience, notices.clone());
    let outcome = session.hello();
    drop(watch);
    let notices = notices.0.lock().unwrap().clone();
    (outcome, notices)
}

#[test]
fn a_silent_side_gets_one_hint_and_then_an_end() {
    let limit = Duration::from_secs(1);
    let patience = Patience { hint: limit / 2, limit: SilenceLimit::FirstByte(limit) };
    let (outcome, notices) = watched_hello("exec sleep 1000", patience);
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("ssh far fobs --version"), "{error}");
    assert!(matches!(&notices[..], [hint] if hint.contains("far has said nothing")), "{notices:?}");
}

#[test]
fn silence_without_a_limit_is_only_hinted_at() {
    let patience = Patience { hint: Duration::from_millis(250), limit: SilenceLimit::None };
    let (outcome, notices) = watched_hello("sleep 1; exec cat", patience);
    assert!(outcome.is_ok());
    assert!(matches!(&notices[..], [hint] if hint.contains("Ctrl-C")), "{notices:?}");
    let patience = Patience { hint: Duration::from_secs(600), limit: SilenceLimit::None };
    assert!(watched_hello("exec cat", patience).1.is_empty());
}

#[test]
fn a_chosen_timeout_ends_the_opening_whatever_was_said() {
    let opening = Some(Duration::from_secs(1));
    for script in ["exec sleep 1000", "echo Welcome; exec sleep 1000", "printf '\\0\\0\\0'; exec sleep 1000"]
    {
        let patience = Patience::of(&TransferOptions { opening, ..TransferOptions::default() });
        let error = watched_hello(script, patience).0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout, "{script}: {error}");
        assert!(error.message.contains("within 1 s"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let options = TransferOptions { opening, ..fake_ssh(&directory, script) };
        let events: Arc<dyn EventSink> = Arc::new(Notices::default());
        let pushed = connect_pushing(&remote("far"), &options, &events, &CancelToken::new());
        assert_eq!(pushed.unwrap_err().kind, ErrorKind::Timeout, "{script}");
    }
}

#[test]
fn the_host_is_what_ssh_makes_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let script = "test \"$1\" = -G || exit 1; for last; do :; done; echo user x; echo hostname 10.0.0.$last; echo port 22";
    let options = fake_ssh(&directory, script);
    assert_eq!(resolve_host(&remote("7"), &options), ["10.0.0.7"]);
    let options = fake_ssh(&directory, "echo unrelated; exit 1");
    assert_eq!(resolve_host(&remote("7"), &options), ["7"]);
}

#[test]
fn the_client_is_named_after_its_address() {
    assert_eq!(address_of(Some("192.0.2.7 50022 198.51.100.1 22")), "192.0.2.7".parse().ok());
    assert_eq!(address_of(Some("nonsense")), None);
    assert_eq!(address_of(None), None);
}

/// Set for the process that is the server in [`the_server_speaks_over_its_standard_streams`].
const PLAY_SERVER: &str = "FOBS_TEST_PLAY_SERVER";

/// Runs this test again in a process of its own, which becomes the server.
#[test]
fn the_server_speaks_over_its_standard_streams() {
    if std::env::var_os(PLAY_SERVER).is_some() {
        let mut channel = server_channel().unwrap();
        println!("stray output");
        super::super::hello(&mut channel).unwrap();
        assert_eq!(channel.reader.recv(), Ok(None));
        assert_eq!(io::stdin().read(&mut [0]).unwrap(), 0, "standard input is empty");
        channel.writer.close();
        return;
    }
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "control::ssh::tests::the_server_speaks_over_its_standard_streams", "--nocapture"])
        .env(PLAY_SERVER, "1")
        .env("SSH_CONNECTION", "192.0.2.7 50022 198.51.100.1 22")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = Message::Hello(Hello {
        protocol: 1,
        newest: None,
        program: "fobs from the test".to_owned(),
        fast_aes: false,
        features: Vec::new(),
    });
    server.stdin.take().unwrap().write_all(&frame::encode(&hello).unwrap()).unwrap();
    let output = server.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("stray output"), "{printed}");
    // The test harness prints first; only the channel follows.
    let start = output.stdout.iter().position(|byte| *byte == 0).expect("a frame");
    let mut frames = frame::FrameReader::new(&output.stdout[start..]);
    assert!(matches!(frames.read(), Ok(Some(Message::Hello(hello))) if hello.protocol == 1));
    assert_eq!(frames.read(), Ok(None));
}

/// The whole command line.
fn line(remote: &Remote, options: &TransferOptions) -> Result<Vec<OsString>> {
    arguments(remote, options, &server_command(options)?)
}
