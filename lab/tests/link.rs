//! `fobs-lab link` from outside: a process, its hosts, its control socket, and real packets. What needs root
//! and /dev/net/tun is skipped by name without.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

const PATH: &str =
    "rtt = '10ms'\nrate = '200Mbit'\nhosts = { west = ['a', { name = 'c', delay = '5ms' }] }\n";
const NO_ROOT: i32 = 77;
/// No test waits longer for anything that should come at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running emulator.
struct Link {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    ready: Value,
    hosts: Vec<Value>,
    control: PathBuf,
    _folder: tempfile::TempDir,
}

impl Link {
    fn start(spec: &str, arguments: &[&str]) -> Link {
        let folder = tempfile::tempdir().unwrap();
        let (file, control) = (folder.path().join("link.toml"), folder.path().join("link.sock"));
        fs::write(&file, spec).unwrap();
        let mut child = command()
            .args([&file, Path::new("--until-eof"), Path::new("--control"), &control])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        assert_eq!(ready["event"], "ready");
        assert_eq!(ready["control"], control.to_str().unwrap());
        let hosts = ready["hosts"].as_array().unwrap().clone();
        Link { child, stdin, stdout, ready, hosts, control, _folder: folder }
    }

    fn ask(&self, question: &str) -> Value {
        ask(&self.control, question)
    }

    fn counters(&self) -> Value {
        self.ask(r#"{"get": "counters"}"#)
    }

    fn namespaces(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host["namespace"].as_str().unwrap().to_owned()).collect()
    }

    fn address(&self, host: &str, family: &str) -> SocketAddr {
        let host = self.hosts.iter().find(|candidate| candidate["name"] == host).unwrap();
        SocketAddr::new(host[family].as_str().unwrap().parse().unwrap(), 0)
    }

