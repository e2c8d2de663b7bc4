//! A heat map: series are rows, places are columns, each cell shows its value.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::figure::Figure;
use super::super::palette::{self, EMPTY, TEXT};
use super::super::panel::Panel;
use super::super::words::number;
use super::canvas::{AnyError, FINE, LETTERS, WIDTH, font, svg, width_of, write};

/// Height of a row, pixels.
const ROW: i32 = 24;
/// Space around a cell, units of the drawing.
const GAP: i32 = FINE;
/// Maximum width of the rows' names, as a share of the total width.
const NAMES_MAX: f64 = 0.45;

pub fn draw(figure: &Figure, panel: &Panel) -> Result<String, AnyError> {
    let (columns, rows) = (panel.places.len() as i32, panel.series.len() as i32);
    let header = (LETTERS * 3.4) as i32;
    let greatest = panel.values().chain(figure.y.full_scale()).fold(f64::MIN_POSITIVE, f64::max);
    svg((WIDTH, header + rows * ROW + 4), |area| {
        let longest = panel.series.iter().map(|series| width_of(&series.label)).fold(0.0, f64::max);
        let left = ((longest + 8.0).min(f64::from(WIDTH) * NAMES_MAX) * f64::from(FINE)) as i32;
        let cell = (WIDTH * FINE - left) / columns.max(1);
        let (font_text, centred) = (font(TEXT.colour()), (HPos::Center, VPos::Center));
        let title = figure.x_label.clone().unwrap_or_else(|| figure.x.title());
        let line = (LETTERS * 0.85) as i32 * FINE;
        write(area, &title, &font_text, (left + cell * columns / 2, line), centred)?;
        for (column, place) in panel.places.iter().enumerate() {
            let middle = left + cell * column as i32 + cell / 2;
            write(area, &place.label, &font_text, (middle, header * FINE - line), centred)?;
        }
        for (row, series) in panel.series.iter().enumerate() {
            let top = (header + row as i32 * ROW) * FINE;
            let centre = top + ROW * FINE / 2;
            let name = (left - 6 * FINE, centre);
            write(area, &series.label, &font_text, name, (HPos::Right, VPos::Center))?;
            for (column, spread) in series.points.iter().enumerate() {
                let x = left + cell * column as i32;
                let corners = [(x + GAP, top + GAP), (x + cell - GAP, top + ROW * FINE - GAP)];
                let Some(spread) = spread else {
                    area.draw(&Rectangle::new(corners, EMPTY.colour().filled()))?;
                    continue;
                };
                let (ground, text) = palette::heat(spread.median / greatest);
                area.draw(&Rectangle::new(corners, ground.filled()))?;
                write(area, &number(spread.median), &font(text), (x + cell / 2, centre), centred)?;
            }
        }
        Ok(())
    })
}
