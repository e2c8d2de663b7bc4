//! Hosts as people have them: patterns, homes, quotes, several hosts, both sides elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::case::{Case, fobs_path, peer_path};
use super::files::{hash, names, write_random};
use super::net::Side;
use super::sshd::Sshd;

/// Names that a shell would need quotes for.
const ODD: [&str; 4] = ["two words.txt", "it's.txt", "say \"hi\".txt", "a$HOME`x`;b.txt"];

/// Gives the private sshd a second name, so that there are two other hosts.
pub fn with_two_names(sshd: &Sshd) {
    let config = fs::read_to_string(&sshd.config).expect("a file of ours");
    fs::write(&sshd.config, config.replace("Host peer\n", "Host peer other\n")).expect("a file of ours");
}

fn on_other(sshd: &Sshd, path: &str) -> String {
    format!("other:{}/{path}", sshd.root.display())
}

#[test]
fn patterns_and_odd_names_are_those_of_the_other_host() {
    let case = Case::new("patterns_and_odd_names_are_those_of_the_other_host");
    let sshd = Sshd::start(&case);
    let mut random = case.random();
    for name in ODD {
        write_random(&sshd.root.join(name), 3000, &mut random);
    }
    write_random(&sshd.root.join(".hidden.txt"), 10, &mut random);
    write_random(&sshd.root.join("other.dat"), 10, &mut random);
    fs::create_dir(case.local("all")).expect("a fresh directory");
    case.run(sshd.plain_cp(&case).arg(sshd.location("*.txt")).arg(case.local("all"))).expect_success();
    let mut expected = ODD;
    expected.sort();
    assert_eq!(names(&case.local("all")), expected);
    for name in ODD {
        assert_eq!(hash(&case.local("all").join(name)), hash(&sshd.root.join(name)), "{name}");
        // A name without a pattern is meant as it is, in both directions.
        case.run(sshd.plain_cp(&case).arg(sshd.location(name)).arg(case.local("one"))).expect_success();
        assert_eq!(hash(&case.local("one")), hash(&sshd.root.join(name)), "{name}");
        let back = format!("back {name}");
        case.run(sshd.plain_cp(&case).arg(case.local("one")).arg(sshd.location(&back))).expect_success();
        assert_eq!(hash(&sshd.root.join(&back)), hash(&case.local("one")), "{name}");
    }
    let none =
        case.run(sshd.plain_cp(&case).arg(sshd.location("*.none")).arg(case.local("all"))).expect_code(3);
    assert!(none.stderr.contains("nothing matches"), "{}", none.stderr);
    let one = case.run(sshd.plain_cp(&case).arg(sshd.location("*.txt")).arg(case.local("no-such")));
    let one = one.expect_code(4);
    assert!(one.stderr.contains("does not exist"), "{}", one.stderr);
}

#[test]
fn homes_of_users_are_found_on_the_other_host() {
    let case = Case::new("homes_of_users_are_found_on_the_other_host");
    let sshd = Sshd::start(&case);
    let file = case.local("file");
    write_random(&file, 1000, &mut case.random());
    let unknown = "peer:~no such user/x";
    let refused = case.run(sshd.plain_cp(&case).arg(&file).arg(unknown)).expect_code(3);
    assert!(refused.stderr.contains("there is no user 'no such user'"), "{}", refused.stderr);
    let user =
        String::from_utf8(case.run(case.command(Side::Client, "id").arg("-un")).stdout).expect("a name");
    let missing = format!("peer:~{}/no such file of fobs", user.trim());
    let refused = case.run(sshd.plain_cp(&case).arg(missing).arg(case.local("x"))).expect_code(3);
    assert!(
        !refused.stderr.contains('~') && refused.stderr.contains("no such file of fobs"),
        "{}",
        refused.stderr
    );
}

