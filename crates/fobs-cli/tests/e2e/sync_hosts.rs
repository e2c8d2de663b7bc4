//! `fobs sync` beside the installed rsync on hosts of every kind: with mounts, default ACLs, set-gid
//! directories and read-only files, as a plain user, into a full or a failing destination, killed and run
//! again. What both end with is equal: the trees, the lists of changes, and whether it was a success.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::case::Case;
use super::crash::{Disk, on_a_disk};
use super::daemon::{Daemon, Key, NOBODY, Spec, as_user};
use super::needs;
use super::net::Side;
use super::remote::Direction;
use super::sync_trees::{Abilities, Entry, FileKind, just_now, listing};
use world::{BASIS, FROZEN, Fate, MOUNTED_IN_TARGET, Mounted, Receiver, World};

/// Seeds of an ordinary run, and of a long one.
const SEEDS: u64 = if cfg!(feature = "long") { 500 } else { 16 };
/// How long rsync may take; a tree of this test takes it far less than one.
const RSYNC_SECONDS: &str = "20";
/// Most entries that a failure shows.
const DIFFERENCES_SHOWN: usize = 6;
/// The name of the source and of the target at their ends.
const SOURCE: &str = "source";
const TARGET: &str = "target";

/// What a program did: its exit code, its list of changes, what it said.
type Outcome = (Option<i32>, BTreeSet<String>, String);
type Tree = BTreeMap<PathBuf, Entry>;

/// Both ends of one seed.
struct Ends<'a> {
    case: &'a Case,
    world: &'a World,
    daemon: Daemon,
    /// `fobs` and a key for a plain user, where that is the client.
    program: PathBuf,
    key: PathBuf,
    source: PathBuf,
    ours: PathBuf,
    theirs: PathBuf,
    /// rsync's source: another one where files are removed from it.
    their_source: PathBuf,
}

fn places(case: &Case, direction: Direction) -> (PathBuf, PathBuf) {
    let (local, served) = (case.path("local"), case.path("served"));
    match direction {
        Direction::Push => (local.join(SOURCE), served.join(TARGET)),
        Direction::Pull => (served.join(SOURCE), local.join(TARGET)),
    }
}

impl<'a> Ends<'a> {
    fn open(case: &'a Case, world: &'a World) -> Ends<'a> {
        let (source, ours) = places(case, world.direction);
        let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
        let program = case.open_to_every_user();
        let authorized = [("read-write,privileged", &client)];
        let mut spec = Spec::new(case, &authorized, &server);
        if world.receiver == Receiver::User {
            for path in ["local", "served", "home"] {
                fs::create_dir_all(case.path(path)).expect("our own place");
                fs::set_permissions(case.path(path), PermissionsExt::from_mode(0o777))
                    .expect("our own place");
            }
            match world.direction {
                Direction::Push => spec.user = Some((NOBODY, program.clone())),
                Direction::Pull => {
                    chown(&client.file, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
                }
            }
        }
        fs::write(case.path("known_hosts"), "").expect("our own place");
        fs::set_permissions(case.path("known_hosts"), PermissionsExt::from_mode(0o666)).expect("own file");
        let (key, theirs) = (client.file.clone(), case.path("rsync").join(TARGET));
        let their_source = if world.moves { case.path("rsync").join(SOURCE) } else { source.clone() };
        let daemon = Daemon::start_with(case, spec);
        Ends { case, world, daemon, program, key, source, ours, theirs, their_source }
    }

    fn command(&self) -> Command {
        let world = self.world;
        let mut command = match (world.receiver, world.direction) {
            (Receiver::User, Direction::Pull) => {
                as_user(self.case.command(Side::Client, "setpriv"), NOBODY, &self.program)
            }
            _ => self.case.fobs(Side::Client),
        };
        command.args(["sync", "--identity"]).arg(&self.key);
        command.arg("--known-hosts").arg(self.case.path("known_hosts"));
        if world.fate.breaks_off() {
            command.args(["--rate", "100Mbit"]);
        }
        command.args(&world.options).args(world.ways);
        let (local, remote) = (self.case.path("local"), |name: &str| self.daemon.url(name));
        match world.direction {
            Direction::Push => command.arg(local.join(SOURCE).join("")).arg(remote(&format!("{TARGET}/"))),
            Direction::Pull => command.arg(remote(&format!("{SOURCE}/"))).arg(local.join(TARGET).join("")),
        };
        command
    }

