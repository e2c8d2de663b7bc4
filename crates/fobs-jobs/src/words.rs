//! A job in words, for lists and pages. They are what a user has typed and a program has said: who shows them
//! takes care of letters that a terminal or a page obeys.

use std::time::Duration;

use fobs_page::figures::{show_bytes, show_clock, show_moment, show_rate};

use crate::job::Phase;
use crate::keeper::JobView;

/// Its name, or its command.
pub fn title(job: &JobView) -> String {
    if job.spec.name.is_empty() { job.spec.command() } else { job.spec.name.clone() }
}

/// The part of what it knows of that is moved, percent.
pub fn percent(job: &JobView) -> Option<u64> {
    let figures = job.figures.as_ref().filter(|figures| figures.bytes_known > 0)?;
    Some((figures.bytes as f64 * 100.0 / figures.bytes_known as f64).clamp(0.0, 100.0) as u64)
}

/// What it does, or why it does nothing.
pub fn does(job: &JobView) -> String {
    let standing = &job.standing;
    if let Some(figures) = &job.figures {
        let percent = percent(job).map(|percent| format!("{percent}%, ")).unwrap_or_default();
        let left = figures.eta_s.filter(|eta| eta.is_finite() && *eta >= 0.0);
        let left = left.map(|eta| format!(", {} left", show_clock(Duration::from_secs(eta.min(1e9) as u64))));
        return format!(
            "{percent}{} at {}{}",
            show_bytes(figures.bytes),
            show_rate(figures.rate_bps),
            left.unwrap_or_default()
        );
    }
    if let (Some(why), false) = (&job.why, standing.phase == Phase::Running) {
        let until = job.reason.as_ref().and_then(|reason| reason.until_ms());
        let until = until.map(|until| format!(" at {}", show_moment(until))).unwrap_or_default();
        let last = standing.message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default();
        return format!("{why}{until}{last}");
    }
    let when = standing.ended_ms.map(|ended| format!("{}: ", show_moment(ended))).unwrap_or_default();
    match (&standing.message, standing.phase) {
        (Some(message), _) => format!("{when}{message}"),
        (None, Phase::Done) => format!("{when}done"),
        (None, _) => when.trim_end_matches(": ").to_owned(),
    }
}
