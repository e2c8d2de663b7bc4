//! What is known of files without a list: what moved, an earlier version that both ends have, blocks that the
//! file system shares; and what users are told of all that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::remote::{Carrier, Direction, Route};
use super::sync_deltas::{LEN, changed, content, last, put};

/// Weights of 2 bytes of which one in fifty is another.
fn trained(old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    for (at, chance) in content(77).into_iter().enumerate().take(old.len() / 2) {
        if chance < 5 {
            new[2 * at] ^= chance + 1;
        }
    }
    new
}

#[test]
fn an_earlier_version_at_both_ends_leaves_what_differs() {
    for (name, carrier, direction) in [
        ("basis_daemon_push", Carrier::Daemon, Direction::Push),
        ("basis_ssh_push", Carrier::Ssh, Direction::Push),
        ("basis_daemon_pull", Carrier::Daemon, Direction::Pull),
        ("basis_ssh_pull", Carrier::Ssh, Direction::Pull),
    ] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        let old = content(1);
        let new = trained(&old);
        let versions = route.source_path("v1");
        put(&versions.join("model/weights.bin"), &old, 500);
        for of_versions in ["model", "model/weights.bin"] {
            // A daemon's paths begin at its root.
            let is_served = (carrier, direction) == (Carrier::Daemon, Direction::Pull);
            let basis =
                if is_served { Path::new("v1").join(of_versions) } else { versions.join(of_versions) };
            put(&route.source_path("v2/model/weights.bin"), &new, 0);
            put(&route.target_path("model/weights.bin"), &old, 1000);
            let words = ["-a".to_owned(), "--json".to_owned(), "--basis".to_owned()];
            let words = [&words[..], &[basis.display().to_string()]].concat();
            let mut command = route.sync(&words);
            command.arg(route.source("v2/model")).arg(route.target(""));
            let end = last(&case.run(&mut command).expect_success().stdout);
            assert!(fs::read(route.target_path("model/weights.bin")).expect("it came") == new);
            let packets = end["packets_needed"].as_u64().expect("a count");
            assert!(packets * 1400 < LEN as u64 * 6 / 100, "{name} {}: {end}", basis.display());
            let there = end["deltas"]["matched"]["same_name"].as_u64().expect("it is told");
            assert!(there > LEN as u64 * 9 / 10, "{end}");
        }
    }
}

#[test]
fn the_snapshot_before_is_found_beside_the_source() {
    for (name, carrier, direction) in [
        ("beside_daemon_push", Carrier::Daemon, Direction::Push),
        ("beside_ssh_push", Carrier::Ssh, Direction::Push),
        ("beside_daemon_pull", Carrier::Daemon, Direction::Pull),
        ("beside_ssh_pull", Carrier::Ssh, Direction::Pull),
    ] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        let old = content(1);
        let new = trained(&old);
        put(&route.source_path("snaps/2/w/model.bin"), &new, 0);
        put(&route.target_path("1/w/model.bin"), &old, 500);
        // What stands there is the version before, another one, or none. After eight rejected patches nothing
        // more is sent twice; short packets of a trial count as whole ones.
        for (beside, part) in [(Some(&old), 6), (Some(&content(9)), 200), (None, 150)] {
            let there = route.source_path("snaps/1/w/model.bin");
            match beside {
                Some(bytes) => put(&there, bytes, 500),
                None => fs::remove_file(there).expect("it is there"),
            }
            // How the source is named counts for where its neighbour is looked for, not for what that is.
            let sources: &[&str] = if part == 6 { &["snaps/2/", "snaps/2/w"] } else { &["snaps/2/"] };
            for source in sources {
                let _ = fs::remove_dir_all(route.target_path("2"));
                let mut command =
                    route.sync(&["-a", "--json", "--mkpath", "--link-dest=../1"].map(str::to_owned));
                command.arg(route.source(source)).arg(route.target("2/"));
                let end = last(&case.run(&mut command).expect_success().stdout);
                let came = fs::read(route.target_path("2/w/model.bin")).expect("it came");
                assert!(came == new, "{name} {source}");
                let packets = end["packets_needed"].as_u64().expect("a count");
                assert!(packets * 1400 < LEN as u64 * part / 100, "{name} {source}: {end}");
            }
        }
    }
}

