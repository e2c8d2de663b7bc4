//! Numbers of a file, within bounds and in the simulator's units. Every error names the key, the value and
//! the bounds.

use super::ScenarioError;
use crate::rng::Chance;
use crate::time::Nanos;

/// Longest world, seconds: eleven days.
pub(super) const SECONDS_MAX: f64 = 1e6;
/// Rates, millions of bits per second: 1 kbit/s to 10 Tbit/s.
const MBIT: (f64, f64) = (0.001, 1e7);
/// Delays of a link, milliseconds: up to ten seconds.
const MS_MAX: f64 = 10_000.0;
/// Queues and buffers, kilobytes: up to 1 GB.
const KB: (f64, f64) = (1.5, 1e6);

/// A table of the file, by name.
#[derive(Debug, Clone)]
pub(super) struct Table(pub(super) String);

impl Table {
    /// The `index`th table of this name.
    pub(super) fn of(name: &str, index: usize) -> Table {
        Table(format!("{name}[{index}]"))
    }

    /// A key of the table.
    pub(super) fn key(&self, key: &str) -> String {
        if self.0.is_empty() { key.to_owned() } else { format!("{}.{key}", self.0) }
    }

    /// A refusal of a key.
    pub(super) fn refuse(&self, key: &str, reason: impl Into<String>) -> ScenarioError {
        ScenarioError::new(self.key(key), reason)
    }

    pub(super) fn number(&self, key: &str, value: f64, low: f64, high: f64) -> Result<f64, ScenarioError> {
        // Not a number is in no range.
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(self.refuse(key, format!("{value} is not possible; give {low} to {high}")))
    }

    pub(super) fn whole(&self, key: &str, value: u32, low: u32, high: u32) -> Result<u32, ScenarioError> {
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(self.refuse(key, format!("{value} is not possible; give {low} to {high}")))
    }

    pub(super) fn seconds(&self, key: &str, value: f64) -> Result<Nanos, ScenarioError> {
        Ok((self.number(key, value, 0.0, SECONDS_MAX)? * 1e9) as Nanos)
    }

    pub(super) fn millis(&self, key: &str, value: f64) -> Result<Nanos, ScenarioError> {
        Ok((self.number(key, value, 0.0, MS_MAX)? * 1e6) as Nanos)
    }

    /// Bits per second.
    pub(super) fn rate(&self, key: &str, mbit: f64) -> Result<u64, ScenarioError> {
        Ok((self.number(key, mbit, MBIT.0, MBIT.1)? * 1e6) as u64)
    }

    /// Bytes.
    pub(super) fn kilobytes(&self, key: &str, kb: f64) -> Result<u64, ScenarioError> {
        Ok((self.number(key, kb, KB.0, KB.1)? * 1e3) as u64)
    }

    /// Bytes, or bytes per second.
    pub(super) fn megabytes(&self, key: &str, mb: f64, high: f64) -> Result<u64, ScenarioError> {
        Ok((self.number(key, mb, 0.000_001, high)? * 1e6) as u64)
    }

    pub(super) fn chance(&self, key: &str, share: f64) -> Result<Chance, ScenarioError> {
        self.number(key, share, 0.0, 1.0).map(Chance::of)
    }

    /// Stretches of time, ascending and apart.
    pub(super) fn stretches(
        &self,
        key: &str,
        list: &[[f64; 2]],
    ) -> Result<Vec<(Nanos, Nanos)>, ScenarioError> {
        let mut stretches: Vec<(Nanos, Nanos)> = Vec::new();
        for &[from, until] in list {
            let (from, until) = (self.seconds(key, from)?, self.seconds(key, until)?);
            if from >= until || stretches.last().is_some_and(|last| from < last.1) {
                return Err(self.refuse(key, "stretches are [from, until] in seconds, ascending and apart"));
            }
            stretches.push((from, until));
        }
        if stretches.len() > STRETCHES_MAX {
            return Err(self.refuse(key, format!("at most {STRETCHES_MAX} stretches are possible")));
        }
        Ok(stretches)
    }
}

/// Stretches in one list: each packet looks through them.
const STRETCHES_MAX: usize = 100;
