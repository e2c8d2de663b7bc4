//! Remedies for losses at the receiver, in words.

use super::journal::At;
use fobs_model::cause::{Remedy, RemedyAction, RemedyResult};

/// Most lines: the sender may follow the receiver's drain rate down and up many times.
const LINES_MAX: usize = 12;

/// A line for each remedy: its effect where that was measured, otherwise its result.
pub(super) fn lines(remedies: &[At<Remedy>]) -> Vec<String> {
    let all = || remedies.iter().map(|at| &at.what);
    let has_effect = |(index, remedy): &(usize, &Remedy)| {
        let mut later = all().skip(index + 1).filter(|other| same_kind(&other.action, &remedy.action));
        let next = later.next();
        remedy.result == RemedyResult::Applied
            && next.is_some_and(|next| matches!(next.result, RemedyResult::Effect { .. }))
    };
    let lines = all().enumerate().filter(|entry| !has_effect(entry)).map(|(_, remedy)| remedy.to_string());
    let mut lines: Vec<String> = lines.collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    if more > 0 {
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more in the trace"));
    }
    lines
}

fn same_kind(a: &RemedyAction, b: &RemedyAction) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64, action: RemedyAction, result: RemedyResult) -> At<Remedy> {
        At { at_us: (seconds * 1e6) as u64, what: Remedy { seconds, action, result } }
    }

    #[test]
    fn each_remedy_has_one_line_with_its_last_result() {
        let buffer = RemedyAction::LargerBuffer { from_bytes: 425_984, to_bytes: 1 << 24 };
        let cpu = RemedyAction::QuieterCpu { from: 1, to: 3 };
        let nice = RemedyAction::HigherPriority { from: 0, to: -20 };
        let drain = RemedyAction::DrainRate { bits_per_second: 123_400_000 };
        let effect = |drops_before, drops_after| RemedyResult::Effect { drops_before, drops_after };
        let refused = RemedyResult::Refused { reason: "ask root".to_owned() };
        let remedies = [
            at(0.4, buffer, RemedyResult::Applied),
            at(0.5, drain, RemedyResult::Applied),
            at(1.4, buffer, effect(0.031, 0.0002)),
            at(1.6, cpu, RemedyResult::Applied),
            at(2.6, cpu, effect(0.01, 0.0)),
            at(2.6, nice, refused),
            at(2.7, RemedyAction::AnotherLane, RemedyResult::Applied),
        ];
        let expected = [
            "at 0.5 s: a sending rate of what the receiver takes, 123 Mbit/s: done",
            "at 1.4 s: a socket buffer of 16.0 MiB instead of 416.0 KiB: drops went from 3% to 0.02% of the packets",
            "at 2.6 s: CPU 3 instead of CPU 1 for the receiving thread: drops went from 1% to 0% of the packets",
            "at 2.6 s: nice -20 instead of 0 for the receiving thread: not possible: ask root",
            "at 2.7 s: a thread that only empties the socket: done",
        ];
        assert_eq!(lines(&remedies), expected);
        assert_eq!(lines(&[]), [""; 0]);
    }

    #[test]
    fn only_the_first_of_many_remedies_are_shown() {
        let drain = |i: u32| RemedyAction::DrainRate { bits_per_second: u64::from(i) * 1_000_000 };
        let remedies: Vec<_> = (0..30).map(|i| at(f64::from(i), drain(i), RemedyResult::Applied)).collect();
        let lines = lines(&remedies);
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[LINES_MAX], "and 18 more in the trace");
    }
}
