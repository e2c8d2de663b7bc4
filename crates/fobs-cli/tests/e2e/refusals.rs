//! Failures end with the published exit code and a sentence, and do not stop the rest of a copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::case::{Case, fobs_path};
use super::daemon::{Daemon, Key, NOBODY, Spec};
use super::files::{hash, names, write_random};
use super::needs;
use super::net::Side;
use super::process::Finished;
use super::remote::{Carrier, Direction, Route};
use super::sshd::{HOST, Sshd};

const ROUTES: [(Carrier, Direction); 4] = [
    (Carrier::Daemon, Direction::Push),
    (Carrier::Daemon, Direction::Pull),
    (Carrier::Ssh, Direction::Push),
    (Carrier::Ssh, Direction::Pull),
];

/// Runs a test body for each carrier and direction, each with its own case.
fn on_every_route(name: &'static str, body: impl Fn(&Case, &Route<'_>)) {
    for (carrier, direction) in ROUTES {
        eprintln!("{carrier:?}, {direction:?}");
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        body(&case, &route);
    }
}

#[test]
fn a_source_that_does_not_exist_is_exit_3() {
    on_every_route("a_source_that_does_not_exist_is_exit_3", |case, route| {
        let finished = case.run(&mut route.copy(&["-r"], "no-such-file", "target")).expect_code(3);
        assert!(finished.failed()["message"].as_str().is_some_and(|m| m.contains("no-such-file")));
        assert!(names(&route.target_path("")).is_empty(), "nothing was made");
    });
}

#[test]
fn one_source_missing_of_two_is_exit_23_and_the_other_arrives() {
    on_every_route("one_source_missing_of_two_is_exit_23_and_the_other_arrives", |case, route| {
        let expected = write_random(&route.source_path("there"), 300_000, &mut case.random());
        fs::create_dir(route.target_path("all")).expect("a fresh directory");
        let mut command = route.cp(&[]);
        command.arg(route.source("not-there")).arg(route.source("there")).arg(route.target("all"));
        let done = case.run(&mut command).expect_code(23).done();
        let errors = done["errors"].as_array().expect("a list");
        assert_eq!(errors.len(), 1, "{done}");
        assert!(errors[0]["message"].as_str().is_some_and(|m| m.contains("not-there")), "{done}");
        assert_eq!(names(&route.target_path("all")), ["there"]);
        assert_eq!(hash(&route.target_path("all/there")), expected);
    });
}

/// 1024 blocks of 512 bytes, as POSIX has it for `ulimit -f`.
const FILE_LIMIT: &str = "ulimit -f 1024; exec \"$@\"";

/// Sources around [`FILE_LIMIT`]: `large` is beyond it already when its room is reserved, `middle` when it is
/// written.
fn make_sources_of_sizes(directory: &Path, case: &Case) {
    fs::create_dir(directory).expect("a fresh directory");
    for (file, bytes) in [("small", 1000), ("middle", 900_000), ("large", 3 << 20)] {
        write_random(&directory.join(file), bytes, &mut case.random());
    }
}

#[track_caller]
fn assert_only_small_arrived(finished: Finished, arrived: &Path) {
    let done = finished.expect_code(23).done();
    let errors = done["errors"].as_array().expect("a list");
    assert_eq!(errors.len(), 2, "{done}");
    for error in errors {
        assert!(error["message"].as_str().is_some_and(|m| m.contains("File too large")), "{done}");
    }
    assert_eq!(names(arrived), ["small"]);
}

#[test]
fn a_pull_beyond_the_limit_of_file_sizes_fails_by_file() {
    let case = Case::new("a_pull_beyond_the_limit_of_file_sizes_fails_by_file");
    let route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    make_sources_of_sizes(&route.source_path("tree"), &case);
    let copy = route.copy(&["-r"], "tree", "copy");
    let mut limited = case.command(Side::Client, "sh");
    limited.args(["-c", FILE_LIMIT, "sh"]).arg(copy.get_program()).args(copy.get_args());
    assert_only_small_arrived(case.run(&mut limited), &route.target_path("copy"));
}

