//! The same random rules and tree for this filter and for the installed rsync: both list the same names, and
//! delete the same.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio};

use fobs_rng::Rng;

use super::super::*;

/// Seeds of an ordinary run, and of a long one.
const SEEDS: u64 = if cfg!(feature = "long") { 1000 } else { 40 };
/// Components of paths and patterns: few, so that patterns match. Those with wildcards name files only: rsync
/// takes the name of a directory for a pattern in the rules of the directory's own file.
const NAMES: [&str; 9] = ["a", "b", "ab", "foo", "bar", "x.o", "y.c", "[z]", "w\\v"];

/// A word of a pattern.
fn word(rng: &mut Rng) -> String {
    match rng.below(9) {
        0 => "*".to_owned(),
        1 => "?".to_owned(),
        2 => "*.o".to_owned(),
        3 => "[a-f]*".to_owned(),
        4 => "**".to_owned(),
        5 => "\\[z]".to_owned(),
        _ => rng.pick(&NAMES).to_owned(),
    }
}

fn pattern(rng: &mut Rng) -> String {
    let words: Vec<String> = (0..1 + rng.below(3)).map(|_| word(rng)).collect();
    let front = if rng.below(4) == 0 { "/" } else { "" };
    let back = rng.pick(&["", "", "", "/", "/***", "*", "**"]);
    format!("{front}{}{back}", words.join("/"))
}

fn rule(rng: &mut Rng) -> String {
    let kind = ["- ", "- ", "+ ", "+ ", "-! ", "H ", "S ", "P ", "R ", "-s ", "+r ", "-p "];
    format!("{}{}", rng.pick(&kind), pattern(rng))
}

/// Makes a tree; with directories' own filter files if they are wanted.
fn make_tree(top: &Path, rng: &mut Rng, depth: u64, own_files: bool) {
    fs::create_dir_all(top).expect("a directory");
    for name in NAMES {
        let path = top.join(name);
        match rng.below(5) {
            0 if depth > 0 && !name.contains(['[', '\\']) => make_tree(&path, rng, depth - 1, own_files),
            1 | 2 => fs::write(&path, name).expect("a file"),
            _ => {}
        }
    }
    if own_files && rng.below(3) == 0 {
        let clear = if rng.below(5) == 0 { "!\n" } else { "" };
        let further = rng.pick(&["", "", ": .more\n", ":n .more\n", ":C\n", "dir-merge,e .more\n"]);
        let cleared = if rng.below(3) == 0 { further } else { "" };
        let rules = format!("# ours\n{}\n{cleared}{clear}{further}{}\n", rule(rng), rule(rng));
        fs::write(top.join(".rules"), rules).expect("a file");
    }
    // What counts only where a directory above, or this one, names it.
    if own_files && rng.below(3) == 0 {
        let further = rng.pick(&["", "", ": .more\n", ":C\n", ": .rules\n"]);
        fs::write(top.join(".more"), format!("{}\n{further}{}\n", rule(rng), rule(rng))).expect("a file");
    }
    if own_files && rng.below(4) == 0 {
        fs::write(top.join(".cvsignore"), format!("{} {}\n", word(rng), word(rng))).expect("a file");
    }
}

/// A walk as the sender makes it: names that are not excluded, directories with a slash.
fn listed(top: &Path, chain: &mut Chain) -> BTreeSet<Vec<u8>> {
    fn directory(top: &Path, path: &[u8], chain: &mut Chain, names: &mut BTreeSet<Vec<u8>>) {
        let here = top.join(std::ffi::OsStr::from_bytes(path));
        let failures = chain.enter(path, &mut |name| own_file(&here, name));
        assert_eq!(failures, Vec::<String>::new());
        for entry in fs::read_dir(&here).expect("a directory").flatten() {
            let path = crate::path::join(path, &entry.file_name().into_vec());
            let is_directory = entry.path().is_dir();
            let kind = if is_directory { NameKind::Directory } else { NameKind::Other };
            if chain.excludes(&path, kind) {
                continue;
            }
            names.insert(if is_directory { [&path[..], b"/"].concat() } else { path.clone() });
            if is_directory {
                directory(top, &path, chain, names);
            }
        }
        chain.leave();
    }
    let mut names = BTreeSet::new();
    directory(top, b"", chain, &mut names);
    names
}

/// A walk as the receiver deletes: what is not protected, and directories that are empty then.
fn delete(top: &Path, path: &[u8], chain: &mut Chain, perishable: Perishable) {
    let here = top.join(std::ffi::OsStr::from_bytes(path));
    let failures = chain.enter(path, &mut |name| own_file(&here, name));
    assert_eq!(failures, Vec::<String>::new());
    for entry in fs::read_dir(&here).expect("a directory").flatten() {
        let path = crate::path::join(path, &entry.file_name().into_vec());
        let kind = if entry.path().is_dir() { NameKind::Directory } else { NameKind::Other };
        if chain.judge(&path, kind, perishable) == Some(Action::Exclude) {
            continue;
        }
        if kind == NameKind::Directory {
            delete(top, &path, chain, Perishable::Ignored);
            // One with something protected in it stays.
            let _ = fs::remove_dir(entry.path());
        } else {
            fs::remove_file(entry.path()).expect("own file");
        }
    }
    chain.leave();
}

