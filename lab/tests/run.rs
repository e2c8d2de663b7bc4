//! `fobs-lab run` as a whole: a small plan over a slow path, on the kernel's own sockets. Without root there
//! are no namespaces, and what is tested is that it says so.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Two tools, one that moves a file and one that does not, 1 MB at 20 Mbit/s, in both directions.
const PLAN: &str = r#"
name = "small"
repetitions = 1
timeout = "60s"
[[path]]
name = "20M-20ms"
rtt = "20ms"
rate = "20Mbit"
bytes = "1MB"
hosts = { west = ["a", "c"], east = ["b", "d"] }
[[contest]]
label = "scp {call}"
flow = [{ tool = "scp" }]
vary = { "flow.0.call" = ["push", "pull"] }
[[contest]]
label = "both"
flow = [{ tool = "iperf3", cc = "cubic" }, { tool = "scp", from = "d", to = "c", start = "200ms" }]
"#;

const NEEDED: [(&str, &str); 3] =
    [("iperf3", "iperf3"), ("scp", "openssh-client"), ("sshd", "openssh-server")];
const NO_ROOT: i32 = 77;

/// A directory with the plan, and the command that runs it.
struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new(plan: &str) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        Lab { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fobs-lab"));
        // A busy machine makes runs invalid: one record each is what the tests look at.
        command.args(["run", "plan.toml", "--again", "0"]).args(arguments).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("small.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether this is root with all that the plan needs; if not, says what is missing, past the harness's
/// capture.
fn given(test: &str) -> bool {
    use std::io::Write;
    let missing = if !rustix::process::geteuid().is_root() {
        Some("root (network namespaces)".to_owned())
    } else {
        let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
        let has = |name: &str| folders.iter().any(|folder| Path::new(folder).join(name).exists());
        NEEDED.iter().find(|(program, _)| !has(program)).map(|(_, package)| (*package).to_owned())
    };
    if let Some(missing) = &missing {
        let _ = writeln!(std::io::stderr().lock(), "skipped: {test} needs {missing}");
    }
    missing.is_none()
}

#[test]
fn a_small_plan_is_run_and_recorded() {
    if !given("a_small_plan_is_run_and_recorded") {
        if !rustix::process::geteuid().is_root() {
            let output = Lab::new(PLAN).run(&[]);
            assert_eq!(output.status.code(), Some(NO_ROOT), "{}", said(&output));
            assert!(said(&output).contains("needs root"), "{}", said(&output));
        }
        return;
    }
    let lab = Lab::new(PLAN);
    let output = lab.run(&[]);
    assert!(output.status.success(), "{}", said(&output));
    let records = lab.records();
    assert_eq!(records[0]["kind"], "header");
    assert_eq!(records[0]["plan"], PLAN);
    assert!(records[0]["versions"]["iperf3"].as_str().unwrap().contains("iperf"));
    let runs = &records[1..];
    let contests: Vec<&str> = runs.iter().map(|run| run["contest"].as_str().unwrap()).collect();
    assert_eq!(contests, ["scp push", "scp pull", "both"], "{}", said(&output));

    for run in &runs[..2] {
        let flow = &run["flows"][0];
        assert_eq!((&flow["end"], &flow["verified"]), (&"complete".into(), &true.into()), "{flow}");
        assert_eq!(flow["bytes"], 1_000_000);
        // 1 MB at 20 Mbit/s takes 0.4 s, whatever the machine does; a path without a bottleneck would be
        // faster.
        assert!(flow["wall_s"].as_f64().unwrap() > 0.4, "{flow}");
        assert!(run["wire"]["forward"]["bytes_by_protocol"]["tcp"].as_u64().unwrap() > 1_000_000, "{run}");
        assert!(run["rtt_ms"]["base"].as_f64().unwrap() >= 20.0, "{}", run["rtt_ms"]);
        assert!(!flow["series"].as_array().unwrap().is_empty());
        assert_eq!(run["parameters"]["call"], run["contest"].as_str().unwrap().trim_start_matches("scp "));
    }
    let both = &runs[2];
    let (iperf3, scp) = (&both["flows"][0], &both["flows"][1]);
    assert_eq!((&iperf3["end"], &scp["end"]), (&"complete".into(), &"complete".into()), "{both}");
    assert_eq!((&iperf3["from"], &iperf3["to"]), (&"a".into(), &"b".into()));
    assert_eq!((&scp["from"], &scp["to"], &scp["verified"]), (&"d".into(), &"c".into(), &true.into()));
    assert!(scp["start_s"].as_f64().unwrap() >= 0.2, "{scp}");
    assert_eq!(iperf3["report"]["sender_tcp_congestion"], "cubic");
    assert!(both["wire"]["backward"]["bytes_by_protocol"]["tcp"].as_u64().unwrap() > 1_000_000, "{both}");
}

#[test]
fn a_run_that_is_stopped_keeps_its_records_and_leaves_nothing_behind() {
    if !given("a_run_that_is_stopped_keeps_its_records_and_leaves_nothing_behind") {
        return;
    }
    // A second contest that would take most of a minute.
    let long = "\n[[contest]]\nlabel = \"long push\"\nbytes = \"100MB\"\nflow = [{ tool = \"scp\" }]\n";
    let lab = Lab::new(&format!("{PLAN}{long}"));
    let mut child = lab.command(&["--only", "push"]).spawn().unwrap();
    let runner = child.id();
    let groups = format!("fobs-lab-{runner}-");
    let out = lab.folder.path().join("small.jsonl");
    // The second run has begun when the first is recorded and an sshd and an scp run beside the emulator.
    let under_way = || {
        let lines = fs::read_to_string(&out).map_or(0, |text| text.lines().count());
        lines == 2 && children(runner).len() == 3
    };
    while !under_way() {
        assert!(child.try_wait().unwrap().is_none(), "{}", said(&child.wait_with_output().unwrap()));
        thread::sleep(Duration::from_millis(20));
    }
    let namespaces: Vec<String> =
        children(runner).iter().map(|emulator| format!("fobs-lab-{emulator}-")).collect();
    let made = |prefix: &String| entries(&["/run/netns"], prefix);
    assert_eq!(namespaces.iter().flat_map(made).count(), 4, "the path has four hosts");

    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let stopped = child.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(1), "{}", said(&stopped));
    assert!(said(&stopped).contains("stopped by a signal"), "{}", said(&stopped));
    let records = lab.records();
    assert_eq!((records.len(), &records[1]["contest"]), (2, &"scp push".into()));
    assert_eq!(entries(&CONTROL_GROUPS, &groups), [""; 0]);
    assert_eq!(namespaces.iter().flat_map(made).collect::<Vec<_>>(), [""; 0]);
}

const CONTROL_GROUPS: [&str; 2] = ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"];

/// What has a name that begins with `prefix`, in any of the folders.
fn entries(folders: &[&str], prefix: &str) -> Vec<String> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Processes that this one started.
fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |pid: &u32| {
        // Behind the name, which is in brackets and may be anything: the state and the parent (proc(5)).
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    pids.filter(|pid| parent_of(pid) == Some(parent)).collect()
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_before_anything_is_made() {
    let lab = Lab::new(&PLAN.replace("cc = \"cubic\"", "colour = \"cubic\""));
    let output = lab.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(
        said.contains("plan.toml") && said.contains("contest \"both\"") && said.contains("colour"),
        "{said}"
    );
    assert!(!lab.folder.path().join("small.jsonl").exists());

    let output = Lab::new(PLAN).run(&["--dry-run", "--only", "both"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 [1] 20M-20ms: both\n");
}
