//! Confined and still usable: what users do with links, mounts and siblings works behind the walls around a
//! session; and copies work where the kernel has older walls, or none.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, fobs_path};
use super::daemon::{Daemon, Key, Spec};
use super::files::names;
use super::needs;
use super::sshd::{HOST, Sshd};

/// Plays a kernel with an older Landlock, or none (0).
const PLAYED: &str = "FOBS_TEST_LANDLOCK";

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, content).expect("our own place");
}

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().expect("it is there").ino()
}

/// The two servers that confine their clients, over the same directory.
pub enum Server {
    Daemon(Box<Daemon>),
    Restricted(Sshd),
}

impl Server {
    /// A daemon whose one key has these rights.
    pub fn daemon(case: &Case, root: &Path, rights: &str) -> Server {
        let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
        let keys = [(rights, &client)];
        let spec = Spec { root: root.to_owned(), ..Spec::new(case, &keys, &server) };
        Server::Daemon(Box::new(Daemon::start_with(case, spec)))
    }

    /// A login whose one key runs `fobs server --restrict`.
    pub fn restricted(case: &Case, root: &Path) -> Server {
        let sshd = Sshd::start(case);
        let public = fs::read_to_string(case.path("ssh/user_key.pub")).expect("the key of the case");
        let (fobs, root) = (fobs_path().display(), root.display());
        let line = format!("restrict,command=\"{fobs} server --restrict {root}\" {public}");
        fs::write(case.path("ssh/authorized_keys"), line).expect("a file of ours");
        Server::Restricted(sshd)
    }

    fn sync(&self, case: &Case, options: &[&str]) -> Command {
        let mut command = match self {
            Server::Daemon(daemon) => daemon.sync(case),
            Server::Restricted(sshd) => sshd.sync(case),
        };
        command.args(options);
        command
    }

    /// A copy that no user has an option for.
    pub fn cp(&self, case: &Case) -> Command {
        match self {
            Server::Daemon(daemon) => daemon.cp(case),
            Server::Restricted(sshd) => sshd.plain_cp(case),
        }
    }

    pub fn location(&self, path: &str) -> String {
        match self {
            Server::Daemon(daemon) => daemon.url(path),
            Server::Restricted(_) => format!("{HOST}:{path}"),
        }
    }
}

/// Backups that link to the day before, with everything that a sync replaces, keeps and deletes.
fn link_to_a_sibling(case: &Case, server: &Server, root: &Path, above: &str) {
    let tree = case.local("tree");
    for name in ["same", "changes", "dir/same", "dir/goes"] {
        write(&tree.join(name), name);
    }
    let target = |day: &str| server.location(&format!("{above}{day}"));
    let sync = |options: &[&str], day: &str| {
        let mut command = server.sync(case, options);
        case.run(command.arg(case.local("tree/")).arg(target(day))).expect_success();
    };
    sync(&["-aH"], "01");
    write(&tree.join("changes"), "changed to another size");
    fs::remove_file(tree.join("dir/goes")).expect("own file");
    sync(&["-aH", "--link-dest=../01"], "02");
    let [one, two] = ["01", "02"].map(|day| root.join(above).join(day));
    for name in ["same", "dir/same"] {
        assert_eq!(inode(&one.join(name)), inode(&two.join(name)), "{name} is linked");
    }
    assert_ne!(inode(&one.join("changes")), inode(&two.join("changes")));
    // And once more over what is there: replaced, kept under another name, deleted; a directory for a file.
    fs::remove_file(tree.join("same")).expect("own file");
    write(&tree.join("same/now-a-directory"), "content");
    write(&tree.join("dir/same"), "changed, too");
    sync(&["-aH", "--backup", "--delete", "--link-dest=../01"], "02");
    assert_eq!(fs::read_to_string(two.join("dir/same~")).expect("it was kept"), "dir/same");
    assert_eq!(fs::read_to_string(two.join("same/now-a-directory")).expect("it was sent"), "content");
    assert_eq!(fs::read_to_string(one.join("same")).expect("it stays"), "same");
}

#[test]
fn a_sibling_is_linked_by_a_key_for_a_subtree() {
    let case = Case::new("a_sibling_is_linked_by_a_key_for_a_subtree");
    let root = case.path("served");
    fs::create_dir_all(root.join("in/ann")).expect("a fresh directory");
    write(&root.join("in/bob/file"), "of another key");
    let server = Server::daemon(&case, &root, "read-write,path=\"in/ann\"");
    link_to_a_sibling(&case, &server, &root, "in/ann/");
    assert_eq!(names(&root.join("in")), ["ann", "bob"]);
}

