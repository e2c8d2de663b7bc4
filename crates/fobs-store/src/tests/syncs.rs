//! Syncs that delete: what the sources do not have goes, and what was not looked at stays.

mod filter_files;
mod gone;
mod mounts;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::super::attributes::FileSystems;
use super::super::survey::{Checksums, Compare, ListingForm, Parts, decode_batch};
use super::super::*;
use super::support::*;
use fobs_filter::Filter;
use fobs_model::options::sync::{Absent, Delete, DeleteWhen, Enter, Present, SyncOptions, SyncRules};
use fobs_model::options::{Preserve, Privileges};

/// What a sync did.
#[derive(Debug, Default)]
struct Synced {
    gone: Vec<String>,
    failures: Vec<String>,
    /// Waits for the device.
    waits: usize,
}

impl Synced {
    fn deleted(&mut self, deleted: Deleted) {
        match deleted {
            Deleted::Gone(found) => self.gone.push(show_path(&found.path)),
            Deleted::Kept(_) => {}
            Deleted::Failed(failure) => self.failures.push(failure.message),
            Deleted::Limited(_) => panic!("there is no limit"),
        }
    }

    #[track_caller]
    fn expect_clean(&self) -> &Synced {
        assert!(self.failures.is_empty(), "{self:?}");
        self
    }
}

/// `-rlpt --delete`, at this moment.
fn options(when: DeleteWhen) -> SyncOptions {
    SyncOptions {
        preserve: Preserve::as_cp(true),
        directories: Enter::All,
        delete: Some(Delete { when, max: None }),
        ..SyncOptions::default()
    }
}

/// `-x` too.
fn on_one(when: DeleteWhen) -> SyncOptions {
    let options = options(when);
    let preserve = Preserve { file_systems: FileSystems::One, ..options.preserve };
    SyncOptions { preserve, ..options }
}

fn with_rules(options: SyncOptions, rules: &[&str]) -> SyncOptions {
    let mut filter = Filter::default();
    for rule in rules {
        filter.add_rule(rule.as_bytes(), &mut |_| unreachable!()).expect("a rule");
    }
    SyncOptions { filter: filter.rules(), ..options }
}

const TOLD: ListingForm = ListingForm { checksums: Checksums::Omitted, parts: Parts::Told };

/// Syncs as both ends of a session do. A source that ends in a slash means its contents.
fn sync(sources: &[String], to: &Path, options: &SyncOptions, form: ListingForm) -> Synced {
    sync_while((sources, to), options, form, &|_| {})
}

/// Likewise; `meanwhile` gets the number of batches that were listed, and `usize::MAX` before anything is
/// read.
fn sync_while(
    (sources, to): (&[String], &Path),
    options: &SyncOptions,
    form: ListingForm,
    meanwhile: &dyn Fn(usize),
) -> Synced {
    if options.delete.is_some_and(|delete| delete.when == DeleteWhen::Before) && !options.only_delete {
        let mut synced = sync(sources, to, &SyncOptions { only_delete: true, ..options.clone() }, form);
        let last = SyncOptions { delete: None, ..options.clone() };
        let stored = sync_while((sources, to), &last, form, meanwhile);
        synced.failures.extend(stored.failures);
        return synced;
    }
    let options = Arc::new(options.clone());
    let paths: Vec<&Path> = sources.iter().map(Path::new).collect();
    let mut source = Source::open(SourceSpec {
        preserve: options.preserve.clone(),
        sync: Some(Arc::clone(&options)),
        ..spec(&paths)
    })
    .expect("a source can be read");
    source.tell_identities();
    let keep = if options.only_delete { Partial::Untouched } else { Partial::Keep };
    let names = top_names(&sources.iter().map(|path| path.as_bytes().to_vec()).collect::<Vec<_>>());
    let sink_spec =
        SinkSpec { preserve: options.preserve.clone(), keep, names, ..sink_spec(to, source.shape()) };
    let mut sink = Sink::open(sink_spec).expect("the destination can be written");
    sink.follow(&options);
    let mut compare = Compare::for_sync(&mut sink, Arc::clone(&options), Privileges::OfTheUser)
        .expect("the options are possible");
    if form.parts == Parts::Untold {
        compare.doubt_empty_directories();
    }
    let mut synced = Synced::default();
    let answers = Answers::default();
    let mut lister = source.survey(Box::new(answers.clone()), form).expect("a tree");
    let mut batches = 0;
    while let Some(batch) = lister.next_batch().expect("the source can be read") {
        batches += 1;
        meanwhile(batches);
        for (row, listed) in decode_batch(&batch.bytes).expect("our own").iter().zip(batch.entries) {
            let ruling = compare.rule(row);
            let choice = compare.carry_out(row, ruling, &|| false).expect("within bounds");
            compare.take_deleted().into_iter().for_each(|deleted| synced.deleted(deleted));
            if let survey::Decision::Failed(why) = &choice.decision {
                synced.failures.push(why.clone());
            }
            answers.0.lock().expect("not poisoned").push_back((listed, choice));
        }
    }
    compare.delete(&mut |deleted| synced.deleted(deleted));
    meanwhile(usize::MAX);
    store(&mut source, sink, &mut synced);
    synced
}