#[test]
fn a_basis_is_read_where_the_key_may_read() {
    let case = Case::new("a_basis_is_read_where_the_key_may_read");
    let (key, server) = (Key::generate(&case, "user"), Key::generate(&case, "server-key"));
    let daemon = Daemon::start_with(&case, Spec::new(&case, &[("read-only,path=\"ann\"", &key)], &server));
    let old = content(1);
    put(&daemon.root.join("ann/new/f"), &trained(&old), 0);
    put(&daemon.root.join("ann/old/f"), &old, 500);
    put(&daemon.root.join("bob/f"), &old, 500);
    std::os::unix::fs::symlink("../bob", daemon.root.join("ann/link")).expect("own directory");
    for (basis, refused) in [
        ("ann/old", None),
        ("/ann/old/f", None),
        ("ann/none", Some("use for --basis")),
        ("bob", Some("no right to")),
        ("/bob/f", Some("no right to")),
        ("ann/../bob", Some("")),
        ("ann/link", Some("use for --basis")),
        ("../../etc/passwd", Some("")),
    ] {
        put(&case.path("here/f"), &old, 1000);
        let mut command = daemon.sync(&case);
        command.args(["-a".to_owned(), format!("--basis={basis}")]);
        let done = case.run(command.arg(daemon.url("ann/new/")).arg(case.path("here")));
        match refused {
            None => {
                done.expect_success();
                assert!(fs::read(case.path("here/f")).expect("it came") == trained(&old), "{basis}");
            }
            Some(words) => {
                assert_ne!(done.code, Some(0), "{basis}");
                assert!(done.stderr.contains(words), "{basis}: {}", done.stderr);
                assert!(fs::read(case.path("here/f")).expect("it stands") == old, "{basis}");
            }
        }
    }
}

#[test]
fn users_are_told_what_was_there_and_why_the_rest_was_sent() {
    for (name, direction) in [("told_push", Direction::Push), ("told_pull", Direction::Pull)] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        for (option, is_on_stdout) in [("-v", true), ("--stats", true), ("--explain", false)] {
            put(&route.source_path("tree/f"), &changed(&content(1)), 0);
            put(&route.source_path("tree/new"), &content(3), 0);
            put(&route.target_path("tree/f"), &content(1), 1000);
            let there = route.target_path("tree/new");
            if there.exists() {
                fs::remove_file(there).expect("own file");
            }
            let words = ["-a", "--delta=always", option].map(str::to_owned);
            let mut command = route.sync(&words);
            let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree")));
            let done = done.expect_success();
            let stdout = String::from_utf8_lossy(&done.stdout);
            let text = if is_on_stdout { &*stdout } else { &done.stderr };
            let line = text.lines().find(|line| line.contains("deltas: found "));
            let line = line.unwrap_or_else(|| panic!("{option}: {text}"));
            for words in ["in files of the same name", "without an earlier version", "are not there"] {
                assert!(line.contains(words), "{option}: {line}");
            }
        }
        put(&route.source_path("tree/f"), &content(9), 0);
        put(&route.target_path("tree/f"), &content(1), 1000);
        let words = ["-a", "--json", "--delta=always"].map(str::to_owned);
        let mut command = route.sync(&words);
        let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree")));
        let end = last(&done.expect_success().stdout);
        assert_eq!(end["deltas"]["literal"]["new"].as_u64(), Some(LEN as u64), "{end}");
        // A basis that the destination does not have is told of.
        let old = route.source_path("old");
        put(&old, &content(1), 500);
        let basis = if direction == Direction::Pull { PathBuf::from("old") } else { old };
        let mut command = route.sync(&["-av".to_owned(), format!("--basis={}", basis.display())]);
        let done = case.run(command.arg(route.source("tree/f")).arg(route.target("vain/")));
        let stdout = String::from_utf8_lossy(&done.expect_success().stdout).into_owned();
        let line = stdout.lines().find(|line| line.starts_with("deltas: sent "));
        let line = line.unwrap_or_else(|| panic!("{stdout}"));
        assert!(line.contains("without an earlier version"), "{line}");
        // Without deltas there is nothing to tell.
        put(&route.source_path("tree/f"), &content(10), 0);
        let words = ["-a", "--json", "-W"].map(str::to_owned);
        let mut command = route.sync(&words);
        let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree")));
        assert!(last(&done.expect_success().stdout).get("deltas").is_none());
    }
}