fn own_file(directory: &Path, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    match fs::read(directory.join(std::ffi::OsStr::from_bytes(name))) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every name below `top`, directories with a slash.
fn all(top: &Path) -> BTreeSet<Vec<u8>> {
    listed(top, &mut Chain::new(Arc::new(Filter::default()), Side::Sender, b""))
}

fn rsync(words: &[&str], from: &Path, to: &Path) -> Vec<u8> {
    let slash = |path: &Path| [path.as_os_str().as_bytes(), b"/"].concat();
    let mut command = Command::new("rsync");
    command.args(words);
    for path in [slash(from), slash(to)] {
        command.arg(std::ffi::OsStr::from_bytes(&path));
    }
    let output = command.stdin(Stdio::null()).output().expect("rsync starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn is_installed() -> bool {
    let found = Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        // Past the harness's capture: a skipped test must be seen.
        let _ = io::stderr().write_all(b"skipped: no rsync is installed\n");
    }
    found
}

#[test]
fn the_sender_lists_what_rsync_lists() {
    if !is_installed() {
        return;
    }
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let place = tempfile::tempdir().expect("a directory");
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        let own_files = rng.below(2) == 0;
        make_tree(&from, &mut rng, 3, own_files);
        fs::create_dir(&to).expect("a directory");
        let mut rules: Vec<String> = (0..1 + rng.below(5)).map(|_| rule(&mut rng)).collect();
        if own_files {
            let at = rng.below(rules.len() + 1);
            rules
                .insert(at, rng.pick(&[": .rules", ":n .rules", ":e .rules", ":en .rules", ":C"]).to_owned());
        }
        let mut filter = Filter::default();
        let mut words = vec!["-rn".to_owned(), "--out-format=%n".to_owned(), "-8".to_owned()];
        for rule in &rules {
            filter.add_rule(rule.as_bytes(), &mut no_files).unwrap_or_else(|error| panic!("{seed}: {error}"));
            words.push(format!("--filter={rule}"));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // It writes a backslash that looks like its own escape as one.
        let unescaped = String::from_utf8(rsync(&words, &from, &to)).expect("ASCII").replace("\\#134", "\\");
        let theirs: BTreeSet<Vec<u8>> =
            unescaped.lines().filter(|name| *name != "./").map(|name| name.as_bytes().to_vec()).collect();
        let top = from.as_os_str().as_bytes();
        let ours = listed(&from, &mut Chain::new(Arc::new(filter), Side::Sender, top));
        let apart = (only(&ours, &theirs), only(&theirs, &ours));
        assert_eq!(apart, (Vec::new(), Vec::new()), "seed {seed}: ours, rsync's: {rules:?}");
    }
}

#[test]
fn the_receiver_deletes_what_rsync_deletes() {
    if !is_installed() {
        return;
    }
    for seed in 0..SEEDS {
        let mut rng = Rng::new(1_000_000 + seed);
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        let own_files = rng.below(2) == 0;
        let mut twin = rng.clone();
        make_tree(&path("theirs"), &mut rng, 3, own_files);
        make_tree(&path("ours"), &mut twin, 3, own_files);
        fs::create_dir(path("empty")).expect("a directory");
        let delete_excluded = rng.below(3) == 0;
        let mut rules: Vec<String> = (0..1 + rng.below(4)).map(|_| rule(&mut rng)).collect();
        if own_files {
            rules.push(rng.pick(&[": .rules", ":n .rules", ":- .rules"]).to_owned());
        }
        let mut filter = Filter::new(Separator::Line, delete_excluded);
        let mut words = vec!["-r".to_owned(), "--delete".to_owned()];
        if delete_excluded {
            words.push("--delete-excluded".to_owned());
        }
        for rule in &rules {
            filter.add_rule(rule.as_bytes(), &mut no_files).unwrap_or_else(|error| panic!("{seed}: {error}"));
            words.push(format!("--filter={rule}"));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        rsync(&words, &path("empty"), &path("theirs"));
        let top = path("ours");
        let mut chain = Chain::new(Arc::new(filter), Side::Receiver, top.as_os_str().as_bytes());
        delete(&top, b"", &mut chain, Perishable::Counted);
        let (ours, theirs) = (all(&top), all(&path("theirs")));
        let apart = (only(&ours, &theirs), only(&theirs, &ours));
        assert_eq!(apart, (Vec::new(), Vec::new()), "seed {seed}: ours, rsync's: {words:?}");
    }
}

/// Names that only one of both has.
fn only(ours: &BTreeSet<Vec<u8>>, theirs: &BTreeSet<Vec<u8>>) -> Vec<String> {
    ours.difference(theirs).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}
