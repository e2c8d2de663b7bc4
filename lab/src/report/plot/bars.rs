//! Horizontal bars in groups, since names are long and screens narrow.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::aggregate::Spread;
use super::super::figure::{Figure, Scale};
use super::super::palette::{self, AXIS, TEXT};
use super::super::panel::Panel;
use super::super::words::number;
use super::axis::Axis;
use super::canvas::{AnyError, FINE, Grid, WIDTH, bold, font, frame, stroke, svg, write};

/// Height of a bar and the gap below it, pixels.
const ROW: f64 = 21.0;
/// Height of a bar, as a share of its row.
const BAR: f64 = 0.62;
/// Total height of axis, title and margins, pixels.
const AROUND: f64 = 56.0;

/// A row of the drawing.
enum Row<'a> {
    /// Name of a place, above its bars.
    Heading(String),
    /// A bar: series, name, spread.
    Bar(usize, &'a str, Spread),
}

pub fn draw(figure: &Figure, panel: &Panel) -> Result<String, AnyError> {
    let rows = rows(figure, panel);
    let height = (rows.len() as f64 * ROW + AROUND) as i32;
    svg((WIDTH, height), |area| {
        let values = panel.values().chain(figure.reference.iter().map(|reference| reference.y));
        let x = Axis::of_values(figure.y.title(), values, figure.y_scale, figure.y.full_scale());
        // From top to bottom, all rows equally high.
        let middle = |row: usize| 1.0 - (row as f64 + 0.5) / rows.len() as f64;
        let names = rows.iter().enumerate().filter_map(|(row, what)| match what {
            Row::Bar(_, name, _) => Some((middle(row), (*name).to_owned())),
            Row::Heading(_) => None,
        });
        let mut y = Axis::of_values("", std::iter::empty(), Scale::Linear, Some(1.0));
        y.ticks = names.collect();
        let chart = frame(area, &x, &y, Grid::Upright)?;
        let pixel = |share: f64, at: f64| chart.backend_coord(&(share, at));
        let half = (ROW * BAR / 2.0 * f64::from(FINE)) as i32;
        for (row, what) in rows.iter().enumerate() {
            let (left, centre) = pixel(0.0, middle(row));
            match what {
                Row::Heading(text) => {
                    // Beside the axis, above its bars.
                    let at = (left + FINE * 5, centre);
                    write(area, text, &bold(TEXT.colour()), at, (HPos::Left, VPos::Center))?;
                }
                Row::Bar(series, _, spread) => {
                    let across = |value: f64| pixel(x.position(value).clamp(0.0, 1.0), 0.0).0;
                    let colour = palette::series(*series).colour();
                    let (from, to) = ((left, centre - half), (across(spread.median), centre + half));
                    area.draw(&Rectangle::new([from, to], colour.filled()))?;
                    let end = across(spread.max).max(to.0);
                    if spread.count > 1 && spread.max > spread.min {
                        let (from, to) = (across(spread.min), across(spread.max));
                        let style = stroke(TEXT.colour(), 1.2);
                        area.draw(&PathElement::new(vec![(from, centre), (to, centre)], style))?;
                        for end in [from, to] {
                            let ends = vec![(end, centre - half / 2), (end, centre + half / 2)];
                            area.draw(&PathElement::new(ends, style))?;
                        }
                    }
                    let style = font(TEXT.colour());
                    let at = (end + FINE * 5, centre);
                    write(area, &number(spread.median), &style, at, (HPos::Left, VPos::Center))?;
                }
            }
        }
        for reference in &figure.reference {
            let at = x.position(reference.y);
            let ends = vec![pixel(at, 0.0), pixel(at, 1.0)];
            area.draw(&PathElement::new(ends, stroke(AXIS.colour(), 1.3)))?;
        }
        Ok(())
    })
}

/// One row for each measured series, with places as headings if there are several.
fn rows<'a>(figure: &Figure, panel: &'a Panel) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (index, place) in panel.places.iter().enumerate() {
        let measured = panel.series.iter().enumerate().filter_map(|(series, line)| {
            line.points[index].map(|spread| Row::Bar(series, line.label.as_str(), spread))
        });
        let before = rows.len();
        rows.extend(measured);
        if panel.places.len() > 1 && rows.len() > before {
            rows.insert(before, Row::Heading(figure.x.heading(place)));
        }
    }
    rows
}