fn store(source: &mut Source, mut sink: Sink, synced: &mut Synced) {
    let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
    let mut note = |event| match event {
        SinkEvent::FileFailed(failure) | SinkEvent::SourceFailed(failure) => {
            synced.failures.push(failure.message);
        }
        SinkEvent::Deleted(deleted) => synced.deleted(deleted),
        SinkEvent::SyncBegins => synced.waits += 1,
        _ => {}
    };
    loop {
        let filled = source.next_chunk(&mut buf, 1 << 20).expect("the source can be read");
        let verified = verify(&buf[..filled.len], &mut scratch).expect("our own chunks verify");
        sink.apply(&buf[..filled.len], verified, &scratch, &mut note).expect("it can be stored");
        if filled.is_final {
            break;
        }
    }
    sink.finish(&mut note).expect("it is whole").1.acknowledged();
}

/// Syncs the contents of a directory, without a failure.
pub fn sync_once(from: &Path, to: &Path, options: &SyncOptions) {
    sync(&[slash(from)], to, options, TOLD).expect_clean();
}

fn slash(path: &Path) -> String {
    format!("{}/", path.display())
}

/// The paths below a directory, without journals.
fn paths(top: &Path) -> Vec<String> {
    tree(top).into_keys().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, content).expect("a file");
}

fn mount_in(path: &Path) {
    fs::create_dir_all(path).expect("directories");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(path).status();
    assert!(mounted.expect("it was tried before").success());
}

const ALL_MOMENTS: [DeleteWhen; 3] = [DeleteWhen::Before, DeleteWhen::During, DeleteWhen::After];

#[test]
fn contents_of_several_sources_are_one_listing() {
    for when in ALL_MOMENTS {
        let world = World::new();
        for (path, content) in [("one/a", "1"), ("one/in/x", "1"), ("two/b", "2"), ("two/in/y", "2")] {
            world.write(path, content.as_bytes());
        }
        write(&world.to("gone"), "g");
        write(&world.to("in/gone"), "g");
        let sources = [slash(&world.from("one")), slash(&world.from("two"))];
        for round in ["first", "second", "third"] {
            sync(&sources, &world.to(""), &options(when), TOLD).expect_clean();
            let found = paths(&world.to(""));
            assert_eq!(found, ["a", "b", "in", "in/x", "in/y"], "{when:?}, {round}");
        }
        // A directory by name, beside contents that have one of the same name.
        let sources = [slash(&world.from("one")), world.from("two/in").display().to_string()];
        sync(&sources, &world.to(""), &options(when), TOLD).expect_clean();
        assert_eq!(paths(&world.to("")), ["a", "in", "in/x", "in/y"], "{when:?}");
    }
}

#[test]
fn directories_without_contents_lose_nothing() {
    let world = World::new();
    world.write("tree/in/x", b"x");
    write(&world.to("in/kept"), "kept");
    write(&world.to("gone"), "g");
    let made = SyncOptions { directories: Enter::Made, ..options(DeleteWhen::During) };
    let synced = sync(&[slash(&world.from("tree"))], &world.to(""), &made, TOLD);
    assert_eq!(synced.expect_clean().gone, ["gone"]);
    assert_eq!(paths(&world.to("")), ["in", "in/kept"]);
}

#[test]
fn what_could_not_be_stored_keeps_what_is_deleted_late() {
    let Some(full) = with_tmpfs("syncs::what_could_not_be_stored_keeps_what_is_deleted_late", "size=1m")
    else {
        return;
    };
    let world = World::new();
    world.write("tree/big", &content(3_000_000, 1));
    world.write("tree/x", b"new");
    for (when, is_gone) in [(DeleteWhen::After, false), (DeleteWhen::During, true)] {
        write(&full.join("extra"), "e");
        let synced = sync(&[slash(&world.from("tree"))], &full, &options(when), TOLD);
        assert_eq!(!full.join("extra").exists(), is_gone, "{when:?}: {synced:?}");
        let said = synced.failures.iter().any(|it| it.starts_with("nothing was deleted: not everything"));
        assert_eq!(said, !is_gone, "{synced:?}");
    }
}

