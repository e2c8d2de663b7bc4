//! Sources and trees up to what a session may keep, and beyond.

use super::support::*;
use crate::names::{Extent, remove};
use crate::{Base, Source, SourceSpec};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::ErrorKind;
use fobs_model::name::RelPath;
use fobs_model::options::sync::{Enter, SyncOptions};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// What a source of this tree says, chunk by chunk.
fn failures(source: Source) -> fobs_model::error::Result<Vec<String>> {
    let mut source = source;
    let mut buffer = vec![0; crate::CHUNK_LEN_MAX];
    let mut said = Vec::new();
    loop {
        let chunk = source.next_chunk(&mut buffer, usize::MAX)?;
        said.extend(chunk.failures.into_iter().map(|failure| failure.message));
        if chunk.is_final {
            return Ok(said);
        }
    }
}

fn with(top: &Path, sync: Option<SyncOptions>, budget: &MemoryBudget) -> fobs_model::error::Result<Source> {
    let sync = sync.map(|sync| Arc::new(SyncOptions { directories: Enter::All, ..sync }));
    Source::open(SourceSpec { budget: budget.clone(), sync, ..spec(&[top]) })
}

#[test]
fn subdirectories_that_do_not_fit_are_reported() {
    let top = tempfile::tempdir().expect("a directory");
    for at in 0..300 {
        fs::create_dir(top.path().join(format!("{at:0100}"))).expect("a directory");
    }
    let roomy = MemoryBudget::default();
    assert_eq!(failures(with(top.path(), None, &roomy).expect("a source")), Ok(Vec::new()));
    assert_eq!(roomy.used(), 0, "what was kept is given back");
    let small = MemoryBudget::of(20 << 10);
    let said = failures(with(top.path(), None, &small).expect("a source")).expect("the rest goes on");
    let [failure] = &said[..] else { panic!("{said:?}") };
    assert!(failure.contains("cannot read all of") && failure.contains("a session may keep"), "{failure}");
    assert_eq!(small.used(), 0);
}

#[test]
fn paths_of_a_request_that_do_not_fit_are_refused() {
    let top = tempfile::tempdir().expect("a directory");
    let paths = vec![bytes(top.path()); 1000];
    let budget = MemoryBudget::of(100 << 10);
    let spec = SourceSpec { paths, budget: budget.clone(), ..spec(&[top.path()]) };
    let error = Source::open(spec).err().expect("too many");
    assert!(error.kind == ErrorKind::Usage && error.message.contains("the paths of the request"), "{error}");
    assert_eq!(budget.used(), 0);
}

#[test]
fn names_and_rules_that_do_not_fit_are_refused() {
    let top = tempfile::tempdir().expect("a directory");
    let long = |at: usize| RelPath::new(format!("{at}/{}b", "b/".repeat(1999)).into_bytes()).expect("a path");
    let names = SyncOptions { names: Some((0..300).map(long).collect()), ..SyncOptions::default() };
    let mut filter = fobs_filter::Filter::default();
    for at in 0..5000 {
        filter.add_rule(format!("- x{at}").as_bytes(), &mut |_| unreachable!()).expect("a rule");
    }
    let rules = SyncOptions { filter: filter.rules(), ..SyncOptions::default() };
    for (options, what) in [(names, "the names of --files-from"), (rules, "the filter rules")] {
        let error =
            with(top.path(), Some(options.clone()), &MemoryBudget::of(512 << 10)).err().expect("too many");
        assert!(error.kind == ErrorKind::Usage && error.message.contains(what), "{error}");
        let budget = MemoryBudget::of(2 << 20);
        let source = with(top.path(), Some(options), &budget).expect("they fit");
        assert!(budget.used() > 512 << 10);
        failures(source).expect("an empty tree");
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_name_that_is_not_found_is_reported_once() {
    let top = tempfile::tempdir().expect("a directory");
    fs::write(top.path().join("there"), "").expect("a file");
    let contents = top.path().join("");
    let names = ["there", "not", "there", "not", "no/where"];
    let names = names.map(|name| RelPath::new(name.as_bytes().to_vec()).expect("a path"));
    let options = SyncOptions { names: Some(names.to_vec()), ..SyncOptions::default() };
    let said = failures(with(&contents, Some(options), &MemoryBudget::default()).expect("a source"));
    let said = said.expect("the rest goes on");
    assert!(said.len() == 2 && said[0].contains("'no/where'") && said[1].contains("'not'"), "{said:?}");
}

#[test]
fn rules_that_take_too_much_work_end_the_transfer() {
    let top = tempfile::tempdir().expect("a directory");
    for at in 0..40 {
        fs::write(top.path().join(format!("{}{at}", "ab".repeat(100))), "").expect("a file");
    }
    let mut filter = fobs_filter::Filter::default();
    for at in 0..12_000 {
        let rule = format!("- *a*a*a*a*b*{}*[x]", at % 10 + at);
        let rule = rule.replace(|it: char| it.is_ascii_digit(), "*b?*");
        filter
            .add_rule(format!("{rule}{}", "?".repeat(at % 7)).as_bytes(), &mut |_| unreachable!())
            .expect("a rule");
    }
    // As a client would have it: the same rules are one, so each is made different by its end.
    let mut different = fobs_filter::Filter::default();
    for at in 0..9000 {
        let rule = format!("- {}[x{}]", "*a*b?".repeat(9), char::from_u32(0x4e00 + at).expect("a letter"));
        different.add_rule(rule.as_bytes(), &mut |_| unreachable!()).expect("a rule");
    }
    let cheap = SyncOptions { filter: filter.rules(), ..SyncOptions::default() };
    assert!(failures(with(top.path(), Some(cheap), &MemoryBudget::default()).expect("room")).is_ok());
    let costly = SyncOptions { filter: different.rules(), ..SyncOptions::default() };
    let source = with(top.path(), Some(costly), &MemoryBudget::default()).expect("room");
    let error = failures(source).expect_err("it is too much");
    assert!(error.kind == ErrorKind::Usage && error.message.contains("take too much work"), "{error}");
}

#[test]
fn a_directory_too_large_to_be_removed_at_once_stays() {
    let top = tempfile::tempdir().expect("a directory");
    for at in 0..500 {
        fs::write(top.path().join(format!("f{at}")), "").expect("a file");
    }
    let name = bytes(top.path());
    let budget = MemoryBudget::of(8 << 10);
    let error = remove(&Base::Ambient, &name, Extent::Tree, &budget, &mut || Ok(())).expect_err("too large");
    assert!(error.message.contains("the names in a directory"), "{error}");
    assert_eq!((fs::read_dir(top.path()).expect("it stands").count(), budget.used()), (500, 0));
    remove(&Base::Ambient, &name, Extent::Tree, &MemoryBudget::default(), &mut || Ok(())).expect("it fits");
    assert!(!top.path().exists());
}
