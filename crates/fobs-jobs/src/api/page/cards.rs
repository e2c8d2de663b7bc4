//! One job as it stands on the page.

use fobs_page::{Chart, Colour, Curve, Unit};
use maud::{Markup, html};

use crate::job::Phase;
use crate::keeper::{Shown, Tried};
use crate::words;

/// Longest text of a card, characters: a job's words may have 256 KiB.
const TEXT_MAX: usize = 400;

/// What a button of a card does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Pause,
    Resume,
    Cancel,
    Retry,
    Why,
}

impl Act {
    /// The verb of the API; of an explanation, what the script knows it by.
    fn name(self) -> &'static str {
        match self {
            Act::Pause => "pause",
            Act::Resume => "resume",
            Act::Cancel => "cancel",
            Act::Retry => "retry",
            Act::Why => "why",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Act::Pause => "Pause",
            Act::Resume => "Resume",
            Act::Cancel => "Cancel",
            Act::Retry => "Retry",
            Act::Why => "Explain the rate",
        }
    }
}

fn acts(job: &Shown) -> Vec<Act> {
    let mut acts = match job.view.standing.phase {
        Phase::Running => vec![Act::Pause, Act::Cancel],
        Phase::Waiting if job.view.standing.failures > 0 => vec![Act::Retry, Act::Pause, Act::Cancel],
        Phase::Waiting => vec![Act::Pause, Act::Cancel],
        Phase::Paused => vec![Act::Resume, Act::Cancel],
        Phase::Done => vec![],
        Phase::Failed | Phase::Cancelled => vec![Act::Retry],
    };
    if job.is_explained {
        acts.push(Act::Why);
    }
    acts
}

/// A job, as an element that the script puts into its place.
pub(super) fn card(job: &Shown) -> Markup {
    let view = &job.view;
    let phase = view.standing.phase;
    let (title, command) = (cut(&words::title(view)), cut(&view.spec.command()));
    let name = format!("job-{}-name", view.id);
    html! {
        li.job id={ "job-" (view.id) } data-phase=(phase.name()) data-title=(title) {
            article aria-labelledby=(name) {
                h3 id=(name) tabindex="-1" { span.number { (view.id) } " " (title) }
                @if command != title { p.command { code { (command) } } }
                p.state { span class={ "phase " (phase.name()) } { (phase.name()) } " " (cut(&words::does(view))) }
                @if let Some(percent) = words::percent(view) {
                    progress max="100" value=(percent) aria-label={ "job " (view.id) ": part that is copied" } {}
                }
                @if let Some(tried) = &job.tried { (attempt(tried, phase)) }
                div.acts {
                    @for act in acts(job) {
                        button type="button" data-act=(act.name()) data-job=(view.id)
                            aria-label={ (act.title()) ", job " (view.id) } { (act.title()) }
                    }
                }
            }
        }
    }
}

/// The limit of the newest attempt in its sentence, and its rate over time: in sight while it runs.
fn attempt(tried: &Tried, phase: Phase) -> Markup {
    let chart = chart(tried);
    html! {
        @if let Some(limit) = &tried.limit { p.limited { (cut(limit)) } }
        @if chart.is_seen() {
            @if phase == Phase::Running {
                div.rate { (chart.figure()) }
            } @else {
                details.rate {
                    summary { "Rate of attempt " (tried.number) }
                    (chart.figure())
                }
            }
        }
    }
}

fn chart(tried: &Tried) -> Chart {
    let points = tried.rates.iter().map(|point| (point.at_ms as f64 / 1000.0, point.bps as f64)).collect();
    Chart {
        title: "Rate over time",
        legend: "",
        time: "seconds since the attempt began",
        unit: Unit::BitsPerSecond,
        curves: vec![Curve { name: "verified data", colour: Colour::Blue, points }],
    }
}

/// A text of bounded length.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}
