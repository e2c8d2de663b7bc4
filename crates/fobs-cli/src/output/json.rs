//! `--json`: one JSON object per line, for programs.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fobs::event::{Event, EventSink, FileError, OtherEntries, Outcome, Progress, Summary};
use fobs::explain::Explanation;
use fobs::{Error, ErrorKind};
use serde::{Serialize, Serializer};

use super::Reporter;

/// Version of the lines: increases when a member changes its meaning or is removed, not when one is added.
const VERSION: u8 = 1;
/// Time between two `progress` lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Reports events as JSON lines.
pub struct Json<W> {
    state: Mutex<JsonWriter<W>>,
}

struct JsonWriter<W> {
    out: W,
    last_progress: Option<Instant>,
    stage: Stage,
}

enum Stage {
    Open,
    /// The last line is written, or the pipe is closed.
    Closed,
    /// Writing failed; later lines are lost.
    Failed(io::Error),
}

impl<W: Write> Json<W> {
    /// Writes to `out`, line by line.
    pub fn new(out: W) -> Json<W> {
        Json { state: Mutex::new(JsonWriter { out, last_progress: None, stage: Stage::Open }) }
    }

    /// What was written.
    #[cfg(test)]
    pub fn into_inner(self) -> W {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).out
    }
}

impl<W: Write> JsonWriter<W> {
    fn write(&mut self, event: Line) {
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        let line = serde_json::to_vec(&Versioned { v: VERSION, event }).map_err(io::Error::from);
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            self.out.write_all(&line)?;
            self.out.flush()
        });
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.stage = Stage::Closed,
            Err(error) => self.stage = Stage::Failed(error),
        }
    }

    /// Whether a progress line is due at this time.
    fn progress_due(&mut self, now: Instant) -> bool {
        let due =
            self.last_progress.is_none_or(|last| now.saturating_duration_since(last) >= PROGRESS_INTERVAL);
        if due {
            self.last_progress = Some(now);
        }
        due
    }
}

impl<W: Write + Send> EventSink for Json<W> {
    fn event(&self, event: Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &event {
            Event::Started { control, key_exchange, transport, cipher, cc, .. } => {
                state.write(Line::Start { control, key_exchange: *key_exchange, transport, cipher, cc });
            }
            Event::Progress(progress) if state.progress_due(Instant::now()) => {
                state.write(Line::Progress(progress.into()));
            }
            Event::FileDone { path, bytes, root } => {
                state.write(Line::File { path: path.as_slice().into(), bytes: *bytes, root: hex(root) });
            }
            Event::FileFailed(error) => state.write(Line::Error(error.into())),
            Event::Changed { changes, path, .. } => {
                state.write(Line::Changed { changes, path: path.as_slice().into() });
            }
            Event::Deleted { path, .. } => state.write(Line::Deleted { path: path.as_slice().into() }),
            Event::Notice(message) => state.write(Line::Notice { message }),
            // In the trace and the explanation; what the sender itself removes is known from `file`.
            _ => {}
        }
    }
}

impl<W: Write + Send> Reporter for Json<W> {
    fn finish(&self, outcome: &Outcome, why: Option<&Explanation>) -> fobs::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(match outcome {
            Ok(summary) => Line::Done(Box::new(DoneLine { explain: why, ..summary.into() })),
            Err(Error { kind, message, .. }) => {
                Line::Failed { code: kind.code(), message, exit_code: kind.exit_code() }
            }
        });
        match std::mem::replace(&mut state.stage, Stage::Closed) {
            Stage::Open | Stage::Closed => Ok(()),
            Stage::Failed(error) => {
                let message =
                    format!("cannot write --json lines to standard output: {error}; the last lines are lost");
                Err(Error::new(ErrorKind::FileIo, message))
            }
        }
    }
}

#[derive(Serialize)]
struct Versioned<'a> {
    v: u8,
    #[serde(flatten)]
    event: Line<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    Start {
        control: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        key_exchange: Option<&'a str>,
        transport: &'a str,
        cipher: &'a str,
        cc: &'a str,
    },
    Progress(ProgressLine<'a>),
    File {
        #[serde(flatten)]
        path: Path<'a>,
        bytes: u64,
        root: String,
    },
    Error(FailedFile<'a>),
    Changed {
        changes: &'a str,
        #[serde(flatten)]
        path: Path<'a>,
    },
    Deleted {
        #[serde(flatten)]
        path: Path<'a>,
    },
    Notice {
        message: &'a str,
    },
    Done(Box<DoneLine<'a>>),
    Failed {
        code: &'a str,
        message: &'a str,
        exit_code: u8,
    },
}

/// A path of any bytes: as text, and in base64 where it is not UTF-8.
#[derive(Serialize)]
struct Path<'a> {
    path: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

impl<'a> From<&'a [u8]> for Path<'a> {
    fn from(path: &'a [u8]) -> Self {
        let exact = std::str::from_utf8(path).is_ok();
        Path { path: String::from_utf8_lossy(path), path_base64: (!exact).then(|| STANDARD.encode(path)) }
    }
}

#[derive(Serialize)]
struct FailedFile<'a> {
    #[serde(flatten)]
    path: Path<'a>,
    message: &'a str,
}

