use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;
use crate::secure::identity::Identity;
use fobs_model::options::Privileges;
use fobs_model::rights::{Access, normalised};

fn key() -> PublicKey {
    Identity::generate().public()
}

fn one(options: &str) -> std::result::Result<Rights, String> {
    line_of(options).map(|line| line.rights)
}

fn line_of(options: &str) -> std::result::Result<KeyLine, String> {
    let key = key();
    let line = format!("{options}{}{key} somebody's laptop", if options.is_empty() { "" } else { " " });
    parse(line.as_bytes()).map(|keys| keys.lookup(&key).unwrap()).map_err(|bad| bad.why)
}

#[test]
fn a_key_may_only_read_by_default() {
    assert_eq!(one("").unwrap(), Rights::new(Access::ReadOnly));
    for &access in Access::ALL {
        assert_eq!(one(access.name()).unwrap(), Rights::new(access), "{}", access.name());
    }
}

#[test]
fn paths_limit_what_a_key_sees() {
    let rights = one(r#"path="data/run 7",read-write,path="/in\"box/""#).unwrap();
    assert_eq!(rights.paths(), [b"data/run 7".to_vec(), b"in\"box".to_vec()]);
    for inside in ["data/run 7", "data/run 7/", "/data//run 7/./x", "in\"box/a/b"] {
        assert!(rights.reaches(inside.as_bytes()), "{inside}");
    }
    for outside in [
        "",
        "/",
        ".",
        "data",
        "data/run 70",
        "data/run",
        "other",
        "data/run 7/../x",
        "../data/run 7",
        "in\"box/\0",
    ] {
        assert!(!rights.reaches(outside.as_bytes()), "{outside}");
    }
}

#[test]
fn limits_are_read_and_default_to_none() {
    let line = line_of("read-write").unwrap();
    assert_eq!((line.limits, line.limits.sessions_max()), (KeyLimits::default(), usize::MAX));
    let line = line_of(r#"rate=100Mbit,path="in",sessions=3,read-write,open-files="900""#).unwrap();
    let limits = KeyLimits { sessions: Some(3), rate_bps: Some(100_000_000), open_files: Some(900) };
    assert_eq!((line.limits, line.limits.sessions_max()), (limits, 2));
    assert_eq!(line.rights.paths(), [b"in".to_vec()]);
    for (text, bps) in [("1M", 1_000_000), ("2000kbit/s", 2_000_000), ("10Gbit", 10_000_000_000)] {
        assert_eq!(line_of(&format!("rate={text}")).unwrap().limits.rate_bps, Some(bps), "{text}");
    }
}

#[test]
fn a_comment_names_its_key_and_cannot_disguise_a_line() {
    assert_eq!(line_of("").unwrap().name, "somebody's laptop");
    let parsed = |comment: &str| {
        let key = key();
        parse(format!("{key}{comment}").as_bytes()).unwrap().lookup(&key).unwrap().name
    };
    assert_eq!(parsed(""), "");
    assert_eq!(parsed("  ann@here\u{1b}[2J \t x"), "ann@here[2J x");
    assert_eq!(parsed(&format!(" {}", "é".repeat(100))).chars().count(), NAME_CHARS_MAX);
}

#[test]
fn no_right_reaches_above_the_root() {
    for options in ["", "path=\".\"", "path=\"\""] {
        let rights = one(options).unwrap();
        assert!(rights.reaches(b""));
        assert!(!rights.reaches(b"a/../../b") && !rights.reaches(b".."));
    }
}

#[test]
fn bad_lines_are_named() {
    let key = key();
    for (line, why) in [
        (format!("no-write {key}"), "no-write"),
        (format!("read-only,write-only {key}"), "exclude"),
        (format!("append-only,read-write {key}"), "exclude"),
        (format!("read-only,read-only {key}"), "exclude"),
        (format!("path=data {key}"), "quotes"),
        (format!("path=\"data {key}"), "not closed"),
        (format!("path=\"a\"b {key}"), "comma"),
        (format!("sessions {key}"), "unknown"),
        (format!("sessions=0 {key}"), "refuse every session"),
        (format!("sessions=-1 {key}"), "no number"),
        (format!("sessions=1,sessions=2 {key}"), "twice"),
        (format!("rate=fast {key}"), "no rate"),
        (format!("rate=999k {key}"), "at least 1M"),
        (format!("rate=100 {key}"), "write 100Mbit"),
        (format!("rate=99999999999T {key}"), "no rate"),
        (format!("open-files=447 {key}"), "at least 448"),
        (format!("speed=1 {key}"), "unknown"),
        (format!("path=\"../a\" {key}"), "leaves the root"),
        (format!("read-only, {key}"), "comma"),
        (format!(",read-only {key}"), "unknown"),
        (format!("read-only read-write {key}"), "type is unknown"),
        ("fobs-ed25519".to_owned(), "missing"),
        ("fobs-ed25519 AAAA".to_owned(), "32 bytes"),
        ("ssh-ed25519 AAAA me".to_owned(), "unknown"),
        ("nonsense".to_owned(), "there is no key"),
    ] {
        let bad = parse(format!("# comment\n\n  # more\r\n{line}\n").as_bytes()).unwrap_err();
        assert_eq!(bad.line, 4, "{line}");
        assert!(bad.why.contains(why), "{line}: {}", bad.why);
    }
    let bad = parse(format!("{key}\nread-write {key}\n").as_bytes()).unwrap_err();
    assert_eq!(bad.line, 2);
}

#[test]
fn files_are_judged_before_they_are_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authorized_keys");
    let error = AuthorizedKeys::load(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);

    let (known, stranger) = (key(), key());
    std::fs::write(&path, format!("# ours\nread-write {known} ann\n")).unwrap();
    for (mode, good) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        match AuthorizedKeys::load(&path) {
            Ok(keys) => {
                assert!(good, "mode {mode:o}");
                assert_eq!(keys.lookup(&known).unwrap().rights.access(), Access::ReadWrite);
                assert_eq!(keys.lookup(&stranger), None);
            }
            Err(error) => {
                assert!(!good, "{error}");
                assert!(error.message.contains("chmod go-w"), "{error}");
            }
        }
    }

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "\nmaybe").unwrap();
    let error = AuthorizedKeys::load(&path).unwrap_err();
    assert!(error.message.contains("authorized_keys: line 2:"), "{error}");
    assert!(AuthorizedKeys::load(directory.path()).is_err());
}

proptest! {
    #[test]
    fn any_bytes_parse_or_are_refused(content in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Err(bad) = parse(&content) {
            prop_assert!(bad.line >= 1);
        }
    }

    #[test]
    fn any_options_parse_or_are_refused(options in "(path=\"[a-z/.\\\\\"]{0,6}|read-only|rate=|open-files=|sessions=|9|,|\"| |\\\\){0,6}") {
        if let Ok(rights) = one(&options) {
            for path in rights.paths() {
                prop_assert_eq!(normalised(path), Some(path.clone()));
            }
        }
    }
}

#[test]
fn what_could_hurt_the_host_needs_a_word() {
    for options in ["read-write", "write-only,path=\"a\""] {
        assert_eq!(one(options).unwrap().privileges(), Privileges::Withheld, "{options}");
    }
    for options in ["privileged,read-write", "write-only,path=\"a\",privileged"] {
        assert_eq!(one(options).unwrap().privileges(), Privileges::OfTheUser, "{options}");
    }
    for options in ["privileged", "read-only,privileged", "append-only,privileged"] {
        assert!(one(options).unwrap_err().contains("read-write"), "{options}");
    }
    assert!(one("privileged=yes,read-write").unwrap_err().contains("unknown"));
}
