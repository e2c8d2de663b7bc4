//! Datagrams that are lost: from their detection to the controller, by way of the attribution.

use super::Sender;
use crate::Timestamp;
use crate::congestion::{FoundLosses, LossCause, LossEpisode, LossEvidence};
use crate::recovery::Lost;
use std::time::Duration;

impl Sender {
    pub(super) fn detect_losses(&mut self, now: Timestamp) {
        let mut lost = Vec::new();
        let (round_trip, loss_delay) = (self.rtt.smoothed(), self.loss_delay());
        self.flight.sent.detect_losses(now, round_trip, loss_delay, |packet| lost.push(packet));
        self.on_losses(now, &lost, LossEvidence::Acks);
    }

    /// Time after which a packet is lost that later ones have overtaken. One that comes late waits for the
    /// next ack as well.
    pub(super) fn loss_delay(&self) -> Duration {
        match self.flight.sent.reordering_window(self.rtt.smoothed()) {
            None => self.rtt.loss_delay(None),
            reordering => self.rtt.loss_delay(reordering) + self.ack_delay_max(),
        }
    }

    /// Packets that were declared lost have arrived: the controller takes back its response.
    pub(super) fn undo_losses(&mut self, now: Timestamp, found: u64) {
        if found > 0 {
            self.controller.on_found(&FoundLosses { now, packets: found });
        }
    }

    /// Gives up on everything in flight, and on the measured rate.
    pub(super) fn lose_all(&mut self, now: Timestamp) {
        let mut lost = Vec::new();
        self.flight.sent.lose_all(|packet| lost.push(packet));
        self.on_losses(now, &lost, LossEvidence::Silence);
        self.rate.start_over(self.flight.sent.next_number());
    }

    /// Packets were declared lost: the controller gets those that are not held for attribution.
    fn on_losses(&mut self, now: Timestamp, lost: &[Lost], evidence: LossEvidence) {
        if lost.is_empty() {
            return;
        }
        let missed = self.flight.on_losses(lost);
        let next_number = self.flight.sent.next_number();
        let held = self.attribution.on_losses(lost, &missed, evidence, next_number);
        self.report_losses(now, &held.released, evidence, LossCause::Inconclusive);
        self.report_losses(now, &missed[held.count..], evidence, LossCause::Inconclusive);
    }

    /// Passes the losses held to the controller, if their round is over.
    pub(super) fn settle_losses(&mut self, now: Timestamp) {
        let Some(acked) = self.flight.sent.largest_acked() else { return };
        let Some(settled) = self.attribution.settle(now, acked) else { return };
        let cause = if settled.spared { LossCause::Receiver } else { LossCause::Inconclusive };
        self.report_losses(now, &settled.held, LossEvidence::Acks, cause);
        if settled.spared {
            self.flight.spare(&settled.held);
        }
    }

    pub(super) fn report_losses(
        &mut self,
        now: Timestamp,
        lost: &[Lost],
        evidence: LossEvidence,
        cause: LossCause,
    ) {
        let sent = || lost.iter().map(|lost| lost.sent.at);
        let (Some(first), Some(last)) = (sent().min(), sent().max()) else { return };
        self.controller.on_loss(&LossEpisode {
            now,
            packets: lost.len() as u64,
            bytes: lost.iter().map(|l| u64::from(l.sent.len)).sum(),
            bytes_in_flight: self.flight.sent.bytes(),
            sent: (first, last),
            evidence,
            cause,
        });
    }
}
