//! When to report (protocol 5.3).

use crate::Timestamp;
use crate::recovery::FIRST_TRAIN_PACKETS;
use crate::wire::AckRatio;
use std::time::Duration;

/// New packets between the first acks: dense at first, because the sender measures its first train by them.
const FIRST_ACKS: [u32; 6] = [1, 7, 8, 16, 16, 16];

const _: () = assert!(
    FIRST_ACKS[0] + FIRST_ACKS[1] + FIRST_ACKS[2] + FIRST_ACKS[3] + FIRST_ACKS[4] + FIRST_ACKS[5]
        == FIRST_TRAIN_PACKETS as u32,
    "the dense acks cover the first train"
);

/// Counts new packets and time since the last ack.
#[derive(Debug)]
pub(super) struct AckPolicy {
    every: u32,
    delay_max: Duration,
    ratio: AckRatio,
    acks: usize,
    unreported: u32,
    /// Packets that came in frames: the dense first acks are not for them.
    framed: u32,
    oldest: Option<Timestamp>,
    at_once: bool,
}

impl AckPolicy {
    pub(super) fn new(every: u32, delay_max: Duration) -> AckPolicy {
        AckPolicy {
            every: every.max(1),
            delay_max,
            ratio: AckRatio::USUAL,
            acks: 0,
            unreported: 0,
            framed: 0,
            oldest: None,
            at_once: false,
        }
    }

    /// New packets after which the next ack leaves.
    fn due_after(&self) -> u32 {
        FIRST_ACKS.get(self.acks).map_or(self.ratio.packets(self.every), |n| self.every.min(*n))
    }

    /// The sender asks for acks as rare as this.
    pub(super) fn set_ratio(&mut self, ratio: AckRatio) {
        self.ratio = ratio;
    }

    /// Whether acks are as often as usual.
    pub(super) fn is_usual(&self) -> bool {
        self.ratio == AckRatio::USUAL
    }

    /// A packet arrived that should be reported.
    pub(super) fn on_packet(&mut self, now: Timestamp) {
        self.unreported = self.unreported.saturating_add(1);
        self.oldest.get_or_insert(now);
    }

    /// A packet arrived in a frame.
    pub(super) fn on_framed(&mut self, now: Timestamp) {
        self.framed = self.framed.saturating_add(1);
        self.oldest.get_or_insert(now);
    }

    /// Something that the sender waits for happened.
    pub(super) fn at_once(&mut self) {
        self.at_once = true;
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.at_once
            || self.unreported >= self.due_after()
            || self.framed >= self.ratio.packets(self.every)
            || self.deadline().is_some_and(|at| at <= now)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.oldest.map(|at| at + self.ratio.delay(self.delay_max))
    }

    pub(super) fn on_ack(&mut self) {
        self.acks = self.acks.saturating_add(1);
        self.on_frames_acked();
    }

    /// An ack left that reports frames only.
    pub(super) fn on_frames_acked(&mut self) {
        self.unreported = 0;
        self.framed = 0;
        self.oldest = None;
        self.at_once = false;
    }

    pub(super) fn acks(&self) -> usize {
        self.acks
    }
}
