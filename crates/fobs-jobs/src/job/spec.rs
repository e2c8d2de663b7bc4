//! What a job is to do, when, and how often it is tried.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use super::{JobId, Window, Word};

/// Longest name, label and key, bytes: they stand in lists.
pub const NAME_BYTES_MAX: usize = 200;
/// Bounds of a priority: more steps would only be a second way to write the same orders.
pub const PRIORITY_MIN: i8 = -10;
/// See [`PRIORITY_MIN`].
pub const PRIORITY_MAX: i8 = 10;
/// Most retries: with pauses of ten minutes, ten weeks.
pub const RETRIES_MAX: u32 = 10_000;
/// Most bytes of all words of a job. The kernel takes 2 MiB with the environment (execve(2)); a queue of
/// 10,000 such jobs stays below 3 GB.
const WORDS_BYTES_MAX: usize = 256 << 10;
/// Most jobs that one waits for.
const AFTER_MAX: usize = 100;
/// Most variables of the environment that a job keeps.
const VARIABLES_MAX: usize = 200;
/// Shortest interval of a repeated job, ms: a keeper's own work for a run stays far below.
const EVERY_MS_MIN: u64 = 1000;
/// Longest interval, ms: ten years.
const EVERY_MS_MAX: u64 = 10 * 366 * 24 * 3600 * 1000;
/// Commands that a job may run: those that go on where they were interrupted.
const COMMANDS: &[&str] = &["cp", "sync"];

/// Whether a job may run this command.
pub(crate) fn is_command(word: &str) -> bool {
    COMMANDS.contains(&word)
}

/// A job as it was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spec {
    /// A name for people; may be empty.
    #[serde(default)]
    pub name: String,
    /// Whose share of the keeper it uses: jobs of each label have the same.
    #[serde(default)]
    pub label: String,
    /// Higher first, from [`PRIORITY_MIN`] to [`PRIORITY_MAX`].
    #[serde(default)]
    pub priority: i8,
    /// The command (`cp` or `sync`) and its arguments.
    pub words: Vec<Word>,
    /// The directory in which relative paths begin; absolute.
    pub directory: Word,
    /// What of the submitter's environment the job needs: pairs of a name and a value.
    #[serde(default)]
    #[schema(value_type = Vec<Vec<Word>>)]
    pub environment: Vec<(String, Word)>,
    /// The submitter's umask.
    #[serde(default = "usual_umask")]
    pub umask: u32,
    /// Where its data goes: hosts, or this one's name for itself.
    #[serde(default)]
    pub destinations: Vec<String>,
    /// Where its data comes from: hosts, or disks of this one.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The directory of this host below which it writes; none where it writes on another host.
    #[serde(default)]
    pub room: Option<Word>,
    /// The destination on another host, as it was typed: that host is asked for its room. None where it
    /// writes on this one.
    #[serde(default)]
    pub room_there: Option<Word>,
    /// Bytes that it is to write, where that is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Jobs that must have succeeded before.
    #[serde(default)]
    pub after: Vec<JobId>,
    /// Not before this time, ms since 1970.
    #[serde(default)]
    pub at_ms: Option<u64>,
    /// Only in this part of each day.
    #[serde(default)]
    pub between: Option<Window>,
    /// Again after this time, ms, from begin to begin.
    #[serde(default)]
    pub every_ms: Option<u64>,
    /// Ended by this time, ms since 1970, whether it is done or not.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// How often it is tried again after a failure that may pass by itself.
    #[serde(default = "usual_retries")]
    pub retries: u32,
    /// A program with its arguments that is run when the job ends; none where empty.
    #[serde(default)]
    pub notify: Vec<Word>,
    /// What makes the same submission twice one job.
    #[serde(default)]
    pub key: Option<String>,
}

/// Retries unless chosen: with pauses of up to ten minutes, some eight hours, a night's outage.
fn usual_retries() -> u32 {
    50
}

fn usual_umask() -> u32 {
    0o077
}

/// Why a job is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SpecError(pub String);

impl Spec {
    /// A job that runs these words in a directory, with nothing chosen.
    pub fn new(words: Vec<Word>, directory: Word) -> Spec {
        Spec {
            name: String::new(),
            label: String::new(),
            priority: 0,
            words,
            directory,
            environment: Vec::new(),
            umask: usual_umask(),
            destinations: Vec::new(),
            sources: Vec::new(),
            room: None,
            room_there: None,
            bytes: None,
            after: Vec::new(),
            at_ms: None,
            between: None,
            every_ms: None,
            deadline_ms: None,
            retries: usual_retries(),
            notify: Vec::new(),
            key: None,
        }
    }

    /// The command line for people.
    pub fn command(&self) -> String {
        let words: Vec<String> = self.words.iter().map(Word::shown).collect();
        words.join(" ")
    }

    /// Whether it is the same work in the same place: what a key must stand for.
    pub fn is_same_work(&self, other: &Spec) -> bool {
        self.words == other.words && self.directory == other.directory
    }

