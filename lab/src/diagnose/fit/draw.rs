//! Figures 4, 5 and 6 of paper 001, drawn of the windows that were fitted.

use std::fs;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::curve::BAND_95;
use super::{COMPLEXITY_FROM, Fit, LOSS_RATE_MAX, Row, Side, SideFit};
use crate::report::figure::Scale;
use crate::report::palette::{TEXT, series};
use crate::report::plot::axis::Axis;
use crate::report::plot::canvas::{
    AnyError, Area, FINE, Frame, Grid, HEIGHT, LETTERS, WIDTH, font, frame, stroke, svg, width_of, write,
};

/// Windows of each side that figure 4 shows: more would cover each other.
const SHOWN: usize = 250;
/// Bars of figure 5 from 0 to 1.
const BARS: usize = 50;
/// Points of a curve of figure 6.
const POINTS: usize = 80;
/// Windows that a bin needs for a mean with an error bar.
const MEAN_MIN: usize = 3;
/// Height of a title with the legend below it, pixels.
const HEAD: i32 = 40;
/// The axis of loss rates is in percent.
const PERCENT: f64 = 100.0;
/// Which windows figure 4 shows.
const SEED: u64 = 1;

/// Draws the three figures of a fit into a directory.
///
/// # Errors
/// One sentence that names the file.
pub fn figures(fit: &Fit, rows: &[Row], folder: &Path) -> Result<(), String> {
    let drawn = [("complexity", complexity(fit, rows)), ("success", success(fit)), ("fits", fits(fit))];
    for (name, svg) in drawn {
        let path = folder.join(format!("{name}-{}.svg", fit.packets));
        let written = svg
            .map_err(|error| error.to_string())
            .and_then(|svg| fs::write(&path, svg).map_err(|error| error.to_string()));
        written.map_err(|error| format!("cannot draw {}: {error}", path.display()))?;
    }
    Ok(())
}

impl Side {
    fn label(self) -> &'static str {
        match self {
            Side::Network => "network contention",
            Side::Receiver => "CPU contention",
        }
    }

    fn colour(self) -> RGBColor {
        match self {
            Side::Network => series(1).colour(),
            Side::Receiver => series(0).colour(),
        }
    }
}

/// Complexity over the loss rate, of the windows of all scenarios: what the paper did not measure, too.
fn complexity(fit: &Fit, rows: &[Row]) -> Result<String, AnyError> {
    let title = format!("Complexity of {}-packet windows (001, figure 4)", fit.packets);
    let mut random = Pcg64::seed_from_u64(SEED);
    let points = Side::BOTH.map(|side| {
        let inside = |row: &&Row| (COMPLEXITY_FROM..=LOSS_RATE_MAX).contains(&row.loss_rate);
        let these = rows.iter().filter(|row| row.side == Some(side)).filter(inside);
        let mut points: Vec<(f64, f64)> = these.map(|row| (row.loss_rate, row.complexity)).collect();
        points.shuffle(&mut random);
        points.truncate(SHOWN);
        points
    });
    let (x, y) = (loss_axis(), value_axis("C1", points.iter().flatten().map(|(_, complexity)| *complexity)));
    figure(&title, &Side::BOTH.map(|side| (side, side.label().to_owned())), (&x, &y), |area, chart| {
        for (side, points) in Side::BOTH.iter().zip(&points) {
            for (loss_rate, complexity) in points {
                let at = chart.backend_coord(&(x.position(PERCENT * loss_rate), y.position(*complexity)));
                area.draw(&Circle::new(at, FINE * 3 / 2, side.colour().mix(0.6).filled()))?;
            }
        }
        Ok(())
    })
}

/// How often each success proportion occurs, in windows with loss rates of 0.008% to 0.05%.
fn success(fit: &Fit) -> Result<String, AnyError> {
    let shares = fit.sides.each_ref().map(|side| {
        let mut bars = [0.0; BARS];
        for success in &side.successes {
            let bar = ((success * BARS as f64) as usize).min(BARS - 1);
            bars[bar] += 1.0 / side.successes.len() as f64;
        }
        bars
    });
    let legend: Vec<(Side, String)> = fit
        .sides
        .iter()
        .map(|side| (side.side, format!("{} ({})", side.side.label(), side.successes.len())))
        .collect();
    let x = Axis::of_values("success proportion", [0.0].into_iter(), Scale::Linear, Some(1.0));
    let y = value_axis("share of windows", shares.iter().flatten().copied());
    let title = "Success proportion at low loss rates (001, figure 5)";
    figure(title, &legend, (&x, &y), |area, chart| {
        for (side, bars) in fit.sides.iter().zip(&shares) {
            for (index, share) in bars.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let edge = |index: usize| x.position(index as f64 / BARS as f64);
                let top = chart.backend_coord(&(edge(index), y.position(*share)));
                let bottom = chart.backend_coord(&(edge(index + 1), y.position(0.0)));
                area.draw(&Rectangle::new([top, bottom], side.side.colour().mix(0.7).filled()))?;
            }
        }
        Ok(())
    })
}

