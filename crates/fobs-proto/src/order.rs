//! The orders of sending: what a controller is paired with and the sender follows (protocol 5.7).

/// In what order packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleKind {
    /// The papers' (`seeds/000` section 3.1.1): first packets never sent, then whole passes over everything
    /// unacknowledged, so that no packet is sent an n+1st time while an unacknowledged one was sent fewer
    /// than n times.
    Circular,
    /// Packets declared lost, then packets never sent, then a bounded redundant tail.
    LossDriven,
}