#[test]
fn a_push_beyond_the_limit_of_file_sizes_fails_by_file() {
    let case = Case::new("a_push_beyond_the_limit_of_file_sizes_fails_by_file");
    let sshd = Sshd::start(&case);
    make_sources_of_sizes(&case.local("tree"), &case);
    let limited = case.path("limited-fobs");
    let text = format!("#!/bin/sh\nset -- '{}' \"$@\"\n{FILE_LIMIT}\n", fobs_path().display());
    fs::write(&limited, text).expect("a fresh file");
    fs::set_permissions(&limited, PermissionsExt::from_mode(0o755)).expect("own file");
    let mut command = sshd.cp_with(&case, &limited);
    command.args(["--json", "-r"]).arg(case.local("tree")).arg(sshd.location("copy"));
    assert_only_small_arrived(case.run(&mut command), &sshd.root.join("copy"));
}

#[test]
fn two_sources_of_one_name_are_exit_1() {
    on_every_route("two_sources_of_one_name_are_exit_1", |case, route| {
        for directory in ["a", "b"] {
            fs::create_dir_all(route.source_path(directory).join("x")).expect("a fresh directory");
            fs::write(route.source_path(directory).join("f"), directory).expect("a fresh file");
        }
        fs::create_dir(route.target_path("all")).expect("a fresh directory");
        for sources in [["a/f", "b/f"], ["a/x", "b/x"], ["a/f", "a/f"]] {
            let mut command = route.cp(&["-r"]);
            command.args(sources.map(|source| route.source(source))).arg(route.target("all"));
            let finished = case.run(&mut command).expect_code(1);
            let message = finished.failed()["message"].as_str().expect("a message").to_owned();
            for source in sources {
                assert!(message.contains(&format!("{source}'")), "both are named: {message}");
            }
            assert!(names(&route.target_path("all")).is_empty(), "nothing was made");
        }
        // What is in `a/` is not compared: its `x` and the other are merged.
        let mut command = route.cp(&["-r"]);
        command.args(["a/", "b/x", "b"].map(|source| route.source(source))).arg(route.target("all"));
        case.run(&mut command).expect_success();
        assert_eq!(names(&route.target_path("all")), ["b", "f", "x"]);
    });
}

#[test]
fn a_directory_without_r_is_exit_1() {
    on_every_route("a_directory_without_r_is_exit_1", |case, route| {
        fs::create_dir(route.source_path("directory")).expect("a fresh directory");
        fs::write(route.source_path("directory/inside"), b"x").expect("a fresh file");
        let finished = case.run(&mut route.copy(&[], "directory", "target")).expect_code(1);
        assert!(finished.said().contains("-r"), "the remedy is named: {}", finished.said());
        assert!(names(&route.target_path("")).is_empty(), "nothing was made");
    });
}

#[test]
fn a_destination_whose_parent_is_missing_is_exit_4() {
    on_every_route("a_destination_whose_parent_is_missing_is_exit_4", |case, route| {
        write_random(&route.source_path("file"), 1000, &mut case.random());
        let finished = case.run(&mut route.copy(&[], "file", "no/such/place")).expect_code(4);
        assert!(finished.said().contains("no/such"), "the parent is named: {}", finished.said());
        assert!(names(&route.target_path("")).is_empty(), "nothing was made");
    });
}

#[test]
fn a_file_where_a_directory_is_needed_is_exit_4_and_stays() {
    on_every_route("a_file_where_a_directory_is_needed_is_exit_4_and_stays", |case, route| {
        for file in ["one", "two"] {
            write_random(&route.source_path(file), 1000, &mut case.random());
        }
        fs::write(route.target_path("taken"), b"precious").expect("a fresh file");
        let mut several = route.cp(&[]);
        several.arg(route.source("one")).arg(route.source("two")).arg(route.target("taken"));
        case.run(&mut several).expect_code(4);
        case.run(&mut route.copy(&[], "one", "taken/")).expect_code(4);
        assert_eq!(fs::read(route.target_path("taken")).expect("it stays"), b"precious");
        assert_eq!(names(&route.target_path("")), ["taken"]);
    });
}