#[test]
fn a_source_that_vanishes_keeps_what_is_deleted_late() {
    let world = World::new();
    world.write("tree/a", b"a");
    write(&world.to("extra"), "e");
    symlink("nowhere", world.from("tree/b")).expect("a link");
    let sources = [slash(&world.from("tree")), world.from("absent").display().to_string()];
    for when in ALL_MOMENTS {
        let synced = sync(&sources, &world.to(""), &options(when), TOLD);
        assert!(world.to("extra").exists(), "{when:?}: {synced:?}");
    }
}

/// What became of the names of one file, at a destination that has some of them; and the failures.
fn linked_under(rules: SyncRules, kept: Preserve, there: &[(&str, u64)]) -> (Vec<String>, Vec<String>) {
    let world = World::new();
    write(&world.from("a"), "source");
    for name in ["b", "d/c"] {
        fs::create_dir_all(world.from("d")).expect("directories");
        fs::hard_link(world.from("a"), world.from(name)).expect("a link");
    }
    fs::create_dir_all(world.to("")).expect("a directory");
    for (name, time_s) in there {
        write(&world.to(name), "there");
        let time = Timespec { tv_sec: *time_s as i64, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, world.to(name), &times, AtFlags::empty()).expect("own file");
    }
    let preserve = Preserve { hard_links: true, ..kept };
    let options = SyncOptions { rules, preserve, delete: None, ..options(DeleteWhen::During) };
    let synced = sync(&[slash(&world.from(""))], &world.to(""), &options, TOLD);
    let became = ["a", "b", "d/c"].map(|name| fs::read_to_string(world.to(name)).unwrap_or_default());
    (became.to_vec(), synced.failures)
}

#[test]
fn further_names_are_left_out_with_the_first_and_by_themselves() {
    let (past, future) = (1, 4_000_000_000);
    let of = |present, absent| SyncRules { present, absent, ..SyncRules::default() };
    let all = |rules, there: &[(&str, u64)]| linked_under(rules, Preserve::as_cp(true), there);
    // Too small: so is each name.
    let small = SyncRules { size_min: Some(100), ..SyncRules::default() };
    assert_eq!(all(small, &[]), (vec![String::new(); 3], vec![]));
    // Nothing is made, and nothing is replaced.
    let nothing = of(Present::Left, Absent::LeftOut);
    assert_eq!(all(nothing, &[("b", past)]), (vec!["".into(), "there".into(), "".into()], vec![]));
    let existing = of(Present::Updated, Absent::LeftOut);
    assert_eq!(all(existing, &[]), (vec![String::new(); 3], vec![]));
    // Whichever is newer stays, first or not.
    let update = of(Present::UpdatedUnlessNewer, Absent::Made);
    for newer in ["a", "b", "d/c"] {
        let (became, failures) =
            all(update.clone(), &[("a", past), ("b", past), ("d/c", past), (newer, future)]);
        let at = ["a", "b", "d/c"].iter().position(|name| *name == newer).expect("it is one");
        assert_eq!(became[at], "there", "{newer}: {became:?} {failures:?}");
        let others: Vec<&String> = (0..3).filter(|other| *other != at).map(|other| &became[other]).collect();
        if failures.is_empty() {
            assert_eq!(others, ["source", "source"], "{newer}");
        } else {
            // It was listed first: nothing is linked to what stays, and it is said.
            assert!(failures.iter().all(|why| why.contains("stays as it is")), "{failures:?}");
        }
    }
    // With --ignore-existing nothing is linked to what stays whatever it is.
    for there in ["a", "b", "d/c"] {
        let (became, failures) = all(of(Present::Left, Absent::Made), &[(there, past)]);
        let at = ["a", "b", "d/c"].iter().position(|name| *name == there).expect("it is one");
        assert_eq!(became[at], "there", "{failures:?}");
        assert!(became.iter().all(|content| content != "source") || failures.is_empty(), "{became:?}");
        assert!(became.iter().filter(|content| *content == "there").count() == 1, "{became:?}");
    }
}

#[test]
fn a_deep_tree_goes_with_few_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // In a process of its own, whose limit it is.
    let Some(top) = with_tmpfs("syncs::a_deep_tree_goes_with_few_descriptors", "size=64m") else { return };
    write(&top.join("from/f"), "f");
    // Deeper than a process may have files open, and than a thread's stack has room for.
    let mut at = top.join("to");
    for _ in 0..1_900 {
        at.push("d");
    }
    fs::create_dir_all(&at).expect("directories");
    let few = Some(64);
    setrlimit(Resource::Nofile, Rlimit { current: few, maximum: few }).expect("it may be lowered");
    let synced = sync(&[slash(&top.join("from"))], &top.join("to"), &options(DeleteWhen::During), TOLD);
    assert_eq!(synced.expect_clean().gone.len(), 1_900);
    assert_eq!(paths(&top.join("to")), ["f"]);
}

