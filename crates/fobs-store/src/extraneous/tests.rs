//! Deletions within a budget: what does not fit is left, and said.

use super::*;
use fobs_model::budget::KEPT_BYTES_MAX;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A destination with these names in its top directory.
fn destination(names: impl Iterator<Item = String>) -> tempfile::TempDir {
    let top = tempfile::tempdir().expect("a directory");
    names.for_each(|name| std::fs::write(top.path().join(name), "").expect("a file"));
    top
}

fn extraneous(top: &Path, options: SyncOptions, budget: &MemoryBudget) -> Result<Extraneous, Error> {
    let top: OwnedFd = std::fs::File::open(top).expect("a directory").into();
    let options = SyncOptions { directories: Enter::All, delete: Some(Delete::default()), ..options };
    let scheme = Scheme { options: &Arc::new(options), backups: None, may_repeat: false, suffix: None };
    Extraneous::new(Some(View::new(Arc::new(top), None)), scheme, budget)
}

/// What is said of a sync whose sources have these names in the top directory, and how many are deleted.
fn deleted(top: &Path, seen: impl Iterator<Item = String>, budget: &MemoryBudget) -> (usize, Vec<String>) {
    let mut extraneous = extraneous(top, SyncOptions::default(), budget).expect("room for no rules");
    extraneous.enter(b"", true);
    seen.for_each(|name| extraneous.see(name.as_bytes()));
    extraneous.leave(b"", Meta::default());
    let (mut gone, mut failures) = (0, Vec::new());
    extraneous.carry_out(&mut |deleted| match deleted {
        Deleted::Gone(_) => gone += 1,
        Deleted::Failed(error) => failures.push(error.message),
        Deleted::Kept(path) => panic!("something stays in {path:?}"),
        Deleted::Limited(_) => panic!("there is no limit"),
    });
    (gone, failures)
}

fn count(top: &Path) -> usize {
    std::fs::read_dir(top).expect("a directory").count()
}

#[test]
fn what_the_sources_lack_is_deleted_within_the_budget() {
    let top = destination((0..500).map(|at| format!("f{at}")));
    let budget = MemoryBudget::default();
    let (gone, failures) = deleted(top.path(), (0..500).step_by(2).map(|at| format!("f{at}")), &budget);
    assert_eq!((gone, failures, count(top.path())), (250, Vec::new(), 250));
    assert_eq!(budget.used(), 0);
}

#[test]
fn more_names_than_fit_delete_nothing() {
    let top = destination((0..500).map(|at| format!("f{at}")));
    let budget = MemoryBudget::of(64 << 10);
    // Eight bytes each; a peer may list any number of names in one directory.
    let (gone, failures) = deleted(top.path(), (0..20_000).map(|at| format!("s{at}")), &budget);
    assert_eq!((gone, count(top.path())), (0, 500));
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert!(failure.starts_with("nothing was deleted: the names in a directory"), "{failure}");
    // Nor a directory at the destination that is too large to be looked through.
    let budget = MemoryBudget::of(16 << 10);
    let (gone, failures) = deleted(top.path(), std::iter::once("s".to_owned()), &budget);
    assert!(
        gone == 0 && failures[0].starts_with("nothing was deleted: the names in a directory"),
        "{failures:?}"
    );
    assert_eq!(budget.used(), 0);
}

#[test]
fn deletions_that_do_not_fit_are_left_and_counted() {
    let top = destination((0..500).map(|at| format!("f{at:0100}")));
    // The listing needs as much as the deletions, and is forgotten first.
    let listing = 500 * (101 + 16 + size_of::<(Vec<u8>, bool)>()) * 3 / 2;
    let budget = MemoryBudget::of(listing + 40_000);
    let (gone, failures) = deleted(top.path(), std::iter::empty(), &budget);
    assert!((1..500).contains(&gone) && count(top.path()) == 500 - gone, "{gone}");
    assert!(failures[0].contains("more would have been deleted"), "{failures:?}");
}

#[test]
fn seen_names_take_eight_bytes_each() {
    let top = destination(std::iter::empty());
    let budget = MemoryBudget::default();
    let mut extraneous = extraneous(top.path(), SyncOptions::default(), &budget).expect("room");
    extraneous.enter(b"", true);
    (0..1_000_000).for_each(|at| extraneous.see(format!("f{at}").as_bytes()));
    assert!((8_000_000..13_000_000).contains(&budget.used()), "{}", budget.used());
    const { assert!(KEPT_BYTES_MAX / 13 > 10_000_000, "ten million names fit") }
    // Directories that are not looked through cost nothing.
    extraneous.enter(b"new", false);
    let before = budget.used();
    (0..1000).for_each(|at| extraneous.see(format!("new/f{at}").as_bytes()));
    assert_eq!(budget.used(), before);
}

#[test]
fn rules_that_take_too_much_work_delete_nothing() {
    let name = "a".repeat(200);
    let top = destination((0..30).map(|at| format!("{name}{at}")));
    let mut filter = fobs_filter::Filter::default();
    for at in 0..10_000 {
        let rule = format!("- {}[x{}]", "*a?".repeat(8), char::from_u32(0x4e00 + at).expect("a letter"));
        filter.add_rule(rule.as_bytes(), &mut |_| unreachable!()).expect("a rule");
    }
    let options = SyncOptions { filter: filter.rules(), ..SyncOptions::default() };
    let mut extraneous = extraneous(top.path(), options, &MemoryBudget::default()).expect("room");
    extraneous.chain.leave_steps(1 << 16);
    extraneous.enter(b"", true);
    extraneous.leave(b"", Meta::default());
    let mut said = Vec::new();
    extraneous.carry_out(&mut |deleted| said.push(deleted));
    let [Deleted::Failed(error)] = &said[..] else { panic!("{said:?}") };
    assert!(error.message.contains("nothing was deleted: the filter rules take too much work"), "{error:?}");
    assert_eq!(count(top.path()), 30);
}
