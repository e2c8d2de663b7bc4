//! The load that a contest puts on a host: when how many processes compete for its processor.

use std::time::Duration;

use serde::Deserialize;

use crate::units::Time;

/// Most competitors at a time: enough to keep a program from its processor for a fifth of a second.
const COMPETITORS_MAX: u32 = 64;
/// Most periods of a load.
const PERIODS_MAX: usize = 64;

/// The load of a contest, as a plan has it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// The host under load.
    pub host: String,
    /// The processor that its programs and the competitors are bound to, from 0. Not the last one: it is the
    /// emulator's.
    pub cpu: usize,
    /// When there are how many competitors; in order, not overlapping. Besides there are none.
    pub periods: Vec<Period>,
}

/// A time with competitors.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// Its begin, after the run's start.
    pub at: Time,
    /// How long it is.
    #[serde(rename = "for")]
    pub lasts: Time,
    /// Competitors in it.
    pub competitors: u32,
}

impl LoadSpec {
    /// Whether it makes sense; the hosts of the path are the caller's business.
    pub fn check(&self) -> Result<(), String> {
        if self.periods.is_empty() || self.periods.len() > PERIODS_MAX {
            return Err(format!("load has {} periods: 1 to {PERIODS_MAX} are possible", self.periods.len()));
        }
        if let Some(period) =
            self.periods.iter().find(|period| !(1..=COMPETITORS_MAX).contains(&period.competitors))
        {
            let given = period.competitors;
            return Err(format!("load has {given} competitors: 1 to {COMPETITORS_MAX} are possible"));
        }
        let pairs = self.periods.windows(2);
        if pairs.into_iter().any(|pair| pair[0].at.nanos() + pair[0].lasts.nanos() > pair[1].at.nanos()) {
            return Err("load has periods that overlap or are not in order".to_owned());
        }
        Ok(())
    }

    /// How many competitors there are at a time after the run's start.
    pub fn competitors(&self, since: Duration) -> u32 {
        let in_it = |period: &&Period| {
            let from = period.at.duration();
            since >= from && since < from + period.lasts.duration()
        };
        self.periods.iter().find(in_it).map_or(0, |period| period.competitors)
    }

    /// The next time after `since` at which their number changes.
    pub fn change(&self, since: Duration) -> Option<Duration> {
        let edges = self.periods.iter().flat_map(|period| {
            let from = period.at.duration();
            [from, from + period.lasts.duration()]
        });
        edges.filter(|edge| *edge > since).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> LoadSpec {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn competitors_come_and_go_as_the_periods_say() {
        let spec = spec(
            "host = \"b\"\ncpu = 1\nperiods = [{ at = \"2s\", for = \"1s\", competitors = 3 }, \
             { at = \"3s\", for = \"500ms\", competitors = 9 }]",
        );
        assert_eq!(spec.check(), Ok(()));
        let at = |millis| spec.competitors(Duration::from_millis(millis));
        assert_eq!([0, 1999, 2000, 2999, 3000, 3499, 3500].map(at), [0, 0, 3, 3, 9, 9, 0]);
        assert_eq!(spec.change(Duration::ZERO), Some(Duration::from_secs(2)));
        assert_eq!(spec.change(Duration::from_secs(3)), Some(Duration::from_millis(3500)));
        assert_eq!(spec.change(Duration::from_secs(4)), None);
    }

    #[test]
    fn loads_that_make_no_sense_are_refused() {
        let of = |periods: &str| spec(&format!("host = \"b\"\ncpu = 0\nperiods = [{periods}]")).check();
        let period =
            |at, competitors| format!("{{ at = \"{at}s\", for = \"2s\", competitors = {competitors} }}");
        for (periods, said) in [
            (String::new(), "0 periods"),
            (period(0, 0), "0 competitors"),
            (period(0, 65), "65 competitors"),
            (format!("{}, {}", period(0, 1), period(1, 1)), "overlap"),
            (format!("{}, {}", period(9, 1), period(1, 1)), "order"),
        ] {
            let error = of(&periods).unwrap_err();
            assert!(error.contains(said), "{periods}: {error}");
        }
    }
}