#[test]
fn sources_on_several_hosts_come_into_one_directory() {
    let case = Case::new("sources_on_several_hosts_come_into_one_directory");
    let sshd = Sshd::start(&case);
    with_two_names(&sshd);
    for name in ["first", "second", "third"] {
        write_random(&sshd.root.join(name), 50_000, &mut case.random());
    }
    let mut copy = sshd.plain_cp(&case);
    copy.arg("--json").arg(sshd.location("first")).arg(on_other(&sshd, "second")).arg(sshd.location("third"));
    let into = case.local("into");
    let refused = case.run(copy.arg(&into)).expect_code(4);
    assert!(refused.said().contains("it is no directory"), "{}", refused.said());
    fs::create_dir(&into).expect("a fresh directory");
    let done = case.run(&mut copy).expect_success().done();
    assert_eq!((done["files"].as_u64(), done["bytes"].as_u64()), (Some(3), Some(150_000)), "{done}");
    assert_eq!(names(&into), ["first", "second", "third"]);
    assert_eq!(sshd.logins(), 2, "the sources of a host come over one connection");
}

#[test]
fn a_sync_that_deletes_first_makes_one_connection() {
    let case = Case::new("a_sync_that_deletes_first_makes_one_connection");
    let sshd = Sshd::start(&case);
    let (here, there) = (case.local("tree"), sshd.root.join("tree"));
    for (top, name) in [(&here, "kept"), (&there, "gone")] {
        fs::create_dir(top).expect("a fresh directory");
        write_random(&top.join(name), 50_000, &mut case.random());
    }
    let mut push = sshd.sync(&case);
    push.args(["-ai", "--delete-before"]).arg(here.join("")).arg(sshd.location("tree/"));
    let said = case.run(&mut push).expect_success().stdout;
    let lines = String::from_utf8(said).expect("text");
    let (gone, kept) = (lines.find("gone").expect(&lines), lines.find("kept").expect(&lines));
    assert!(gone < kept, "what is extraneous goes first: {lines}");
    assert_eq!(names(&there), ["kept"]);
    assert_eq!(sshd.logins(), 1);
    fs::write(here.join("gone here"), "").expect("a fresh file");
    let mut pull = sshd.sync(&case);
    pull.args(["-a", "--delete-before"]).arg(sshd.location("tr*e/")).arg(here.join(""));
    case.run(&mut pull).expect_success();
    assert_eq!(names(&here), ["kept"]);
    assert_eq!(sshd.logins(), 2);
}

pub fn between(case: &Case, sshd: &Sshd, flags: &[&str], from: &str, to: &str) -> Command {
    let mut copy = sshd.plain_cp(case);
    copy.args(flags).arg(sshd.location(from)).arg(on_other(sshd, to));
    copy
}

#[test]
fn a_copy_between_two_other_hosts_goes_directly_or_through_here() {
    let case = Case::new("a_copy_between_two_other_hosts_goes_directly_or_through_here");
    let sshd = Sshd::start(&case);
    with_two_names(&sshd);
    let tree = sshd.root.join("a tree");
    fs::create_dir_all(tree.join("sub")).expect("a fresh directory");
    write_random(&tree.join("it's big"), 3_000_000, &mut case.random());
    write_random(&tree.join("sub/small"), 10, &mut case.random());
    symlink("big", tree.join("link")).expect("a link");
    for (flags, to, transport) in
        [(&["-r", "--json"][..], "direct", "udp"), (&["-r", "-3", "--json"], "through", "channel")]
    {
        let finished = case.run(&mut between(&case, &sshd, flags, "a tree/", to)).expect_success();
        let done = finished.done();
        assert_eq!(done["transport"], transport, "{done}");
        assert_eq!((done["files"].as_u64(), done["directories"].as_u64()), (Some(2), Some(2)), "{done}");
        assert_eq!(hash(&sshd.root.join(to).join("it's big")), hash(&tree.join("it's big")));
        assert_eq!(names(&sshd.root.join(to)), ["it's big", "link", "sub"]);
    }
    let said = case.run(&mut between(&case, &sshd, &["-v"], "a tree/it*", "renamed")).expect_success().stderr;
    assert!(said.contains("it's big: 3.00 MB") && said.contains("1 file, 3.00 MB"), "{said}");
    assert_eq!(hash(&sshd.root.join("renamed")), hash(&tree.join("it's big")));
}

