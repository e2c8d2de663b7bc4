//! Curves over time, with axes.

use maud::{Markup, html};

use crate::{Colour, Size, at, key};

/// Height of a chart and its margins, SVG units.
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;
/// Most intervals between the marks of an axis.
const STEPS_X_WIDE: f64 = 10.0;
const STEPS_X_NARROW: f64 = 5.0;
const STEPS_Y: f64 = 4.0;

/// What a chart's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second, shown in kbit/s, Mbit/s or Gbit/s.
    BitsPerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Values of 0 to 1, shown as percent.
    Share,
}

/// A curve: seconds and value of each point.
#[derive(Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its colour.
    pub colour: Colour,
    /// Seconds and values, in order.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Whether it draws a line beside the axis: one point draws none, and one at 0 throughout lies on it.
    fn is_seen(&self) -> bool {
        self.points.len() > 1 && self.points.iter().any(|point| point.1 > 0.0)
    }
}

/// Curves with one unit.
#[derive(Debug)]
pub struct Chart {
    /// Its title.
    pub title: &'static str,
    /// What it shows, and how to read it.
    pub legend: &'static str,
    /// What the seconds of the points are, below the axis.
    pub time: &'static str,
    /// What the values are.
    pub unit: Unit,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// An axis from 0 to `top`, in its own unit.
#[derive(Debug, PartialEq)]
struct Axis {
    name: &'static str,
    /// What one of the axis's units is in that of the values.
    scale: f64,
    top: f64,
    step: f64,
}

impl Axis {
    /// An axis from 0 to `most` with at most `steps` ticks, whose distance is 1, 2 or 5 times a power of ten.
    fn new(name: &'static str, scale: f64, most: f64, steps: f64) -> Axis {
        let most = if most > 0.0 && most.is_finite() { most / scale } else { 1.0 };
        let power = 10f64.powf((most / steps).log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = round.into_iter().find(|step| step * steps >= most * (1.0 - 1e-9)).unwrap_or(round[3]);
        Axis { name, scale, top: (most / step - 1e-9).ceil().max(1.0) * step, step }
    }

    fn of_values(unit: Unit, most: f64) -> Axis {
        let (name, scale) = match unit {
            Unit::BitsPerSecond if most >= 1e9 => ("Gbit/s", 1e9),
            Unit::BitsPerSecond if most >= 1e6 => ("Mbit/s", 1e6),
            Unit::BitsPerSecond => ("kbit/s", 1e3),
            Unit::Milliseconds => ("ms", 1.0),
            Unit::Share => ("%", 0.01),
        };
        Axis::new(name, scale, most, STEPS_Y)
    }

    /// A value's place on the axis, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        (value / self.scale / self.top).clamp(0.0, 1.0)
    }

    /// Places and labels of the marks.
    fn marks(&self) -> Vec<(f64, String)> {
        let decimals = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = (self.top / self.step).round() as usize;
        let mark = |n| (n as f64 / count as f64, format!("{:.decimals$}", n as f64 * self.step));
        (0..=count).map(mark).collect()
    }
}

impl Chart {
    /// The chart with its title and legend; nothing without a curve that can be seen.
    pub fn draw(&self) -> Markup {
        html! {
            @if self.is_seen() {
                section {
                    h2 { (self.title) }
                    p.legend { (self.legend) }
                    (self.figure())
                }
            }
        }
    }

    /// Whether there is a curve that can be seen.
    pub fn is_seen(&self) -> bool {
        self.curves.iter().any(Curve::is_seen)
    }

    /// The drawings with their keys alone, for a place that has a title; nothing where none can be seen.
    pub fn figure(&self) -> Markup {
        let curves: Vec<&Curve> = self.curves.iter().filter(|curve| curve.is_seen()).collect();
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let end = points().map(|point| point.0).fold(0.0, f64::max);
        let most = points().map(|point| point.1).fold(0.0, f64::max);
        let values = Axis::of_values(self.unit, most);
        html! {
            @if !curves.is_empty() {
                p.keys {
                    @for curve in &curves { (key(curve.colour, curve.name)) }
                    span.unit { (values.name) }
                }
                @for &size in Size::ALL { (self.plot(size, &curves, end, &values)) }
            }
        }
    }

