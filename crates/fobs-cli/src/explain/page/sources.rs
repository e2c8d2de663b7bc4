//! The foot of the page: how the data went, who measured what, and when the page was drawn.

use std::time::SystemTime;

use fobs::explain::Trace;
use maud::{Markup, html};

use super::subject::date;

pub(super) fn footer(trace: &Trace) -> Markup {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let drawn = date(now).map(|now| format!(" on {now}")).unwrap_or_default();
    html! {
        footer {
            @if let Some(session) = session(trace) { p { (session) } }
            p { (measured(trace)) }
            p { "Drawn by fobs " (env!("CARGO_PKG_VERSION")) (drawn) ". docs/explain.md says how the limit is found." }
        }
    }
}

/// The session in a sentence; nothing of a record without one.
fn session(trace: &Trace) -> Option<String> {
    let head = &trace.head;
    if head.is_of_another() {
        let carrier = if head.control == "ssh" { ", within ssh" } else { "" };
        return Some(format!("This copy: by another program ({}), data over TCP{carrier}.", head.cc));
    }
    let parts = [
        ("control channel over ", &head.control),
        ("data over ", &head.transport),
        ("encrypted with ", &head.cipher),
        ("congestion controller ", &head.cc),
    ];
    let parts = parts.iter().filter(|(_, word)| !word.is_empty());
    let text = parts.map(|(what, word)| format!("{what}{word}")).collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then(|| format!("This copy: {text}."))
}

/// Who measured what.
fn measured(trace: &Trace) -> String {
    let journal = &trace.journal;
    let (sender, receiver) = (journal.sender().len(), journal.receiver().len());
    if trace.head.is_of_another() {
        return format!(
            "Sources: {sender} looks at the program's processes and at its TCP connections, from this end alone."
        );
    }
    let windows = match journal.losses().len() {
        0 => String::new(),
        1 => ", and 1 window of losses".to_owned(),
        count => format!(", and {count} windows of losses"),
    };
    format!(
        "Sources: {sender} samples of the sender and {receiver} of the receiver{windows}, taken during the copy."
    )
}
