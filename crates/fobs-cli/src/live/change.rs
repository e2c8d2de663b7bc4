//! Changes of a running copy, as `fobs ctl` takes them.

use std::fmt;
use std::str::FromStr;

use fobs::options::Priority;

use crate::units::parse_rate;

/// A change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The highest rate, bits per second; none for no limit.
    Rate(Option<u64>),
    /// How it shares the path.
    Priority(Priority),
    /// It sends nothing for now.
    Pause,
    /// It goes on.
    Resume,
    /// It ends, as by Ctrl-C.
    Cancel,
}

/// End of every error.
const FORMS: &str =
    "give rate=RATE (or rate=none), priority=fair, scavenger or greedy, pause, resume or cancel";

impl Change {
    /// What may be given, each to its end or to where its value begins.
    pub fn forms() -> Vec<String> {
        let priorities = Priority::ALL.iter().map(|priority| Change::Priority(*priority).to_string());
        let others = [Change::Rate(None), Change::Pause, Change::Resume, Change::Cancel];
        let others = others.map(|change| change.to_string());
        std::iter::once("rate=".to_owned()).chain(others).chain(priorities).collect()
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        match text.split_once('=') {
            Some(("rate", "none")) => Ok(Change::Rate(None)),
            Some(("rate", rate)) => parse_rate(rate).map(|rate| Change::Rate(Some(rate))),
            Some(("priority", name)) => name
                .parse()
                .map(Change::Priority)
                .map_err(|_| format!("there is no priority {name:?}: {FORMS}")),
            None if text == "pause" => Ok(Change::Pause),
            None if text == "resume" => Ok(Change::Resume),
            None if text == "cancel" => Ok(Change::Cancel),
            _ => Err(format!("{text:?} is no change: {FORMS}")),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Rate(Some(bits)) => write!(f, "rate={bits}bit"),
            Change::Rate(None) => f.write_str("rate=none"),
            Change::Priority(priority) => write!(f, "priority={priority}"),
            Change::Pause => f.write_str("pause"),
            Change::Resume => f.write_str("resume"),
            Change::Cancel => f.write_str("cancel"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_written() {
        for (text, change) in [
            ("rate=200M", Change::Rate(Some(200_000_000))),
            ("rate=none", Change::Rate(None)),
            ("priority=scavenger", Change::Priority(Priority::Scavenger)),
            ("pause", Change::Pause),
            ("resume", Change::Resume),
            ("cancel", Change::Cancel),
        ] {
            assert_eq!(text.parse(), Ok(change), "{text}");
            assert_eq!(change.to_string().parse(), Ok(change), "{text}");
        }
        for form in Change::forms().iter().filter(|form| *form != "rate=") {
            form.parse::<Change>().expect(form);
        }
        for text in ["", "rate", "rate=", "rate=fast", "priority=low", "stop", "pause=1", "rate=-1"] {
            text.parse::<Change>().expect_err(text);
        }
    }
}
