//! What detectors find and states decide on. A finding carries no rate and changes none.

use std::time::Duration;

/// What has become of the standing queue since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueEvent {
    /// Nothing of note.
    Unchanged,
    /// It was busy and is no longer, whatever made it go.
    Drained,
}

/// What is to be reckoned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bursts {
    /// None.
    Absent,
    /// A steep queue stands, too early to know how often such queues come.
    Standing,
    /// Several came and passed lately: the next may come at any time.
    Expected,
}

/// Others hold the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// The queue that this flow would leave standing.
    pub(crate) target: Duration,
    /// How much shorter the queue would be if it were self-induced.
    pub(crate) yielded: Duration,
}

/// Another flow has taken a part of the path, and a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Joined;

/// What looks like a queue is the path's delay now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Longer;

/// What phases of cruising have lost since the last drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overload {
    /// No more than chance explains.
    None,
    /// More than that in the last phase.
    Suspected,
    /// More than that in `in_a_row` phases in a row: a drain shows whose loss it is.
    Persistent,
}

/// The remembered rate brings a self-induced queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relapse;
