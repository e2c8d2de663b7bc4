//! The time budget as bars.

use fobs::explain::Spent;
use maud::{Markup, html};

use super::{WIDTH, at};
use crate::units::show_share;

/// Height of a bar and distance of two, SVG units.
const BAR: f64 = 20.0;
const PITCH: f64 = 26.0;
/// Room for the stages' names on the left and for the figures on the right.
const NAMES: f64 = 190.0;
const FIGURES: f64 = 120.0;

/// A bar for each stage; nothing without stages.
pub(super) fn budget(budget: &[Spent]) -> Markup {
    let height = budget.len() as f64 * PITCH;
    html! {
        @if !budget.is_empty() {
            section {
                h2 { "Where the time went" }
                svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label="Where the time went" {
                    @for (row, spent) in budget.iter().enumerate() { (bar(row as f64 * PITCH, spent)) }
                }
            }
        }
    }
}

fn bar(y: f64, spent: &Spent) -> Markup {
    let width = (WIDTH - NAMES - FIGURES) * spent.share.clamp(0.0, 1.0);
    let baseline = at(y + BAR * 0.7);
    html! {
        text.name x=(at(NAMES - 10.0)) y=(baseline) text-anchor="end" { (spent.stage.name()) }
        rect.blue x=(at(NAMES)) y=(at(y)) width=(at(width.max(1.0))) height=(at(BAR)) rx="2" {}
        text x=(at(NAMES + width + 8.0)) y=(baseline) {
            (show_share(spent.share)) " (" (format!("{:.2}", spent.seconds)) " s)"
        }
    }
}
