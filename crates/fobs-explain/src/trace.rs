//! A record as a file: JSON objects, one a line (docs/explain.md describes them for other programs).

use super::journal;
use super::journal::{At, Journal, Measured};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};

/// Version of the format: it grows when a member changes its meaning or goes away, not when one is added.
pub const TRACE_VERSION: u32 = 1;
/// Longest file that is written, bytes: 2048 samples of each end of up to 1.2 KiB, 1024 windows of up to 6.5
/// KiB.
pub const TRACE_BYTES_MAX: usize = 12 << 20;
/// Longest line that is read, bytes. The longest that is written, a window of losses with 256 runs, has under
/// 8 KiB.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Sources that a record names, and characters of each name: together less than a line.
pub const SOURCES_NAMED_MAX: usize = 8;
const NAME_CHARS_MAX: usize = 512;
/// Most lines that are read: a full journal, the first line and the last.
const LINES_MAX: usize = 2 * journal::SAMPLES_MAX
    + journal::LOSSES_MAX
    + journal::REMEDIES_MAX
    + journal::MODES_MAX
    + journal::WAYS_MAX
    + 2;

/// The session's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Head {
    /// A word of [`fobs_model::event::control`], or `tcp` of another program's connection.
    pub control: String,
    /// `udp`.
    pub transport: String,
    /// Cipher of the data plane.
    pub cipher: String,
    /// Name of the congestion controller.
    pub cc: String,
    /// What is copied.
    #[serde(flatten)]
    pub subject: Subject,
}

impl Head {
    /// Whether the record is of a program of another make: it names no cipher of ours.
    pub fn is_of_another(&self) -> bool {
        self.transport == "tcp" && self.cipher.is_empty()
    }
}

/// What is copied, for people who read the record later.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// The first sources as they were given, at most [`SOURCES_NAMED_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// How many sources there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub source_count: u64,
    /// The destination as it was given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// The host that ran the copy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// When it began, seconds since 1970; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub began_unix_s: u64,
}

impl Subject {
    /// Of a copy that begins now: names beyond what a record keeps are cut.
    pub fn new(sources: &[String], destination: &str, host: &str, began_unix_s: u64) -> Subject {
        let cut = |text: &str| text.chars().take(NAME_CHARS_MAX).collect::<String>();
        Subject {
            sources: sources.iter().take(SOURCES_NAMED_MAX).map(|source| cut(source)).collect(),
            source_count: sources.len() as u64,
            destination: cut(destination),
            host: cut(host),
            began_unix_s,
        }
    }
}

/// Serde passes members by reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The outcome of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum End {
    /// Everything that could be copied was.
    Done {
        /// File bytes verified.
        bytes: u64,
        /// Data phase: first data packet to last verified chunk.
        seconds: f64,
        /// Data bytes per packet at the end.
        packet_size: u16,
        /// Seconds by which the deadline was met, below 0 if it was missed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_margin_s: Option<f64>,
    },
    /// The transfer failed.
    Failed {
        /// One sentence.
        message: String,
    },
}

/// The record of a finished transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The session's parameters.
    pub head: Head,
    /// What was measured.
    pub journal: Journal,
    /// The outcome.
    pub end: End,
}

/// Why a file cannot be read as a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It could not be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Its first line is not that of a trace.
    #[error("its first line is not that of a trace; give a file that fobs cp --trace wrote")]
    NotATrace,
    /// Its version is unknown to this program.
    #[error(
        "it has version {0} of the format and this fobs knows version {TRACE_VERSION}; use the fobs that wrote it, or a newer one"
    )]
    Version(u32),
    /// A line is malformed.
    #[error("line {line} is broken ({why}); the file was damaged or changed")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The reader's error, in a few words.
        why: String,
    },
    /// The last line is missing.
    #[error("its end is missing; the file was cut off, copy it again")]
    CutOff,
}

#[derive(Serialize, Deserialize)]
struct First {
    record: FirstTag,
    v: u32,
    #[serde(flatten)]
    head: Head,
}

#[derive(Serialize, Deserialize)]
enum FirstTag {
    #[serde(rename = "trace")]
    Trace,
}

#[derive(Deserialize)]
struct VersionOnly {
    #[allow(dead_code, reason = "only its presence and value of `record` matter")]
    record: FirstTag,
    v: u32,
}

#[derive(Serialize, Deserialize)]
struct Last {
    record: LastTag,
    #[serde(flatten)]
    end: End,
}

#[derive(Serialize, Deserialize)]
enum LastTag {
    #[serde(rename = "end")]
    End,
}

impl Trace {
    /// Writes the lines, at most [`TRACE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, mut out: impl Write) -> std::io::Result<()> {
        write_line(&mut out, &First { record: FirstTag::Trace, v: TRACE_VERSION, head: self.head.clone() })?;
        for entry in self.journal.all() {
            write_line(&mut out, &entry)?;
        }
        write_line(&mut out, &Last { record: LastTag::End, end: self.end.clone() })?;
        out.flush()
    }

    /// Reads what [`write`](Self::write) wrote. Records of an unknown kind, from newer programs, are skipped.
    ///
    /// # Errors
    /// [`TraceError`]. Any input is read without a panic and with no more memory than a journal takes.
    pub fn read(input: impl Read) -> Result<Trace, TraceError> {
        let mut input = BufReader::new(input);
        let mut text = Vec::new();
        if !next_line(&mut input, &mut text, 1)? {
            return Err(TraceError::NotATrace);
        }
        let version: VersionOnly = serde_json::from_slice(&text).map_err(|_| TraceError::NotATrace)?;
        if version.v != TRACE_VERSION {
            return Err(TraceError::Version(version.v));
        }
        let first: First = serde_json::from_slice(&text).map_err(|_| TraceError::NotATrace)?;
        let mut journal = Journal::new();
        for line in 2..=LINES_MAX {
            if !next_line(&mut input, &mut text, line)? {
                return Err(TraceError::CutOff);
            }
            let broken = |error: serde_json::Error| TraceError::Line { line, why: error.to_string() };
            let kind: Kind = serde_json::from_slice(&text).map_err(broken)?;
            match kind.record.as_str() {
                "end" => {
                    let last: Last = serde_json::from_slice(&text).map_err(broken)?;
                    return Ok(Trace { head: first.head, journal, end: last.end });
                }
                "sender" | "receiver" | "loss" | "remedy" | "mode" | "way" => {
                    let entry: At<Measured> = serde_json::from_slice(&text).map_err(broken)?;
                    journal.push(entry);
                }
                _ => {}
            }
        }
        Err(TraceError::Line { line: LINES_MAX, why: "there are more than a trace has".to_owned() })
    }
}

#[derive(Deserialize)]
struct Kind {
    record: String,
}

/// Reads the next line without its end; false at the end of the file. A line without an end was cut off.
fn next_line(input: &mut impl BufRead, text: &mut Vec<u8>, line: usize) -> Result<bool, TraceError> {
    text.clear();
    let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', text)?;
    match text.pop() {
        None => Ok(false),
        Some(b'\n') => Ok(true),
        Some(_) if read as u64 == LINE_BYTES_MAX => {
            Err(TraceError::Line { line, why: format!("it is longer than {LINE_BYTES_MAX} bytes") })
        }
        Some(_) if line == 1 => Err(TraceError::NotATrace),
        Some(_) => Err(TraceError::CutOff),
    }
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(value).map_err(std::io::Error::from)?;
    text.push(b'\n');
    out.write_all(&text)
}
