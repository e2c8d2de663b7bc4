//! What a client's own program can ask of a daemon whose address space is limited: each request is served or
//! refused in a sentence, and the daemon and another client's session go on.

use std::fs;
use std::path::PathBuf;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::process::Finished;

/// What the daemon may map: three sessions at their bounds, and the program.
const ADDRESS_SPACE: u64 = 3 << 30;
/// What docs/security.md promises for a session, and the program beside it, bytes: 144 MiB, and an eighth of
/// the three quarters that sessions have for data in transit.
const PROMISE: u64 = ((144 + 64) << 20) + ADDRESS_SPACE * 3 / 4 / 8;

struct Limited {
    case: Case,
    daemon: Daemon,
}

impl Limited {
    fn start(name: &'static str) -> Limited {
        let case = Case::new(name);
        let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
        let authorized = [("read-only", &client)];
        let spec = Spec { address_space: Some(ADDRESS_SPACE), ..Spec::new(&case, &authorized, &server) };
        let daemon = Daemon::start_with(&case, spec);
        fs::write(daemon.root.join("file"), "content").expect("a file of ours");
        Limited { case, daemon }
    }

    /// `fobs sync` of all that is served, with these options.
    fn sync(&self, options: &[String]) -> Finished {
        let mut command = self.daemon.sync(&self.case);
        command.arg("-a").args(options).arg(self.daemon.url("")).arg(self.case.path("copy"));
        self.case.run(&mut command)
    }

    fn text(&self, name: &str, lines: impl Iterator<Item = String>) -> PathBuf {
        let path = self.case.path(name);
        fs::write(&path, lines.collect::<Vec<_>>().join("\n")).expect("a file of ours");
        path
    }

    /// The daemon lives within its promise, and serves.
    #[track_caller]
    fn goes_on(&mut self) {
        self.daemon.expect_alive();
        let target = self.case.path("other");
        let mut command = self.daemon.cp(&self.case);
        self.case.run(command.arg(self.daemon.url("file")).arg(&target)).expect_success();
        assert_eq!(fs::read(target).expect("it came"), b"content");
        let status = fs::read_to_string(format!("/proc/{}/status", self.daemon.id())).expect("it lives");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a figure");
        assert!(kib * 1024 < PROMISE, "{kib} KiB");
    }
}

#[test]
fn long_and_many_names_are_served_or_refused() {
    let mut limited = Limited::start("memory-names");
    let files_from = |path: PathBuf| vec![format!("--files-from={}", path.display())];
    let one = limited.text("one", ["b/".repeat(100_000)].into_iter());
    limited.sync(&files_from(one)).expect_code(1);
    limited.goes_on();
    let legal = limited.text("legal", (0..180).map(|at| format!("{at}/{}b", "b/".repeat(1990))));
    // Served: none of them exists.
    let said = limited.sync(&files_from(legal)).expect_code(23).said();
    assert!(said.contains("No such file"), "{said}");
    limited.goes_on();
    let many = limited.text("many", (0..300).map(|at| format!("{at}/{}b", "b/".repeat(1990))));
    let said = limited.sync(&files_from(many)).expect_code(1).said();
    assert!(said.contains("over the 1048576 that the protocol allows"), "{said}");
    limited.goes_on();
    let short = limited.text("short", (0..70_000).map(|at| format!("n{at}")).chain(["file".to_owned()]));
    limited.sync(&files_from(short)).expect_code(23);
    assert_eq!(fs::read(limited.case.path("copy/file")).expect("it came"), b"content");
    limited.goes_on();
}

#[test]
fn many_rules_are_served_or_refused() {
    let mut limited = Limited::start("memory-rules");
    for at in 0..2_000 {
        fs::write(limited.daemon.root.join(format!("n{at}")), "").expect("a file of ours");
    }
    let merged = |path: PathBuf| vec![format!("--filter=merge {}", path.display())];
    let files = limited.text("files", (0..70_000).map(|at| format!(": x{at}")));
    let said = limited.sync(&merged(files)).expect_code(1).said();
    assert!(said.contains("more than 64 rules that name a file of each directory"), "{said}");
    limited.goes_on();
    // Each state of each is tried over each byte of a name.
    let slow =
        |at: u32| format!("- {}[x{}]", "*n?".repeat(8), char::from_u32(0x4e00 + at).expect("a letter"));
    let slow = limited.text("slow", (0..12_000).map(slow));
    for at in 0..100 {
        fs::write(limited.daemon.root.join(format!("{}{at}", "n".repeat(150))), "").expect("a file of ours");
    }
    let said = limited.sync(&merged(slow)).expect_code(1).said();
    assert!(said.contains("the filter rules take too much work"), "{said}");
    limited.goes_on();
    for (name, rule) in [
        ("wild", &(|at| format!("- *y{at}*")) as &dyn Fn(u32) -> String),
        ("plain", &|at| format!("- x{at}")),
        ("same", &|_| "- *y*".to_owned()),
    ] {
        let rules = limited.text(name, (0..50_000).map(rule));
        let listed = limited.sync(&[merged(rules), vec!["-nv".to_owned()]].concat()).expect_success();
        let listed = String::from_utf8(listed.stdout).expect("names of ours");
        assert!(listed.lines().any(|line| line == "n1999"), "{listed}");
        limited.goes_on();
    }
}