    fn sync(&self) -> Outcome {
        let done = self.case.run(&mut self.command());
        (done.code, changes(&done.stdout, self.world), done.stderr)
    }

    /// rsync's receiver is the plain user too: its other end is started by a program that gives up root.
    fn rsync(&self) -> Outcome {
        let mut command = self.case.command(Side::Client, "timeout");
        command.args([RSYNC_SECONDS, "rsync"]).args(&self.world.options);
        let mut target = self.theirs.join("").into_os_string();
        if self.world.receiver == Receiver::User {
            let shell = self.case.path("other-user");
            let script = format!(
                "#!/bin/sh\nshift\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups \"$@\"\n"
            );
            fs::write(&shell, script).expect("our own place");
            fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).expect("own file");
            command.arg("-e").arg(&shell);
            let mut there = std::ffi::OsString::from("there:");
            there.push(target);
            target = there;
        }
        let done = self.case.run(command.arg(self.their_source.join("")).arg(target));
        (done.code, changes(&done.stdout, self.world), done.stderr)
    }

    /// Begins a run and kills its client; its code if it had ended.
    fn kill_one(&mut self, after: Duration) -> Option<i32> {
        let mut running = self.case.start(&mut self.command());
        sleep(after);
        let ended = running.exited().and_then(|status| status.code());
        running.kill();
        drop(running);
        if self.world.seed.is_multiple_of(2) {
            self.daemon.kill();
            self.daemon.start_again(self.case);
        }
        ended
    }
}

/// Lines of changes, without direction, order and what may differ.
fn changes(output: &[u8], world: &World) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("cannot delete"));
    let lines = lines.filter(|line| !line.starts_with("skipping non-regular"));
    lines
        .map(|line| line.replacen('<', ">", usize::from(line.starts_with('<'))))
        // What fails is listed by its decision here, by its end there.
        .filter(|line| !(world.fate == Fate::Frozen && line.contains(FROZEN)))
        .filter_map(|line| plain(line, world))
        .collect()
}

fn plain(line: String, world: &World) -> Option<String> {
    let is_directory = line.get(1..2) == Some("d");
    if world.moves && is_directory && line.starts_with('.') {
        // The times of directories change with what is removed from them.
        return None;
    }
    match line.get(1..2) {
        // Which of a file's names comes first is the order of the directory here, of the alphabet there.
        Some("f" | "L" | "S" | "D") if world.has_letter('H') => return None,
        // One special file in place of another kind is a changed one there, a new one here.
        Some("S") if line.starts_with('c') => {
            return Some(format!("cS {}", line.get(12..).unwrap_or_default()));
        }
        Some("f" | "d") => {}
        _ => return Some(line),
    }
    let mut line = line;
    // Permissions are a part of an ACL; which of both is shown is decided otherwise there.
    if world.has_letter('A') && line.get(9..10) == Some("a") {
        line.replace_range(9..10, ".");
        line.replace_range(5..6, "p");
    }
    // What differs from the file of --link-dest in its attributes only is copied there; here it is sent, or
    // changed where it stands.
    if world.links_from && line.get(1..2) == Some("f") && !line.contains("+++") {
        line.replace_range(..1, ".");
    }
    // What a third user could have put there is made anew here, with the content that it has.
    if line.starts_with(">f...") {
        line.replace_range(..1, ".");
    }
    // rsync deletes before it looks at a directory's time, this program after that.
    if world.has("--delete-before") && is_directory && line.get(4..5) == Some("t") {
        line.replace_range(4..5, ".");
    }
    (!line.starts_with(".d......... ")).then_some(line)
}

