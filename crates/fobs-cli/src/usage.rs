//! clap's errors in the form of all others: help and version as they are, everything else as one sentence and
//! exit code 1.

use std::ffi::OsString;
use std::io::Write;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind as ClapKind};
use fobs::{Error, ErrorKind, SyncEnd};

use crate::args::Cli;
use crate::{exit, output};

mod private_key;
mod tips;

/// Options whose values name methods: rsync has an exit code of its own for one that it does not know.
const METHODS: &[&str] = &["--iconv", "--checksum-choice", "--compress-choice"];

/// Prints the requested help or the error; returns the exit code.
pub fn report(error: &clap::Error) -> u8 {
    match error.kind() {
        ClapKind::DisplayHelp | ClapKind::DisplayVersion => {
            // A closed pipe is no failure.
            let _ = error.print();
            exit::SUCCESS
        }
        ClapKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A closed pipe is no failure.
            let _ = error.print();
            ErrorKind::Usage.exit_code()
        }
        _ => refuse(&refusal(error)),
    }
}

/// The error that the parser's one is.
pub fn refusal(error: &clap::Error) -> Error {
    let refusal = Error::new(ErrorKind::Usage, sentence(error));
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.split(' ').next().unwrap_or_default(),
        _ => "",
    };
    let is_method = error.kind() == ClapKind::ValueValidation && METHODS.contains(&option);
    if is_method { refusal.ends_sync(SyncEnd::Unsupported) } else { refusal }
}

/// Prints an error that is known before the command line is understood; returns the exit code.
pub fn refuse(error: &Error) -> u8 {
    output::complain(error);
    let is_sync = std::env::args_os().nth(1).is_some_and(|command| command == "sync");
    let code: fn(&Error) -> u8 =
        if is_sync { |error| error.sync_end().code() } else { |error| error.kind.exit_code() };
    if has_json(std::env::args_os()) {
        // A failure to write the line does not change the exit code.
        let _ = output::json_failure(error, code);
    }
    // Likewise.
    let _ = std::io::stdout().flush();
    code(error)
}

/// Whether a command line that could not be parsed contains `--json`.
fn has_json(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}

/// One sentence from clap's paragraphs: the error, what was probably meant, and a reference to the help.
pub fn sentence(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs: Vec<String> = rendered.split("\n\n").map(joined).collect();
    // The first word is the subcommand, unless it is a placeholder.
    let command = paragraphs
        .iter()
        .find_map(|paragraph| paragraph.strip_prefix("Usage: fobs "))
        .and_then(|usage| usage.split(' ').next())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    // The parser shows no usage beside some errors.
    let typed = std::env::args().nth(1).filter(|word| is_command(word));
    let command = command.or(typed.as_deref());
    let what = paragraphs.first().map_or("", String::as_str);
    let mut parts = vec![plain(what.strip_prefix("error: ").unwrap_or(what))];
    parts.extend(tips::of(error, command));
    let help = command.map_or("'fobs --help'".to_owned(), |command| format!("'fobs {command} --help'"));
    format!("{}; see {help}", parts.join("; "))
}

/// The error of words that the parser takes for others: a long option behind one dash, a key behind
/// `sync -i`.
///
/// # Errors
/// `Usage`, with what to type.
pub fn refuse_misread(words: &[OsString]) -> Result<(), Error> {
    let why = tips::one_dash(words).or_else(|| private_key::as_a_source(words));
    why.map_or(Ok(()), |why| Err(Error::new(ErrorKind::Usage, why)))
}

/// What the standard library says of a number, in words for people.
fn plain(what: &str) -> String {
    let words = [
        ("invalid digit found in string", "it is no whole number"),
        ("cannot parse integer from empty string", "a whole number is needed"),
        ("number too large to fit in target type", "it is too large"),
        ("number too small to fit in target type", "it is too small"),
    ];
    words.iter().fold(what.to_owned(), |what, (from, to)| what.replace(from, to))
}

