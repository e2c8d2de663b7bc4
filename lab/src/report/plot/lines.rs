//! Lines over places or over time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::figure::{Figure, Scale};
use super::super::palette::{AXIS, TEXT, series as ink};
use super::super::panel::{Panel, Series};
use super::super::words::number;
use super::axis::Axis;
use super::canvas::{
    AnyError, Area, FINE, Frame, Grid, HEIGHT, LETTER_WIDTH, LETTERS, WIDTH, font, frame, stroke, svg, write,
};
use super::marks::mark;

/// Width of the vertical axis, pixels: an estimate for choosing tick labels.
const BESIDE: i32 = 70;
/// Half the width of a whisker's end, pixels.
const WHISKER: f64 = 3.0;

pub fn over_places(figure: &Figure, panel: &Panel) -> Result<String, AnyError> {
    svg((WIDTH, HEIGHT), |area| {
        let title = figure.x_label.clone().unwrap_or_else(|| figure.x.title());
        let (length, letter) = (f64::from(WIDTH - BESIDE), LETTERS * LETTER_WIDTH);
        let x = Axis::of_places(&title, &panel.places, figure.x_scale, length, letter);
        let y = value_axis(figure, panel, figure.y.title());
        let chart = frame(area, &x, &y, Grid::Across)?;
        references(area, &chart, figure, panel, &y)?;
        for (index, series) in panel.series.iter().enumerate() {
            let colour = ink(index).colour();
            let points =
                series.points.iter().enumerate().filter_map(|(place, spread)| Some((place, (*spread)?)));
            // A logarithmic axis has no zero: such a point is omitted.
            let points = points.filter(|(_, spread)| figure.y_scale != Scale::Log || spread.min > 0.0);
            let mut middles = Vec::new();
            for (place, spread) in points {
                let at = x.place(&panel.places, place, figure.x_scale);
                let pixel = |value: f64| chart.backend_coord(&(at, y.position(value)));
                let (low, middle, high) = (pixel(spread.min), pixel(spread.median), pixel(spread.max));
                middles.push(middle);
                if spread.count > 1 {
                    whisker(area, low, high, stroke(colour, 1.2))?;
                }
            }
            area.draw(&PathElement::new(middles.clone(), stroke(colour, 2.0)))?;
            for middle in middles {
                mark(area, index, middle)?;
            }
        }
        Ok(())
    })
}

pub fn over_time(figure: &Figure, panel: &Panel) -> Result<String, AnyError> {
    svg((WIDTH, HEIGHT), |area| {
        let seconds = panel.series.iter().flat_map(|series| series.course.iter().map(|[at, _]| *at));
        let x = Axis::of_values("Time (s)", seconds, Scale::Linear, None);
        let y = value_axis(figure, panel, figure.y.course_title());
        let chart = frame(area, &x, &y, Grid::Across)?;
        references(area, &chart, figure, panel, &y)?;
        for (index, series) in panel.series.iter().enumerate() {
            let pixel = |[at, value]: &[f64; 2]| chart.backend_coord(&(x.position(*at), y.position(*value)));
            let line: Vec<(i32, i32)> = series.course.iter().map(pixel).collect();
            area.draw(&PathElement::new(line, stroke(ink(index).colour(), 1.6)))?;
        }
        Ok(())
    })
}

/// The vertical axis, for all values shown including references.
fn value_axis(figure: &Figure, panel: &Panel, title: &str) -> Axis {
    let values = panel.values().chain(figure.reference.iter().map(|reference| reference.y));
    Axis::of_values(title, values, figure.y_scale, figure.y.full_scale())
}

/// A whisker from minimum to maximum, with end lines.
fn whisker(area: &Area, low: (i32, i32), high: (i32, i32), style: ShapeStyle) -> Result<(), AnyError> {
    let half = (WHISKER * f64::from(FINE)) as i32;
    area.draw(&PathElement::new(vec![low, high], style))?;
    for (x, y) in [low, high] {
        area.draw(&PathElement::new(vec![(x - half, y), (x + half, y)], style))?;
    }
    Ok(())
}

/// Dashed reference lines, each with its name where most space is: above or below the line, at its left or
/// right end.
fn references(area: &Area, chart: &Frame, figure: &Figure, panel: &Panel, y: &Axis) -> Result<(), AnyError> {
    /// Number of dashes and gaps across the whole panel.
    const DASHES: u32 = 48;
    /// Distance from the line to the middle of its name, as a share of the panel's height.
    const BESIDE_LINE: f64 = 0.045;
    for reference in &figure.reference {
        let level = y.position(reference.y);
        let at = |x: f64| chart.backend_coord(&(x, level));
        for dash in 0..DASHES {
            let ends = [f64::from(dash), f64::from(dash) + 0.55].map(|step| at(step / f64::from(DASHES)));
            area.draw(&PathElement::new(ends.to_vec(), stroke(AXIS.colour(), 1.3)))?;
        }
        let ends: Vec<[f64; 2]> = panel
            .series
            .iter()
            .filter_map(Series::ends)
            .map(|ends| ends.map(|value| y.position(value)))
            .collect();
        // Distance of the nearest series from the middle of the name; no space outside the panel.
        let room = |end: usize, middle: f64| {
            let inside = (BESIDE_LINE..=1.0 - BESIDE_LINE).contains(&middle);
            let nearest = ends.iter().map(|ends| (ends[end] - middle).abs()).fold(1.0, f64::min);
            if inside { nearest } else { -1.0 }
        };
        let spots = [(1, VPos::Bottom), (1, VPos::Top), (0, VPos::Bottom), (0, VPos::Top)];
        let room_at = |(end, side): &(usize, VPos)| match side {
            VPos::Bottom => room(*end, level + BESIDE_LINE),
            VPos::Top | VPos::Center => room(*end, level - BESIDE_LINE),
        };
        // `max_by` returns the last of equal values: the first choice, above right, comes last.
        let best = spots.into_iter().rev().max_by(|a, b| room_at(a).total_cmp(&room_at(b)));
        let (end, side) = best.unwrap_or((1, VPos::Bottom));
        let (anchor, inwards) = if end == 0 { (HPos::Left, 3 * FINE) } else { (HPos::Right, -2 * FINE) };
        let (x, line) = at(end as f64);
        let gap = if matches!(side, VPos::Bottom) { -FINE } else { 2 * FINE };
        let text = format!("{}: {}", reference.label, number(reference.y));
        write(area, &text, &font(TEXT.colour()), (x + inwards, line + gap), (anchor, side))?;
    }
    Ok(())
}