#[test]
fn a_directory_in_place_of_a_file_is_named_and_the_rest_arrives() {
    let case = Case::new("a_directory_in_place_of_a_file_is_named_and_the_rest_arrives");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    fs::create_dir(route.source_path("tree")).expect("a fresh directory");
    for file in ["blocked", "free"] {
        write_random(&route.source_path("tree").join(file), 5000, &mut case.random());
    }
    fs::create_dir_all(route.target_path("copy/blocked/full")).expect("a fresh directory");
    let done = case.run(&mut route.copy(&["-r"], "tree/", "copy")).expect_code(23).done();
    assert_eq!(done["errors"].as_array().map(Vec::len), Some(1), "{done}");
    assert!(done["errors"][0]["path"].as_str().is_some_and(|path| path.ends_with("blocked")), "{done}");
    assert_eq!(hash(&route.target_path("copy/free")), hash(&route.source_path("tree/free")));
    assert!(route.target_path("copy/blocked/full").is_dir());
}

#[test]
fn a_pull_into_a_directory_that_is_not_ours_is_exit_4() {
    let case = Case::new("a_pull_into_a_directory_that_is_not_ours_is_exit_4");
    let daemon = Daemon::start(&case, "read-write");
    write_random(&daemon.root.join("file"), 1000, &mut case.random());
    fs::create_dir(case.local("closed")).expect("a fresh directory");
    fs::set_permissions(case.local("closed"), PermissionsExt::from_mode(0o555)).expect("own directory");
    // Permissions do not restrict root, so root drops to another user.
    let mut command = if rustix::process::geteuid().is_root() {
        daemon.cp_as(&case, NOBODY, &case.open_to_every_user())
    } else {
        daemon.cp(&case)
    };
    let finished = case.run(command.arg(daemon.url("file")).arg(case.local("closed/file"))).expect_code(4);
    assert!(finished.said().contains("ermission denied"), "the reason is given: {}", finished.said());
    assert!(names(&case.local("closed")).is_empty());
}

/// A daemon as a user without rights, over a directory of root's.
fn daemon_without_rights(case: &Case) -> Daemon {
    let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
    let authorized = [("read-write", &client)];
    let mut spec = Spec::new(case, &authorized, &server);
    spec.user = Some((NOBODY, case.open_to_every_user()));
    Daemon::start_with(case, spec)
}

#[test]
fn a_push_that_the_daemon_may_not_write_is_exit_4() {
    if !needs::given("a_push_that_the_daemon_may_not_write_is_exit_4") {
        return;
    }
    let case = Case::new("a_push_that_the_daemon_may_not_write_is_exit_4");
    let daemon = daemon_without_rights(&case);
    write_random(&case.local("file"), 1000, &mut case.random());
    let finished = case.run(daemon.cp(&case).arg(case.local("file")).arg(daemon.url("file"))).expect_code(4);
    assert!(finished.said().contains("ermission denied"), "the reason is given: {}", finished.said());
    assert!(names(&daemon.root).is_empty());
}

#[test]
fn a_file_that_the_daemon_may_not_read_is_named() {
    if !needs::given("a_file_that_the_daemon_may_not_read_is_named") {
        return;
    }
    let case = Case::new("a_file_that_the_daemon_may_not_read_is_named");
    let daemon = daemon_without_rights(&case);
    for (file, mode) in [("tree/open", 0o644), ("tree/secret", 0o600)] {
        fs::create_dir_all(daemon.root.join("tree")).expect("a fresh directory");
        write_random(&daemon.root.join(file), 1000, &mut case.random());
        fs::set_permissions(daemon.root.join(file), PermissionsExt::from_mode(mode)).expect("own file");
    }
    let mut command = daemon.cp(&case);
    let done =
        case.run(command.arg("-r").arg(daemon.url("tree")).arg(case.local("tree"))).expect_code(23).done();
    assert!(done["errors"][0]["path"].as_str().is_some_and(|path| path.ends_with("secret")), "{done}");
    assert_eq!(names(&case.local("tree")), ["open"]);
    let mut alone = daemon.cp(&case);
    case.run(alone.arg(daemon.url("tree/secret")).arg(case.local("x"))).expect_code(3);
}

