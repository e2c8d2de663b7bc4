//! Groups runs into panels of series; a point is the spread of the valid runs at one place.

use crate::record::{End, Flow, Run};

use super::aggregate::Spread;
use super::figure::{Figure, Kind, chosen};
use super::measure::Measure;
use super::place::{Place, Spot};

/// One panel of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Common properties of its runs; empty if the figure has one panel.
    pub heading: String,
    /// Places along the horizontal axis, in order.
    pub places: Vec<Spot>,
    /// Series (line, row, colour), in the order of the runs or of their numbers.
    pub series: Vec<Series>,
}

/// A series of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub label: String,
    /// Spread at each place of the panel; `None` without a value.
    pub points: Vec<Option<Spread>>,
    /// For a figure over time: seconds and values.
    pub course: Vec<[f64; 2]>,
}

impl Panel {
    /// Minimum and maximum number of runs behind a point.
    pub fn runs(&self) -> Option<(usize, usize)> {
        let counts =
            || self.series.iter().flat_map(|series| &series.points).flatten().map(|spread| spread.count);
        Some((counts().min()?, counts().max()?))
    }

    /// All values shown, including whiskers.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| series.points.iter().flatten());
        let courses = self.series.iter().flat_map(|series| series.course.iter().map(|[_, value]| *value));
        points.flat_map(|spread| [spread.min, spread.max]).chain(courses)
    }
}

impl Series {
    /// First and last value; `None` without values.
    pub fn ends(&self) -> Option<[f64; 2]> {
        let points = || self.points.iter().flatten().map(|spread| spread.median);
        let course = || self.course.iter().map(|[_, value]| *value);
        Some([points().chain(course()).next()?, points().chain(course()).last()?])
    }
}

/// A run, or one of its flows, as input of a figure.
#[derive(Clone, Copy)]
struct Look<'a> {
    run: &'a Run,
    flow: Option<&'a Flow>,
}

impl Look<'_> {
    fn measure(self, measure: Measure) -> Option<f64> {
        match self.flow {
            Some(flow) => measure.of_flow(self.run, flow),
            None => measure.of_run(self.run),
        }
    }
}

/// The panels of a figure, in order; empty if no valid run has a value for it.
pub fn panels(figure: &Figure, runs: &[Run]) -> Vec<Panel> {
    let per_flow =
        [&figure.x, &figure.series].into_iter().chain(&figure.facet).any(|place| *place == Place::Flow);
    let runs = runs.iter().filter(|run| {
        run.valid && chosen(&figure.contests, &run.contest) && chosen(&figure.paths, &run.path)
    });
    let looks: Vec<Look> = runs
        .flat_map(|run| {
            let flows = if per_flow { run.flows.iter().map(Some).collect() } else { vec![None] };
            flows.into_iter().map(move |flow| Look { run, flow })
        })
        .collect();
    let names = spots(&figure.series, &looks);
    let mut panels: Vec<Panel> = group(&looks, |look| heading(figure, look))
        .into_iter()
        .map(|(heading, looks)| match figure.kind {
            Kind::Time => over_time(figure, heading, &looks),
            Kind::Line | Kind::Bar | Kind::Heat => over_places(figure, heading, &names, &looks),
        })
        .filter(|panel| panel.values().next().is_some())
        .collect();
    align(&mut panels);
    panels
}

/// Gives all panels the same series in the same order, so that a series has one mark; removes series without
/// a value in any panel.
fn align(panels: &mut [Panel]) {
    let mut labels: Vec<String> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !labels.contains(&series.label) {
            labels.push(series.label.clone());
        }
    }
    let empty = |series: &Series| series.course.is_empty() && series.points.iter().all(Option::is_none);
    labels.retain(|label| {
        let mut same = panels.iter().flat_map(|panel| &panel.series).filter(|series| series.label == *label);
        same.any(|series| !empty(series))
    });
    for panel in panels {
        let mut old = std::mem::take(&mut panel.series);
        panel.series = Vec::from_iter(labels.iter().map(|label| {
            match old.iter().position(|series| series.label == *label) {
                Some(at) => old.swap_remove(at),
                None => {
                    Series { label: label.clone(), points: vec![None; panel.places.len()], course: vec![] }
                }
            }
        }));
    }
}