fn is_command(word: &str) -> bool {
    Cli::command().find_subcommand(word).is_some_and(|command| !command.is_hide_set())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn errors_are_one_sentence() {
        let table = [
            ("cp --unknown a b:", "unexpected argument '--unknown' found; see 'fobs cp --help'"),
            ("cp --rat 5 a b:", "unexpected argument '--rat' found; did you mean '--rate'?; see"),
            (
                "cp -a a b:",
                "unexpected argument '-a' found; -rp copies a tree with modes and times, and fobs sync -a",
            ),
            ("cp --archive a b:", "unexpected argument '--archive' found; -rp copies a tree"),
            ("cp -R a b:", "unexpected argument '-R' found; it is -r here; see"),
            ("cp --delete a b:", "unexpected argument '--delete' found; fobs sync has it; see"),
            ("cp -u a b:", "unexpected argument '-u' found; fobs sync has it, as --update; see"),
            ("serve --root x --authorized-keys y --drain 5x", "\"5x\" is not a duration: write it like 600,"),
            ("serve --root x --authorized-keys y --drain 25h", "\"25h\" is longer than a day: write it like"),
            ("sync --known-host a b c:", "did you mean '--known-hosts'?; see"),
            ("help sny", "unrecognized subcommand 'sny'; did you mean 'sync'?; see"),
            ("scp a b:", "unrecognized subcommand 'scp'; did you mean 'cp'?; see"),
            ("rsync -a a b:", "unrecognized subcommand 'rsync'; did you mean 'sync'?; see"),
            (
                "jobs list",
                "unrecognized subcommand 'list'; fobs jobs alone lists them; see 'fobs jobs --help'",
            ),
            ("jobs pasue 3", "unrecognized subcommand 'pasue'; did you mean 'pause'?; see"),
            ("jobs kill 3", "unrecognized subcommand 'kill'; did you mean 'cancel'?; see"),
            ("jobs snyc", "unrecognized subcommand 'snyc'; see"),
            ("list", "unrecognized subcommand 'list'; see 'fobs --help'"),
            ("cp -r", "the following required arguments were not provided: <PATH>...; see 'fobs cp --help'"),
            (
                "cp --rate 10Q a b:",
                "invalid value '10Q' for '--rate <RATE>': \"Q\" is not a unit; write it like 100M",
            ),
            (
                "cp --cc warp a b:",
                "invalid value 'warp' for '--cc <CC>' [possible values: auto, greedy, fixed, linear, tricolor, hstfrc, \
                 hstfrc-rate, tfrc, scalable, fast, udt, sabul, rbudp, cubic, bbr]",
            ),
            ("cp -P 0 a b:", "invalid value '0' for '--port <PORT>': 0 is not in 1..=65535"),
            ("cp -l 0 a b:", "invalid value '0' for '-l <KBIT>'"),
            ("cp -l 1e9 a b:", "invalid value '1e9' for '-l <KBIT>': it is no whole number; see"),
            ("ctl foo pause", "invalid value 'foo' for '<ID>': it is no whole number; see 'fobs "),
            ("keygen -t x", "unexpected argument '-t' found; every key is an Ed25519 one; see 'fobs keygen"),
            ("keygen -x", "unexpected argument '-x' found; see 'fobs keygen"),
            ("top -x", "unexpected argument '-x' found; see 'fobs top"),
            ("doctor --host", "unexpected argument '--host' found; see 'fobs doctor"),
            ("serve --prot 5", "unexpected argument '--prot' found; see 'fobs serve"),
            ("cp --prot 5 a b:", "unexpected argument '--prot' found; did you mean '--port'?; see"),
            ("hepl", "unrecognized subcommand 'hepl'; did you mean 'help'?; see"),
            ("cp --rate 1.5 a b:", "1.5 alone would be 1 bit per second; write 1.5Mbit, or 1bit if"),
            ("cp --rate 50000 a b:", "50000 alone would be 50000 bits per second; write 50000kbit, or"),
            ("cp --deadline 1500 a b:", "1500 alone has no unit, as 1500s or 1500m have: give"),
            (
                "cp -l 1 --rate 1M a b:",
                "the argument '-l <KBIT>' cannot be used with '--rate <RATE>'; see 'fobs cp",
            ),
            (
                "cp --packet-size 9 a b:",
                "9 alone would be 9 bytes; write 9KiB, perhaps: a packet carries 512 to 65000 bytes",
            ),
            ("cp --memory 256 a b:", "256 alone would be 256 bytes; write 256MiB, perhaps: a side may hold"),
            ("cp --memory 1KiB a b:", "for '--memory <BYTES>': a side may hold 64 MiB"),
            ("serve --root x", "not provided: --authorized-keys <FILE>; see 'fobs serve --help'"),
            ("copy a b:", "unrecognized subcommand 'copy'; did you mean 'cp'?; see"),
            ("--bad", "unexpected argument '--bad' found; see 'fobs --help'"),
        ];
        table.iter().for_each(|(words, expected)| told(words, expected));
    }

    #[track_caller]
    fn told(words: &str, expected: &str) {
        let words_of = ["fobs"].into_iter().chain(words.split(' '));
        let error = Cli::try_parse_from(words_of).expect_err(words);
        let sentence = sentence(&error);
        assert!(sentence.contains(expected), "{words}: {sentence}");
        assert!(!sentence.contains('\n') && !sentence.contains("error:"), "{words}: {sentence}");
        assert!(sentence.contains("; see 'fobs "), "{words}: {sentence}");
    }

    #[test]
    fn options_of_other_programs_are_told_what_they_are_here() {
        for (words, expected) in [
            ("cp -f a b:", "a file that exists is replaced, without it; see"),
            ("cp --bwlimit=5 a b:", "it is --rate here, as in --rate 100Mbit; see"),
            ("cp --parallel 8 a b:", "fobs finds streams, windows and threads by itself; see"),
            ("cp --rate -5 a b:", "no number here is below zero; see"),
            ("keygen -f x", "it is --out here; see 'fobs keygen"),
            ("serve --port 5", "it is --listen here, as in"),
            ("serve --rate 5", "a limit stands in the line of a key, as in rate=500Mbit; see"),
        ] {
            told(words, expected);
        }
    }

    #[test]
    fn a_long_option_behind_one_dash_is_told() {
        for (words, meant) in [
            ("cp -port 22 a b:", Some("type --port;")),
            ("cp -rate=5M a b:", Some("type --rate=5M;")),
            ("cp -v -progress a b:", Some("type --progress;")),
            ("sync -delete a b:", Some("type --delete;")),
            ("sync -a -exclude x a b:", Some("type --exclude;")),
            ("serve -root x", Some("type --root;")),
            ("sync -stats a b:", None),
            ("sync -aHAX a b:", None),
            ("sync -rsh a b:", None),
            ("sync -cc a b:", None),
            ("sync --exclude -delete a b:", None),
            ("cp -- -port b:", None),
            ("cp -rp -P22 a b:", None),
            ("", None),
        ] {
            let words: Vec<OsString> =
                ["fobs"].into_iter().chain(words.split(' ')).map(OsString::from).collect();
            let told = refuse_misread(&words).err().map(|error| error.message);
            assert_eq!(told.is_some(), meant.is_some(), "{words:?}: {told:?}");
            assert!(told.unwrap_or_default().contains(meant.unwrap_or_default()), "{words:?}");
        }
    }

    #[test]
    fn json_counts_only_as_an_option() {
        for (words, wanted) in [("fobs cp --json", true), ("fobs cp -- --json", false), ("fobs cp x", false)]
        {
            assert_eq!(has_json(words.split(' ').map(OsString::from)), wanted, "{words}");
        }
    }
}
