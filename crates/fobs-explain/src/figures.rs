//! Figures of samples: shares, seconds, middles.

use fobs_model::sample::ReceiverSample;

use super::journal::At;

/// What the receiver did from its last sample before `from_us` to its first one after `to_us`.
pub(super) fn around(samples: &[At<ReceiverSample>], from_us: u64, to_us: u64) -> Option<ReceiverSample> {
    let first = samples.partition_point(|s| s.at_us <= from_us).saturating_sub(1);
    let last = samples.partition_point(|s| s.at_us < to_us).min(samples.len().checked_sub(1)?);
    // At the ends of the record: the nearest two samples.
    let (first, last) = if first < last { (first, last) } else { (last.checked_sub(1)?, last) };
    Some(samples[last].what.since(&samples[first].what))
}

pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// A part of a whole, 0 to 1.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

/// Not bounded, and 0 without a whole.
pub(super) fn ratio_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// The median of the finite figures.
pub(super) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