#[test]
fn a_failure_between_two_other_hosts_is_said_once_and_here() {
    let case = Case::new("a_failure_between_two_other_hosts_is_said_once_and_here");
    let sshd = Sshd::start(&case);
    with_two_names(&sshd);
    let missing = case.run(&mut between(&case, &sshd, &[], "no-such-file", "x")).expect_code(3);
    assert_eq!(missing.stderr.matches("no-such-file").count(), 1, "{}", missing.stderr);
    write_random(&sshd.root.join("file"), 10, &mut case.random());
    let nowhere = case.run(&mut between(&case, &sshd, &[], "file", "no-such-directory/x")).expect_code(4);
    assert_eq!(nowhere.stderr.matches("does not exist").count(), 1, "{}", nowhere.stderr);
    let mut without = sshd.cp_with(&case, Path::new("/no/such/fobs"));
    let without = case.run(without.arg(sshd.location("file")).arg(on_other(&sshd, "x"))).expect_code(6);
    assert!(without.stderr.contains("/no/such/fobs"), "{}", without.stderr);
    let mut pushed = sshd.cp_with(&case, Path::new("/no/such/fobs"));
    pushed.arg(case.local("none")).arg(on_other(&sshd, "x"));
    write_random(&case.local("none"), 10, &mut case.random());
    let unasked = case.run(&mut pushed).expect_code(6);
    assert!(unasked.stderr.contains("--push-binary sends it there"), "{}", unasked.stderr);
    // The program under test has a dynamic linker, so it is not sent; nothing else is here.
    let refused = case.run(pushed.arg("--push-binary")).expect_code(6);
    assert!(refused.stderr.contains("this fobs is no static program for it"), "{}", refused.stderr);
    let silent = case.run(pushed.arg("--no-push-binary")).expect_code(6);
    assert!(!silent.stderr.contains("push-binary"), "{}", silent.stderr);
}

#[test]
fn a_program_below_the_home_there_is_found() {
    let case = Case::new("a_program_below_the_home_there_is_found");
    let sshd = Sshd::start(&case);
    let home = case.path("far-home");
    let command = |verb: &str| {
        let mut command = case.fobs(Side::Client);
        let (first, last) = case.net.udp_ports();
        command.args([verb, "--ssh-config"]).arg(&sshd.config);
        command.arg("--udp-ports").arg(format!("{first}-{last}"));
        command
    };
    // The login's home is another one's: sshd gives what a key's line says.
    let keys = case.path("ssh/authorized_keys");
    let line = fs::read_to_string(&keys).expect("a file of ours");
    let wrap = format!(
        "command=\"HOME={} PATH=/usr/bin:/bin sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"\" {line}",
        home.display()
    );
    fs::write(&keys, wrap).expect("a file of ours");
    write_random(&case.local("file"), 1000, &mut case.random());
    let copy = || {
        let mut copy = command("cp");
        copy.arg("--no-push-binary").arg(case.local("file")).arg(sshd.location("copy"));
        copy
    };
    let none = case.run(&mut copy()).expect_code(6);
    assert_eq!(none.stderr.matches("fobs: peer has no program").count(), 1, "{}", none.stderr);
    assert_eq!(none.stderr.lines().count(), 1, "the shell's own line says nothing more: {}", none.stderr);
    with_two_names(&sshd);
    let between_hosts = || {
        let mut copy = command("cp");
        copy.arg("--no-push-binary").arg(sshd.location("copy")).arg(on_other(&sshd, "both"));
        copy
    };
    let none = case.run(&mut between_hosts()).expect_code(6);
    assert_eq!(none.stderr.lines().count(), 1, "between two hosts neither: {}", none.stderr);
    for place in [".local/bin", concat!(".cache/fobs/", env!("CARGO_PKG_VERSION"))] {
        let directory = home.join(place);
        fs::create_dir_all(&directory).expect("a fresh directory");
        symlink(peer_path(), directory.join("fobs")).expect("a link");
        let found = case.run(&mut copy()).expect_success();
        assert!(found.stderr.contains("was found elsewhere"), "{place}: {}", found.stderr);
        assert!(!found.stderr.contains("not found"), "{place}: {}", found.stderr);
        assert_eq!(hash(&sshd.root.join("copy")), hash(&case.local("file")));
        let both = case.run(&mut between_hosts()).expect_success();
        assert!(!both.stderr.contains("not found"), "{place}: {}", both.stderr);
        assert_eq!(hash(&sshd.root.join("both")), hash(&case.local("file")));
        fs::remove_file(sshd.root.join("both")).expect("the copy");
        fs::remove_file(sshd.root.join("copy")).expect("the copy");
        fs::remove_file(directory.join("fobs")).expect("the link");
    }
}