/// A file system of an image, on a loop device.
struct Mounted(PathBuf);

impl Mounted {
    fn xfs(image: &Path, at: &Path) -> Mounted {
        let file = fs::File::create(image).expect("our own place");
        file.set_len(1 << 30).expect("it is sparse");
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(image));
        fs::create_dir_all(at).expect("our own place");
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at));
        Mounted(at.to_owned())
    }

    /// Bytes that are used, once all is written.
    fn used(&self) -> u64 {
        run(Command::new("sync").arg("-f").arg(&self.0));
        let stat = rustix::fs::statvfs(&self.0).expect("it is mounted");
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nothing can be done where that fails.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    let done = command.output().expect("it can be run");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn what_did_not_change_shares_its_blocks_where_it_can() {
    let directions = [("shared_push", Direction::Push, "served"), ("shared_pull", Direction::Pull, "local")];
    for (name, direction, target) in directions {
        let case = Case::new(name);
        // Before the ends have mounts of their own.
        let disk = Mounted::xfs(&case.path("disk.img"), &case.path(target).join("disk"));
        let route = Route::open(&case, Carrier::Daemon, direction);
        let old: Vec<u8> = (0..16).flat_map(content).collect();
        let mut new = old.clone();
        for write in 0..20 {
            let at = (write * 3_000_000 + 4096 * 7) / 4096 * 4096;
            new[at..at + 4096].fill(9);
        }
        put(&route.source_path("tree/f"), &new, 0);
        put(&route.target_path("disk/f"), &old, 1000);
        // It stays, so what is not shared is one file more.
        fs::hard_link(route.target_path("disk/f"), route.target_path("disk/kept")).expect("own files");
        let before = disk.used();
        let words = ["-a", "--json", "--delta=always"].map(str::to_owned);
        let mut command = route.sync(&words);
        let done = case.run(command.arg(route.source("tree/")).arg(route.target("disk")));
        let end = last(&done.expect_success().stdout);
        assert!(fs::read(route.target_path("disk/f")).expect("it came") == new, "{end}");
        assert!(fs::read(route.target_path("disk/kept")).expect("it stays") == old);
        let more = disk.used().saturating_sub(before);
        assert!(more < 8 << 20, "{direction:?}: {more} bytes more of {}", new.len());
    }
}

#[test]
fn files_of_a_tree_that_moved_are_renamed_where_the_old_names_go() {
    use std::os::unix::fs::MetadataExt;
    for (name, carrier, direction) in [
        ("renamed_daemon_push", Carrier::Daemon, Direction::Push),
        ("renamed_ssh_pull", Carrier::Ssh, Direction::Pull),
    ] {
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        let mut before = Vec::new();
        for number in 0..40 {
            let bytes = &content(number)[..1000 + 20_000 * number as usize];
            put(&route.source_path(format!("tree/now/deeper/{number}")), bytes, 5000);
            let old = route.target_path(format!("tree/then/{number}"));
            put(&old, bytes, 0);
            let time = fs::metadata(route.source_path(format!("tree/now/deeper/{number}")));
            let time = time.and_then(|it| it.modified()).expect("own file");
            let file = fs::File::options().write(true).open(&old).expect("own file");
            file.set_modified(time).expect("own file");
            before.push(fs::metadata(&old).expect("own file").ino());
        }
        let directory = fs::metadata(route.target_path("tree/then")).expect("own directory").ino();
        let words = ["-a", "--json", "--delete", "--track-renames"].map(str::to_owned);
        let mut command = route.sync(&words);
        let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree")));
        let end = last(&done.expect_success().stdout);
        assert!(!route.target_path("tree/then").exists(), "{name}");
        let now = fs::metadata(route.target_path("tree/now/deeper")).expect("it came").ino();
        assert_eq!(now, directory, "{name}: as one");
        assert_eq!(end["deltas"]["matched"]["moved"], end["bytes"], "{name}");
        for (number, inode) in before.into_iter().enumerate() {
            let is = route.target_path(format!("tree/now/deeper/{number}"));
            let [stored, sent] = [&is, &route.source_path(format!("tree/now/deeper/{number}"))].map(fs::read);
            assert!(stored.expect("it came") == sent.expect("own file"), "{name} {number}");
            assert_eq!(fs::metadata(&is).expect("it came").ino(), inode, "{name} {number}");
        }
    }
}
