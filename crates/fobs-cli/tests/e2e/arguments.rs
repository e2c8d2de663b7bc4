//! Help, errors and keys, without a transfer.

use super::case::Case;
use super::net::Side;

#[test]
fn help_names_every_flag_and_exit_code() {
    let case = Case::new("help_names_every_flag_and_exit_code");
    let top = case.run(case.fobs(Side::Client).arg("--help")).expect_success();
    let top = String::from_utf8(top.stdout).expect("text");
    for word in ["cp", "serve", "keygen", " 23 ", "255"] {
        assert!(top.contains(word), "{word} in:\n{top}");
    }
    let cp = case.run(case.fobs(Side::Client).args(["cp", "--help"])).expect_success();
    let cp = String::from_utf8(cp.stdout).expect("text");
    let flags = "-r -p -q -v -C -l -P -i -F -J -o -4 -6 --cc --rate --ack-every --burst --packet-size --udp-ports \
                 --fobs-path --known-hosts --json";
    for flag in flags.split_whitespace() {
        assert!(cp.contains(flag), "{flag} in:\n{cp}");
    }
    let serve = case.run(case.fobs(Side::Client).args(["serve", "--help"])).expect_success();
    let serve = String::from_utf8(serve.stdout).expect("text");
    for flag in ["--listen", "--root", "--read-only", "--authorized-keys", "--identity", "--udp-ports"] {
        assert!(serve.contains(flag), "{flag} in:\n{serve}");
    }
}

#[test]
fn senseless_requests_are_refused_with_exit_1_and_a_sentence() {
    let case = Case::new("senseless_requests_are_refused_with_exit_1_and_a_sentence");
    let requests = [
        &["cp", "only-one"][..],
        &["cp", "here", "there", "host:a", "nowhere"],
        &["cp", "fobs://host/a", "other:b"],
        &["cp", "--cc", "fixed", "a", "host:b"],
        &["cp", "--cc", "warp", "a", "host:b"],
        &["cp", "--packet-size", "100", "a", "host:b"],
        &["cp", "--packet-size", "70000", "a", "host:b"],
        &["cp", "--rate", "0", "a", "host:b"],
        &["cp", "--rate", "10furlongs", "a", "host:b"],
        &["cp", "--udp-ports", "9-3", "a", "host:b"],
        &["cp", "--no-such-flag", "a", "host:b"],
        &["cp", "--json", "host:a", "-"],
        &["cp", "-", "fobs://host/x", "-"],
        &["cp", "a", "-oProxyCommand=touch oops:b"],
        &["serve", "--root", "/nonexistent"],
        &["no-such-command"],
    ];
    for request in requests {
        let finished = case.run(case.fobs(Side::Client).args(request)).expect_code(1);
        assert!(finished.said().trim().len() > 10, "{request:?} says why: {:?}", finished.said());
    }
}

#[test]
fn a_key_is_made_once_and_never_overwritten() {
    let case = Case::new("a_key_is_made_once_and_never_overwritten");
    let key = super::daemon::Key::generate(&case, "key");
    let made = std::fs::read(&key.file).expect("the private key");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&key.file).expect("the private key"));
    assert_eq!(mode & 0o777, 0o600);
    let again = case.run(case.fobs(Side::Client).args(["keygen", "--out"]).arg(&key.file));
    assert_ne!(again.code, Some(0), "{}", again.said());
    assert_eq!(std::fs::read(&key.file).expect("the private key"), made);
}
