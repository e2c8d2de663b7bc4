//! Loss signatures: where in each judged window packets were lost.

use fobs::cause::{LossVerdict, LossWindow};
use fobs::explain::{At, LossCause};
use maud::{Markup, html};

use fobs_page::{Colour, Size, at, key};

/// Cells of a column: parts of a window.
const CELLS: usize = 24;
/// Height of a cell, widest column, and the margins, SVG units.
const CELL: f64 = 5.0;
const COLUMN_MAX: f64 = 24.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 16.0;
const BOTTOM: f64 = 24.0;
/// Most columns: of more windows, one from each stretch of as many.
const COLUMNS_MAX: usize = 240;
/// Opacity of a cell with one loss; a cell that lost everything is opaque.
const FAINT: f64 = 0.25;

/// All verdicts, in the order of the legend.
const VERDICTS: &[LossVerdict] = &[LossVerdict::Receiver, LossVerdict::Network, LossVerdict::Inconclusive];

fn colour(cause: LossVerdict) -> Colour {
    match cause {
        LossVerdict::Receiver => Colour::Orange,
        LossVerdict::Network => Colour::Blue,
        LossVerdict::Inconclusive => Colour::Grey,
    }
}

/// Each judged window as a column, its first packet at the top; nothing without windows.
pub(super) fn map(windows: &[At<LossWindow>]) -> Markup {
    let step = windows.len().div_ceil(COLUMNS_MAX).max(1);
    let columns: Vec<&LossWindow> = windows.iter().step_by(step).map(|window| &window.what).collect();
    html! {
        @if !columns.is_empty() {
            section {
                h2 { "Loss signatures" }
                p.legend {
                    "Each column is a window of packets in which some were lost, its first packet at the top; "
                    "the stronger a cell's colour, the more was lost there. Scattered cells are chance, full "
                    "stretches are a queue or a socket that overflowed. The colour is the place that the "
                    "pattern speaks for."
                }
                p.keys {
                    @for verdict in VERDICTS.iter().filter(|it| columns.iter().any(|w| w.verdict == **it)) {
                        (key(colour(*verdict), LossCause::place(*verdict)))
                    }
                }
                @for &size in Size::ALL { (drawing(size, &columns)) }
            }
        }
    }
}

fn drawing(size: Size, columns: &[&LossWindow]) -> Markup {
    let width = ((size.width() - LEFT - RIGHT) / columns.len().max(1) as f64).min(COLUMN_MAX);
    let (right, bottom) = (LEFT + width * columns.len() as f64, CELLS as f64 * CELL);
    html! {
        @if let (Some(first), Some(last)) = (columns.first(), columns.last()) {
            svg class=(size.class()) viewBox=(format!("0 0 {} {}", size.width(), bottom + BOTTOM)) role="img"
                aria-label="Loss signatures" {
                text.name x=(at(LEFT - 8.0)) y="11" text-anchor="end" { "first packet" }
                text.name x=(at(LEFT - 8.0)) y=(at(bottom)) text-anchor="end" { "last packet" }
                line.axis x1=(at(LEFT)) x2=(at(LEFT)) y1="0" y2=(at(bottom)) {}
                line.axis x1=(at(LEFT)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
                @for (place, window) in columns.iter().enumerate() {
                    (column(LEFT + width * place as f64, width, window))
                }
                text x=(at(LEFT)) y=(at(bottom + 17.0)) { (format!("{:.1} s", first.seconds)) }
                @if columns.len() > 4 {
                    text x=(at(right)) y=(at(bottom + 17.0)) text-anchor="end" {
                        (format!("{:.1} s", last.seconds))
                    }
                }
            }
        }
    }
}

fn column(x: f64, width: f64, window: &LossWindow) -> Markup {
    let cells = density(&window.runs, window.packets);
    html! {
        g class=(colour(window.verdict).class()) {
            title {
                (format!("at {:.1} s: {} of {} packets lost", window.seconds, window.lost, window.packets))
            }
            @for (row, share) in cells.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                rect x=(at(x)) y=(at(row as f64 * CELL)) width=(at(width.max(1.0))) height=(at(CELL))
                    fill-opacity=(format!("{:.2}", FAINT + (1.0 - FAINT) * share)) {}
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