#[test]
fn a_sibling_is_linked_by_a_key_whose_subtree_is_not_there_yet() {
    let case = Case::new("a_sibling_is_linked_by_a_key_whose_subtree_is_not_there_yet");
    let root = case.path("served");
    fs::create_dir_all(&root).expect("a fresh directory");
    let server = Server::daemon(&case, &root, "read-write,path=\"ann\"");
    let tree = case.local("first");
    write(&tree.join("file"), "content");
    let mut command = server.sync(&case, &["-a"]);
    case.run(command.arg(case.local("first/")).arg(server.location("ann"))).expect_success();
    link_to_a_sibling(&case, &server, &root, "ann/");
}

#[test]
fn a_sibling_is_linked_by_a_restricted_login() {
    let case = Case::new("a_sibling_is_linked_by_a_restricted_login");
    let root = case.path("vault");
    fs::create_dir_all(&root).expect("a fresh directory");
    let server = Server::restricted(&case, &root);
    link_to_a_sibling(&case, &server, &root, "");
}

/// Something mounted; gone when dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn in_memory(at: PathBuf) -> Mounted {
        fs::create_dir_all(&at).expect("our own place");
        // Not in a host of the case: a program there has mounts of its own, as of its start.
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "fobs-e2e"]).arg(&at).status();
        assert!(mount.is_ok_and(|status| status.success()), "root mounts");
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn links_above_the_root_are_followed_and_those_below_lead_nowhere() {
    let name = "links_above_the_root_are_followed_and_those_below_lead_nowhere";
    if !needs::given(name) {
        return;
    }
    for over_ssh in [false, true] {
        let case = Case::new(name);
        // The operator's link to a disk, in which there is another one.
        let _disk = Mounted::in_memory(case.path("disk"));
        fs::create_dir(case.path("disk/real")).expect("an empty disk");
        let _inner = Mounted::in_memory(case.path("disk/real/inner"));
        let root = case.path("link-of-the-operator");
        symlink("disk/real", &root).expect("a fresh link");
        let secret = case.path("secret");
        write(&secret.join("file"), "not for this key");
        let server = if !over_ssh {
            Server::daemon(&case, &root, "read-write")
        } else {
            Server::restricted(&case, &root)
        };
        let sync =
            |options: &[&str], from: &str, to: &str| case.run(server.sync(&case, options).args([from, to]));
        let local = |name: &str| case.local(name).display().to_string();
        let tree = case.local("tree");
        write(&tree.join("sub/file"), "content");
        symlink(secret.display().to_string(), tree.join("absolute")).expect("a fresh link");
        symlink("..", tree.join("up")).expect("a fresh link");
        for at in ["plain", "inner/mounted"] {
            // Links are data: they arrive as they are.
            sync(&["-a"], &local("tree/"), &server.location(&format!("{at}/"))).expect_success();
            let arrived = case.path("disk/real").join(at);
            assert_eq!(fs::read_to_string(arrived.join("sub/file")).expect("it was sent"), "content");
            assert_eq!(fs::read_link(arrived.join("absolute")).expect("a link"), secret);
            let back = format!("back-{}", at.len());
            sync(&["-a"], &server.location(&format!("{at}/")), &local(&back)).expect_success();
            assert_eq!(fs::read_link(case.local(&back).join("absolute")).expect("a link"), secret);
            // And lead nowhere.
            for (options, from) in [(&["-a"][..], "absolute/"), (&["-aL"], ""), (&["-a"], "up/../../secret/")]
            {
                let stolen = sync(options, &server.location(&format!("{at}/{from}")), &local("stolen"));
                assert_ne!(stolen.code, Some(0), "{from}: {}", stolen.stderr);
                assert!(!case.local("stolen/file").exists() && !case.local("stolen/absolute/file").exists());
            }
            let planted = sync(&["-a"], &local("tree/sub/"), &server.location(&format!("{at}/absolute/")));
            assert_ne!(planted.code, Some(0), "{}", planted.stderr);
        }
        assert_eq!(fs::read_to_string(secret.join("file")).expect("it stays"), "not for this key");
        assert_eq!(names(&secret), ["file"]);
        // One directory on two file systems of the one root: no link between them, but a copy.
        write(&tree.join("more"), "content");
        let there = server.location("inner/second/");
        let done = sync(&["-a", "--link-dest=../../plain"], &local("tree/"), &there);
        done.expect_success();
    }
}

