//! The table as a whole: no name is taken twice, all of it has a text, and another host is given what counts
//! there.

mod rsync;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use fobs::options::flag::{About, CommandName, Rank, Side, Standing, of_transfers};
use fobs::options::sync::SYNC2;

use super::*;
use crate::args::{Cli, Command};

const COMMANDS: [CommandName; 3] = [CommandName::Cp, CommandName::Sync, CommandName::Doctor];

/// Every row that a command shows.
fn shown(command: CommandName) -> impl Iterator<Item = Row> {
    rows(command).filter(|row| row.about().rank != Rank::Hidden && row.about().standing == Standing::Done)
}

#[test]
fn no_name_or_letter_is_taken_twice() {
    for command in COMMANDS {
        let mut taken = BTreeSet::new();
        for row in rows(command) {
            let about = row.about();
            let names = about.also.iter().chain([&about.name]).map(|name| (*name).to_owned());
            let letter = about.on(command).and_then(|it| it.letter).map(|letter| format!("-{letter}"));
            for name in names.chain(letter) {
                assert!(taken.insert(name.clone()), "{command:?} has {name} twice");
            }
        }
    }
}

#[test]
fn every_row_has_a_text_or_a_reason() {
    for row in COMMANDS.into_iter().flat_map(rows) {
        let about = row.about();
        match about.standing {
            Standing::Done => assert!(!about.help.is_empty(), "{about:?}"),
            Standing::Taken(why) | Standing::Refused(why) => assert!(!why.is_empty(), "{about:?}"),
        }
        let has_value = matches!(row.shape(), Shape::Value | Shape::List);
        assert_eq!(has_value, !about.value.is_empty(), "{about:?}");
    }
}

#[test]
fn every_option_of_a_transfer_is_reached_by_a_name() {
    for row in of_transfers() {
        let about = &row.about;
        assert!(about.library.is_some() || !about.on.is_empty(), "{about:?}");
    }
}

/// A value of an option, as it could be typed.
fn sample(row: Row) -> &'static str {
    match row.about().name {
        "cc" => "cubic",
        "transport" => "tcp:4",
        "stream-allotment" => "equal-parts",
        "priority" => "greedy",
        "deadline" | "stop-at" => "2h",
        "loss-cause" => "off",
        "min-rate" => "1Mbit/30s",
        "udp-ports" => "5000-5009",
        "via" => "10.0.2.1",
        "lanes" => "2",
        "memory" => "128MiB",
        "packet-size" => "8KiB",
        "chmod" => "go-w",
        "delta" => "never",
        "rsh" => "ssh -p 2",
        "usermap" | "groupmap" => "*:nobody",
        "rsync-path" => "sudo rsync",
        "info" => "name2",
        "max-size" | "min-size" => "4k",
        "rate" => "2.5Mbit",
        "remote-option" => "--super",
        "iconv" => "UTF-8,ISO-8859-1",
        _ => "8192",
    }
}

/// What `fobs cp` makes of words.
fn options(words: Vec<OsString>) -> TransferOptions {
    let words = ["fobs", "cp"].map(OsString::from).into_iter().chain(words);
    let Ok(Cli { command: Command::Cp(args) }) = Cli::try_parse_from(words) else { panic!("valid words") };
    crate::resolve::copy(&args).expect("valid options").options
}

fn is_far(row: Row) -> bool {
    row.about().side != Side::Here
}

#[test]
fn options_of_the_data_reach_the_host_of_the_sources() {
    let word = |row: Row| match (row.shape(), row.about().long()) {
        (Shape::Switch | Shape::Count, Some(long)) => format!("--{long}"),
        (_, Some(long)) => format!("--{long}={}", sample(row)),
        (_, None) => format!("-{}{}", row.about().name, sample(row)),
    };
    // Each alone, and many at once: of a list of exclusive ones, the last.
    let mut lines: Vec<Vec<String>> = rows(CommandName::Cp).map(|row| vec![word(row)]).collect();
    lines.push(vec!["-r".into(), "-p".into(), "-C".into(), "--rate=200M".into(), "-6".into(), "-4".into()]);
    lines.push(vec!["--cc=fixed".into(), "--rate=1G".into()]);
    lines.push(vec!["-r".into(), "-q".into(), "--fsync".into(), "-oA=b".into(), "--memory=64MiB".into()]);
    for given in lines {
        let words: Vec<OsString> = given.iter().map(OsString::from).collect();
        let all = [words.clone(), vec!["a".into(), "b:".into()]].concat();
        let line = ["fobs", "cp"].map(OsString::from).into_iter().chain(all.clone());
        let parsed = Cli::try_parse_from(line);
        let Ok(Cli { command: Command::Cp(args) }) = parsed else { panic!("{given:?}: {parsed:?}") };
        let mut far: Vec<OsString> = args.far_words().into_iter().map(OsString::from_vec).collect();
        let count = args.given.iter().filter(|it| it.about.side != Side::Here).count();
        assert!(far.len() >= count, "{given:?}: {far:?}");
        far.extend(["a".into(), "b:".into()]);
        // What counts here has no part in it.
        if rows(CommandName::Cp).filter(|row| args.has(row.about().name)).all(is_far) {
            assert!(same(&options(far.clone()), &options(all)), "{given:?}: {far:?}");
        } else {
            options(far);
        }
    }
}

/// Equal, but for a deadline that was written as a time from now.
fn same(one: &TransferOptions, other: &TransferOptions) -> bool {
    let near = |a: Option<std::time::SystemTime>, b: Option<std::time::SystemTime>| match (a, b) {
        (Some(a), Some(b)) => {
            let apart = a.duration_since(b).or_else(|_| b.duration_since(a)).unwrap_or_default();
            apart.as_secs() < 60
        }
        (a, b) => a == b,
    };
    let plain = |it: &TransferOptions| TransferOptions { deadline: None, ..it.clone() };
    near(one.deadline, other.deadline) && plain(one) == plain(other)
}

#[test]
fn an_option_names_the_feature_that_it_needs() {
    for row in shown(CommandName::Sync) {
        let chosen = given(row);
        let choices = &chosen.sync.choices;
        let by_side =
            [(Side::Receiver, choices.receiver_features()), (Side::Sender, choices.sender_features())];
        for (side, features) in by_side {
            let needed: BTreeSet<_> = features.iter().map(|(feature, _)| *feature).collect();
            // Without a feature of its own an option of a transfer is of both ends.
            let is_of = |about: &About| {
                about.side == side || (about.side, about.feature) == (Side::Both, Some(SYNC2))
            };
            let said = row.about().feature.filter(|_| is_of(row.about()));
            assert_eq!(needed, said.into_iter().collect(), "{row:?}");
        }
    }
}

/// What a row does alone.
fn given(row: Row) -> Chosen {
    let mut chosen = Chosen::default();
    if row.shape() == Shape::Switch || row.shape() == Shape::Count {
        row.count(&mut chosen, 1);
    } else {
        let reading = row.read(sample(row).as_ref()).unwrap_or_else(|why| panic!("{row:?}: {why}"));
        row.apply(&mut chosen, &reading);
    }
    chosen
}

#[test]
fn every_option_that_is_shown_changes_something() {
    for command in [CommandName::Cp, CommandName::Sync] {
        for row in shown(command) {
            let chosen = given(row);
            // These are what happens anyway.
            let is_default = ["partial", "no-push-binary", "implied-dirs"].contains(&row.about().name);
            assert_eq!(chosen != Chosen::default(), !is_default, "{row:?}");
        }
    }
}