/// Whether two entries differ in more than docs/guide.md says they may.
fn differ(
    path: &Path,
    (ours, theirs): (Option<&Entry>, Option<&Entry>),
    source: Option<&Entry>,
    world: &World,
    done: Done,
) -> bool {
    let (ours, theirs) = match (ours, theirs) {
        (Some(ours), Some(theirs)) => (ours, theirs),
        (Some(_), None) => return done.deletes == Deletes::All,
        (None, theirs) => return theirs.is_some(),
    };
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    let is_directory = ours.kind() == FileKind::Directory;
    if path == Path::new(MOUNTED_IN_TARGET) || (done.theirs_failed && is_directory) {
        // Where rsync fails, directories keep the right to write that it needed, and their new times.
        ours.take_mode(&theirs);
        ours.take_time(&theirs);
    }
    if !world.keeps_modes() && (world.has_letter('H') || ours.is_narrower(&theirs)) {
        // Which of a file's names comes first is the order of the directory here, of the alphabet there; a
        // third user's file lets others do no more than the source's here.
        ours.take_mode(&theirs);
    }
    if world.keeps_modes() && !world.keeps_groups() {
        // A directory that loses its set-gid bit does so at its end here, at its beginning there.
        ours.take_group(&theirs);
    }
    if world.moves && is_directory {
        // A run that goes on finds the time of what the one before has removed.
        ours.take_time(&theirs);
    }
    let is_file = ours.kind() == FileKind::File;
    if !world.has_letter('A') && (world.has_letter('H') || (is_file && world.shares())) {
        // Likewise the order of names: the first is made anew or stays, with the ACL that it got or had. So
        // is a file that others could have put into their directory.
        ours.forget_acls();
        theirs.forget_acls();
    }
    if is_file && world.shares() {
        if source.is_some_and(|source| source.content() == ours.content()) {
            // And has the source's content then, where size and time say that it has it already.
            ours.take_content(&theirs);
        }
        if !world.has_letter('X') {
            ours.forget_own_xattrs();
            theirs.forget_own_xattrs();
        }
        if !world.keeps_groups() {
            ours.take_group(&theirs);
        }
        if !world.keeps_modes() {
            ours.take_mode(&theirs);
        }
    }
    ours != theirs
}

/// What both programs did, as far as it explains differences.
#[derive(Debug, Clone, Copy)]
struct Done {
    deletes: Deletes,
    theirs_failed: bool,
}

/// Whether this program deleted what the source does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletes {
    All,
    /// Late deletions do not follow where something could not be stored.
    Fewer,
}

fn difference((ours, theirs): (&Tree, &Tree), source: &Tree, world: &World, done: Done) -> Vec<String> {
    let all: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differing = all
        .into_iter()
        .filter(|path| differ(path, (ours.get(*path), theirs.get(*path)), source.get(*path), world, done));
    let shown = |entry: Option<&Entry>| entry.map_or("nothing".to_owned(), Entry::brief);
    differing
        .map(|path| {
            format!(
                "{}:\n  ours    {}\n  rsync's {}",
                path.display(),
                shown(ours.get(path)),
                shown(theirs.get(path))
            )
        })
        .collect()
}

/// What a run that ended in the middle may have left: of each file the old content or the new one, and
/// nothing deleted that only a late deletion may take.
fn assert_nothing_lost(before: &Tree, source: &Tree, after: &Tree, world: &World, told: &str) {
    let is_file = |tree: &Tree, path: &Path| tree.get(path).is_some_and(|it| it.kind() == FileKind::File);
    for (path, entry) in after.iter().filter(|(_, entry)| entry.kind() == FileKind::File) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_of = |tree: &Tree| tree.get(path).is_some_and(|known| known.content() == entry.content());
        let is_known = is_of(before) || is_of(source);
        assert!(is_known || name.contains(".fobs-"), "{} has neither content; {told}", path.display());
    }
    for path in before.keys().filter(|path| is_file(before, path)) {
        if is_file(source, path) {
            assert!(after.contains_key(path), "{} is gone; {told}", path.display());
        }
        let is_late = world.has("--delete-after") || world.has("--delete-delay");
        let makes_way = path
            .ancestors()
            .any(|above| source.get(above).is_some_and(|it| it.kind() != FileKind::Directory));
        let is_of_the_target = !source.contains_key(path) && !makes_way;
        if is_of_the_target && (is_late || !world.deletes()) {
            assert!(after.contains_key(path), "{} was deleted; {told}", path.display());
        }
    }
}

