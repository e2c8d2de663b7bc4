//! Draws panels as SVG.
//!
//! `plotters` writes the SVG; contents, positions and colours are defined here and in the submodules. The
//! drawing is `FINE` times larger than shown, since the backend only draws whole pixels. Panels are narrow,
//! so that text remains readable when one fills the width of a phone.

pub mod axis;
mod bars;
pub mod canvas;
mod heat;
mod lines;
mod marks;

use super::figure::{Figure, Kind};
use super::panel::Panel;

pub use marks::{Marked, legend_mark};

/// Why a drawing could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the figure: {0}")]
pub struct DrawError(String);

/// One panel as an `<svg>` element.
pub fn draw(figure: &Figure, panel: &Panel) -> Result<String, DrawError> {
    let svg = match figure.kind {
        Kind::Line => lines::over_places(figure, panel),
        Kind::Time => lines::over_time(figure, panel),
        Kind::Bar => bars::draw(figure, panel),
        Kind::Heat => heat::draw(figure, panel),
    };
    svg.map_err(|error| DrawError(error.to_string()))
}
