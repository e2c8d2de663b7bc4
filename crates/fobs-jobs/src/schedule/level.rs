//! Priorities: jobs of one priority are a level, and levels age.
//!
//! A level of which nothing begins gains a step each half hour, until one of its jobs begins: so a low
//! priority is never left for good. Levels age and not jobs, so that among equal priorities shares alone
//! decide: a label with a long queue has old jobs, and would take the places of those that hand in one at a
//! time.

use std::collections::BTreeMap;

use super::entry::Entry;
use super::{JobId, Moment};

/// A level's priority grows by one step in this time, ms. Half an hour: twenty steps are ten hours, less than
/// a night and its day.
pub const AGING_MS: u64 = 30 * 60 * 1000;

/// When a job of each priority began last, ms since 1970: as many as there are priorities.
#[derive(Debug, Default)]
pub(super) struct Levels(BTreeMap<i8, u64>);

/// The best job of a level.
#[derive(Debug, Clone, Copy)]
struct Best {
    share: f64,
    id: JobId,
    /// Since when the first of its jobs waits.
    since_ms: u64,
}

impl Levels {
    pub(super) fn began(&mut self, priority: i8, now: Moment) {
        self.0.insert(priority, now.ms);
    }

    /// Which of these jobs begins next: of the highest level, that of the label that has had the least.
    pub(super) fn next<'a>(
        &self,
        jobs: impl Iterator<Item = (JobId, &'a Entry, f64)>,
        now: Moment,
    ) -> Option<JobId> {
        let mut levels: BTreeMap<i8, Best> = BTreeMap::new();
        for (id, entry, share) in jobs {
            let since_ms = entry.waits_since_ms();
            let best = levels.entry(entry.priority()).or_insert(Best { share, id, since_ms });
            best.since_ms = best.since_ms.min(since_ms);
            if share.total_cmp(&best.share).then(id.cmp(&best.id)).is_lt() {
                (best.share, best.id) = (share, id);
            }
        }
        let rank = |priority: i8, best: &Best| {
            let began_ms = self.0.get(&priority).copied().unwrap_or(0);
            let steps = now.ms.saturating_sub(best.since_ms.max(began_ms)) / AGING_MS;
            (i64::from(priority).saturating_add(i64::try_from(steps).unwrap_or(i64::MAX)), priority)
        };
        levels.iter().max_by_key(|(priority, best)| rank(**priority, best)).map(|(_, best)| best.id)
    }
}
