//! What a plan wants shown of its runs: `[[figure]]` and `[[expect]]`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::measure::Measure;
use super::place::Place;

/// One figure of a plan: a measure of the runs over something that differs between them.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it shows, one line.
    pub title: String,
    /// How to read it, where it came from in a paper, what is to be seen in it: a sentence or two.
    #[serde(default)]
    pub note: String,
    /// How it is drawn.
    #[serde(default)]
    pub kind: Kind,
    /// What stands along the horizontal axis (of `bar`: the groups). Not used by `time`.
    #[serde(default = "Figure::default_x")]
    pub x: Place,
    /// What is measured.
    #[serde(default)]
    pub y: Measure,
    /// What has a line (a bar, a row) of its own: one series for each value.
    #[serde(default = "Figure::default_series")]
    pub series: Place,
    /// What has a panel of its own: one for each combination of values. None: one panel.
    #[serde(default)]
    pub facet: Vec<Place>,
    /// How values are spread along the horizontal axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// And along the vertical one; `even` makes no sense there and is taken for `linear`.
    #[serde(default)]
    pub y_scale: Scale,
    /// Title of the horizontal axis, if the name of the parameter is too short.
    #[serde(default)]
    pub x_label: Option<String>,
    /// Only contests that one of these patterns (`*` stands for anything) matches. None: all.
    #[serde(default)]
    pub contests: Vec<String>,
    /// Only paths that one of these patterns matches. None: all.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Values to compare with, drawn across: what a paper reports.
    #[serde(default)]
    pub reference: Vec<Reference>,
}

impl Figure {
    fn default_x() -> Place {
        Place::Path
    }

    fn default_series() -> Place {
        Place::Contest
    }
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line for each series, with whiskers from the least to the greatest run.
    #[default]
    Line,
    /// Horizontal bars with whiskers, in groups.
    Bar,
    /// A table of coloured cells: series are rows, places are columns.
    Heat,
    /// What happened in the course of one run, the middle one by its measure.
    Time,
}

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// By their difference.
    #[default]
    Linear,
    /// By their ratio; zero cannot be shown.
    Log,
    /// At equal distances, in order: for names, and for values with a zero and powers of ten.
    Even,
}

/// A value of another source.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Whose it is, short.
    pub label: String,
    /// The value, in the measure's unit as the axis shows it (shares in percent).
    pub y: f64,
}

/// A bar that the plan's author set: a measure of a contest over a path, and what it must be at least or at
/// most.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Pattern of contests; every one that it matches must meet the bar.
    pub contest: String,
    /// Pattern of paths.
    pub path: String,
    /// What is measured.
    pub y: Measure,
    /// The median is not less, in the unit as figures show it (shares in percent).
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The median is not more.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// The part of a plan that a report reads; the rest is the runner's.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Shown {
    /// Name of the plan.
    #[serde(default)]
    pub name: String,
    /// What it is about, one line.
    #[serde(default)]
    pub title: String,
    /// Where its reading is, relative to the repository's root.
    #[serde(default)]
    pub reading: Option<String>,
    /// Figures, in order.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// Bars, in order.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

/// Whether `name` is matched by `pattern`, in which `*` stands for any number of any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Whether one of the patterns matches, or there are none.
pub fn chosen(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => f.write_str("measured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_reader_expects() {
        for (pattern, name, expected) in [
            ("fobs auto", "fobs auto", true),
            ("fobs auto", "fobs autos", false),
            ("fobs*", "fobs auto", true),
            ("*auto", "fobs auto", true),
            ("*", "", true),
            ("100M-*-1%", "100M-65ms-1%", true),
            ("100M-*-1%", "100M-65ms-0.1%", false),
            ("*-0.1%", "1G-65ms-0.1%", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
        assert!(chosen(&[], "anything") && !chosen(&["x".to_owned()], "y"));
    }

    #[test]
    fn figures_are_read_from_a_plan_and_misspelt_keys_are_named() {
        let shown: Shown = toml::from_str(
            r#"
            name = "x"
            repetitions = 3
            [[figure]]
            title = "Share against ack frequency"
            x = "parameters.ack_every"
            x_scale = "log"
            facet = ["link.rtt_ms"]
            reference = [{ label = "paper", y = 90 }]
            [[expect]]
            contest = "fobs*"
            path = "*"
            y = "waste"
            at_most = 1
            "#,
        )
        .unwrap();
        assert_eq!(shown.figure[0].x, Place::Parameter("ack_every".to_owned()));
        assert_eq!((shown.figure[0].y, shown.figure[0].kind), (Measure::Share, Kind::Line));
        assert_eq!(shown.expect[0].to_string(), "at most 1");
        let error =
            toml::from_str::<Shown>("[[figure]]\ntitle = \"t\"\nlogx = true").unwrap_err().to_string();
        assert!(error.contains("logx"), "{error}");
    }
}
