//! A run as a picture (SVG): rate, window and queue of every flow over time, and the delay in the links'
//! queues.

use crate::report::{FlowPoint, FlowReport, SimReport};
use plotters::prelude::*;
use std::fmt;

/// Size of the picture, points.
const SIZE: (u32, u32) = (900, 1080);
/// Flows and links that get a line of their own; more could not be distinguished.
const LINES_MAX: usize = 12;

/// The picture could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plot cannot be drawn: {0}")]
pub struct PlotError(String);

/// Draws a run.
///
/// # Errors
/// What the drawing library complains of.
pub fn svg(report: &SimReport) -> Result<String, PlotError> {
    let mut text = String::new();
    draw(report, &mut text).map_err(|error| PlotError(error.to_string()))?;
    Ok(text)
}

struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// One quantity of several flows or links over time.
struct Panel {
    title: String,
    unit: &'static str,
    lines: Vec<Line>,
}

impl Panel {
    /// A figure of each flow; a flow without it has an empty line, so that its colour is the same in all
    /// panels.
    fn of_flows(
        report: &SimReport,
        title: &str,
        unit: &'static str,
        figure: impl Fn(&FlowPoint) -> Option<f64>,
    ) -> Panel {
        let line = |flow: &FlowReport| Line {
            name: match flow.cc.as_str() {
                "" => flow.name.clone(),
                cc => format!("{} ({cc})", flow.name),
            },
            points: flow.samples.iter().filter_map(|point| Some((point.t, figure(point)?))).collect(),
        };
        let lines = report.flows.iter().take(LINES_MAX).map(line).collect();
        Panel { title: title.to_owned(), unit, lines }
    }

    fn of_links(report: &SimReport) -> Panel {
        let lines = report
            .links
            .iter()
            .filter(|link| link.queue_bytes_max > 0)
            .take(LINES_MAX)
            .map(|link| Line { name: link.name.clone(), points: link.samples.clone() });
        Panel { title: "Delay in each link's queue".to_owned(), unit: "ms", lines: lines.collect() }
    }

    fn top(&self) -> f64 {
        let top = self.lines.iter().flat_map(|line| &line.points).map(|p| p.1).fold(0.0, f64::max);
        if top > 0.0 { top * 1.05 } else { 1.0 }
    }
}

/// The panels of a run, from above.
fn panels(report: &SimReport) -> [Panel; 4] {
    let rate = format!("{}, seed {}: rate of each flow", report.name, report.seed);
    [
        Panel::of_flows(report, &rate, "Mbit/s", |point| Some(point.goodput_mbit)),
        Panel::of_flows(report, "Window of each flow", "kB", |point| point.window_bytes.map(kilobytes)),
        Panel::of_flows(report, "Queue of each flow", "kB", |point| Some(kilobytes(point.queued_bytes))),
        Panel::of_links(report),
    ]
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}

fn draw(report: &SimReport, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = panels(report);
    for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(&panels) {
        draw_panel(area, panel, report.seconds)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel<'a, B>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    panel: &Panel,
    seconds: f64,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    B: DrawingBackend + 'a,
    B::ErrorType: fmt::Debug,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
        .margin(8)
        .margin_right(24)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..seconds.max(0.001), 0.0..panel.top())?;
    chart.configure_mesh().x_desc("seconds").y_desc(panel.unit).light_line_style(WHITE).draw()?;
    for (index, line) in panel.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty()) {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), &colour))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    if panel.lines.iter().any(|line| !line.points.is_empty()) {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}