/// The distinct places of these runs, ordered by number or first occurrence.
fn spots(place: &Place, looks: &[Look]) -> Vec<Spot> {
    let mut known: Vec<Spot> = Vec::new();
    for spot in looks.iter().filter_map(|look| place.of(look.run, look.flow)) {
        if known.iter().all(|other| other.label != spot.label) {
            known.push(spot);
        }
    }
    known.sort_by(Spot::order);
    known
}

/// Heading of a run's panel, with the numbers that order the panels.
fn heading(figure: &Figure, look: &Look) -> Option<(Vec<Spot>, String)> {
    let spots: Option<Vec<Spot>> = figure.facet.iter().map(|place| place.of(look.run, look.flow)).collect();
    let spots = spots?;
    let words: Vec<String> =
        figure.facet.iter().zip(&spots).map(|(place, spot)| place.heading(spot)).collect();
    Some((spots, words.join(", ")))
}

/// Groups by heading, ordered by numbers where there are any, else by first occurrence.
fn group<'a>(
    looks: &[Look<'a>],
    heading: impl Fn(&Look<'a>) -> Option<(Vec<Spot>, String)>,
) -> Vec<(String, Vec<Look<'a>>)> {
    let mut groups: Vec<(Vec<Spot>, String, Vec<Look>)> = Vec::new();
    for look in looks {
        let Some((spots, words)) = heading(look) else { continue };
        match groups.iter_mut().find(|(_, known, _)| *known == words) {
            Some((_, _, members)) => members.push(*look),
            None => groups.push((spots, words, vec![*look])),
        }
    }
    groups.sort_by(|(a, ..), (b, ..)| {
        a.iter()
            .zip(b)
            .map(|(a, b)| a.order(b))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    groups.into_iter().map(|(_, words, members)| (words, members)).collect()
}

fn over_places(figure: &Figure, heading: String, names: &[Spot], looks: &[Look]) -> Panel {
    let at = |look: &Look, place: &Place, spot: &Spot| {
        place.of(look.run, look.flow).is_some_and(|here| here.label == spot.label)
    };
    let places = spots(&figure.x, looks);
    let series = names.iter().map(|name| {
        let point = |place: &Spot| {
            let here =
                looks.iter().filter(|look| at(look, &figure.series, name) && at(look, &figure.x, place));
            Spread::of(here.filter_map(|look| look.measure(figure.y)))
        };
        let points = places.iter().map(point).collect();
        Series { label: figure.series.heading(name), points, course: vec![] }
    });
    Panel { heading, series: series.collect(), places }
}

/// The course of one run for each name: the run with the (lower) median of the measure.
fn over_time(figure: &Figure, heading: String, looks: &[Look]) -> Panel {
    let names = group(looks, |look| {
        let spot = figure.series.of(look.run, look.flow)?;
        let words = figure.series.heading(&spot);
        Some((vec![spot], words))
    });
    let mut series = Vec::new();
    for (label, mut members) in names {
        members.retain(|look| look.measure(figure.y).is_some());
        members.sort_by(|a, b| {
            let key = |look: &Look| look.measure(figure.y).unwrap_or_default();
            key(a).total_cmp(&key(b))
        });
        let Some(middle) = members.get(members.len().saturating_sub(1) / 2) else { continue };
        let mut line = |label, course| series.push(Series { label, points: vec![], course });
        if let Some(course) = figure.y.course_of_run(middle.run) {
            line(label, course);
            continue;
        }
        let flows: Vec<&Flow> = match middle.flow {
            Some(flow) => vec![flow],
            None => middle.run.flows.iter().filter(|flow| flow.end != End::Failed).collect(),
        };
        let many = flows.len() > 1;
        for flow in flows {
            let label = if many { format!("{label}: {}", flow.label) } else { label.clone() };
            line(label, figure.y.course_of_flow(flow));
        }
    }
    Panel { heading, places: vec![], series }
}

#[cfg(test)]
mod tests {
    use super::super::{read, sample};
    use super::*;

    fn sample() -> read::Results {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sample.jsonl");
        std::fs::write(&file, sample::lines()).unwrap();
        read::results(&file).unwrap()
    }

    fn figure(results: &read::Results, title: &str) -> Figure {
        results.shown.figure.iter().find(|figure| figure.title.contains(title)).unwrap().clone()
    }

    /// Naive: sort, and take the middle.
    fn naive(runs: &[Run], contest: &str, path: &str, pebbles: u64) -> (f64, usize) {
        let mut shares: Vec<f64> = Vec::new();
        for run in runs {
            let same = run.contest == contest && run.path == path && run.parameters["pebbles"] == pebbles;
            if same && run.valid && run.flows[0].end == End::Complete {
                shares.push(100.0 * run.flows[0].share.unwrap());
            }
        }
        shares.sort_by(f64::total_cmp);
        let half = shares.len() / 2;
        let median =
            if shares.len() % 2 == 1 { shares[half] } else { (shares[half - 1] + shares[half]) / 2.0 };
        (median, shares.len())
    }

    #[test]
    fn points_are_medians_of_the_valid_runs() {
        let results = sample();
        let figure = figure(&results, "Share against");
        let panels = panels(&figure, &results.runs);
        let headings: Vec<&str> = panels.iter().map(|panel| panel.heading.as_str()).collect();
        assert_eq!(headings, ["26 ms", "65 ms"]);
        for (panel, path) in panels.iter().zip(["near", "far"]) {
            for series in &panel.series {
                for (place, point) in panel.places.iter().zip(&series.points) {
                    let pebbles = place.label.parse().unwrap();
                    let (median, count) = naive(&with_pebbles(&results.runs), &series.label, path, pebbles);
                    let point = point.unwrap();
                    assert!((point.median - median).abs() < 1e-9, "{} {path} {pebbles}", series.label);
                    assert_eq!(point.count, count);
                }
            }
        }
    }

    fn with_pebbles(runs: &[Run]) -> Vec<Run> {
        runs.iter().filter(|run| run.parameters.contains_key("pebbles")).cloned().collect()
    }

    #[test]
    fn series_are_aligned_and_empty_ones_are_omitted() {
        let mut results = sample();
        let figure = figure(&results, "Share against");
        results.runs.retain(|run| (run.path.as_str(), run.contest.as_str()) != ("near", "swallow"));
        let made = panels(&figure, &results.runs);
        for panel in &made {
            let labels: Vec<&str> = panel.series.iter().map(|series| series.label.as_str()).collect();
            assert_eq!(labels.len(), 2, "{labels:?}");
            assert_eq!(labels, made[0].series.iter().map(|series| series.label.as_str()).collect::<Vec<_>>());
        }
        results.runs.iter_mut().filter(|run| run.contest == "swallow").for_each(|run| run.valid = false);
        assert!(panels(&figure, &results.runs).iter().all(|panel| panel.series.len() == 1));
        results.runs.clear();
        assert!(panels(&figure, &results.runs).is_empty());
    }

    #[test]
    fn a_figure_over_time_shows_each_flow_of_the_median_run() {
        let results = sample();
        let panels = panels(&figure(&results, "Two at once"), &results.runs);
        let labels: Vec<&str> = panels[0].series.iter().map(|series| series.label.as_str()).collect();
        assert_eq!(labels, ["both: swallow", "both: turtle"]);
        assert!(panels[0].series.iter().all(|series| series.course.len() == 50));
    }
}
