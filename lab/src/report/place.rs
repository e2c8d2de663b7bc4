//! Properties in which runs differ: an axis, a series or a panel of a figure.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::record::{Flow, Run};
use crate::units::{Rate, Share, Size, Time};

use super::measure::percent;
use super::words::{bytes, number, rate};

/// A property in which runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The contest's label.
    Contest,
    /// The path's name.
    Path,
    /// The flow's label: each flow of a run counts separately.
    Flow,
    /// `parameters.NAME`: a parameter varied by `vary`.
    Parameter(String),
    /// `link.rate_bps`: the bottleneck's rate.
    Rate,
    /// `link.rtt_ms`: the base round-trip time.
    Rtt,
    /// `link.loss`: the share of packets lost at random.
    Loss,
    /// `bytes`: size of each flow's transfer.
    Bytes,
    /// `flows`: number of flows of the contest.
    Flows,
}

impl Place {
    /// The fixed names; `parameters.NAME` is added to these.
    const NAMES: [(&'static str, Place); 8] = [
        ("contest", Place::Contest),
        ("path", Place::Path),
        ("flow", Place::Flow),
        ("link.rate_bps", Place::Rate),
        ("link.rtt_ms", Place::Rtt),
        ("link.loss", Place::Loss),
        ("bytes", Place::Bytes),
        ("flows", Place::Flows),
    ];

    /// Name for an axis.
    pub fn title(&self) -> String {
        match self {
            Place::Contest => "Contest".to_owned(),
            Place::Path => "Path".to_owned(),
            Place::Flow => "Flow".to_owned(),
            Place::Parameter(name) => {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_uppercase());
                first.into_iter().chain(letters).collect::<String>().replace('_', " ")
            }
            Place::Rate => "Rate of the link".to_owned(),
            Place::Rtt => "Round trip (ms)".to_owned(),
            Place::Loss => "Random loss (%)".to_owned(),
            Place::Bytes => "Bytes moved".to_owned(),
            Place::Flows => "Flows".to_owned(),
        }
    }

    /// Value of this property for a run or one of its flows.
    pub fn of(&self, run: &Run, flow: Option<&Flow>) -> Option<Spot> {
        Some(match self {
            Place::Contest => Spot::name(run.contest.clone()),
            Place::Path => Spot::name(run.path.clone()),
            Place::Flow => Spot::name(flow?.label.clone()),
            Place::Parameter(name) => Spot::value(run.parameters.get(name)?),
            Place::Rate => Spot::number(run.link.rate_bps, rate(run.link.rate_bps)),
            Place::Rtt => Spot::number(run.link.rtt_ms, number(run.link.rtt_ms)),
            Place::Loss => Spot::number(percent(run.link.loss), number(percent(run.link.loss))),
            Place::Bytes => Spot::number(run.bytes? as f64, bytes(run.bytes? as f64)),
            Place::Flows => Spot::number(run.flows.len() as f64, run.flows.len().to_string()),
        })
    }

    /// The value with its unit, for headings: "65 ms", "1 % loss".
    pub fn heading(&self, spot: &Spot) -> String {
        match self {
            Place::Rtt => format!("{} ms", spot.label),
            Place::Loss => format!("{} % loss", spot.label),
            Place::Parameter(name) => format!("{} {}", name.replace('_', " "), spot.label),
            Place::Flows if spot.label == "1" => "1 flow".to_owned(),
            Place::Flows => format!("{} flows", spot.label),
            _ => spot.label.clone(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Place::Parameter(name) = self {
            return write!(f, "parameters.{name}");
        }
        let named = Place::NAMES.iter().find(|(_, place)| place == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Place, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some((_, place)) = Place::NAMES.into_iter().find(|(name, _)| *name == text) {
            return Ok(place);
        }
        match text.strip_prefix("parameters.") {
            Some(name) if !name.is_empty() => Ok(Place::Parameter(name.to_owned())),
            _ => {
                let names = Place::NAMES.map(|(name, _)| name).join(", ");
                Err(de::Error::custom(format!("\"{text}\" is none of {names}, parameters.NAME")))
            }
        }
    }
}

/// A value of a property: a position on an axis or the name of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Number, for numeric axes and for ordering.
    pub number: Option<f64>,
    /// Text shown.
    pub label: String,
}

impl Spot {
    fn name(label: String) -> Spot {
        Spot { number: None, label }
    }

    fn number(number: f64, label: String) -> Spot {
        Spot { number: Some(number), label }
    }

    /// Value of a parameter: a number, a text with a size or a rate (`64KiB`), or plain text.
    fn value(value: &Value) -> Spot {
        match value {
            Value::Number(n) => Spot::number(n.as_f64().unwrap_or_default(), n.to_string()),
            Value::String(text) => Spot { number: amount(text), label: text.clone() },
            other => Spot::name(other.to_string()),
        }
    }

    /// Ordered by number if both have one, else equal (first occurrence).
    pub fn order(&self, other: &Spot) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => Ordering::Equal,
        }
    }
}

/// The number in a text such as `64KiB`, `100Mbit`, `65ms`, `1%`, only for ordering.
fn amount(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).or_else(|| {
        let size = text.parse::<Size>().map(|size| size.bytes() as f64);
        let rate = || text.parse::<Rate>().map(|rate| rate.bits_per_second() as f64);
        let time = || text.parse::<Time>().map(Time::millis);
        let share = || text.parse::<Share>().map(|share| percent(share.fraction()));
        size.or_else(|_| rate()).or_else(|_| time()).or_else(|_| share()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_units_have_an_order() {
        for (text, value) in [
            ("64KiB", Some(65536.0)),
            ("4", Some(4.0)),
            ("100Mbit", Some(1e8)),
            ("2s", Some(2000.0)),
            ("0.1%", Some(0.1)),
            ("auto", None),
            ("64 apples", None),
            ("1.2.3", None),
            ("inf", None),
        ] {
            assert_eq!(amount(text), value, "{text}");
        }
    }

    #[test]
    fn places_are_named_as_in_plans() {
        for text in ["contest", "link.loss", "parameters.ack_every"] {
            let place: Place = serde_json::from_value(Value::from(text)).unwrap();
            assert_eq!(place.to_string(), text);
        }
        let error = serde_json::from_value::<Place>(Value::from("loss")).unwrap_err().to_string();
        assert!(error.contains("\"loss\" is none of contest,"), "{error}");
    }
}