/// What is no more in the source is at the target.
fn assert_moved(wanted: &Tree, ends: &Ends<'_>, told: &str) {
    let (source, target) = (listing(&ends.source, None, 0), listing(&ends.ours, None, 0));
    for (path, entry) in wanted.iter().filter(|(path, _)| !source.contains_key(*path)) {
        let is_there = target.get(path).is_some_and(|it| it.content() == entry.content());
        assert!(is_there, "{} is at neither end; {told}", path.display());
    }
}

/// Has the first run end in the middle, mends what ended it, and looks at what is left.
fn break_off(ends: &mut Ends<'_>, mounted: &[Mounted], disk: Option<&mut Disk>, told: &str) {
    let (case, world) = (ends.case, ends.world);
    let (before, wanted) = (listing(&ends.ours, None, 0), listing(&ends.source, None, 0));
    let ended = match (world.fate, disk) {
        (Fate::Killed(after_ms), _) => ends.kill_one(Duration::from_millis(after_ms)),
        (Fate::Full(bytes), _) => {
            let (theirs_done, ours_done) = (ends.rsync(), ends.sync());
            let told = format!("{told}, into a full one\nrsync: {theirs_done:?}\nfobs: {ours_done:?}");
            if files_bytes(&ends.source) > 2 * bytes {
                assert!(theirs_done.0 != Some(0) && ours_done.0 != Some(0), "there was no room; {told}");
            }
            ours_done.0
        }
        (Fate::Fails(after_ms), Some(disk)) => {
            let running = case.start(&mut ends.command());
            sleep(Duration::from_millis(after_ms));
            disk.cut().expect("it fails");
            let done = running.finish();
            eprintln!("{told}: on a failing file system {:?} {}", done.code, done.stderr);
            ends.daemon.kill();
            disk.come_back().expect("it is mounted again");
            ends.daemon.start_again(case);
            // What the device was not asked to keep may be anything, but for what was removed.
            assert_moved(&wanted, ends, told);
            return;
        }
        (fate, _) => panic!("{fate:?} ends no run"),
    };
    assert_moved(&wanted, ends, told);
    if ended != Some(0) {
        assert_nothing_lost(&before, &wanted, &listing(&ends.ours, None, 0), world, told);
    }
    if let Fate::Full(_) = world.fate {
        mounted.iter().for_each(Mounted::grow);
    }
}

fn files_bytes(top: &Path) -> u64 {
    let found = top.symlink_metadata().expect("it is there");
    match found.is_dir() {
        true => fs::read_dir(top).expect("own directory").flatten().map(|it| files_bytes(&it.path())).sum(),
        false if found.is_file() => found.blocks() * 512,
        false => 0,
    }
}

/// Whether the lists of a round are compared: what the run before it stored is in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Compared,
    Apart,
}

