//! The part of a plan that defines the report: `[[figure]]` and `[[expect]]`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::measure::Measure;
use super::place::Place;

/// One figure of a plan: a measure over something in which runs differ.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Title, one line.
    pub title: String,
    /// Note for readers: how to read it, its source in a paper, what it shows; one or two sentences.
    #[serde(default)]
    pub note: String,
    /// Kind of drawing.
    #[serde(default)]
    pub kind: Kind,
    /// Horizontal axis (of `bar`: the groups). Not used by `time`.
    #[serde(default = "Figure::default_x")]
    pub x: Place,
    /// The measure shown.
    #[serde(default)]
    pub y: Measure,
    /// One series (line, bar, row) for each value of this.
    #[serde(default = "Figure::default_series")]
    pub series: Place,
    /// One panel for each combination of values of these. Empty: one panel.
    #[serde(default)]
    pub facet: Vec<Place>,
    /// Scale of the horizontal axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the vertical axis; `even` is treated as `linear`.
    #[serde(default)]
    pub y_scale: Scale,
    /// Title of the horizontal axis; default: the parameter's name.
    #[serde(default)]
    pub x_label: Option<String>,
    /// Only contests that match one of these patterns (`*` matches anything). Empty: all.
    #[serde(default)]
    pub contests: Vec<String>,
    /// Only paths that match one of these patterns. Empty: all.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Reference values drawn as horizontal lines, such as those of a paper.
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

/// Kind of drawing.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line for each series, with whiskers from minimum to maximum.
    #[default]
    Line,
    /// Horizontal bars with whiskers, in groups.
    Bar,
    /// A table of coloured cells: series are rows, places are columns.
    Heat,
    /// The course of one run over time: the run with the median measure.
    Time,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic; cannot show zero.
    Log,
    /// Equal distances, in order: for names, and for values that include zero and powers of ten.
    Even,
}

/// A reference value.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Short name of its source.
    pub label: String,
    /// Value in the unit that the axis shows (shares in percent).
    pub y: f64,
}

/// A bar of the plan: the minimum or maximum of a measure for contests over paths.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Pattern of contests; each one that matches must meet the bar.
    pub contest: String,
    /// Pattern of paths.
    pub path: String,
    /// The measure.
    pub y: Measure,
    /// Minimum of the median, in the unit of figures (shares in percent).
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Maximum of the median.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// The part of a plan that a report reads.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Shown {
    /// Name of the plan.
    #[serde(default)]
    pub name: String,
    /// Subject, one line.
    #[serde(default)]
    pub title: String,
    /// Path of its discussion, relative to the repository's root.
    #[serde(default)]
    pub reading: Option<String>,
    /// Figures, in order.
    #[serde(default)]
    pub figure: Vec<Figure>,
    /// Bars, in order.
    #[serde(default)]
    pub expect: Vec<Expect>,
}

/// Whether `pattern` matches `name`; `*` matches any number of any characters.
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
    fn patterns_match_like_shell_globs() {
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
