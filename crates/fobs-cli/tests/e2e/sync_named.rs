//! Paths that a command line names: a link that another user may have put on the way is not followed,
//! whatever the option, unless `--insecure-links` asks for it. rsync 3.5 has the same rule.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::Case;
use super::needs;
use super::net::Side;

/// The user who puts links.
const THIRD: u32 = 65_534;
/// Of both files that may be taken for each other, in seconds.
const TIME: i64 = 1_234_567_890;

/// One run: `from/`, `to/` and `outside/` below a directory of its own.
struct Place {
    top: PathBuf,
}

impl Place {
    fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("it is below the top")).expect("our own place");
        fs::write(&path, text).expect("our own place");
        set_time(&path);
    }
}

fn set_time(path: &Path) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(TIME.unsigned_abs());
    fs::File::open(path).and_then(|file| file.set_modified(time)).expect("our own place");
}

/// An option and a path that it names.
struct Row {
    /// With `@` for the path.
    options: &'static [&'static str],
    /// What the path names, below `outside`: a directory where it ends in `/`.
    names: &'static str,
    /// Whether something came from there or went there.
    followed: fn(&Place) -> bool,
}

/// A file was written or made outside.
fn written(place: &Place) -> bool {
    !place.read("outside/file").is_empty()
}

/// The file outside says what is left out.
fn left_out(place: &Place) -> bool {
    place.at("to/g").exists() && !place.at("to/f").exists()
}

/// Something was stored below the directory outside, if only for a while.
fn stored(place: &Place) -> bool {
    fs::metadata(place.at("outside/dir")).expect("our own place").mtime() != TIME
}

const ROWS: &[Row] = &[
    Row { options: &["--log-file=@"], names: "file", followed: written },
    Row {
        options: &["--files-from=@"],
        names: "list",
        followed: |place| place.at("to/f").exists() && !place.at("to/g").exists(),
    },
    Row { options: &["--exclude-from=@"], names: "list", followed: left_out },
    Row {
        options: &["--include-from=@", "--exclude=*"],
        names: "list",
        followed: |place| place.at("to/f").exists(),
    },
    Row { options: &["--filter=merge,- @"], names: "list", followed: left_out },
    Row { options: &["--filter=. @"], names: "rules", followed: left_out },
    Row {
        options: &["--compare-dest=@"],
        names: "dir/",
        followed: |place| !place.at("to/f").exists() && place.at("to/g").exists(),
    },
    Row {
        options: &["--link-dest=@"],
        names: "dir/",
        followed: |place| {
            let inode = |path: &str| fs::metadata(place.at(path)).map_or(0, |file| file.ino());
            inode("to/f") == inode("outside/dir/f")
        },
    },
    Row { options: &["--temp-dir=@"], names: "dir/", followed: stored },
    Row { options: &["--delay-updates", "--partial-dir=@"], names: "dir/", followed: stored },
    Row { options: &["--backup", "--backup-dir=@"], names: "dir/", followed: stored },
    Row { options: &["--inplace", "--backup", "--backup-dir=@"], names: "dir/", followed: stored },
    Row { options: &["TO @"], names: "dir/", followed: stored },
];

/// Where the link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// It is what the path names.
    Last,
    /// It is a directory on the way.
    OnTheWay,
}

/// Plays a row; whether the link was followed.
fn play(case: &Case, top: PathBuf, row: &Row, link: Where, owner: u32, more: &[&str]) -> bool {
    let place = Place { top };
    place.write("from/f", "FROM-SOURCES");
    place.write("from/g", "more");
    place.write("outside/dir/f", "FROM-SOURCES");
    place.write("outside/list", "f\n");
    place.write("outside/rules", "- f\n");
    // What is there is replaced where that is asked for.
    if row.options.iter().any(|option| option.contains("backup")) {
        place.write("to/f", "of before");
    }
    set_time(&place.at("outside/dir"));
    let (target, named) = match link {
        Where::Last => (format!("outside/{}", row.names.trim_end_matches('/')), "planted".to_owned()),
        Where::OnTheWay => ("outside".to_owned(), format!("planted/{}", row.names.trim_end_matches('/'))),
    };
    symlink(place.at(&target), place.at("planted")).expect("a fresh link");
    lchown(place.at("planted"), Some(owner), Some(owner)).expect("root may");
    let path = place.at(&named);
    let path = path.to_str().expect("our own name");
    let mut command: Command = case.fobs(Side::Client);
    command.args(["sync", "-a"]).args(more);
    let mut to = format!("{}/", place.at("to").display());
    for option in row.options {
        match option.strip_prefix("TO ") {
            Some(_) => to = format!("{path}/"),
            None => {
                command.arg(option.replace('@', path));
            }
        }
    }
    let done = case.run(command.arg(format!("{}/", place.at("from").display())).arg(to));
    let followed = (row.followed)(&place);
    let expects_success = owner == 0 || more.contains(&"--insecure-links");
    assert!(!expects_success || done.code == Some(0), "{:?} {link:?} {owner}: {}", row.options, done.stderr);
    if !expects_success {
        assert!(done.stderr.contains("another user"), "{:?} {link:?}: {}", row.options, done.stderr);
    }
    followed
}

#[test]
fn links_of_a_third_user_in_named_paths_are_not_followed() {
    let name = "links_of_a_third_user_in_named_paths_are_not_followed";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    for (number, row) in ROWS.iter().enumerate() {
        for link in [Where::Last, Where::OnTheWay] {
            for (owner, more, expected) in
                [(0, &[][..], true), (THIRD, &[], false), (THIRD, &["--insecure-links"], true)]
            {
                let top = case.local(format!("{number}-{link:?}-{owner}-{}", more.len()));
                let followed = play(&case, top, row, link, owner, more);
                assert_eq!(followed, expected, "{:?} {link:?} of {owner} {more:?}", row.options);
            }
        }
    }
}
