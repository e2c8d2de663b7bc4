//! The time budget as bars.

use fobs::explain::Spent;
use maud::{Markup, html};

use crate::units::show_share;

/// A bar for each stage; nothing without stages. In HTML and not SVG, so that names keep their size.
pub(super) fn budget(budget: &[Spent]) -> Markup {
    html! {
        @if !budget.is_empty() {
            section {
                h2 { "Where the time went" }
                p.keys { "Each moment of the sending thread, once: together they are the whole time of the copy." }
                div.bars role="img" aria-label="Where the time went" {
                    @for spent in budget { (bar(spent)) }
                }
            }
        }
    }
}

fn bar(spent: &Spent) -> Markup {
    let width = format!("width: {:.1}%", 100.0 * spent.share.clamp(0.0, 1.0));
    html! {
        div.bar {
            span.stage { (spent.stage.name()) small { (spent.stage.meaning()) } }
            div.track { div.fill style=(width) {} }
            span.figure { (show_share(spent.share)) " (" (format!("{:.2}", spent.seconds)) " s)" }
        }
    }
}
