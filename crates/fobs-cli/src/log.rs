//! The log of `fobs serve` on standard error: a sentence a line, or with `--log-json` an object a line.
//!
//! What is said stands in the library ([`fobs_daemon::Server`]); here it is only written.

use std::fmt::{self, Debug};
use std::io;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use crate::output::printable;

/// Set by systemd where standard error goes to its journal, which records the time itself.
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// `TIME fobs: SENTENCE`; without the time in a journal.
    Text,
    /// `{"timestamp": ..., "level": ..., "message": SENTENCE, "event": ..., ...}`.
    Json,
}

/// From here on, what the library logs goes to standard error.
pub fn install(form: LogForm) {
    let ours = || tracing_subscriber::registry().with(Targets::new().with_target("fobs", LevelFilter::INFO));
    let base = layer().with_writer(io::stderr).log_internal_errors(false);
    // Fails only if a subscriber is installed already, and this is the only place that does it.
    let _ = match form {
        LogForm::Json => {
            let json = base.json().flatten_event(true).with_target(false);
            tracing::subscriber::set_global_default(ours().with(json))
        }
        LogForm::Text => {
            let text = Text { has_time: !is_journal(std::env::var(JOURNAL_VARIABLE).ok().as_deref()) };
            tracing::subscriber::set_global_default(ours().with(base.event_format(text)))
        }
    };
}

/// Whether standard error is the stream of systemd's journal: the variable holds its device and inode, and is
/// inherited by processes whose standard error is another one.
fn is_journal(variable: Option<&str>) -> bool {
    let Some((device, inode)) = variable.and_then(|text| text.split_once(':')) else { return false };
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|stat| stat.st_dev.to_string() == device && stat.st_ino.to_string() == inode)
}

struct Text {
    has_time: bool,
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.has_time {
            SystemTime.format_time(&mut out)?;
            out.write_char(' ')?;
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        writeln!(out, "fobs: {}", printable(&message.0))
    }
}

/// The sentence of a record.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_journals_own_stream_is_without_times() {
        let stat = rustix::fs::fstat(io::stderr()).expect("standard error");
        let ours = format!("{}:{}", stat.st_dev, stat.st_ino);
        let another = format!("{}:{}", stat.st_dev, stat.st_ino ^ 1);
        assert!(is_journal(Some(&ours)));
        for variable in [None, Some(""), Some("8"), Some(&*another)] {
            assert!(!is_journal(variable), "{variable:?}");
        }
    }
}
