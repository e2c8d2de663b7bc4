//! The drawing area: sizes, text, and the frame with its two axes.

use std::fmt::Display;
use std::ops::Range;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, TextStyle};

use super::super::palette::{AXIS, GRID, TEXT};
use super::axis::Axis;

/// Units of the drawing in one pixel of the page at full width.
pub const FINE: i32 = 10;
/// Width of a panel, pixels: a phone is 360 to 430 wide; two panels fit beside each other on a desktop
/// screen.
pub const WIDTH: i32 = 440;
/// Height of a panel with two axes, pixels.
pub const HEIGHT: i32 = 290;
/// Font size, pixels.
pub const LETTERS: f64 = 13.0;
/// Mean width of a letter of a sans-serif font as a share of its height, for estimating text widths.
pub const LETTER_WIDTH: f64 = 0.56;
/// The backend divides font sizes by this.
const BACKEND_FONT: f64 = 1.24;

/// Grid lines behind the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// At the ticks of the vertical axis.
    Across,
    /// At the ticks of the horizontal axis: for bars, whose values are written at their ends.
    Upright,
}

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type AnyError = Box<dyn std::error::Error>;
pub type Frame<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Positions, Positions>>;

/// Draws on an area of this size in pixels and returns the SVG.
pub fn svg(
    (width, height): (i32, i32),
    draw: impl FnOnce(&Area) -> Result<(), AnyError>,
) -> Result<String, AnyError> {
    let mut text = String::new();
    {
        let size = ((width * FINE) as u32, (height * FINE) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    // The page sets the size; only the proportions are the drawing's.
    let size = format!("width=\"{}\" height=\"{}\" ", width * FINE, height * FINE);
    Ok(text.replacen(&size, "", 1))
}

/// Text style of regular size in a colour.
pub fn font(colour: RGBColor) -> TextStyle<'static> {
    styled(colour, FontStyle::Normal)
}

/// Bold text style.
pub fn bold(colour: RGBColor) -> TextStyle<'static> {
    styled(colour, FontStyle::Bold)
}

fn styled(colour: RGBColor, style: FontStyle) -> TextStyle<'static> {
    let size = LETTERS * f64::from(FINE) * BACKEND_FONT;
    TextStyle {
        color: colour.to_backend_color(),
        ..TextStyle::from(FontDesc::new(FontFamily::SansSerif, size, style))
    }
}

/// Writes text at a point (units of the drawing); `anchor` is the position of the point in the text.
pub fn write(
    area: &Area,
    text: &impl Display,
    style: &TextStyle,
    at: (i32, i32),
    anchor: (HPos, VPos),
) -> Result<(), AnyError> {
    area.draw_text(&text.to_string(), &style.pos(Pos::new(anchor.0, anchor.1)), at)?;
    Ok(())
}

/// A line this many pixels thick.
pub fn stroke(colour: RGBColor, pixels: f64) -> ShapeStyle {
    colour.stroke_width((pixels * f64::from(FINE)) as u32)
}

/// Estimated width of a text, pixels.
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTERS * LETTER_WIDTH
}

/// Draws axes, grid and titles; the frame maps positions from 0 to 1.
pub fn frame<'a>(area: &Area<'a>, x: &Axis, y: &Axis, grid: Grid) -> Result<Frame<'a>, AnyError> {
    let units = |pixels: f64| (pixels * f64::from(FINE)) as i32;
    let widest = y.ticks.iter().map(|(_, text)| width_of(text)).fold(0.0, f64::max);
    let titled = |axis: &Axis| if axis.title.is_empty() { 0.0 } else { LETTERS * 1.5 };
    let right = match grid {
        Grid::Across => 14.0,
        Grid::Upright => width_of("000.0") + 8.0,
    };
    let mut chart = ChartBuilder::on(area)
        .margin_top(units(8.0))
        .margin_right(units(right))
        .margin_bottom(units(2.0))
        .margin_left(units(2.0))
        .x_label_area_size(units(LETTERS * 1.7 + titled(x)))
        .y_label_area_size(units(widest + 14.0 + titled(y)))
        .build_cartesian_2d(positions(x), positions(y))?;
    let label = |axis: &Axis, at: f64| {
        let tick = axis.ticks.iter().find(|(position, _)| (position - at).abs() < 1e-9);
        tick.map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let (x_label, y_label) = (|at: &f64| label(x, *at), |at: &f64| label(y, *at));
    let mut mesh = chart.configure_mesh();
    mesh.x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .label_style(font(TEXT.colour()))
        .axis_desc_style(font(TEXT.colour()))
        .bold_line_style(stroke(GRID.colour(), 1.0))
        .axis_style(stroke(AXIS.colour(), 1.0))
        .set_all_tick_mark_size(units(3.0));
    if !x.title.is_empty() {
        mesh.x_desc(&x.title);
    }
    if !y.title.is_empty() {
        mesh.y_desc(&y.title);
    }
    match grid {
        Grid::Across => mesh.disable_x_mesh(),
        Grid::Upright => mesh.disable_y_mesh(),
    };
    mesh.draw()?;
    Ok(chart)
}

/// An axis for `plotters`: mapping of positions, and ticks.
pub struct Positions {
    ticks: Vec<f64>,
}

impl Ranged for Positions {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        low + (f64::from(high - low) * value).round() as i32
    }

    /// The mesh is drawn twice, light and bold; all lines are bold here.
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        0.0..1.0
    }
}

fn positions(axis: &Axis) -> Positions {
    Positions { ticks: axis.ticks.iter().map(|(at, _)| *at).collect() }
}
