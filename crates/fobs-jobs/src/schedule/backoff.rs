//! How long a job waits after a failure that may pass by itself.

use fobs_rng::Rng;

use crate::job::JobId;

/// The first pause, ms: `fobs` itself has tried for ten minutes by then (`--timeout`).
pub const PAUSE_MS_MIN: u64 = 10_000;
/// The longest pause, ms: a host that is back is noticed in ten minutes.
pub const PAUSE_MS_MAX: u64 = 600_000;

/// The pause after this number of failures, ms: doubled each time up to [`PAUSE_MS_MAX`], of which a random
/// part of up to a half is left out, so that jobs that failed together do not all come back together
/// ("Exponential Backoff And Jitter", AWS Architecture Blog 2015). The same for the same job and failure.
pub(super) fn pause_ms(id: JobId, failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(20);
    let whole = PAUSE_MS_MIN.saturating_mul(1 << doublings).min(PAUSE_MS_MAX);
    whole - Rng::stream(id.0, u64::from(failures)).range(0, whole / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_bounds_and_differ() {
        let mut seen = std::collections::BTreeSet::new();
        for id in 1..100 {
            for failures in 1..40 {
                let whole = (PAUSE_MS_MIN << (failures - 1).min(20)).min(PAUSE_MS_MAX);
                let pause = pause_ms(JobId(id), failures);
                assert!((whole / 2..=whole).contains(&pause), "{id} {failures}: {pause}");
            }
            seen.insert(pause_ms(JobId(id), 1));
        }
        assert!(seen.len() > 90, "a hundred jobs come back at {} times", seen.len());
    }
}
