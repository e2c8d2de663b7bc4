//! The tarball's install script, with the binary under test. `scripts/test-packages.sh` tries real packages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::case::{Case, fobs_path};
use super::files::{hash, write_random};
use super::remote::{Carrier, Direction, Route};

/// Everything below a directory.
fn listing(below: &Path) -> Vec<String> {
    let found = Command::new("find").arg(below).output().expect("find is everywhere");
    let mut names: Vec<_> =
        String::from_utf8(found.stdout).expect("our names").lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn the_install_script_leaves_nothing_behind() {
    let case = Case::new("the_install_script_leaves_nothing_behind");
    let (folder, prefix) = (case.path("fobs-linux"), case.path("prefix with a blank"));
    for directory in ["bin", "share/man/man1"] {
        fs::create_dir_all(folder.join(directory)).expect("a fresh directory");
    }
    fs::copy(fobs_path(), folder.join("bin/fobs")).expect("room for a copy of the binary");
    fs::write(folder.join("share/man/man1/fobs.1"), "a page").expect("a file of ours");
    let script = folder.join("install.sh");
    fs::write(&script, include_str!("../../../../packaging/tarball/install.sh")).expect("a file of ours");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(&script).args(arguments).arg("--prefix").arg(&prefix).env("HOME", case.path("home"));
        case.run(&mut command)
    };
    run(&["--uninstall"]).expect_code(1);

    // What others have there stays.
    fs::create_dir_all(prefix.join("share/man")).expect("a fresh directory");
    fs::write(prefix.join("share/man/other"), "").expect("a file of ours");
    let before = listing(&prefix);
    for _ in 0..2 {
        let said = run(&[]).expect_success();
        assert!(String::from_utf8_lossy(&said.stdout).contains("is not on your PATH"), "{said:?}");
    }
    let installed = prefix.join("bin/fobs");
    assert_eq!(fs::metadata(&installed).expect("it is there").permissions().mode() & 0o777, 0o755);
    assert!(prefix.join("share/man/man1/fobs.1").exists());

    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let sent = write_random(&route.source_path("file"), 100_000, &mut case.random());
    let mut copy = case.command(super::net::Side::Client, &installed);
    // The same arguments, with the installed program in place of the one under test.
    copy.args(route.copy(&[], "file", "copy").get_args().skip_while(|argument| *argument != "cp"));
    case.run(&mut copy).expect_success();
    assert_eq!(hash(&route.target_path("copy")), sent);

    run(&["--uninstall"]).expect_success();
    assert_eq!(listing(&prefix), before);
    fs::remove_dir_all(&prefix).expect("ours");
    run(&[]).expect_success();
    run(&["--uninstall"]).expect_success();
    assert!(!prefix.exists(), "{:?}", listing(&prefix));
}

#[test]
fn removing_a_package_stops_each_unit_that_it_has() {
    let spec = include_str!("../../../../packaging/rpm/fobs.spec");
    let units: Vec<&str> =
        spec.lines().filter_map(|line| line.strip_prefix("/usr/lib/systemd/system/")).collect();
    assert!(units.len() >= 3, "{units:?}");
    for (name, script) in [
        ("prerm", include_str!("../../../../packaging/deb/prerm")),
        ("pre-uninstall.sh", include_str!("../../../../packaging/rpm/pre-uninstall.sh")),
    ] {
        let stops = script.lines().find(|line| line.contains(" stop ")).expect("it stops units");
        for unit in &units {
            assert!(stops.split(' ').any(|word| word == *unit), "{name} stops no {unit}");
        }
    }
}
