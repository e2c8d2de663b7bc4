//! Each command for those who come from other programs (docs/coming-from.md) does what the one beside it did.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::documents::{Desk, text};
use super::files::write_random;
use super::needs;
use super::net::Side;

/// What a command does.
enum Effect {
    /// This file comes to be here, below the test's directory.
    Brings(&'static str, &'static str),
    /// It prints something and ends well.
    Prints,
    /// It is not run, and why.
    NotRun(&'static str),
}

use Effect::{Brings, NotRun, Prints};

/// Every command of the right column. `far` is the other host's home, `srv` is `/srv` at both, `root` is what
/// the daemon serves.
const COMMANDS: &[(&str, Effect)] = &[
    ("fobs cp big.tar host:", Brings("local/big.tar", "far/big.tar")),
    ("fobs cp -rp tree host:/data/", Brings("local/tree/file", "srv/data/tree/file")),
    ("fobs cp -P 2222 -i key -J gate big.tar me@host:", NotRun("another user, port, key and gate")),
    ("fobs cp -l 100000 big.tar host:", Brings("local/big.tar", "far/big.tar")),
    ("fobs cp --rate 100Mbit big.tar host:", Brings("local/big.tar", "far/big.tar")),
    ("fobs cp a:/x/big.tar b:/y/", Brings("srv/x/big.tar", "srv/y/big.tar")),
    ("fobs pipe host -- tar x", Brings("local/tree/file", "far/tree/file")),
    ("fobs pipe host -- zfs receive b", NotRun("needs zfs")),
    ("fobs sync -a src/ host:dst/", Brings("local/src/file", "far/dst/file")),
    (
        "fobs sync -aHAX --numeric-ids --delete -e 'ssh -p 2222' src/ host:dst/",
        NotRun("another port of sshd"),
    ),
    ("fobs sync -ani --delete src/ host:dst/", Prints),
    ("fobs cp --append-verify big.img host:", Brings("local/big.img", "far/big.img")),
    ("fobs sync -a --link-dest=../monday src/ host:tuesday/", Brings("local/src/file", "far/tuesday/file")),
    ("fobs sync -a fobs://host/module/ here/", Brings("root/module/file", "local/here/file")),
    ("fobs cp -r tree/ host:dir", Brings("local/tree/file", "far/dir/file")),
    ("fobs sync -a --delete tree/ host:dir/", Brings("local/tree/file", "far/dir/file")),
    ("fobs sync -nicr tree/ host:dir/", Prints),
    ("fobs cp -r --rate 10MiB/s tree/ host:dir", Brings("local/tree/file", "far/dir/file")),
    ("fobs cp host:file -", Prints),
    ("fobs serve --root /data --authorized-keys keys", NotRun("serves until it is ended")),
    ("fobs cp /set.tar fobs://host/set.tar", Brings("srv/set.tar", "root/set.tar")),
    ("fobs cp -r a:/x/ b:/y", Brings("srv/x/big.tar", "srv/y/big.tar")),
    ("fobs sync -ac /x/ b:/y/", Brings("srv/x/big.tar", "srv/y/big.tar")),
    ("fobs cp big.tar host:/data/", Brings("local/big.tar", "srv/data/big.tar")),
    ("fobs cp -r src/ host:dst", Brings("local/src/file", "far/dst/file")),
];

/// Directories of the root are below `/srv` here.
const PLACES: &[(&str, &str)] = &[
    ("host:/data", "host:/srv/data"),
    ("a:/x", "a:/srv/x"),
    ("b:/y", "b:/srv/y"),
    (" /x", " /srv/x"),
    (" /set.tar", " /srv/set.tar"),
];

/// The commands of the right column, in their order.
fn commands() -> Vec<String> {
    let page = text("docs/coming-from.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let spans = rows.flat_map(|(_, ours)| ours.split('`').skip(1).step_by(2));
    spans.filter(|words| words.starts_with("fobs ") && *words != "fobs serve").map(str::to_owned).collect()
}

#[test]
fn every_command_for_newcomers_is_known_here() {
    let known: Vec<&str> = COMMANDS.iter().map(|(command, _)| *command).collect();
    assert_eq!(commands(), known);
}

#[test]
fn commands_for_newcomers_do_what_those_beside_them_did() {
    let name = "commands_for_newcomers_do_what_those_beside_them_did";
    if !needs::given(name) {
        return;
    }
    let desk = Desk::set_up(name);
    fill(&desk);
    for (command, effect) in COMMANDS {
        let mut typed = PLACES.iter().fold((*command).to_owned(), |text, (from, to)| text.replace(from, to));
        if command.starts_with("fobs pipe") {
            typed = format!("tar c tree | {typed}");
        }
        match effect {
            Brings(source, target) => {
                let (source, target) = (desk.case.path(source), desk.case.path(target));
                if !command.contains("--append-verify") {
                    // It may be there of the command before.
                    let _ = fs::remove_file(&target);
                }
                desk.play(&typed, 0, "docs/coming-from.md");
                let (sent, came) = (fs::read(source).expect("the source"), fs::read(&target));
                assert!(came.is_ok_and(|came| came == sent), "{command}: {}", target.display());
            }
            Prints => desk.play(&typed, 0, "docs/coming-from.md"),
            NotRun(why) => assert!(why.len() > 8, "{command}"),
        }
    }
}

/// The files that the commands name, and the key that the daemon knows.
fn fill(desk: &Desk) {
    let case = &desk.case;
    let mut random = case.random();
    let files = ["local/tree/file", "local/src/file", "local/big.img", "far/file", "far/monday/file"];
    for (at, file) in files.iter().chain(&["srv/x/big.tar", "srv/set.tar", "root/module/file"]).enumerate() {
        let path = case.path(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        // Of other sizes: by size and time one could be taken for another.
        write_random(&path, 200_000 + at as u64, &mut random);
    }
    for directory in ["srv/data", "srv/y"] {
        fs::create_dir_all(case.path(directory)).expect("a directory");
    }
    let whole = fs::read(case.path("local/big.img")).expect("own file");
    fs::write(case.path("far/big.img"), &whole[..70_000]).expect("own file");
    let made = case.run(case.fobs(Side::Client).arg("keygen")).expect_success();
    let keys = case.local("authorized_keys");
    fs::write(&keys, format!("read-write {}", String::from_utf8_lossy(&made.stdout))).expect("own file");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("own file");
}
