//! The command line of `fobs sync`.

use clap::Parser;
use fobs::FileSystems;

use super::*;
use crate::args::{Cli, Command};
use crate::flags::Chosen;
use crate::flags::sync::{Recursion, RuleOption, bandwidth, size};

fn parse(words: &str) -> SyncArgs {
    let all = ["fobs", "sync"].into_iter().chain(words.split_whitespace()).chain(["a", "b:"]);
    match Cli::try_parse_from(all).unwrap_or_else(|error| panic!("{words}: {error}")).command {
        Command::Sync(args) => *args,
        _ => panic!("{words}: another command"),
    }
}

fn switches(words: &str) -> Chosen {
    parse(words).0.chosen
}

#[test]
fn letters_and_names_are_those_of_rsync() {
    for (letters, names) in [
        ("-a", "--archive"),
        ("-rlptgoD", "--recursive --links --perms --times --group --owner --devices --specials"),
        ("-vqznH", "--verbose --quiet --compress --dry-run --hard-links"),
        ("-AXSx", "--acls --xattrs --sparse --one-file-system"),
        ("-ucibdI", "--update --checksum --itemize-changes --backup --dirs --ignore-times"),
        ("-OJW0", "--omit-dir-times --omit-link-times --whole-file --from0"),
        ("-P", "--partial --progress"),
        ("-E", "--executability"),
        ("--del", "--delete-during"),
        ("--existing", "--ignore-non-existing"),
    ] {
        assert_eq!(switches(letters), switches(names), "{letters} and {names}");
        assert_ne!(switches(letters), switches(""), "{letters}");
    }
}

#[test]
fn switches_count_in_the_order_in_which_they_are_given() {
    let mut archive = switches("-a");
    assert_eq!(archive.sync.recursion, Recursion::Implied);
    archive.sync.recursion = Recursion::On;
    assert_eq!(archive, switches("-rlptgoD"));
    for (words, same) in [
        ("-a --no-perms", "-a --no-p"),
        ("--no-p -a", "-a"),
        ("-a --no-D", "-a --no-devices --no-specials"),
        ("-a --no-r", "-lptgoD"),
        ("-A --no-perms", "--acls --no-p"),
        ("-a -r", "-r -a"),
        ("-a --no-a", ""),
        ("-v --no-v", ""),
    ] {
        assert_eq!(switches(words), switches(same), "{words} and {same}");
    }
    let keeps_modes = |words| switches(words).sync.choices.preserve.modes;
    assert!(!keeps_modes("-a --no-p") && keeps_modes("--no-p -a") && keeps_modes("-A"));
    let (itemize, verbose) = (switches("-ii").sync.itemize, switches("-vvv").program.verbose);
    assert_eq!((itemize, verbose), (2, 3));
    let crossed = |words| switches(words).sync.choices.preserve.file_systems;
    assert_eq!(
        [crossed("-a"), crossed("-x"), crossed("-xx"), crossed("-x -x"), crossed("-xx --no-x")],
        [
            FileSystems::All,
            FileSystems::One,
            FileSystems::OneWithoutMounts,
            FileSystems::OneWithoutMounts,
            FileSystems::All
        ]
    );
}

#[test]
fn rules_keep_their_order_across_options() {
    let args =
        parse("--exclude *.o -f P_x --include a --exclude-from F --filter=-_y --include-from=G --exclude -z");
    let words: Vec<_> =
        args.chosen.sync.rules.iter().map(|(option, word)| (*option, word.to_str().expect("text"))).collect();
    use RuleOption::*;
    assert_eq!(
        words,
        [
            (Exclude, "*.o"),
            (Filter, "P_x"),
            (Include, "a"),
            (ExcludeFrom, "F"),
            (Filter, "-_y"),
            (IncludeFrom, "G"),
            (Exclude, "-z")
        ]
    );
}

#[test]
fn options_that_are_not_built_are_refused_by_name() {
    for (words, name, why) in [
        ("--write-batch=x", "--write-batch is not built: ", "batch files"),
        ("--only-write-batch=x", "--only-write-batch is not built: ", "batch files"),
        ("-aRN", "--crtimes (-N) is not built: ", "when a file was made"),
        ("--daemon", "--daemon is not built: ", "fobs serve"),
    ] {
        let said = parse(words).chosen.refused.clone().expect(words);
        assert!(said.starts_with(name) && said.contains(why), "{words}: {said}");
    }
    assert_eq!(parse("-aHAXS --delete -y --no-fuzzy").chosen.refused, None);
}

#[test]
fn bandwidths_are_those_of_rsync() {
    let parsed = |text| bandwidth(text).map(|it| it.bits_per_second);
    for (text, expected) in [
        ("0", None),
        ("1", Some(8 * 1024)),
        ("1.5m", Some(12 << 20)),
        ("2MB", Some(16_000_000)),
        ("1G", Some(8 << 30)),
        ("100KiB", Some(800 << 10)),
        ("8b", Some(64)),
        ("1k+1", Some(8 * 1025)),
    ] {
        assert_eq!(parsed(text), Ok(expected), "{text}");
    }
    for text in ["", "x", "1.2.3", "-1", "1Mbit", "1q", "k", "1ib"] {
        assert!(parsed(text).is_err(), "{text}");
    }
    for (text, expected) in [
        ("0", 0),
        ("5", 5),
        ("1.5k", 1536),
        ("1.5mb-1", 1_499_999),
        ("1MiB+1", (1 << 20) + 1),
        ("2G", 2 << 30),
        ("1t", 1 << 40),
        ("10b", 10),
    ] {
        assert_eq!(size(text), Ok(expected), "{text}");
    }
    assert!(size("1Mbit").is_err() && size("-1").is_err());
}

#[test]
fn a_run_cannot_end_before_it_begins() {
    for (time, is_taken) in [("2001-02-03T04:05", false), ("2001/02/03", false), ("2h", true)] {
        let words = ["fobs", "sync", "--stop-at", time, "a", "b:"];
        assert_eq!(Cli::try_parse_from(words).is_ok(), is_taken, "{time}");
    }
}
