use clap::Parser;
use fobs::event::EntryFacts;
use fobs::options::sync::Report;

use super::*;
use crate::args::{Cli, Command};

fn wording(words: &[&str]) -> Wording {
    let words = ["fobs", "sync"].iter().chain(words).chain(&["a", "b:"]);
    match Cli::try_parse_from(words).expect("valid words").command {
        Command::Sync(args) => Wording::of(&args, false),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_printed_follows_levels() {
    let printed = |words: &[&str]| {
        let wording = wording(words);
        (wording.format.is_some(), wording.deletions, wording.stats, wording.progress)
    };
    assert_eq!(printed(&[]), (false, false, 0, 0));
    assert_eq!(printed(&["-v"]), (true, true, 1, 0));
    assert_eq!(printed(&["-vv"]), (true, true, 1, 0));
    assert_eq!(printed(&["--info=name0,stats2", "-v"]), (false, true, 2, 0));
    assert_eq!(printed(&["--info=del"]), (false, true, 0, 0));
    assert_eq!(printed(&["--info=progress2", "--info=name"]), (true, false, 0, 2));
    assert_eq!(printed(&["-vv", "--info=NONE"]), (false, false, 0, 0));
    assert_eq!(printed(&["--progress"]), (true, false, 0, 1));
    assert_eq!(printed(&["-P", "--info=progress2"]), (false, false, 0, 2));
}

#[test]
fn what_is_reported_is_what_is_needed() {
    for (words, expected) in [
        (&["-aq"][..], Report::Nothing),
        (&["-a"], Report::Nothing),
        (&["-r"], Report::All),
        (&["-r", "--info=nonreg0"], Report::Nothing),
        (&["-ai"], Report::Changed),
        (&["-a", "--out-format=%n"], Report::Changed),
        (&["-a", "--log-file=x"], Report::Changed),
        (&["-a", "--info=del"], Report::Changed),
        (&["-aii"], Report::All),
        (&["-av"], Report::All),
        (&["-a", "--stats"], Report::All),
    ] {
        assert_eq!(wording(words).report(), expected, "{words:?}");
    }
}

#[test]
fn entries_have_lines_as_by_rsync() {
    let shows = |words: &[&str], changes: &str, directory| {
        let unchanged = changes.ends_with("   ");
        let facts = EntryFacts { unchanged, ..EntryFacts::default() };
        let line = Line {
            changes,
            path: b"n",
            directory,
            target: None,
            facts,
            operation: "send",
            above: b"",
            sum: None,
        };
        wording(words).shows(&line)
    };
    for (changes, directory, itemized, named) in [
        ("<f+++++++++", false, true, true),
        (".f...p.....", false, true, false),
        (".d..t......", true, true, true),
        (".f         ", false, false, false),
        ("cL+++++++++", false, true, true),
        ("hf         ", false, false, false),
    ] {
        assert_eq!(shows(&["-i"], changes, directory), itemized, "{changes}");
        assert_eq!(shows(&["-v"], changes, directory), named, "{changes}");
        assert_eq!(shows(&["--out-format=%n"], changes, directory), named, "{changes}");
        assert!(shows(&["-ii"], changes, directory), "{changes}");
    }
}
