//! The page of a trace: one HTML file with SVG, without scripts and without anything from the net.

use std::fmt::Write;

use fobs::cause::LossVerdict;
use fobs::explain::{At, Explanation, SenderSample, Trace};

use crate::units::{show_rate, show_share};

const STYLE: &str = include_str!("page.css");
/// Size of a chart and of its margins, SVG units.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 92.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 12.0;
/// Height of a bar, and of a column's cells in the heat map.
const BAR: f64 = 22.0;
const CELL: f64 = 5.0;
/// Cells of a column of the heat map: which part of a window they show.
const CELLS: usize = 24;
/// Most columns: of more windows, as many from each stretch of time.
const COLUMNS_MAX: usize = 240;
/// Colours that differ for those who see few, and in both colour schemes.
const BLUE: &str = "#3b7dd8";
const ORANGE: &str = "#e08a1e";
const RED: &str = "#d1495b";
const GREY: &str = "#8a94a3";

/// The page.
pub fn page(trace: &Trace, why: &Explanation) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Why this copy was not faster</title>\n\
         <style>\n{STYLE}</style></head><body>\n<h1>{}</h1>\n",
        escaped(&why.sentence)
    );
    if !why.fix.is_empty() {
        paragraph(&mut page, "What would help", &why.fix);
    }
    if !why.evidence.is_empty() {
        paragraph(&mut page, "Why we think so", &format!("{}.", why.evidence.join("; ")));
    }
    let losses =
        why.losses.iter().map(|loss| format!("{} {} ({})", loss.packets, name(loss.cause), loss.evidence));
    let losses: Vec<String> = losses.collect();
    if !losses.is_empty() {
        paragraph(&mut page, "Lost packets", &format!("{}.", losses.join("; ")));
    }
    if !why.remedies.is_empty() {
        paragraph(&mut page, "What was done", &format!("{}.", why.remedies.join("; ")));
    }
    budget(&mut page, why);
    over_time(&mut page, trace.journal.sender());
    heat_map(&mut page, trace);
    let head = &trace.head;
    let session =
        [&head.control, &head.transport, &head.cipher, &head.cc].map(|word| escaped(word)).join(", ");
    let _ = writeln!(page, "<p class=\"key\">{session}</p>\n</body></html>");
    page
}

// Writing to a string cannot fail: its results are left alone in this file.

fn paragraph(page: &mut String, name: &str, text: &str) {
    let _ = writeln!(page, "<p><strong>{name}:</strong> {}</p>", escaped(text));
}

fn name(cause: LossVerdict) -> &'static str {
    match cause {
        LossVerdict::Receiver => "the receiver's",
        LossVerdict::Network => "the network's",
        LossVerdict::Inconclusive => "of an unclear cause",
    }
}

fn colour(cause: LossVerdict) -> &'static str {
    match cause {
        LossVerdict::Receiver => ORANGE,
        LossVerdict::Network => BLUE,
        LossVerdict::Inconclusive => GREY,
    }
}

fn budget(page: &mut String, why: &Explanation) {
    let (rows, names) = (why.budget.len(), 190.0);
    let height = rows as f64 * (BAR + 4.0) + 4.0;
    let _ = writeln!(page, "<h2>Where the time went</h2>\n<svg viewBox=\"0 0 {WIDTH} {height}\">");
    for (row, spent) in why.budget.iter().enumerate() {
        let y = row as f64 * (BAR + 4.0);
        let width = (WIDTH - names - 110.0) * spent.share;
        let _ = writeln!(
            page,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{names}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{BLUE}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{} ({:.2} s)</text>",
            names - 8.0,
            y + BAR * 0.7,
            spent.stage.name(),
            names + width + 6.0,
            y + BAR * 0.7,
            show_share(spent.share),
            spent.seconds,
        );
    }
    page.push_str("</svg>\n");
}

/// A curve's points: seconds and value.
type Points = Vec<(f64, f64)>;

fn over_time(page: &mut String, samples: &[At<SenderSample>]) {
    let each = |value: &dyn Fn(&SenderSample, f64) -> f64| -> Points {
        let pairs = samples.windows(2).filter_map(|pair| {
            let since = pair[1].what.since(&pair[0].what);
            let seconds = since.time_us as f64 / 1e6;
            (seconds > 0.0).then(|| (pair[1].what.time_us as f64 / 1e6, value(&since, seconds)))
        });
        pairs.collect()
    };
    let bits = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds;
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) };
    chart(
        page,
        "Throughput",
        &[
            ("sent", ORANGE, each(&|s, t| bits(s.bytes_sent, t))),
            ("arrived", BLUE, each(&|s, t| bits(s.bytes_acked, t))),
        ],
        &|value| show_rate(value),
    );
    chart(
        page,
        "Round trip",
        &[
            ("newest", BLUE, each(&|s, _| s.rtt_us as f64 / 1e3)),
            ("smallest", GREY, each(&|s, _| s.rtt_min_us as f64 / 1e3)),
        ],
        &|value| format!("{value:.1} ms"),
    );
    chart(
        page,
        "Loss",
        &[
            ("lost", RED, each(&|s, _| share(s.packets_lost, s.packets_sent))),
            ("dropped at the receiver's socket", ORANGE, each(&|s, _| share(s.socket_drops, s.packets_sent))),
        ],
        &|value| show_share(value),
    );
}