/// The fitted curves with their 95% bands, and the mean of each bin with its 95% interval.
fn fits(fit: &Fit) -> Result<String, AnyError> {
    let title = format!("Fits to {}-packet windows (001, figure 6)", fit.packets);
    let grid: Vec<f64> = (0..POINTS)
        .map(|n| COMPLEXITY_FROM * (LOSS_RATE_MAX / COMPLEXITY_FROM).powf(n as f64 / (POINTS - 1) as f64))
        .collect();
    let highest =
        fit.sides.iter().flat_map(|side| grid.iter().map(|x| side.curve.at(*x) + side.curve.band(*x)));
    let (x, y) = (loss_axis(), value_axis("C1", highest));
    figure(&title, &Side::BOTH.map(|side| (side, side.label().to_owned())), (&x, &y), |area, chart| {
        for side in &fit.sides {
            let place = |(loss_rate, value): (f64, f64)| {
                chart.backend_coord(&(x.position(PERCENT * loss_rate), y.position(value.max(0.0))))
            };
            let (curve, colour) = (&side.curve, side.side.colour());
            let upper = grid.iter().map(|x| place((*x, curve.at(*x) + curve.band(*x))));
            let lower = grid.iter().rev().map(|x| place((*x, curve.at(*x) - curve.band(*x))));
            area.draw(&Polygon::new(upper.chain(lower).collect::<Vec<_>>(), colour.mix(0.25).filled()))?;
            let line: Vec<(i32, i32)> = grid.iter().map(|x| place((*x, curve.at(*x)))).collect();
            area.draw(&PathElement::new(line, stroke(colour, 2.0)))?;
            means(area, side, place)?;
        }
        Ok(())
    })
}

fn means(area: &Area, side: &SideFit, place: impl Fn((f64, f64)) -> (i32, i32)) -> Result<(), AnyError> {
    for bin in side.bins().iter().filter(|bin| bin.complexities.len() >= MEAN_MIN) {
        let count = bin.complexities.len() as f64;
        let mean = bin.complexities.iter().sum::<f64>() / count;
        let squares: f64 = bin.complexities.iter().map(|value| (value - mean).powi(2)).sum();
        let error = BAND_95 * (squares / (count - 1.0)).sqrt() / count.sqrt();
        let at = (bin.low * bin.high).sqrt();
        let colour = side.side.colour();
        let whisker = [place((at, mean - error)), place((at, mean + error))];
        area.draw(&PathElement::new(whisker.to_vec(), stroke(colour, 1.2)))?;
        area.draw(&Circle::new(place((at, mean)), 2 * FINE, colour.filled()))?;
    }
    Ok(())
}

fn loss_axis() -> Axis {
    let ends = [COMPLEXITY_FROM, LOSS_RATE_MAX].map(|rate| PERCENT * rate);
    Axis::of_values("loss rate (%)", ends.into_iter(), Scale::Log, None)
}

fn value_axis(title: &str, values: impl Iterator<Item = f64>) -> Axis {
    Axis::of_values(title, values, Scale::Linear, None)
}

/// A title, a legend, and below them a panel with two axes on a white ground, which `draw` fills.
fn figure(
    title: &str,
    legend: &[(Side, String)],
    (x, y): (&Axis, &Axis),
    draw: impl FnOnce(&Area, &Frame) -> Result<(), AnyError>,
) -> Result<String, AnyError> {
    svg((WIDTH, HEIGHT + HEAD), |area| {
        area.fill(&WHITE)?;
        let letters = font(TEXT.colour());
        write(area, &title, &letters, (WIDTH / 2 * FINE, 4 * FINE), (HPos::Center, VPos::Top))?;
        let mut from = 60;
        for (side, label) in legend {
            let line = LETTERS as i32 + 16;
            let mark = [(from, line), (from + 10, line + 10)].map(|(x, y)| (x * FINE, y * FINE));
            area.draw(&Rectangle::new(mark, side.colour().filled()))?;
            let at = ((from + 14) * FINE, (line + 5) * FINE);
            write(area, label, &letters, at, (HPos::Left, VPos::Center))?;
            from += 30 + width_of(label) as i32;
        }
        let (_, panel) = area.split_vertically(HEAD * FINE);
        let chart = frame(&panel, x, y, Grid::Across)?;
        draw(area, &chart)
    })
}
