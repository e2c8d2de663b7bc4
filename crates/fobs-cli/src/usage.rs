//! What clap says about a command line, in our form: help and version as they are, everything else as one
//! sentence and exit code 1.

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind as ClapKind;
use fobs::{Error, ErrorKind};

use crate::{exit, output};

/// Prints the help that was asked for, or what is wrong; the exit code.
pub fn report(error: &clap::Error) -> u8 {
    match error.kind() {
        ClapKind::DisplayHelp | ClapKind::DisplayVersion => {
            // A pager that was left early is no failure.
            let _ = error.print();
            exit::SUCCESS
        }
        ClapKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ErrorKind::Usage.exit_code()
        }
        _ => {
            let error = Error::new(ErrorKind::Usage, sentence(&error.render().to_string()));
            output::complain(&error);
            if json_wanted(std::env::args_os()) {
                // The exit code tells already; the JSON line is for whoever reads it.
                let _ = output::json_failure(&error);
            }
            let _ = std::io::stdout().flush();
            ErrorKind::Usage.exit_code()
        }
    }
}

/// Whether `--json` stands on a command line that could not be parsed.
fn json_wanted(words: impl Iterator<Item = OsString>) -> bool {
    words.take_while(|word| word != "--").any(|word| word == "--json")
}

/// One sentence from clap's paragraphs: the error, its tips, and where to read more.
fn sentence(rendered: &str) -> String {
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts = Vec::new();
    let mut help = "'fobs --help'".to_owned();
    for (index, paragraph) in rendered.split("\n\n").map(joined).enumerate() {
        if index == 0 {
            parts.push(paragraph.strip_prefix("error: ").unwrap_or(&paragraph).to_owned());
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            parts.push(tip.to_owned());
        } else if let Some(usage) = paragraph.strip_prefix("Usage: fobs ") {
            // The first word is the subcommand, unless it is a placeholder.
            let command =
                usage.split(' ').next().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
            help = command.map_or(help, |command| format!("'fobs {command} --help'"));
        }
    }
    format!("{}; see {help}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn errors_are_one_sentence() {
        let table = [
            ("cp --unknown a b:", "unexpected argument '--unknown' found; "),
            ("cp --rat 5 a b:", "unexpected argument '--rat' found; a similar argument exists: '--rate'; "),
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
            ("cp -P 0 a b:", "invalid value '0' for '-P <PORT>': 0 is not in 1..=65535"),
            ("cp -l 0 a b:", "invalid value '0' for '-l <KBIT>'"),
            (
                "cp -l 1 --rate 1M a b:",
                "the argument '-l <KBIT>' cannot be used with '--rate <RATE>'; see 'fobs cp",
            ),
            ("cp --packet-size 9 a b:", "a packet carries 512 to 65000 bytes"),
            ("serve --root x", "not provided: --authorized-keys <FILE>; see 'fobs serve --help'"),
            ("copy a b:", "unrecognized subcommand 'copy'; "),
            ("--bad", "unexpected argument '--bad' found; see 'fobs --help'"),
        ];
        for (words, expected) in table {
            let words_of = ["fobs"].into_iter().chain(words.split(' '));
            let error = Cli::try_parse_from(words_of).expect_err(words);
            let sentence = sentence(&error.render().to_string());
            assert!(sentence.contains(expected), "{words}: {sentence}");
            assert!(!sentence.contains('\n') && !sentence.contains("error:"), "{words}: {sentence}");
            assert!(sentence.contains("; see 'fobs "), "{words}: {sentence}");
        }
    }

    #[test]
    fn json_is_wanted_only_as_an_option() {
        for (words, wanted) in [("fobs cp --json", true), ("fobs cp -- --json", false), ("fobs cp x", false)]
        {
            assert_eq!(json_wanted(words.split(' ').map(OsString::from)), wanted, "{words}");
        }
    }
}