#[test]
fn on_one_host_no_program_is_sent() {
    let case = Case::new("on_one_host_no_program_is_sent");
    write_random(&case.local("file"), 1000, &mut case.random());
    let state = case.path("state");
    let hosts = state.join("fobs/pushed-hosts");
    for (verb, to) in [("cp", "copy"), ("sync", "copied")] {
        let copy = |flags: &[&str]| {
            let mut copy = case.fobs(Side::Client);
            copy.args([verb, "--timeout", "20"]).args(flags).arg(case.local("file")).arg(case.local(to));
            copy.env("XDG_STATE_HOME", &state).env("FOBS_PUSH_BINARY", "true");
            copy
        };
        let flags: &[&str] = if verb == "cp" { &["--push-binary"] } else { &[] };
        for flags in [flags, &[], &[]] {
            case.run(&mut copy(flags)).expect_success();
        }
        assert!(!hosts.exists(), "{verb}: {:?}", fs::read_to_string(&hosts));
    }
    // scp makes a file of a host whose colon is forgotten; rsync does too, and lines for rsync mean it.
    for (verb, code) in [("cp", 1), ("sync", 0)] {
        let mut forgotten = case.fobs(Side::Client);
        forgotten.current_dir(case.path("")).args([verb]).arg(case.local("file")).arg("daily@2026-11-27");
        let told = case.run(&mut forgotten).expect_code(code);
        let is_made = case.path("daily@2026-11-27").exists();
        assert_eq!(
            (is_made, told.stderr.contains("write daily@2026-11-27:")),
            (code == 0, code == 1),
            "{verb}"
        );
    }
    // A real host of this name may have been sent one.
    fs::create_dir_all(state.join("fobs")).expect("a fresh directory");
    fs::write(&hosts, "localhost\n").expect("a file of ours");
    let mut copy = case.fobs(Side::Client);
    copy.args(["cp", "--timeout", "20"]).arg(case.local("file")).arg(case.local("again"));
    case.run(copy.env("XDG_STATE_HOME", &state)).expect_success();
    assert_eq!(hash(&case.local("again")), hash(&case.local("file")));
}

#[test]
fn an_error_of_the_other_side_is_printed_once() {
    let case = Case::new("an_error_of_the_other_side_is_printed_once");
    let sshd = Sshd::start(&case);
    let finished =
        case.run(sshd.plain_cp(&case).arg(sshd.location("missing")).arg(case.local("x"))).expect_code(3);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("fobs: ") && lines[0].contains("missing"), "{lines:?}");
}

#[test]
fn verbose_names_files_and_leaves_ssh_quiet() {
    let case = Case::new("verbose_names_files_and_leaves_ssh_quiet");
    let sshd = Sshd::start(&case);
    fs::create_dir_all(case.local("tree/sub")).expect("a fresh directory");
    write_random(&case.local("tree/one"), 10, &mut case.random());
    symlink("one", case.local("tree/link")).expect("a link");
    let said = case
        .run(sshd.plain_cp(&case).args(["-rpvv"]).arg(case.local("tree")).arg(sshd.location("")))
        .expect_success();
    assert!(said.stderr.contains("tree/one: 10 bytes") && !said.stderr.contains("debug"), "{}", said.stderr);
    let summary = said.stderr.lines().last().expect("a summary");
    assert!(summary.starts_with("fobs: 1 file, 2 directories"), "{summary}");
    assert!(!summary.contains("waste"), "of one packet: {summary}");
    let mut loud = sshd.plain_cp(&case);
    let said =
        case.run(loud.args(["-o", "LogLevel=DEBUG"]).arg(case.local("tree/one")).arg(sshd.location("again")));
    assert!(said.expect_success().stderr.contains("debug1: "));
}

#[test]
fn a_local_name_with_a_colon_is_explained() {
    let case = Case::new("a_local_name_with_a_colon_is_explained");
    write_random(&case.local("a:b"), 10, &mut case.random());
    let mut copy = case.fobs(Side::Client);
    copy.args(["cp", "-o", "ConnectTimeout=1", "-o", "BatchMode=yes", "a:b", "host.invalid:"])
        .current_dir(case.local(""));
    let finished = case.run(&mut copy);
    assert!(finished.stderr.contains("'a:b' on this host is meant, write './a:b'"), "{}", finished.stderr);
    assert!(fobs_path().exists());
}