    fn plot(&self, size: Size, curves: &[&Curve], end: f64, values: &Axis) -> Markup {
        let steps = if size == Size::Wide { STEPS_X_WIDE } else { STEPS_X_NARROW };
        let time = Axis::new("s", 1.0, end, steps);
        let (right, bottom) = (size.width() - RIGHT, HEIGHT - BOTTOM);
        // The curves fill the width: the time axis ends with the last sample and not at a mark.
        let x = |seconds: f64| LEFT + (right - LEFT) * (seconds / end.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let y = |place: f64| bottom - (bottom - TOP) * place;
        let times = time.marks().into_iter().map(|(place, label)| (place * time.top, label));
        let times: Vec<_> = times.filter(|(seconds, _)| *seconds <= end * (1.0 + 1e-9)).collect();
        html! {
            svg class=(size.class()) viewBox=(format!("0 0 {} {HEIGHT}", size.width())) role="img"
                aria-label=(self.title) {
                @for (place, label) in values.marks() {
                    line.axis x1=(at(LEFT)) x2=(at(right)) y1=(at(y(place))) y2=(at(y(place))) {}
                    text x=(at(LEFT - 8.0)) y=(at(y(place) + 4.0)) text-anchor="end" { (label) }
                }
                @for (seconds, label) in times {
                    line.axis x1=(at(x(seconds))) x2=(at(x(seconds))) y1=(at(bottom)) y2=(at(bottom + 4.0)) {}
                    text x=(at(x(seconds))) y=(at(bottom + 17.0)) text-anchor="middle" { (label) }
                }
                text.name x=(at((LEFT + right) / 2.0)) y=(at(HEIGHT - 4.0)) text-anchor="middle" {
                    (self.time)
                }
                @for curve in curves {
                    path class={ "curve " (curve.colour.class()) }
                        d=(path(curve, x, |value| y(values.place(value)))) {}
                }
            }
        }
    }
}

/// The curve's points as the data of an SVG path.
fn path(curve: &Curve, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut data = String::new();
    for (place, (seconds, value)) in curve.points.iter().enumerate() {
        let command = if place == 0 { 'M' } else { 'L' };
        data.push_str(&format!("{command}{:.1} {:.1}", x(*seconds), y(*value)));
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_marks_that_cover_the_values() {
        for (most, steps, top, labels) in [
            (93.4, 4.0, 100.0, "0 50 100"),
            (4.0, 4.0, 4.0, "0 1 2 3 4"),
            (0.031, 4.0, 0.04, "0.00 0.01 0.02 0.03 0.04"),
            (3.0, 10.0, 3.0, "0.0 0.5 1.0 1.5 2.0 2.5 3.0"),
            (0.0, 4.0, 1.0, "0.0 0.5 1.0"),
            (f64::INFINITY, 4.0, 1.0, "0.0 0.5 1.0"),
        ] {
            let axis = Axis::new("ms", 1.0, most, steps);
            assert!((axis.top - top).abs() < 1e-9 * top, "{most}: {axis:?}");
            let shown: Vec<String> = axis.marks().into_iter().map(|mark| mark.1).collect();
            assert_eq!(shown.join(" "), labels, "{most}");
        }
    }

    #[test]
    fn values_of_any_size_stay_inside_the_chart() {
        for most in [1e-300, 1.0, 1e19, f64::MAX] {
            let axis = Axis::of_values(Unit::BitsPerSecond, most);
            assert!(axis.marks().len() <= 6, "{most}: {axis:?}");
            for value in [0.0, most / 2.0, most] {
                assert!((0.0..=1.0).contains(&axis.place(value)), "{value} of {most}: {axis:?}");
            }
        }
    }
}