    /// Checks what any program may have written.
    ///
    /// # Errors
    /// The first thing that is wrong, with its bound.
    pub fn check(&self) -> Result<(), SpecError> {
        let refuse = |why: String| Err(SpecError(why));
        let command = self.words.first().map(Word::shown).unwrap_or_default();
        if !is_command(&command) {
            return refuse(format!("{command:?} is no command of a job: submit cp or sync"));
        }
        let all = || {
            self.words
                .iter()
                .chain(&self.notify)
                .chain(&self.room)
                .chain(&self.room_there)
                .chain([&self.directory])
        };
        let variables = || self.environment.iter().map(|(_, word)| word);
        let bytes: usize = all().chain(variables()).map(|word| word.bytes() + 1).sum();
        if bytes > WORDS_BYTES_MAX {
            return refuse(format!(
                "its words have {bytes} bytes, and may have {WORDS_BYTES_MAX}: use --files-from"
            ));
        }
        if all().chain(variables()).any(|word| !word.can_be_passed()) {
            return refuse("a word has a NUL, which no program can be given".to_owned());
        }
        if !self.directory.shown().starts_with('/') {
            return refuse("its directory is not absolute".to_owned());
        }
        let names =
            [("name", &self.name), ("label", &self.label), ("key", self.key.as_ref().unwrap_or(&self.name))];
        if let Some((what, _)) = names.iter().find(|(_, text)| text.len() > NAME_BYTES_MAX) {
            return refuse(format!("its {what} is longer than {NAME_BYTES_MAX} bytes: shorten it"));
        }
        if self.key.as_ref().is_some_and(String::is_empty) {
            return refuse("its key is empty: leave it out, or write one".to_owned());
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        if self.environment.len() > VARIABLES_MAX || self.environment.iter().any(|(name, _)| !is_name(name)) {
            return refuse(format!(
                "its environment has more than {VARIABLES_MAX} variables, or one without a name"
            ));
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let refuse = |why: String| Err(SpecError(why));
        if !(PRIORITY_MIN..=PRIORITY_MAX).contains(&self.priority) {
            return refuse(format!(
                "a priority is from {PRIORITY_MIN} to {PRIORITY_MAX}, not {}",
                self.priority
            ));
        }
        if self.retries > RETRIES_MAX {
            return refuse(format!("a job is tried again at most {RETRIES_MAX} times, not {}", self.retries));
        }
        if self.after.len() > AFTER_MAX {
            return refuse(format!("a job waits for at most {AFTER_MAX} others: chain them"));
        }
        if self.umask > 0o777 {
            return refuse(format!("{:o} is no umask", self.umask));
        }
        if self.every_ms.is_some_and(|every| !(EVERY_MS_MIN..=EVERY_MS_MAX).contains(&every)) {
            return refuse("a job is repeated every second at most, every ten years at least".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec::new(["cp", "a", "b"].map(Word::from).to_vec(), "/x".into())
    }

    #[test]
    fn a_spec_survives_json_and_old_ones_are_read() {
        let whole = Spec {
            after: vec![JobId(3)],
            between: Some(Window::parse("20:00-06:00").expect("a window")),
            key: Some("k".to_owned()),
            ..spec()
        };
        let text = serde_json::to_string(&whole).expect("JSON");
        assert_eq!(serde_json::from_str::<Spec>(&text).expect("our own"), whole);
        let least = r#"{"words": ["cp", "a", "b"], "directory": "/x"}"#;
        assert_eq!(serde_json::from_str::<Spec>(least).expect("all else has a default"), spec());
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        spec().check().expect("a job");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let table: [(Spec, &str); 12] = [
            (Spec { words: vec!["serve".into()], ..spec() }, "submit cp or sync"),
            (Spec { words: vec![], ..spec() }, "submit cp or sync"),
            (Spec { words: vec!["cp".into(), "x".repeat(WORDS_BYTES_MAX).into()], ..spec() }, "bytes"),
            (Spec { words: vec!["cp".into(), "a\0b".into()], ..spec() }, "NUL"),
            (Spec { directory: "x".into(), ..spec() }, "absolute"),
            (Spec { name: long.clone(), ..spec() }, "name is longer"),
            (Spec { key: Some(long), ..spec() }, "key is longer"),
            (Spec { key: Some(String::new()), ..spec() }, "key is empty"),
            (Spec { priority: 11, ..spec() }, "priority"),
            (Spec { retries: RETRIES_MAX + 1, ..spec() }, "tried again"),
            (Spec { every_ms: Some(1), ..spec() }, "repeated"),
            (Spec { environment: vec![("A=B".to_owned(), "x".into())], ..spec() }, "variables"),
        ];
        for (spec, why) in table {
            let SpecError(said) = spec.check().expect_err(why);
            assert!(said.contains(why), "{said}");
        }
    }
}