#[test]
fn what_cannot_be_looked_through_is_named() {
    if is_root() {
        // Root may read everything.
        return;
    }
    let world = World::new();
    world.write("tree/in/f", b"f");
    write(&world.to("in/secret/x"), "x");
    set_mode(&world.to("in/secret"), 0o000);
    let synced = sync(&[slash(&world.from("tree"))], &world.to(""), &options(DeleteWhen::During), TOLD);
    set_mode(&world.to("in/secret"), 0o755);
    let [failure] = &synced.failures[..] else { panic!("{synced:?}") };
    assert!(failure.contains("look for what is to be deleted in 'in/secret'"), "{failure}");
}

#[test]
fn a_pass_that_only_deletes_leaves_the_journal() {
    let world = World::new();
    world.write("tree/big", &content(3 << 20, 1));
    write(&world.to("gone"), "g");
    // An earlier run was ended in the middle.
    let mut source = open(&[Path::new(&slash(&world.from("tree")))]);
    source.tell_identities();
    let spec = SinkSpec { keep: Partial::Keep, ..sink_spec(&world.to(""), source.shape()) };
    let mut sink = Sink::open(spec).expect("the destination");
    let mut buf = vec![0; CHUNK_LEN_MAX];
    let filled = source.next_chunk(&mut buf, 1 << 20).expect("the source can be read");
    let mut scratch = Vec::new();
    let verified = verify(&buf[..filled.len], &mut scratch).expect("our own");
    sink.apply(&buf[..filled.len], verified, &scratch, &mut |_| ()).expect("it can be stored");
    drop(sink);
    let left = paths(&world.to(""));
    assert_eq!(left.len(), 3, "{left:?}");
    let inode = |name: &str| fs::metadata(world.to(name)).expect("it is there").ino();
    let partial = left.iter().find(|name| name.starts_with(".big.")).expect("a partial file");
    let before = inode(partial);
    let only = SyncOptions { only_delete: true, ..options(DeleteWhen::Before) };
    let synced = sync(&[slash(&world.from("tree"))], &world.to(""), &only, TOLD);
    assert_eq!(synced.expect_clean().gone, ["gone"]);
    assert_eq!(inode(partial), before);
    assert_eq!(paths(&world.to("")).len(), 2, "the journal and the partial file");
    sync(&[slash(&world.from("tree"))], &world.to(""), &options(DeleteWhen::Before), TOLD).expect_clean();
    assert_eq!(paths(&world.to("")), ["big"]);
    assert_eq!(inode("big"), before, "it went on");
    // Where there was none, none stays.
    sync(&[slash(&world.from("tree"))], &world.to(""), &only, TOLD).expect_clean();
    assert_eq!(paths(&world.to("")), ["big"]);
}

#[test]
fn before_sources_are_removed_the_device_is_asked_once() {
    let world = World::new();
    for name in ["a", "in/b", "in/c"] {
        world.write(&format!("tree/{name}"), b"x");
    }
    let sources = [slash(&world.from("tree"))];
    let plain = SyncOptions { delete: None, ..options(DeleteWhen::During) };
    assert_eq!(sync(&sources, &world.to("plain"), &plain, TOLD).expect_clean().waits, 0);
    let removing = SyncOptions { remove_source_files: true, ..plain };
    // Also where all of it was there: another program may have left it to the kernel.
    for round in ["new", "there"] {
        let synced = sync(&sources, &world.to("moved"), &removing, TOLD);
        assert_eq!(synced.expect_clean().waits, 1, "{round}");
    }
}

#[test]
fn a_read_only_file_of_ours_gets_other_attributes() {
    use rustix::fs::{XattrFlags, setxattr};
    let world = World::new();
    let file = world.write("tree/f", b"f");
    if setxattr(&file, "user.a", b"1", XattrFlags::empty()).is_err() {
        return;
    }
    set_mode(&file, 0o444);
    let options = SyncOptions {
        preserve: Preserve { xattrs: true, ..Preserve::as_cp(true) },
        delete: None,
        ..options(DeleteWhen::During)
    };
    let sources = [slash(&world.from("tree"))];
    sync(&sources, &world.to(""), &options, TOLD).expect_clean();
    set_mode(&file, 0o644);
    setxattr(&file, "user.a", b"2", XattrFlags::empty()).expect("own file");
    set_mode(&file, 0o444);
    sync(&sources, &world.to(""), &options, TOLD).expect_clean();
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(world.to("f"), "user.a", &mut value[..]).expect("it has it");
    assert_eq!(&value[..len], b"2");
    assert_eq!(fs::metadata(world.to("f")).expect("it is there").permissions().mode() & 0o777, 0o444);
}
