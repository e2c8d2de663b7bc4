//! Marks of series: seven colours times seven shapes, so that all marks of a figure differ.

use std::f64::consts::TAU;

use plotters::prelude::*;

use super::super::palette;
use super::DrawError;
use super::canvas::{AnyError, Area, FINE, stroke, svg};

/// Half the size of a mark, pixels.
const RADIUS: f64 = 4.0;

/// The shapes: number of corners, rotation (in full turns), filled or not.
const SHAPES: [(Shape, Filling); 7] = [
    (Shape::Disc, Filling::Full),
    (Shape::Polygon { corners: 4, turn: 0.125 }, Filling::Full),
    (Shape::Polygon { corners: 3, turn: 0.75 }, Filling::Full),
    (Shape::Polygon { corners: 4, turn: 0.0 }, Filling::Full),
    (Shape::Polygon { corners: 3, turn: 0.25 }, Filling::Full),
    (Shape::Disc, Filling::Rim),
    (Shape::Polygon { corners: 4, turn: 0.125 }, Filling::Rim),
];

#[derive(Clone, Copy)]
enum Shape {
    Disc,
    Polygon { corners: u32, turn: f64 },
}

#[derive(Clone, Copy, PartialEq)]
enum Filling {
    Full,
    Rim,
}

/// Draws the mark of the `series`th series at a point (units of the drawing).
pub fn mark(area: &Area, series: usize, at: (i32, i32)) -> Result<(), AnyError> {
    let colour = palette::series(series).colour();
    // The next seven series repeat the colours with other shapes.
    let (shape, filling) = SHAPES[(series + series / palette::SERIES.len()) % SHAPES.len()];
    let radius = RADIUS * f64::from(FINE);
    let rim = stroke(colour, 1.5);
    match (shape, filling) {
        (Shape::Disc, Filling::Full) => area.draw(&Circle::new(at, radius as i32, colour.filled()))?,
        (Shape::Disc, Filling::Rim) => area.draw(&Circle::new(at, radius as i32, rim))?,
        (Shape::Polygon { corners, turn }, _) => {
            // A polygon looks smaller than its circumscribed disc.
            let reach = radius * 1.25;
            let corner = |index: u32| {
                let angle = (f64::from(index) / f64::from(corners) + turn) * TAU;
                (at.0 + (reach * angle.cos()) as i32, at.1 + (reach * angle.sin()) as i32)
            };
            match filling {
                Filling::Full => {
                    area.draw(&Polygon::new((0..corners).map(corner).collect::<Vec<_>>(), colour.filled()))?;
                }
                Filling::Rim => {
                    area.draw(&PathElement::new((0..=corners).map(corner).collect::<Vec<_>>(), rim))?;
                }
            }
        }
    }
    Ok(())
}

/// Whether a series' line has marks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// One at each point.
    Points,
    /// None, since there are too many points.
    Nothing,
}

/// A small drawing of a series' line and mark, for the legend.
pub fn legend_mark(series: usize, marked: Marked) -> Result<String, DrawError> {
    const SIZE: (i32, i32) = (26, 14);
    let (middle, end) = (SIZE.1 * FINE / 2, SIZE.0 * FINE);
    let drawn = svg(SIZE, |area| {
        let line = stroke(palette::series(series).colour(), 2.0);
        area.draw(&PathElement::new(vec![(0, middle), (end, middle)], line))?;
        match marked {
            Marked::Points => mark(area, series, (end / 2, middle)),
            Marked::Nothing => Ok(()),
        }
    });
    drawn.map_err(|error| DrawError(error.to_string()))
}
