//! The kind of a path, with probabilities: how well the measurements of a stretch of time fit each kind.
//!
//! | kind | a queue | losses | and |
//! |---|---|---|---|
//! | narrow | stands | whatever it cannot hold | the delivery rate is steady |
//! | competing | stands | | the rate is unsteady, or the queue moves on its own; far more passed at times |
//! | reordering | does not stand | none, or late packets | packets come behind later ones |
//! | return path | on the way back | | or acks are lost |
//! | policed | does not stand, nor rises where packets are lost | come with the rate | |
//! | lossy | does not stand | at any rate, as by chance | |
//! | untried | does not stand | none | |
//!
//! Each kind has a fit of 0 to 1, a product of grades; probabilities are the fits together with a rest for
//! what nobody thought of. Grades and rest are chosen on the simulator's training seeds.

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    /// Its rate was reached.
    Narrow,
    /// Others share its bottleneck.
    Competing,
    /// It delivers packets out of order.
    Reordering,
    /// The way back delays or loses the acks.
    ReturnPath,
    /// It is worse than it was earlier in the transfer.
    Changed,
    /// It drops what exceeds a rate, without a queue.
    Policed,
    /// It loses packets at any rate.
    Lossy,
    /// No sign that its rate was reached.
    Untried,
}

impl PathKind {
    /// Every kind.
    pub(super) const ALL: &[PathKind] = &[
        PathKind::Narrow,
        PathKind::Competing,
        PathKind::Reordering,
        PathKind::ReturnPath,
        PathKind::Changed,
        PathKind::Policed,
        PathKind::Lossy,
        PathKind::Untried,
    ];

    /// Whether a step of the path explains it: the copy would be faster on the path as it was.
    pub(super) fn is_changed_by_a_step(self) -> bool {
        matches!(self, PathKind::Narrow | PathKind::Untried)
    }
}

/// What is measured of a stretch of time, as far as it shows the kind of path.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Signs {
    /// Share of the time in which a queue stood, 0 to 1.
    pub(super) queued: f64,
    /// Relative spread of the delivery rate while a queue stood; 0 if too little is known.
    pub(super) unsteady: f64,
    /// How far the queue moved without this flow's packets, as a part of the time: a queue of its own grows
    /// and drains by what was sent beyond the delivery rate, and by nothing else. 0 if too little is known.
    pub(super) drift: f64,
    /// The highest rate that the path carried over the mean one: what others leave at times, and take
    /// otherwise. 0 if too little is known.
    pub(super) room: f64,
    /// How far TCP's delivery rate follows what is in flight while a queue stands, 0 to 1: the part of the
    /// bottleneck that others have; `None` if too little is known.
    pub(super) follows: Option<f64>,
    /// Share of the time in which a queue stood on the way there, 0 to 1.
    pub(super) queued_there: f64,
    /// Share of the time in which TCP's window would let far more pass than was delivered, 0 to 1: then it is
    /// not the window that holds the sender, but a bottleneck, be it the sender's own network card.
    pub(super) unfilled: f64,
    /// How far the queue rose where packets were lost, in packets; `None` if too little is known. A short
    /// queue that overflows was full, a policer has none.
    pub(super) rose: Option<f64>,
    /// Relative spread of the delivery rate, with a queue and without; 1 if too little is known.
    pub(super) varies: f64,
    /// Share of the time in which `auto` competed.
    pub(super) competed: f64,
    /// Share of the packets that were lost.
    pub(super) loss: f64,
    /// Whether losses come with the rate.
    pub(super) with_rate: bool,
    /// Share of the packets that came behind later ones.
    pub(super) reordered: f64,
    /// How far behind at most, milliseconds.
    pub(super) behind_ms: f64,
    /// Part of the round trip's growth that arose on the way back, 0 to 1.
    pub(super) way_back: f64,
    /// That growth on the way back, as a part of the base round trip.
    pub(super) way_back_growth: f64,
    /// The same, milliseconds.
    pub(super) way_back_ms: f64,
    /// Share of the acks that were lost.
    pub(super) acks_lost: f64,
    /// Part of the time of the controller's rate in which its window held the sender, 0 to 1: acks that are
    /// late or lost cost time where they do not open the window in time.
    pub(super) windowed: f64,
}

/// Fit that is left for what none of the kinds is.
const REST: f64 = 0.15;
/// Losses that no controller feels, and those that each does.
const LOSS_FELT: (f64, f64) = (2e-4, 8e-4);

