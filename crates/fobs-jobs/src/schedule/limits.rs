//! How many jobs run at once: in total, to each destination, from each source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Reason;
use super::entry::Entry;

/// Largest limit: each running job has a thread of the keeper, and a process with its memory.
pub const LIMIT_MAX: u32 = 64;

/// How many jobs may run at once, each from 1 to [`LIMIT_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Together.
    pub total: u32,
    /// To one destination.
    pub per_host: u32,
    /// From one source.
    pub per_source: u32,
}

impl Default for Limits {
    /// Four together: one copy fills a path, a second one its pauses between small files; two pairs of hosts
    /// then work at once.
    fn default() -> Limits {
        Limits { total: 4, per_host: 2, per_source: 2 }
    }
}

impl Limits {
    /// Checks what any program may have written.
    ///
    /// # Errors
    /// The first limit that is out of bounds.
    pub fn check(&self) -> Result<(), String> {
        let all = [("total", self.total), ("per-host", self.per_host), ("per-source", self.per_source)];
        match all.iter().find(|(_, limit)| !(1..=LIMIT_MAX).contains(limit)) {
            Some((what, limit)) => Err(format!("the limit {what} is from 1 to {LIMIT_MAX}, not {limit}")),
            None => Ok(()),
        }
    }
}

/// What the running jobs hold.
#[derive(Debug, Default)]
pub(super) struct Places {
    total: u32,
    hosts: BTreeMap<String, u32>,
    sources: BTreeMap<String, u32>,
}

impl Places {
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    pub(super) fn take(&mut self, entry: &Entry) {
        self.total += 1;
        entry.destinations.iter().for_each(|host| *self.hosts.entry(host.clone()).or_default() += 1);
        entry.sources.iter().for_each(|source| *self.sources.entry(source.clone()).or_default() += 1);
    }

    pub(super) fn free(&mut self, entry: &Entry) {
        self.total = self.total.saturating_sub(1);
        let give_back = |places: &mut BTreeMap<String, u32>, name: &String| {
            let left = places.get(name).map_or(0, |held| held.saturating_sub(1));
            if left == 0 {
                places.remove(name);
            } else {
                places.insert(name.clone(), left);
            }
        };
        entry.destinations.iter().for_each(|host| give_back(&mut self.hosts, host));
        entry.sources.iter().for_each(|source| give_back(&mut self.sources, source));
    }

    /// The limit that keeps a job from running.
    pub(super) fn full(&self, entry: &Entry, limits: Limits) -> Option<Reason> {
        if self.total >= limits.total {
            return Some(Reason::Total { running: self.total });
        }
        let held = |places: &BTreeMap<String, u32>, name: &String| places.get(name).copied().unwrap_or(0);
        let host = entry.destinations.iter().find(|host| held(&self.hosts, host) >= limits.per_host);
        if let Some(host) = host {
            return Some(Reason::Host { host: host.clone(), running: held(&self.hosts, host) });
        }
        let source = entry.sources.iter().find(|source| held(&self.sources, source) >= limits.per_source);
        source.map(|source| Reason::Source { source: source.clone(), running: held(&self.sources, source) })
    }
}