impl<'a> From<&'a FileError> for FailedFile<'a> {
    fn from(FileError { path, message }: &'a FileError) -> Self {
        FailedFile { path: path.as_slice().into(), message }
    }
}

#[derive(Serialize)]
struct ProgressLine<'a> {
    #[serde(flatten)]
    path: Path<'a>,
    bytes: u64,
    bytes_known: u64,
    scan_complete: bool,
    files: u64,
    #[serde(serialize_with = "finite")]
    rate_bps: f64,
    #[serde(serialize_with = "finite")]
    rtt_ms: f64,
    #[serde(serialize_with = "finite")]
    loss_rate: f64,
    #[serde(serialize_with = "finite")]
    waste: f64,
    streams: u32,
}

impl<'a> From<&'a Progress> for ProgressLine<'a> {
    fn from(progress: &'a Progress) -> Self {
        // Without `..`: a member added there must be added here.
        let Progress {
            path,
            bytes,
            bytes_known,
            scan_complete,
            files,
            rate_bps,
            rtt_ms,
            loss_rate,
            waste,
            streams,
        } = progress;
        ProgressLine {
            path: path.as_deref().unwrap_or_default().into(),
            bytes: *bytes,
            bytes_known: *bytes_known,
            scan_complete: *scan_complete,
            files: *files,
            rate_bps: *rate_bps,
            rtt_ms: rtt_ms.unwrap_or(0.0),
            loss_rate: *loss_rate,
            waste: *waste,
            streams: *streams,
        }
    }
}

#[derive(Serialize)]
struct DoneLine<'a> {
    bytes: u64,
    resumed_bytes: u64,
    files: u64,
    #[serde(flatten)]
    others: OtherEntries,
    #[serde(serialize_with = "finite")]
    seconds: f64,
    #[serde(serialize_with = "finite")]
    seconds_total: f64,
    #[serde(serialize_with = "finite")]
    goodput_bps: f64,
    packets_needed: u64,
    packets_sent: u64,
    #[serde(serialize_with = "finite")]
    waste: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_margin_s: Option<f64>,
    #[serde(serialize_with = "finite")]
    rtt_ms_min: f64,
    #[serde(serialize_with = "finite")]
    loss_rate: f64,
    socket_drops: u64,
    datagrams_rejected: u64,
    packet_size: u16,
    cc: &'a str,
    transport: &'a str,
    streams: u32,
    cipher: &'a str,
    root: &'a str,
    max_rss_bytes: u64,
    #[serde(serialize_with = "finite")]
    cpu_seconds: f64,
    #[serde(serialize_with = "finite")]
    cpu_seconds_peer: f64,
    max_rss_bytes_peer: u64,
    #[serde(skip_serializing_if = "is_zero")]
    deletions_left: u64,
    errors: Vec<FailedFile<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<&'a Explanation>,
}

impl<'a> From<&'a Summary> for DoneLine<'a> {
    fn from(summary: &'a Summary) -> Self {
        // Without `..`: a member added there must be added here.
        let Summary {
            bytes,
            resumed_bytes,
            files,
            others,
            seconds,
            seconds_total,
            goodput_bps,
            packets_needed,
            packets_sent,
            waste,
            deadline_margin_s,
            rtt_ms_min,
            loss_rate,
            socket_drops,
            datagrams_rejected,
            packet_size,
            cc,
            transport,
            streams,
            cipher,
            root,
            max_rss_bytes,
            cpu_seconds,
            cpu_seconds_peer,
            max_rss_bytes_peer,
            deletions_left,
            errors,
        } = summary;
        DoneLine {
            bytes: *bytes,
            resumed_bytes: *resumed_bytes,
            files: *files,
            others: *others,
            seconds: *seconds,
            seconds_total: *seconds_total,
            goodput_bps: *goodput_bps,
            packets_needed: *packets_needed,
            packets_sent: *packets_sent,
            waste: *waste,
            deadline_margin_s: *deadline_margin_s,
            rtt_ms_min: rtt_ms_min.unwrap_or(0.0),
            loss_rate: *loss_rate,
            socket_drops: *socket_drops,
            datagrams_rejected: *datagrams_rejected,
            packet_size: *packet_size,
            cc,
            transport,
            streams: *streams,
            cipher,
            root,
            max_rss_bytes: *max_rss_bytes,
            cpu_seconds: *cpu_seconds,
            cpu_seconds_peer: *cpu_seconds_peer,
            max_rss_bytes_peer: *max_rss_bytes_peer,
            deletions_left: *deletions_left,
            errors: errors.iter().map(FailedFile::from).collect(),
            explain: None,
        }
    }
}

/// JSON has no infinity and no NaN (0 bytes in 0 seconds): they become 0.
fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(if value.is_finite() { *value } else { 0.0 })
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