/// Losses in a queue that stands which no controller makes on its own: it backs off.
const LOSS_OF_OTHERS: (f64, f64) = (0.08, 0.25);
/// Highest over mean rate, from which on others take half of the bottleneck or more.
const ROOM_TAKEN: (f64, f64) = (1.25, 1.75);
/// Part of the bottleneck that others have, from which on they are the limit.
const TAKEN: (f64, f64) = (0.75, 0.95);
/// Packets by which a queue rises where packets are lost: at most one burst's own in front of a policer
/// (measured: 0.1 to 1.0 behind real and virtual policers, 2.7 to 140 in queues that overflow).
const ROSE: (f64, f64) = (1.5, 3.5);
/// Part of the time in which the window held the sender, from which on late acks cost time. Measured, ramp-up
/// included: 0.06 to 0.28 on seven narrow ways back whose acks cost less than the link.
const WINDOWED: (f64, f64) = (0.15, 0.4);
/// Highest over mean rate at which a queue of others is as likely as one's own, where too little is known of
/// the rate's steadiness.
const ROOM_UNKNOWN: (f64, f64) = (1.75, 3.0);
const UNKNOWN: f64 = 0.5;
/// What `auto`'s own finding that others fill the queue counts, where the path never carried more.
const COMPETED: f64 = 0.6;

/// Part of the time with a window that is not filled, from which on a steady rate is a bottleneck's.
const UNFILLED: (f64, f64) = (0.5, 0.8);

/// How far `value` is on the way from the first to the second, 0 to 1.
fn grade(value: f64, (none, full): (f64, f64)) -> f64 {
    if value.is_finite() { ((value - none) / (full - none)).clamp(0.0, 1.0) } else { 0.0 }
}

/// Probabilities of the kinds, in the order of [`PathKind::ALL`]; what is missing to 1 is for something else.
pub(super) fn probabilities(signs: &Signs) -> [f64; PathKind::ALL.len()] {
    let loss = grade(signs.loss, LOSS_FELT);
    // A bottleneck whose queue is too short to stand overflows at its rate.
    let steady = 1.0 - grade(signs.varies, (0.03, 0.08));
    let queue = grade(signs.queued, (0.2, 0.45)).max(grade(signs.unfilled, UNFILLED) * steady * (1.0 - loss));
    let unsteady = grade(signs.unsteady, (0.03, 0.07));
    let drift = grade(signs.drift, (0.1, 0.2));
    let competed = grade(signs.competed, (0.1, 0.4));
    let with_rate = if signs.with_rate { 1.0 } else { 0.0 };
    // A queue most of the time leaves random loss no part; one at times does not.
    let filled = grade(signs.queued, (0.4, 0.8));
    let random = loss * (1.0 - with_rate) * (1.0 - filled);
    let reordered = grade(signs.reordered, (0.002, 0.02)) * grade(signs.behind_ms, (0.2, 0.8));
    // One that overflows at times, where packets come late all the time, is not what limits.
    let full = signs.rose.map_or(0.0, |rose| grade(rose, ROSE)) * (1.0 - reordered);
    let overflows = loss * f64::max(with_rate, steady) * full;
    // The receiver holds acks back for up to a millisecond.
    let way_back = grade(signs.way_back, (0.4, 0.7))
        * grade(signs.way_back_growth, (0.05, 0.2))
        * grade(signs.way_back_ms, (1.0, 3.0));
    // A bottleneck that is busy all the time is what limits, however few acks come; and acks that are late
    // cost nothing while the pacer has its rate.
    let returning = way_back.max(grade(signs.acks_lost, (0.3, 0.6)))
        * grade(signs.windowed, WINDOWED)
        * (1.0 - grade(signs.queued_there, (0.4, 0.8)));
    // Others are there, and take more of the bottleneck than this flow: otherwise it is its own limit.
    // Acks that wait on the way back move the rate and the round trip as others would.
    let moved = unsteady.max(drift) * (1.0 - way_back);
    let unknown = if signs.varies < 1.0 { 0.0 } else { UNKNOWN * grade(signs.room, ROOM_UNKNOWN) };
    let present = moved.max(competed).max(queue * grade(signs.loss, LOSS_OF_OTHERS)).max(unknown);
    let taken = signs.follows.map_or(0.0, |part| grade(part, TAKEN));
    let others = present * grade(signs.room, ROOM_TAKEN).max(taken).max(COMPETED * competed);
    let there = 1.0 - returning;
    let fit = |kind| match kind {
        PathKind::Narrow => there * queue.max(overflows) * (1.0 - others),
        PathKind::Competing => there * others * queue.max(loss * with_rate * 0.5) * (1.0 - 0.8 * random),
        PathKind::Reordering => there * reordered * (1.0 - queue * (1.0 - others)),
        PathKind::ReturnPath => returning,
        PathKind::Changed => 0.0,
        PathKind::Policed => there * (1.0 - queue) * (1.0 - overflows) * loss * with_rate * (1.0 - reordered),
        PathKind::Lossy => {
            there * (1.0 - queue * (1.0 - others)) * (1.0 - overflows) * random * (1.0 - reordered)
        }
        PathKind::Untried => there * (1.0 - queue) * (1.0 - loss) * (1.0 - reordered),
    };
    let fits = std::array::from_fn(|place| fit(PathKind::ALL[place]));
    let all: f64 = fits.iter().sum::<f64>() + REST;
    fits.map(|fit| fit / all)
}