/// Compares a run of both; how far a further one can be compared.
fn compare_round(ends: &Ends<'_>, lists: Lists, told: &str) -> Option<Lists> {
    let began = just_now();
    let (theirs_done, ours_done) = (ends.rsync(), ends.sync());
    let told = format!("{told}\nrsync: {theirs_done:?}\nfobs: {ours_done:?}");
    // A push with --delete keeps what new files are made of, unlike rsync (docs/guide.md).
    let keeps_sources = ours_done.2.contains("nothing that new files are made of was deleted");
    let is_late = ends.world.has("--delete-after") || ends.world.has("--delete-delay") || keeps_sources;
    let deletes = if is_late && ours_done.0 != Some(0) { Deletes::Fewer } else { Deletes::All };
    let done = Done { deletes, theirs_failed: theirs_done.0 != Some(0) };
    let said = &theirs_done.2;
    if said.contains("could not make way") || said.contains("unlink(") && said.contains("Permission denied") {
        // It takes no right to write for that, as it does for other deletions.
        return None;
    }
    assert_eq!(theirs_done.0 == Some(0), ours_done.0 == Some(0), "exit codes; {told}");
    if lists == Lists::Compared {
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.difference(other).cloned().collect::<Vec<_>>()
        };
        let mut apart = (only(&ours_done.1, &theirs_done.1), only(&theirs_done.1, &ours_done.1));
        apart.1.retain(|line| !(deletes == Deletes::Fewer && line.starts_with("*deleting")));
        assert_eq!(apart, (Vec::new(), Vec::new()), "lists of ours and rsync's; {told}");
    }
    let basis = |top: &Path| top.with_file_name(BASIS);
    let ours = listing(&ends.ours, Some(&basis(&ends.ours)), began);
    let theirs = listing(&ends.theirs, Some(&basis(&ends.theirs)), began);
    let source = listing(&ends.source, None, began);
    let differing = difference((&ours, &theirs), &source, ends.world, done);
    let some = differing.iter().take(DIFFERENCES_SHOWN).cloned().collect::<Vec<_>>().join("\n");
    assert!(differing.is_empty(), "{} entries differ:\n{some}\n{told}", differing.len());
    if ends.world.moves {
        let names = |top: &Path| listing(top, None, 0).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&ends.source), names(&ends.their_source), "what stays in the source; {told}");
    }
    // What was kept goes in the next run.
    Some(if keeps_sources { Lists::Apart } else { Lists::Compared })
}

fn compare(seed: u64) {
    let case = Case::new("a_sync_ends_as_that_of_rsync_on_any_host");
    let world = World::draw(seed, needs::Need::Disk.is_given());
    let (source, ours) = places(&case, world.direction);
    let theirs = case.path("rsync").join(TARGET);
    for path in [&source, &ours, &theirs] {
        fs::create_dir_all(path.parent().expect("it has one")).expect("our own place");
    }
    let abilities = Abilities { links: false, ..Abilities::try_out(&case.path("rsync")) };
    let mut _mounted = world.make_source(&source, abilities);
    if world.moves {
        _mounted.extend(world.make_source(&case.path("rsync").join(SOURCE), abilities));
    }
    if world.links_from {
        [&ours, &theirs].iter().for_each(|top| world.make_basis(&top.with_file_name(BASIS), abilities));
    }
    let mut disk = matches!(world.fate, Fate::Fails(_)).then(|| on_a_disk(&case.path("disk"), &ours));
    let mounted: Vec<Mounted> =
        [&ours, &theirs].into_iter().flat_map(|top| world.make_target(top, abilities)).collect();
    if disk.is_some() {
        let top = fs::File::open(&ours).expect("it is mounted");
        rustix::fs::syncfs(&top).expect("the device keeps it");
    }
    let mut ends = Ends::open(&case, &world);
    let told = format!("seed {seed}: {world:?}");
    let goes_on = if world.fate.breaks_off() {
        break_off(&mut ends, &mounted, disk.as_mut(), &told);
        compare_round(&ends, Lists::Apart, &format!("{told}, gone on with"))
    } else {
        compare_round(&ends, Lists::Compared, &format!("{told}, first run"))
    };
    if let Some(lists) = goes_on {
        compare_round(&ends, lists, &format!("{told}, once more"));
    }
}

/// The seeds of this run: those of `SYNC_SEEDS=FROM-TO` (TO is left out), to run a part or one again.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("SYNC_SEEDS") else { return 0..SEEDS };
    let (from, to) = text.split_once('-').expect("SYNC_SEEDS=FROM-TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn a_sync_ends_as_that_of_rsync_on_any_host() {
    if !needs::given("a_sync_ends_as_that_of_rsync_on_any_host") || !needs::program_exists("rsync") {
        return;
    }
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| compare(*seed))).is_err();
    assert_eq!(seeds().filter(fails).collect::<Vec<_>>(), Vec::<u64>::new(), "the seeds that differ");
}
