//! A run as a picture (SVG): goodput of every flow above, delay in the queues below.

use crate::report::SimReport;
use plotters::prelude::*;
use std::fmt;

/// Size of the picture, points.
const SIZE: (u32, u32) = (900, 620);
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

fn draw(report: &SimReport, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let flows = report.flows.iter().map(|flow| Line {
        name: match flow.cc.as_str() {
            "" => flow.name.clone(),
            cc => format!("{} ({cc})", flow.name),
        },
        points: flow.samples.iter().map(|p| (p.t, p.goodput_mbit)).collect(),
    });
    let queues = report
        .links
        .iter()
        .filter(|link| link.queue_bytes_max > 0)
        .map(|link| Line { name: link.name.clone(), points: link.samples.clone() });
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}, seed {}", report.name, report.seed);
    let (above, below) = root.split_vertically(SIZE.1 * 3 / 5);
    panel(&above, &title, "Mbit/s", report.seconds, &flows.take(LINES_MAX).collect::<Vec<_>>())?;
    panel(&below, "delay in the queue", "ms", report.seconds, &queues.take(LINES_MAX).collect::<Vec<_>>())?;
    root.present()?;
    Ok(())
}

fn panel<'a, B>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    title: &str,
    unit: &str,
    seconds: f64,
    lines: &[Line],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    B: DrawingBackend + 'a,
    B::ErrorType: fmt::Debug,
{
    let top = lines.iter().flat_map(|line| &line.points).map(|p| p.1).fold(0.0, f64::max);
    let top = if top > 0.0 { top * 1.05 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(8)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..seconds.max(0.001), 0.0..top)?;
    chart.configure_mesh().x_desc("seconds").y_desc(unit).light_line_style(WHITE).draw()?;
    for (index, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), &colour))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    if !lines.is_empty() {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }
    Ok(())
}
