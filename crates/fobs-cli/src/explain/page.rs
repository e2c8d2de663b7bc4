//! The page of a trace: one HTML file with SVG charts, without scripts and without anything from the network.
//!
//! maud writes the charts too, as SVG elements, so the installed program links no plotting library.

mod bars;
mod losses;
mod signatures;
mod sources;
mod subject;
#[cfg(test)]
mod tests;

use fobs::explain::{At, End, Explanation, LossCause, SenderSample, Trace};
use fobs_page::{Chart, Colour, Curve, STYLE, Unit};
use maud::{Markup, PreEscaped, html};

use crate::units::show_rate;

/// Below the axis of time.
const SINCE: &str = "seconds since the sender's session began";

/// The page, complete.
pub fn page(trace: &Trace, why: &Explanation) -> String {
    let page = html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (subject::title(trace)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (subject::header(trace))
                h1 { (why.advice()) }
                p.limit { (why.sentence) }
                (findings(trace, why))
                (bars::budget(&why.budget))
                @for chart in over_time(trace.journal.sender()) { (chart.draw()) }
                (signatures::map(trace.journal.losses()))
                (sources::footer(trace))
            }
        }
    };
    page.into_string()
}

/// What the text of the explanation has, as a list of terms.
fn findings(trace: &Trace, why: &Explanation) -> Markup {
    let losses = why
        .losses
        .iter()
        .map(|loss| format!("{} {} ({})", loss.packets, LossCause::place(loss.cause), loss.evidence));
    let losses: Vec<String> = losses.collect();
    html! {
        dl {
            @if let End::Failed { message } = &trace.end { dt { "The copy failed" } dd { (message) } }
            @if why.decide.is_some() && !why.fix.is_empty() { dt { "What would probably help" } dd { (why.fix) } }
            @if let Some(forecast) = &why.fobs { dt { "What fobs would make of this path" } dd { (forecast) } }
            (listed("Why we think so", &why.evidence))
            (listed("Lost packets", &losses))
            (listed("Remedies for losses at the receiver", &why.remedies))
            @if why.goodput_bps > 0.0 { dt { "Rate" } dd { (show_rate(why.goodput_bps)) " of file data" } }
        }
    }
}

/// A term with its lines; nothing without lines.
fn listed(name: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            dt { (name) }
            dd { @for line in lines { p { (line) } } }
        }
    }
}

/// The charts over time, from the differences of neighbouring samples.
fn over_time(samples: &[At<SenderSample>]) -> [Chart; 3] {
    let each = |name, colour, value: &dyn Fn(&SenderSample, f64) -> Option<f64>| {
        let points = samples.windows(2).filter_map(|pair| {
            let since = pair[1].what.since(&pair[0].what);
            let seconds = since.time_us as f64 / 1e6;
            let value = (seconds > 0.0).then(|| value(&since, seconds)).flatten();
            value.map(|value| (pair[1].what.time_us as f64 / 1e6, value))
        });
        Curve { name, colour, points: points.collect() }
    };
    let bits = |bytes: u64, seconds: f64| Some(bytes as f64 * 8.0 / seconds);
    // Until a round trip is known there is none to draw.
    let trip = |micros: u64| (micros > 0).then_some(micros as f64 / 1e3);
    let lost = |name, colour, count: fn(&SenderSample) -> u64| Curve {
        name,
        colour,
        points: losses::where_sent(samples, count),
    };
    [
        Chart {
            title: "Throughput",
            legend: "What left the sender, in packets or over streams, sent again included, and what the receiver \
                     has said to have. The space between them is lost or in flight.",
            time: SINCE,
            unit: Unit::BitsPerSecond,
            curves: vec![
                each("sent", Colour::Orange, &|s, t| bits(s.bytes_sent.saturating_add(s.bytes_framed), t)),
                each("acknowledged", Colour::Blue, &|s, t| bits(s.bytes_delivered(), t)),
            ],
        },
        Chart {
            title: "Round trip",
            legend: "From a packet to its acknowledgement. What stands above the smallest is time in queues.",
            time: SINCE,
            unit: Unit::Milliseconds,
            curves: vec![
                each("newest", Colour::Blue, &|s, _| trip(s.rtt_us)),
                each("smallest so far", Colour::Grey, &|s, _| trip(s.rtt_min_us)),
            ],
        },
        Chart {
            title: "Loss, where the packets were sent",
            legend: "The part of the packets sent at that time that did not arrive. What the receiver's socket \
                     dropped is the receiver's; the rest was lost on the path.",
            time: SINCE,
            unit: Unit::Share,
            curves: vec![
                lost("lost", Colour::Red, |s| s.packets_lost),
                lost("dropped at the receiver's socket", Colour::Orange, |s| s.socket_drops),
            ],
        },
    ]
}