/// The likeliest kind, and its probability.
pub(super) fn likeliest(probabilities: &[f64; PathKind::ALL.len()]) -> (PathKind, f64) {
    let all = PathKind::ALL.iter().copied().zip(*probabilities);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((PathKind::Untried, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_own_signs() {
        let plain = Signs::default();
        let windowed = Signs { windowed: 0.7, ..plain };
        let table = [
            (plain, PathKind::Untried),
            (Signs { queued: 0.9, unsteady: 0.03, ..plain }, PathKind::Narrow),
            (Signs { queued: 0.9, unsteady: 0.5, room: 3.0, ..plain }, PathKind::Competing),
            (Signs { queued: 0.9, unsteady: 0.5, room: 1.2, ..plain }, PathKind::Narrow),
            (Signs { queued: 0.9, drift: 0.3, room: 3.0, ..plain }, PathKind::Competing),
            (Signs { queued: 0.9, unsteady: 0.5, follows: Some(1.0), ..plain }, PathKind::Competing),
            (Signs { queued: 0.9, unsteady: 0.5, follows: Some(0.2), ..plain }, PathKind::Narrow),
            (Signs { queued: 0.9, competed: 0.8, room: 3.0, ..plain }, PathKind::Competing),
            (Signs { reordered: 0.3, behind_ms: 2.0, ..plain }, PathKind::Reordering),
            (
                Signs {
                    reordered: 0.9,
                    behind_ms: 40.0,
                    loss: 0.05,
                    with_rate: true,
                    rose: Some(99.0),
                    ..plain
                },
                PathKind::Reordering,
            ),
            (
                Signs { queued: 0.9, way_back: 0.9, way_back_growth: 2.0, way_back_ms: 9.0, ..windowed },
                PathKind::ReturnPath,
            ),
            (
                Signs { queued: 0.9, way_back: 0.9, way_back_growth: 2.0, way_back_ms: 9.0, ..plain },
                PathKind::Narrow,
            ),
            (Signs { acks_lost: 0.7, ..windowed }, PathKind::ReturnPath),
            (Signs { acks_lost: 0.7, queued: 0.9, queued_there: 0.9, ..windowed }, PathKind::Narrow),
            (Signs { loss: 0.02, with_rate: true, rose: Some(0.5), ..plain }, PathKind::Policed),
            (Signs { loss: 0.02, with_rate: true, rose: Some(6.0), ..plain }, PathKind::Narrow),
            (Signs { loss: 0.02, ..plain }, PathKind::Lossy),
            (Signs { unfilled: 0.9, varies: 0.01, ..plain }, PathKind::Narrow),
            (Signs { unfilled: 0.9, varies: 0.3, ..plain }, PathKind::Untried),
            (Signs { queued: 0.9, varies: 1.0, room: 1.3, ..plain }, PathKind::Narrow),
        ];
        for (signs, expected) in table {
            let found = probabilities(&signs);
            let (kind, probability) = likeliest(&found);
            assert_eq!(kind, expected, "{signs:?}: {found:?}");
            assert!(probability > 0.8 && found.iter().sum::<f64>() <= 1.0, "{signs:?}: {found:?}");
        }
    }

    #[test]
    fn signs_between_two_kinds_are_sure_of_neither() {
        let between = Signs { queued: 0.9, unsteady: 0.5, room: 1.5, ..Signs::default() };
        let unknown = Signs { queued: 0.9, varies: 1.0, room: 40.0, ..Signs::default() };
        for signs in [between, unknown] {
            assert!(likeliest(&probabilities(&signs)).1 < 0.6, "{signs:?}");
        }
    }

    #[test]
    fn absurd_signs_give_finite_probabilities() {
        for value in [f64::NAN, f64::INFINITY, -1e300] {
            let signs =
                Signs { queued: value, unsteady: value, loss: value, way_back: value, ..Signs::default() };
            assert!(probabilities(&signs).iter().all(|p| (0.0..=1.0).contains(p)));
        }
    }
}
