//! The daemon and systemd: passed sockets, notifications, and the units.

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::case::{Case, fobs_path};
use super::daemon::Key;
use super::needs;

/// Longest wait for a notification.
const PATIENCE: Duration = Duration::from_secs(30);
/// First UDP port; each process has eight.
const UDP_PORTS_BEGIN: u32 = 32_000;

/// `fobs serve` on this host's loopback with a socket as descriptor 3, as systemd starts it; killed when
/// dropped.
struct Service {
    child: Child,
    notifications: UnixDatagram,
    client: Key,
}

impl Service {
    fn start(case: &Case, passed: OwnedFd, options: &[&str]) -> Service {
        let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
        fs::create_dir_all(case.path("served")).expect("a directory of ours");
        fs::write(case.path("served/file"), "content").expect("the served directory");
        fs::write(case.path("keys"), format!("{}\n", client.public)).expect("a file of ours");
        let notifications = UnixDatagram::bind(case.path("notify")).expect("a short path");
        notifications.set_read_timeout(Some(PATIENCE)).expect("it is long enough");
        let first = UDP_PORTS_BEGIN + std::process::id() % 1000 * 8;
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0 </dev/null; LISTEN_PID=$$ exec \"$@\"", "sh"]).arg(fobs_path());
        command.arg("serve").arg("--root").arg(case.path("served"));
        command.arg("--authorized-keys").arg(case.path("keys")).arg("--identity").arg(&server.file);
        command.args(["--udp-ports", &format!("{first}-{}", first + 7)]).args(options);
        command.env("HOME", case.path("home")).env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        command.env("LISTEN_FDS", "1").env("NOTIFY_SOCKET", case.path("notify"));
        command.env("WATCHDOG_USEC", "20000000").env_remove("WATCHDOG_PID");
        let child = command.stdin(passed).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("sh");
        Service { child, notifications, client }
    }

    /// Waits for a notification with this line.
    #[track_caller]
    fn wait_for(&self, line: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut buffer = [0; 4096];
            let len = self.notifications.recv(&mut buffer).unwrap_or_else(|e| panic!("{line}: {e}"));
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if text.lines().any(|other| other.starts_with(line)) {
                return text;
            }
            assert!(Instant::now() < end, "no {line}");
        }
    }

    /// Its exit code and what it said.
    fn finish(mut self) -> (Option<i32>, String) {
        let stderr = self.child.stderr.take().expect("piped");
        let text = std::io::read_to_string(stderr).expect("it says text");
        (self.child.wait().expect("a child of ours").code(), text)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_daemon_serves_a_passed_socket_and_reports_its_state() {
    let case = Case::new("the_daemon_serves_a_passed_socket_and_reports_its_state");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let passed = listener.try_clone().expect("a descriptor").into();
    let service = Service::start(&case, passed, &["--drain", "7"]);
    let ready = service.wait_for("READY=1");
    assert!(ready.contains("STATUS=serving: 0 sessions"), "{ready}");
    service.wait_for("WATCHDOG=1");

    let mut copy = Command::new(fobs_path());
    copy.args(["cp", "-i"]).arg(&service.client.file).arg("--known-hosts").arg(case.path("known_hosts"));
    copy.arg(format!("fobs://{address}/file")).arg(case.local("copy")).env("HOME", case.path("home"));
    case.run(&mut copy).expect_success();
    assert_eq!(fs::read(case.local("copy")).expect("it was copied"), b"content");

    kill_process(Pid::from_child(&service.child), Signal::TERM).expect("a child of ours");
    let stopping = service.wait_for("STOPPING=1");
    assert!(stopping.contains("EXTEND_TIMEOUT_USEC=22000000"), "the grace and the end: {stopping}");
    let (code, said) = service.finish();
    assert_eq!(code, Some(0), "{said}");
    // systemd still holds the socket, as this test does: clients wait for the next start.
    TcpStream::connect(address).expect("the kernel still takes connections");
}

#[test]
fn sockets_of_no_use_and_double_addresses_are_refused() {
    let case = Case::new("sockets_of_no_use_and_double_addresses_are_refused");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let (code, said) = Service::start(&case, udp.into(), &[]).finish();
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("systemd passed a socket that is of no use"), "{said}");
    case.start_over();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (code, said) = Service::start(&case, tcp.into(), &["--listen", "127.0.0.1:0"]).finish();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("leave --listen out"), "{said}");
}

#[test]
fn the_units_are_valid() {
    if !needs::program_exists("systemd-analyze") {
        needs::say("skipped: the_units_are_valid needs systemd-analyze");
        return;
    }
    let case = Case::new("the_units_are_valid");
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let copies: Vec<PathBuf> = ["fobs.service", "fobs.socket"]
        .into_iter()
        .map(|name| {
            let text = fs::read_to_string(units.join(name)).expect("a unit of ours");
            let copy = case.path(name);
            // The program need not be installed here.
            let text = text.replace("/usr/local/bin/fobs", &fobs_path().display().to_string());
            fs::write(&copy, text).expect("a file of ours");
            copy
        })
        .collect();
    let checked = case.run(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&copies));
    // It reads other units of the machine, too: only what it says of ours counts.
    let ours: Vec<_> =
        checked.stderr.lines().filter(|line| line.contains("fobs.so") || line.contains("fobs.se")).collect();
    assert_eq!(ours, Vec::<&str>::new());
}

#[test]
fn the_options_of_the_unit_exist() {
    let case = Case::new("the_options_of_the_unit_exist");
    let unit = include_str!("../../../../packaging/systemd/fobs.service");
    let help = case.run(case.fobs(super::net::Side::Client).args(["serve", "--help"])).expect_success();
    let help = String::from_utf8(help.stdout).expect("text");
    let start = unit.split("ExecStart=").nth(1).and_then(|rest| rest.split("\nRestart").next());
    let options: Vec<_> =
        start.expect("a command").split_whitespace().filter(|word| word.starts_with("--")).collect();
    assert!(options.len() >= 5, "{options:?}");
    for option in options {
        assert!(help.contains(option), "{option}");
    }
}
