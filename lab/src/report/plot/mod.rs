//! Draws panels as SVG.
//!
//! `plotters` makes the SVG; what is drawn, where and in which colour is decided here and in the modules
//! below. The drawing is made [`FINE`] times larger than it is shown, since the backend draws whole pixels
//! only. Text keeps its size relative to the drawing, so panels are narrow: on a phone one fills the width
//! and can still be read.

pub mod axis;
mod bars;
pub mod canvas;
mod heat;
mod lines;
mod marks;

use super::figure::{Figure, Kind};
use super::panel::Panel;

pub use marks::{Marked, legend_mark};

/// The error of a drawing that could not be made.
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
