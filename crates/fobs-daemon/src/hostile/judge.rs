//! What must hold after every case.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::manifest::{Fact, Manifest};
use super::play::Played;
use super::right::Right;
use super::world::{BESIDE, INSIDE, NAME, OUTSIDE};
use fobs_model::rights::Action;
use fobs_store::verify;

/// Most memory of one session, bytes (docs/security.md).
const MEMORY_MAX: u64 = 170 << 20;
/// Most CPU time of one session of a few small files.
const CPU_MAX: Duration = Duration::from_secs(5);
/// Longest sentence, characters: what is shown to users is cut there.
const SENTENCE_CHARS_MAX: usize = 1000;
/// A listing before compression is no longer.
const LISTING_MAX: usize = 1 << 20;
/// The root in a manifest.
pub(super) const ROOT: &str = "srv/vault";
/// What an entry is, in its mode.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
/// Lines of one case about what changed.
const LINES_MAX: usize = 5;
/// What no user may be told: it would be our own fault.
const OWN_FAULT: &[&str] = &["panicked", "report this", "RUST_BACKTRACE", "internal error"];

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Nothing outside of the key's part of the tree changes.
    Outside,
    /// Nothing there is told.
    Secrecy,
    /// Nothing changes, vanishes, is replaced or told beyond the key's right.
    Rights,
    /// The server lives and serves the next client.
    Life,
    /// Memory stays within what a session is promised.
    Memory,
    /// A session ends soon after its client, and takes no CPU beyond its work.
    Time,
    /// What is said to people is a sentence.
    Sentence,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Outside => "outside",
            Rule::Secrecy => "secrecy",
            Rule::Rights => "rights",
            Rule::Life => "life",
            Rule::Memory => "memory",
            Rule::Time => "time",
            Rule::Sentence => "sentence",
        })
    }
}

/// A rule that a case has broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Which rule.
    pub rule: Rule,
    /// What was seen.
    pub what: String,
}

/// What was measured of the server in one case.
pub(super) struct Measured {
    pub(super) memory: u64,
    pub(super) cpu: Duration,
    pub(super) log: String,
}

/// Collects breaches, and what the server used.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) breaches: Vec<Breach>,
    pub(super) memory: u64,
    pub(super) cpu: Duration,
}

impl Judge {
    pub(super) fn breach(&mut self, rule: Rule, what: impl Into<String>) {
        self.breaches.push(Breach { rule, what: what.into() });
    }

    /// The tree before and after, for a key that may change what is below `part`.
    pub(super) fn tree(&mut self, right: Right, before: &Manifest, after: &Manifest, part: &str) {
        let writes = right.allows(Action::Create);
        let may = if writes { vec![part.into()] } else { Vec::new() };
        let in_root = |line: &str| !writes && line.starts_with(ROOT);
        for line in after.changes(before, &may).into_iter().take(LINES_MAX) {
            self.breach(if in_root(&line) { Rule::Rights } else { Rule::Outside }, line);
        }
        if !writes {
            return;
        }
        for (path, was) in before.0.iter().filter(|(path, _)| path.starts_with(part)) {
            let Some(is) = after.0.get(path) else {
                if !right.allows(Action::Delete) {
                    self.breach(Rule::Rights, format!("{} was removed", path.display()));
                }
                continue;
            };
            let is_directory = was.mode & KIND == DIRECTORY && is.mode & KIND == DIRECTORY;
            let content = |fact: &Fact| (fact.content.clone(), fact.inode);
            if !right.allows(Action::Replace) && !is_directory && content(was) != content(is) {
                self.breach(Rule::Rights, format!("{} was replaced", path.display()));
            }
            let attributes = |fact: &Fact| (fact.mode, fact.owner, fact.modified);
            // A new entry changes the time of its directory.
            if !right.allows(Action::SetAttributes) && !is_directory && attributes(was) != attributes(is) {
                self.breach(Rule::Rights, format!("the attributes of {} were changed", path.display()));
            }
        }
    }