    /// Does some work inside a host's namespace.
    fn on<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let host = self.hosts.iter().find(|candidate| candidate["name"] == host).unwrap();
        let path = namespace_path(host["namespace"].as_str().unwrap());
        let file = fs::File::open(path).unwrap();
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            inside.join().unwrap()
        })
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it says at its end.
    fn end(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

/// A failed test leaves nothing behind either.
impl Drop for Link {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A question at a control socket.
fn ask(control: &Path, question: &str) -> Value {
    let mut socket = UnixStream::connect(control).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(format!("{question}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fobs-lab"));
    command.arg("link");
    command
}

fn namespace_path(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Whether the test may run; where not, says so by name, past the harness's capture.
fn given(test: &str) -> bool {
    let missing = if !rustix::process::geteuid().is_root() {
        Some("root (network namespaces)")
    } else if !Path::new("/dev/net/tun").exists() {
        Some("/dev/net/tun")
    } else {
        None
    };
    if let Some(missing) = missing {
        let _ = writeln!(io::stderr().lock(), "skipped: {test} needs {missing}");
    }
    missing.is_none()
}

#[test]
fn without_root_it_says_so_and_exits_77() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("link.toml");
    fs::write(&file, PATH).unwrap();
    // Somebody else must be able to run the binary and read the file: both lie where their directories allow
    // it.
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let binary = folder.path().join("fobs-lab");
    fs::copy(env!("CARGO_BIN_EXE_fobs-lab"), &binary).unwrap();
    let mut command = Command::new(binary);
    command.arg("link").arg(&file);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(NO_ROOT), "{said}");
    assert!(said.contains("run as root") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_spec_that_makes_no_sense_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("link.toml");
    for (spec, set, reason) in [
        ("rate = '1Mbit'", "name=x", "rtt is missing"),
        ("rate = '1Mbit'\nrtt = '1ms'", "forward.loss=200%", "share"),
        ("rate = 1", "name=x", "string"),
    ] {
        fs::write(&file, spec).unwrap();
        let output = command().arg(&file).args(["--set", set]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason) && said.contains("link.toml"), "{said}");
    }
    let output = command().arg(folder.path().join("none.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn hosts_come_and_go_with_the_process() {
    if !given("hosts_come_and_go_with_the_process") {
        return;
    }
    for how in ["end of input", "signal"] {
        let link = Link::start(PATH, &[]);
        let namespaces = link.namespaces();
        let names: Vec<&str> = link.hosts.iter().map(|host| host["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "c", "b"]);
        assert!(namespaces.iter().all(|name| namespace_path(name).exists()), "{namespaces:?}");
        let control = link.control.clone();
        if how == "signal" {
            link.signal(Signal::TERM);
        }
        let (status, last) = link.end();
        assert!(status.success(), "{how}: {status}");
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["event"], "counters");
        assert!(!namespaces.iter().any(|name| namespace_path(name).exists()), "{how}");
        assert!(!control.exists(), "{how}");
    }
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next() {
    if !given("what_a_killed_process_left_is_removed_by_the_next") {
        return;
    }
    let killed = Link::start(PATH, &[]);
    let left = killed.namespaces();
    killed.signal(Signal::KILL);
    let (status, _) = killed.end();
    assert_eq!(status.code(), None);
    // That they are still there is not asked: a test beside this one may have removed them already.
    let next = Link::start(PATH, &[]);
    assert!(!left.iter().any(|name| namespace_path(name).exists()));
    assert!(next.namespaces().iter().all(|name| namespace_path(name).exists()));
}

#[test]
fn the_control_socket_answers_and_refuses() {
    if !given("the_control_socket_answers_and_refuses") {
        return;
    }
    let link = Link::start(PATH, &["--set", "seed=7"]);
    assert_eq!(link.ask(r#"{"get": "spec"}"#)["seed"], 7);
    assert_eq!(link.counters()["forward"]["packets_in"], 0);
    assert_eq!(link.ask(r#"{"set": {"forward": {"loss": "2%"}}}"#), json!({"set": true}));
    assert_eq!(link.ask(r#"{"get": "spec"}"#)["forward"], json!({"loss": "2%"}));
    assert_eq!(link.ask(r#"{"reset": true}"#), json!({"reset": true}));
    for (bad, reason) in [
        ("nonsense", "ask"),
        (r#"{"get": "money"}"#, "counters"),
        (r#"{"set": {"forward": {"loss": "300%"}}}"#, "share"),
        (r#"{"set": {"seed": 3}}"#, "only the directions"),
        (r#"{"reset": false}"#, "true"),
    ] {
        let answer = link.ask(bad);
        assert!(answer["error"].as_str().unwrap().contains(reason), "{bad}: {answer}");
    }
    assert_eq!(link.ask(r#"{"get": "spec"}"#)["forward"], json!({"loss": "2%"}), "nothing has changed");
    let long = link.ask(&"x".repeat(100_000));
    assert!(long["error"].as_str().unwrap().contains("longer"), "{long}");
}

#[test]
fn many_clients_and_broken_ones_do_not_stop_it() {
    if !given("many_clients_and_broken_ones_do_not_stop_it") {
        return;
    }
    let link = Link::start(PATH, &[]);
    {
        let clients: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&link.control).unwrap()).collect();
        let mut refused = 0;
        for mut client in &clients {
            client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut answer = [0; 64];
            refused += usize::from(client.read(&mut answer).is_ok_and(|bytes| bytes > 0));
        }
        assert_eq!(refused, 40 - 16, "the seventeenth and later are told so");
    }
    // Those who have gone make room, as soon as their threads have seen it.
    let deadline = std::time::Instant::now() + PATIENCE;
    while link.counters().get("error").is_some() {
        assert!(std::time::Instant::now() < deadline);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_paths_join_the_same_hosts_and_carry_their_own() {
    if !given("two_paths_join_the_same_hosts_and_carry_their_own") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second.toml");
    fs::write(&second, "name = 'second'\nrtt = '30ms'\nrate = '50Mbit'\nhosts = { west = ['a', 'c'] }\n")
        .unwrap();
    let link = Link::start(PATH, &[second.to_str().unwrap()]);
    let controls = [link.control.clone(), link.control.with_extension("sock.1")];
    assert_eq!(ask(&controls[1], r#"{"get": "spec"}"#)["name"], "second");
    let paths = link.ready["paths"].as_array().unwrap().clone();
    let host =
        |path: usize, host: usize, key: &str| paths[path]["hosts"][host][key].as_str().unwrap().to_owned();
    // West a and c, east b.
    assert_eq!([host(0, 0, "device"), host(1, 0, "device")], ["link0", "link1"]);
    assert_eq!(
        [host(0, 0, "namespace"), host(0, 2, "namespace")],
        [host(1, 0, "namespace"), host(1, 2, "namespace")]
    );
    for (path, family) in [(0, "address"), (1, "address"), (0, "address6"), (1, "address6")] {
        controls
            .iter()
            .for_each(|control| assert_eq!(ask(control, r#"{"reset": true}"#), json!({"reset": true})));
        let at = |at: usize| SocketAddr::new(host(path, at, family).parse().unwrap(), 0);
        let receiver = link.on("b", || UdpSocket::bind(at(2)).unwrap());
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let to = receiver.local_addr().unwrap();
        for (from, number) in [("a", 0), ("c", 1)] {
            link.on(from, || UdpSocket::bind(at(number)).unwrap().send_to(b"here", to).unwrap());
            let mut buffer = [0; 8];
            let (bytes, source) = receiver.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..bytes], source.ip()), (&b"here"[..], at(number).ip()));
        }
        let seen = controls.each_ref().map(|control| {
            ask(control, r#"{"get": "counters"}"#)["forward"]["packets_by_protocol"]["udp"].as_u64().unwrap()
        });
        assert_eq!(seen, if path == 0 { [2, 0] } else { [0, 2] }, "{family}");
    }
    let (status, last) = link.end();
    assert!(status.success());
    let ends: Vec<Value> = last.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ends.iter().map(|end| end["path"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert!(!controls.iter().any(|control| control.exists()));
}

#[test]
fn paths_of_other_hosts_are_refused() {
    if !given("paths_of_other_hosts_are_refused") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first.toml", "second.toml"].map(|name| folder.path().join(name));
    fs::write(&first, PATH).unwrap();
    fs::write(&second, "rtt = '1ms'\nrate = '1Mbit'\n").unwrap();
    let output = command().args([&first, &second]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("other hosts than the first"), "{said}");
    let output = command().args([&second; 9]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 to 8"));
}

#[test]
fn tcp_crosses_in_both_families_and_arrives_as_it_was_sent() {
    if !given("tcp_crosses_in_both_families_and_arrives_as_it_was_sent") {
        return;
    }
    let link = Link::start(PATH, &["--set", "forward.loss=0.5%", "--set", "forward.corrupt=0.5%"]);
    let content: Vec<u8> =
        (0..3_000_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (from, family) in [("a", "address"), ("c", "address"), ("a", "address6"), ("c", "address6")] {
        link.ask(r#"{"reset": true}"#);
        let listener = link.on("b", || TcpListener::bind(link.address("b", family)).unwrap());
        let to = listener.local_addr().unwrap();
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                received
            });
            link.on(from, || TcpStream::connect_timeout(&to, PATIENCE).unwrap().write_all(&content).unwrap());
            receiver.join().unwrap()
        });
        assert!(received == content, "{from} {family}: {} bytes", received.len());
        let counters = link.counters();
        let forward = &counters["forward"];
        let number = |name: &str| forward[name].as_u64().unwrap();
        let packets = number("packets_in");
        assert!(packets >= 3_000_000 / 1460, "every MTU-sized packet is one: {forward}");
        assert!(number("random_losses") > 0 && number("corrupted") > 0, "{forward}");
        assert_eq!(forward["packets_by_protocol"]["tcp"], packets, "{forward}");
        assert_eq!(counters["emulator_drops"], 0, "{counters}");
    }
}

#[test]
fn udp_super_packets_cross_as_datagrams() {
    if !given("udp_super_packets_cross_as_datagrams") {
        return;
    }
    // So fast that the whole of a super-packet is due within a tick.
    let link = Link::start(PATH, &["--set", "rate=10Gbit"]);
    for family in ["address", "address6"] {
        link.ask(r#"{"reset": true}"#);
        let receiver = link.on("b", || UdpSocket::bind(link.address("b", family)).unwrap());
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let sender = link.on("a", || UdpSocket::bind(link.address("a", family)).unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        setsockopt(&sender, UdpGsoSegment, &1000).unwrap();
        // Ten super-packets of 20 datagrams of 1000 bytes and a shorter one.
        let burst: Vec<u8> = (0..20_500u32).map(|index| (index / 1000) as u8).collect();
        for round in 0..10u8 {
            assert_eq!(sender.send(&burst).unwrap(), burst.len());
            let mut seen = Vec::new();
            let mut buffer = [0; 2000];
            while seen.len() < 21 {
                let bytes = receiver.recv(&mut buffer).unwrap();
                assert!(buffer[..bytes].iter().all(|&byte| byte == buffer[0]), "round {round}");
                seen.push((buffer[0], bytes));
            }
            let expected: Vec<(u8, usize)> = (0..21).map(|n| (n, if n == 20 { 500 } else { 1000 })).collect();
            assert_eq!(seen, expected, "round {round}, {family}");
        }
        let counters = link.counters();
        assert_eq!(counters["forward"]["packets_by_protocol"]["udp"], 210, "{counters}");
        assert!(counters["writes"].as_u64().unwrap() < 105, "they left in larger pieces: {counters}");
    }
}