#[test]
fn a_host_without_fobs_is_exit_6_and_the_remedy_is_named() {
    let case = Case::new("a_host_without_fobs_is_exit_6_and_the_remedy_is_named");
    let sshd = Sshd::start(&case);
    write_random(&case.local("file"), 1000, &mut case.random());
    let mut command = sshd.cp_with(&case, "/nonexistent/fobs".as_ref());
    let finished = case.run(command.arg(case.local("file")).arg(sshd.location("file"))).expect_code(6);
    for word in [HOST, "--fobs-path"] {
        assert!(finished.said().contains(word), "{word} is named: {}", finished.said());
    }
}

#[test]
fn a_failure_of_ssh_itself_is_exit_255() {
    let case = Case::new("a_failure_of_ssh_itself_is_exit_255");
    let sshd = Sshd::start(&case);
    write_random(&case.local("file"), 1000, &mut case.random());
    let mut refused = sshd.plain_cp(&case);
    let (_, unused) = case.net.udp_ports();
    refused.arg("-P").arg(unused.to_string());
    // A port on the command line takes precedence over the configuration file, as for ssh.
    case.run(refused.arg(case.local("file")).arg(sshd.location("file"))).expect_code(255);
    let mut wrong_key = sshd.plain_cp(&case);
    wrong_key.args(["-o", "PubkeyAuthentication=no"]);
    case.run(wrong_key.arg(case.local("file")).arg(sshd.location("file"))).expect_code(255);
    assert!(names(&sshd.root).is_empty());
}

#[test]
fn a_daemon_that_does_not_answer_is_exit_35() {
    let case = Case::new("a_daemon_that_does_not_answer_is_exit_35");
    let mut daemon = Daemon::start(&case, "read-write");
    daemon.kill();
    write_random(&case.local("file"), 1000, &mut case.random());
    let finished = case.run(daemon.cp(&case).arg(case.local("file")).arg(daemon.url("file"))).expect_code(35);
    assert!(
        finished.said().contains(case.net.address(Side::Server)),
        "the host is named: {}",
        finished.said()
    );
}

#[test]
fn a_name_that_resolves_to_nothing_is_exit_35() {
    let case = Case::new("a_name_that_resolves_to_nothing_is_exit_35");
    let key = Key::generate(&case, "client-key");
    write_random(&case.local("file"), 1000, &mut case.random());
    let mut command = case.fobs(Side::Client);
    command
        .args(["cp", "--json", "-i"])
        .arg(&key.file)
        .arg(case.local("file"))
        .arg("fobs://no-such-host.invalid/x");
    let finished = case.run(&mut command).expect_code(35);
    assert!(finished.said().contains("no-such-host.invalid"), "the host is named: {}", finished.said());
}

#[test]
fn something_else_on_the_port_is_no_daemon() {
    let case = Case::new("something_else_on_the_port_is_no_daemon");
    let sshd = Sshd::start(&case);
    let key = Key::generate(&case, "client-key");
    write_random(&case.local("file"), 1000, &mut case.random());
    let url = format!("fobs://{}:{}/x", case.net.address(Side::Server), case.net.tcp_port());
    let mut command = case.fobs(Side::Client);
    command.args(["cp", "--json", "-i"]).arg(&key.file).arg("--known-hosts").arg(case.path("known"));
    let finished = case.run(command.arg(case.local("file")).arg(url));
    assert!(matches!(finished.code, Some(2 | 35)), "{:?}: {}", finished.code, finished.said());
    assert!(!finished.failed()["message"].as_str().unwrap_or_default().is_empty());
    drop(sshd);
}
