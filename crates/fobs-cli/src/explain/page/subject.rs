//! What a page is about: the copy, its size, its hosts and when it ran.

use fobs::explain::{End, Trace};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::units::{show_bytes, show_clock};
use std::time::Duration;

/// The title of the browser's window or tab.
pub(super) fn title(trace: &Trace) -> String {
    match what(trace) {
        Some(what) => format!("{what}: what limited this copy"),
        None => "What limited this copy".to_owned(),
    }
}

/// The copy in two lines; nothing that an older record does not have.
pub(super) fn header(trace: &Trace) -> Markup {
    let subject = &trace.head.subject;
    let facts: Vec<String> =
        [size(trace), date(subject.began_unix_s), ran_on(&subject.host)].into_iter().flatten().collect();
    html! {
        header {
            @if let Some(what) = what(trace) {
                p.what { (what) @if !subject.destination.is_empty() { " \u{2192} " (subject.destination) } }
            }
            @if !facts.is_empty() { p.facts { (facts.join(" \u{b7} ")) } }
        }
    }
}

/// The sources: the first, and how many more.
fn what(trace: &Trace) -> Option<String> {
    let subject = &trace.head.subject;
    let first = subject.sources.first()?;
    Some(match subject.source_count {
        0 | 1 => first.clone(),
        count => format!("{first} and {} more", count - 1),
    })
}

fn size(trace: &Trace) -> Option<String> {
    match &trace.end {
        End::Done { bytes, seconds, .. } => {
            let time = match *seconds {
                s if s < 60.0 => format!("{s:.1} s"),
                s => show_clock(Duration::try_from_secs_f64(s).unwrap_or_default()),
            };
            Some(format!("{} in {time}", show_bytes(*bytes)))
        }
        End::Failed { .. } => None,
    }
}

/// Date and time here, to the minute.
pub(super) fn date(unix_s: u64) -> Option<String> {
    let at = Timestamp::from_second(i64::try_from(unix_s).ok().filter(|s| *s > 0)?).ok()?;
    Some(at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M %Z").to_string())
}

fn ran_on(host: &str) -> Option<String> {
    (!host.is_empty()).then(|| format!("run on {host}"))
}
