use super::*;
use crate::Links;
use std::fs::{create_dir, write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory with names that a shell would need quotes for.
fn tree() -> (tempfile::TempDir, Base) {
    let root = tempfile::tempdir().expect("a directory");
    for directory in ["a", "b", "c d"] {
        create_dir(root.path().join(directory)).expect("a fresh directory");
    }
    for file in [
        "1.txt",
        "2.txt",
        ".hidden.txt",
        "x[1].txt",
        "it's.txt",
        "a/in.txt",
        "b/in.txt",
        "c d/in.dat",
        "star*",
        "new\nline.txt",
    ] {
        write(root.path().join(file), b"x").expect("a file of ours");
    }
    let base = Base::Beneath { root: open(root.path()), links: Links::Inside };
    (root, base)
}

fn open(path: &Path) -> OwnedFd {
    std::fs::File::open(path).expect("a directory").into()
}

fn expanded(base: &Base, pattern: &str) -> Vec<String> {
    let paths = expand(base, pattern.as_bytes()).expect(pattern);
    assert!(paths.iter().all(|path| may_stand_for(pattern.as_bytes(), path)), "{pattern}: {paths:?}");
    paths.into_iter().map(|path| String::from_utf8(path).expect("ASCII")).collect()
}

#[test]
fn patterns_stand_for_what_a_shell_would_find() {
    let (_root, base) = tree();
    for (pattern, paths) in [
        ("?.txt", vec!["1.txt", "2.txt"]),
        ("[1-9].txt", vec!["1.txt", "2.txt"]),
        ("[!1].txt", vec!["2.txt"]),
        ("*/in.*", vec!["a/in.txt", "b/in.txt", "c d/in.dat"]),
        ("c*/*.dat", vec!["c d/in.dat"]),
        (".h*", vec![".hidden.txt"]),
        ("?/", vec!["a/", "b/"]),
        ("it's*", vec!["it's.txt"]),
        ("new*", vec!["new\nline.txt"]),
        // A name that exists is meant by itself.
        ("x[1].txt", vec!["x[1].txt"]),
        ("star*", vec!["star*"]),
        ("x\\[1].tx?", vec!["x[1].txt"]),
        ("plain.txt", vec!["plain.txt"]),
        ("/[ab]/in.txt", vec!["/a/in.txt", "/b/in.txt"]),
    ] {
        assert_eq!(expanded(&base, pattern), paths, "{pattern}");
    }
    for pattern in ["*.nothing", "?/none/*", "../*", "1.txt/*"] {
        let error = expand(&base, pattern.as_bytes()).expect_err(pattern);
        assert_eq!(error.kind, ErrorKind::NoSource, "{error}");
    }
}

#[test]
fn homes_are_those_of_users_and_only_without_a_root() {
    let (_root, base) = tree();
    let user =
        User::from_uid(nix::unistd::geteuid()).ok().flatten().expect("whoever runs tests has an account");
    let home = user.dir.as_os_str().as_bytes();
    let path = format!("~{}/some file", user.name).into_bytes();
    let expected = [home, b"/some file"].concat();
    assert_eq!(at_home(&Base::Ambient, &path), Ok(expected.clone()));
    assert!(may_stand_for(&path, &expected) && !may_stand_for(&path, b"/root/../some file"));
    assert_eq!(at_home(&base, &path), Ok(path.clone()), "below a served directory it is a name");
    assert_eq!(at_home(&Base::Ambient, b"~"), Ok(b"~".to_vec()));
    let error = at_home(&Base::Ambient, b"~nobody at all/x").expect_err("no such user");
    assert!(
        error.message.contains("no user 'nobody at all'") && error.message.contains("'./~nobody"),
        "{error}"
    );
}

#[test]
fn a_client_believes_only_what_a_pattern_matches() {
    for (pattern, path) in [
        ("*.txt", ".profile"),
        ("*.txt", "sub/1.txt"),
        ("*.txt", "/1.txt"),
        ("*", ".."),
        (".*", ".."),
        ("a/*.txt", "b/1.txt"),
        ("a/*", "a/b/c"),
        ("/data/*", "data/x"),
        ("~ann/*.txt", "/home/ann/.ssh/id"),
        ("~ann/*.txt", "1.dat"),
    ] {
        assert!(!may_stand_for(pattern.as_bytes(), path.as_bytes()), "{pattern} {path}");
    }
}

#[test]
fn only_patterns_and_homes_cost_a_round_trip() {
    for path in ["*.txt", "a?", "x[1]", "~ann", "~ann/x"] {
        assert!(needs_expansion(path.as_bytes()), "{path}");
    }
    for path in ["a b", "it's", "~", "./~ann", "a~b", "a\\b", "", "é"] {
        assert!(!needs_expansion(path.as_bytes()), "{path}");
    }
}