fn chart(page: &mut String, title: &str, curves: &[(&str, &str, Points)], shown: &dyn Fn(f64) -> String) {
    let points = || curves.iter().flat_map(|(_, _, points)| points);
    let end = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let _ = write!(page, "<h2>{title}</h2>\n<p class=\"key\">");
    for (name, colour, _) in curves {
        let _ = write!(page, "<b style=\"background:{colour}\"></b>{name}");
    }
    let _ = writeln!(page, "</p>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\">");
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - 8.0) * ratio(seconds, end);
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * ratio(value, top);
    for (share, label) in [(0.0, shown(0.0)), (0.5, shown(top / 2.0)), (1.0, shown(top))] {
        let at = y(share * top);
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - 8.0,
            LEFT - 6.0,
            at + 4.0
        );
    }
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        let _ = writeln!(
            page,
            "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{:.1} s</text>",
            x(share * end),
            HEIGHT - 6.0,
            share * end
        );
    }
    for (_, colour, points) in curves {
        let _ = write!(page, "<polyline class=\"curve\" stroke=\"{colour}\" points=\"");
        for (seconds, value) in points {
            let _ = write!(page, "{:.1},{:.1} ", x(*seconds), y(*value));
        }
        page.push_str("\"/>\n");
    }
    page.push_str("</svg>\n");
}

/// Each judged window is a column, from its first packet (above) to its last; the darker a cell, the more was lost in it.
fn heat_map(page: &mut String, trace: &Trace) {
    let windows = trace.journal.losses();
    if windows.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>Loss signatures</h2>\n<p class=\"key\">");
    for cause in [LossVerdict::Receiver, LossVerdict::Network, LossVerdict::Inconclusive] {
        let _ = write!(page, "<b style=\"background:{}\"></b>{}", colour(cause), name(cause));
    }
    let step = windows.len().div_ceil(COLUMNS_MAX);
    let columns = windows.len().div_ceil(step);
    let width = (WIDTH - 16.0) / columns as f64;
    let height = CELLS as f64 * CELL;
    let _ = writeln!(page, "</p>\n<svg viewBox=\"0 0 {WIDTH} {height}\">");
    for (column, window) in windows.iter().step_by(step).enumerate() {
        let cells = density(&window.what.runs, window.what.packets);
        let x = 8.0 + column as f64 * width;
        for (row, share) in cells.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let _ = writeln!(
                page,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{CELL}\" fill=\"{}\" fill-opacity=\"{:.2}\"/>",
                row as f64 * CELL,
                width.max(1.0),
                colour(window.what.verdict),
                0.25 + 0.75 * share
            );
        }
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height}\" stroke-opacity=\"0.4\"/>"
        );
    }
    page.push_str("</svg>\n");
}

/// Share of the packets lost in each of [`CELLS`] equal parts of a window.
fn density(runs: &[(u32, u32)], packets: u32) -> [f64; CELLS] {
    let mut lost = [0.0; CELLS];
    let cell = (f64::from(packets) / CELLS as f64).max(1.0);
    let mut place = 0.0;
    for &(received, run) in runs {
        place += f64::from(received);
        let end = place + f64::from(run);
        // A run that lies in several cells counts in each as far as it lies in it.
        for (index, share) in lost.iter_mut().enumerate() {
            let (low, high) = (index as f64 * cell, (index + 1) as f64 * cell);
            *share += (end.min(high) - place.max(low)).max(0.0) / cell;
        }
        place = end;
    }
    lost.map(|share| share.min(1.0))
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Text of a peer or of a file, as text of the page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs::explain::{End, Head, Journal, Measured, explain};

    #[test]
    fn a_page_escapes_what_others_wrote_and_loads_nothing() {
        let mut journal = Journal::new();
        for step in 0..5u64 {
            let sample = SenderSample {
                time_us: step * 100_000,
                bytes_sent: step * 1_000_000,
                bytes_acked: step * 900_000,
                state: "<script>".to_owned(),
                ..SenderSample::default()
            };
            journal.push(At { at_us: step * 100_000, what: Measured::Sender(sample) });
        }
        let trace = Trace {
            head: Head { cc: "<b onload=x>".to_owned(), ..Head::default() },
            journal,
            end: End::Failed { message: "broken".to_owned() },
        };
        let page = page(&trace, &explain(&trace));
        assert!(page.contains("&lt;b onload=x&gt;") && !page.contains("<b onload"));
        for foreign in ["<script", "src=", "href=", "http", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn runs_fall_into_their_cells() {
        let cells = density(&[(0, 10), (220, 10)], 240);
        assert_eq!(cells[0], 1.0);
        assert_eq!(cells[23], 1.0);
        assert!(cells[1..23].iter().all(|share| *share == 0.0), "{cells:?}");
        let halves = density(&[(5, 10)], 240);
        assert_eq!((halves[0], halves[1]), (0.5, 0.5));
        assert!(density(&[(0, u32::MAX)], 0).iter().all(|share| share.is_finite()));
    }
}