    /// What the server said: no secrets, and sentences. `reads` is whether the client may be told content.
    pub(super) fn answers(&mut self, right: Right, reads: bool, played: &Played) {
        let mut told = Told { right, judge: self, reads };
        let mut scratch = Vec::new();
        for message in &played.messages {
            told.value(message);
            if let Some(packed) = message["entries"].as_str().and_then(|text| STANDARD.decode(text).ok()) {
                let unpacked = zstd::bulk::decompress(&packed, LISTING_MAX).unwrap_or_default();
                told.bytes(&unpacked, "a listing");
            }
            if let Some(chunk) = message["object"].as_str().and_then(|text| STANDARD.decode(text).ok()) {
                told.chunk(&chunk, &mut scratch);
            }
        }
        for chunk in played.chunks.values() {
            told.chunk(chunk, &mut scratch);
        }
        for message in &played.messages {
            for member in ["message", "reason", "text"] {
                if let Some(text) = message[member].as_str() {
                    self.sentence(text, member);
                }
            }
        }
        if played.garbage > 0 {
            self.breach(Rule::Sentence, format!("{} frames of the server are no messages", played.garbage));
        }
    }

    /// A text for people.
    fn sentence(&mut self, text: &str, member: &str) {
        let shown = text.escape_debug().to_string();
        let bad = match text {
            "" => Some("is empty"),
            _ if text.chars().any(char::is_control) => Some("has control characters"),
            _ if text.chars().count() > SENTENCE_CHARS_MAX => Some("is too long to be read"),
            _ if OWN_FAULT.iter().any(|word| text.contains(word)) => Some("is about a fault of ours"),
            _ if !text.contains(' ') => Some("is no sentence"),
            _ => None,
        };
        if let Some(bad) = bad {
            let shown: String = shown.chars().take(300).collect();
            self.breach(Rule::Sentence, format!("a {member} {bad}: {shown}"));
        }
    }

    /// What the server used, and wrote to its log.
    pub(super) fn server(&mut self, measured: &Measured) {
        (self.memory, self.cpu) = (measured.memory, measured.cpu);
        if measured.memory > MEMORY_MAX {
            let mib = measured.memory >> 20;
            self.breach(Rule::Memory, format!("{mib} MiB were used, of {} promised", MEMORY_MAX >> 20));
        }
        if measured.cpu > CPU_MAX {
            self.breach(Rule::Time, format!("{:.1} s of CPU were used", measured.cpu.as_secs_f64()));
        }
        for line in measured.log.lines() {
            let is_bad =
                line.chars().any(char::is_control) || OWN_FAULT.iter().any(|word| line.contains(word));
            if is_bad {
                let shown: String = line.escape_debug().to_string().chars().take(300).collect();
                self.breach(Rule::Sentence, format!("the log has: {shown}"));
            }
        }
    }
}

/// Looks for what may not be told.
struct Told<'a> {
    right: Right,
    judge: &'a mut Judge,
    /// Whether names and content may be told.
    reads: bool,
}

impl Told<'_> {
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.bytes(text.as_bytes(), "a message");
                if let Ok(bytes) = STANDARD.decode(text) {
                    self.bytes(&bytes, "a message");
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.value(item)),
            Value::Object(members) => members.values().for_each(|member| self.value(member)),
            _ => {}
        }
    }

    fn chunk(&mut self, chunk: &[u8], scratch: &mut Vec<u8>) {
        self.bytes(chunk, "a chunk");
        if verify(chunk, scratch).is_ok() {
            let unpacked = std::mem::take(scratch);
            self.bytes(&unpacked, "a chunk");
            *scratch = unpacked;
        }
    }

    fn bytes(&mut self, bytes: &[u8], place: &str) {
        let has = |word: &str| contains(bytes, word.as_bytes());
        let mut seen = BTreeMap::new();
        seen.insert(OUTSIDE, Rule::Secrecy);
        if self.right.part {
            seen.insert(BESIDE, Rule::Secrecy);
        }
        if !self.reads {
            seen.extend([(BESIDE, Rule::Rights), (INSIDE, Rule::Rights), (NAME, Rule::Rights)]);
        }
        for (word, rule) in seen {
            if has(word) {
                self.judge.breach(rule, format!("{word} was told in {place}"));
            }
        }
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == word[0]) {
        if rest[at..].starts_with(word) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}
