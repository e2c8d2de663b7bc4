//! What a key that is pressed in bash gives: hosts, names over there and here, running copies.

use std::fs;
use std::process::Command;

use super::case::{Case, fobs_path};
use super::daemon::Daemon;
use super::files::write_random;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};
use super::sshd::{HOST, Sshd};

/// Loads the script and calls what it registers for a line, as readline does with the cursor at its end.
const PRESS: &str = r#"
source <(fobs completions bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
[[ $1 != *' ' ]] || { COMP_CWORD=$((COMP_CWORD + 1)); COMP_WORDS+=(''); }
function=$(complete -p fobs | sed 's/.*-F \([^ ]*\).*/\1/')
"$function" fobs "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>&1
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// The candidates for a line.
#[track_caller]
fn pressed(case: &Case, line: &str) -> Vec<String> {
    let mut command = case.command(Side::Client, "bash");
    let directory = fobs_path().parent().expect("a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([directory.to_owned()].into_iter().chain(std::env::split_paths(&path)));
    command.args(["--norc", "-c", PRESS, "press", line]).env("PATH", path.expect("a path"));
    command.current_dir(case.local(""));
    let finished = case.run(&mut command).expect_success();
    let text = String::from_utf8(finished.stdout).expect("text");
    let mut found: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn hosts_come_from_the_files_of_ssh_and_of_fobs() {
    let case = Case::new("hosts_come_from_the_files_of_ssh_and_of_fobs");
    let home = case.path("home");
    fs::create_dir_all(home.join(".ssh/more")).expect("a directory");
    fs::create_dir_all(home.join(".config/fobs")).expect("a directory");
    fs::write(home.join(".ssh/config"), "Host quartz quarry-* !q\nInclude more/*\n").expect("a file");
    fs::write(home.join(".ssh/more/one"), "Host quasar\n").expect("a file");
    let known = "[quince.example]:2222 ssh-ed25519 AAAA\n|1|aGFzaA==|aGFzaA== ssh-ed25519 AAAA\n";
    fs::write(home.join(".ssh/known_hosts"), known).expect("a file");
    fs::write(home.join(".config/fobs/known_hosts"), "[quill]:45600 fobs-ed25519 AAAA\n").expect("a file");
    fs::write(home.join(".config/fobs/config.toml"), "[host.quorum]\nrate = \"1G\"\n").expect("a file");
    let ssh = ["quartz:", "quasar:", "quince.example:", "quorum:"];
    assert_eq!(pressed(&case, "fobs cp qu"), ssh);
    assert_eq!(pressed(&case, "fobs sync -a qu"), ssh);
    assert_eq!(pressed(&case, "fobs doctor quar"), ["quartz:"]);
    // The command within a submission, and its options.
    assert_eq!(pressed(&case, "fobs submit --name x cp qu"), ssh);
    assert_eq!(pressed(&case, "fobs submit sync -a qu"), ssh);
    assert_eq!(pressed(&case, "fobs submit cp --expl"), ["--explain "]);
    assert_eq!(pressed(&case, "fobs submit s"), ["sync "]);
    // What stands before the last break is on readline's line already.
    assert_eq!(pressed(&case, "fobs cp ann@quas"), ["quasar:"]);
    assert_eq!(pressed(&case, "fobs cp fobs://qu"), ["//quill/"]);
    assert_eq!(pressed(&case, "fobs cp -J quas"), ["quasar "]);
    assert_eq!(pressed(&case, "fobs cp -P qu"), [""; 0], "a port is no host");
    fs::write(case.local("quay two"), "").expect("a file");
    assert_eq!(pressed(&case, "fobs cp quay"), ["quay\\ two "]);
    assert_eq!(pressed(&case, "fobs cp -i quay"), ["quay\\ two "]);
}

#[test]
fn names_over_ssh_are_those_of_the_other_host() {
    let name = "names_over_ssh_are_those_of_the_other_host";
    let case = Case::new(name);
    let sshd = Sshd::start(&case);
    fs::create_dir(sshd.root.join("my set")).expect("a directory");
    for file in ["my set/a b.txt", "my file's", ".mine"] {
        fs::write(sshd.root.join(file), "").expect("a file");
    }
    let command = format!(
        "fobs cp -F {} --fobs-path {} {HOST}:{}",
        sshd.config.display(),
        fobs_path().display(),
        sshd.root.display()
    );
    let base = sshd.root.display();
    let of = |typed: &str| pressed(&case, &format!("{command}/{typed}"));
    // A host that ssh does not know yet is not asked.
    assert_eq!(of("my"), [""; 0]);
    let mut copy = sshd.plain_cp(&case);
    case.run(copy.arg(sshd.location("my file's")).arg(case.local("x"))).expect_success();
    assert_eq!(of("my"), [format!("{base}/my\\ file\\'s "), format!("{base}/my\\ set/")]);
    assert_eq!(of("my\\ set/"), [format!("{base}/my\\ set/a\\ b.txt ")]);
    assert_eq!(of(".m"), [format!("{base}/.mine ")]);
    assert_eq!(of("nothing/"), [""; 0]);
    // All of these over one connection.
    assert_eq!(sshd.logins(), 2);
    let socket = case.path("home/fobs");
    let control = fs::read_dir(&socket).expect("the directory of its sockets").flatten().next();
    let control = control.expect("a connection that is kept").path();
    let mut end = Command::new("ssh");
    end.arg("-F").arg(&sshd.config).arg("-o").arg(format!("ControlPath={}", control.display()));
    case.run(end.args(["-O", "exit", HOST])).expect_success();
}

#[test]
fn names_at_a_daemon_are_below_its_root_and_no_key_is_pinned() {
    let case = Case::new("names_at_a_daemon_are_below_its_root_and_no_key_is_pinned");
    let daemon = Daemon::start(&case, "read-only");
    fs::create_dir(daemon.root.join("sets")).expect("a directory");
    fs::write(daemon.root.join("100% it"), "").expect("a file");
    let url = daemon.url("");
    let known_hosts = case.path("known_hosts");
    let options = format!("--known-hosts {} -i {}", known_hosts.display(), daemon.client_key().display());
    let of = |typed: &str| pressed(&case, &format!("fobs cp {options} {url}{typed}"));
    assert_eq!(of(""), [""; 0], "its key is not known yet");
    assert!(!known_hosts.exists(), "a key that is pressed pins none");
    case.run(daemon.doctor(&case).args(["--seconds", "1", "--dir"]).arg(case.local("")).arg(&url))
        .expect_success();
    let after = url.rsplit_once(':').expect("a port").1;
    assert_eq!(of(""), [format!("{after}100%25%20it "), format!("{after}sets/")]);
    assert_eq!(of("se"), [format!("{after}sets/")]);
}

#[test]
fn running_copies_are_offered_by_number() {
    let case = Case::new("running_copies_are_offered_by_number");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), 32 << 20, &mut case.random());
    let mut running = case.start(&mut route.copy(&["--rate", "16Mbit"], "file", "copy"));
    running.wait_until_data_flows();
    let id = running.id().to_string();
    // Root sees those of other users, too.
    assert!(pressed(&case, "fobs ctl ").contains(&format!("{id} ")));
    assert_eq!(pressed(&case, &format!("fobs ctl {id} pa")), ["pause "]);
    assert_eq!(pressed(&case, &format!("fobs ctl {id} priority=s")), ["scavenger "]);
    case.run(case.fobs(Side::Client).args(["ctl", &id, "cancel"])).expect_success();
    running.finish().expect_code(20);
    assert!(!pressed(&case, "fobs ctl ").contains(&format!("{id} ")));
}