#[test]
fn names_of_a_list_go_through_the_operators_link() {
    let case = Case::new("names_of_a_list_go_through_the_operators_link");
    let (real, root) = (case.path("real"), case.path("served"));
    for top in [&real, &case.local("real")] {
        write(&top.join("sub/one"), "1");
        write(&top.join("sub/two"), "2");
        write(&top.join("three"), "3");
    }
    symlink("real", &root).expect("a fresh link");
    symlink("real", case.local("link")).expect("a fresh link");
    fs::write(case.local("list"), "sub/one\nthree\n").expect("own file");
    let server = Server::daemon(&case, &root, "read-write");
    let list = format!("--files-from={}", case.local("list").display());
    for (from, to, arrived) in [
        (case.local("link/").display().to_string(), server.location("pushed/"), real.join("pushed")),
        (server.location("/"), case.local("pulled/").display().to_string(), case.local("pulled")),
    ] {
        case.run(server.sync(&case, &["-a", &list]).args([from, to])).expect_success();
        assert_eq!(names(&arrived), ["sub", "three"]);
        assert_eq!(names(&arrived.join("sub")), ["one"]);
    }
}

#[test]
fn a_pull_stores_behind_the_users_own_link() {
    let case = Case::new("a_pull_stores_behind_the_users_own_link");
    let root = case.path("served");
    write(&root.join("tree/sub/file"), "content");
    let server = Server::daemon(&case, &root, "read-only");
    fs::create_dir_all(case.local("disk")).expect("own place");
    symlink("disk", case.local("link")).expect("a fresh link");
    let sync = |options: &[&str], to: &str| {
        let mut command = server.sync(&case, options);
        case.run(command.arg(server.location("tree/")).arg(case.local(to))).expect_success();
    };
    // Into what is there, by a new name, and beside what was there the day before.
    sync(&["-a"], "link/");
    sync(&["-a"], "link/01");
    sync(&["-a", "--link-dest=../01"], "link/02");
    sync(&["-a", "--delete", "--backup", "--link-dest=../01"], "link/02");
    for at in ["disk/sub/file", "disk/01/sub/file", "disk/02/sub/file"] {
        assert_eq!(fs::read_to_string(case.local(at)).expect("it came"), "content", "{at}");
    }
    assert_eq!(inode(&case.local("disk/01/sub/file")), inode(&case.local("disk/02/sub/file")));
}

#[test]
fn with_older_walls_or_none_copies_work_and_the_log_says_so() {
    if std::env::var_os("FOBS_TEST_BIN").is_some() {
        // Only a debug build plays other kernels.
        return;
    }
    for (version, said) in [
        ("0", "without Landlock"),
        ("1", "not held: files that are written"),
        ("3", "Landlock 3"),
        ("9", "Landlock"),
    ] {
        let case = Case::new("with_older_walls_or_none_copies_work_and_the_log_says_so");
        let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
        let keys = [("read-write", &client)];
        let variables = [(PLAYED, version)];
        let daemon =
            Daemon::start_with(&case, Spec { variables: &variables, ..Spec::new(&case, &keys, &server) });
        case.wait_for("the line", || daemon.log().contains("walls around each session: "));
        let is_here = daemon.log().contains("Landlock 7");
        assert!(daemon.log().contains(said) || (version == "9" && is_here), "{}", daemon.log());
        write(&case.local("tree/dir/file"), "content");
        for (from, to) in [
            (case.local("tree").display().to_string(), daemon.url("")),
            (daemon.url("tree"), case.local("back").display().to_string()),
        ] {
            let mut command = daemon.cp(&case);
            case.run(command.env(PLAYED, version).args(["-r", &from, &to])).expect_success();
        }
        assert_eq!(fs::read_to_string(case.local("back/dir/file")).expect("it came back"), "content");
        let mut doctor = daemon.doctor(&case);
        doctor.args(["--seconds", "1", "--dir"]).arg(case.local("")).arg(daemon.url(""));
        let found = String::from_utf8(case.run(&mut doctor).expect_success().stdout).expect("text");
        assert!(found.contains("around each session: "), "{found}");
    }
}
