//! Nothing passed the path for a while.

use super::facts::time_for_data;
use super::{Place, Row, Stage};

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::Outage],
    place: Place::Network,
    phrase: |facts| match facts.outages.len() {
        0 | 1 => format!("an outage of the path was the limit{}", at(facts.outages.first())),
        count => {
            format!("{count} outages of the path were the limit, the first{}", at(facts.outages.first()))
        }
    },
    evidence: |facts, _| {
        let lost: f64 = facts.outages.iter().map(|(from, to)| to - from).sum();
        vec![format!("nothing came back for {lost:.1} s, with the time until the earlier rate was back")]
    },
    fix: |_| {
        "look for what interrupts the path: a link that flaps, a route that converges, a roaming radio"
            .to_owned()
    },
    prediction: time_for_data,
};

fn at(outage: Option<&(f64, f64)>) -> String {
    outage.map_or_else(String::new, |(from, to)| format!(": from {from:.1} s until {to:.1} s"))
}
