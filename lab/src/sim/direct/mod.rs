//! Direct-execution simulation (`seeds/001` section 4.1): the benefit of a classifier on a link of 10 Gbit/s.
//!
//! Each window of a recorded, physical transfer stands for one window of a virtual transfer. The virtual
//! clock, window and response function are simulated; the losses are real. One virtual transfer ignores the
//! losses that the classifier attributes to the receiver, a second one ignores none.

mod command;
#[cfg(test)]
mod tests;

pub use command::{DirectArgs, run};

use fobs_proto::congestion::response::{LOW_WINDOW, fobs_window};
use fobs_proto::loss_cause::Verdict;
use fobs_proto::loss_cause::paper::LOSS_RATE_MIN;
use serde::Serialize;

use crate::diagnose::Classifier;
use fobs_diagnose::{Cause, Random, Window};

/// The virtual link; the default is that of RFC 3649: 10 Gbit/s, 100 ms, packets of 1500 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bits per second.
    pub rate_bps: f64,
    /// Round trip, seconds.
    pub rtt_s: f64,
    /// Bytes of a packet.
    pub packet_bytes: f64,
}

impl Default for Link {
    fn default() -> Link {
        Link { rate_bps: 10e9, rtt_s: 0.1, packet_bytes: 1500.0 }
    }
}

impl Link {
    /// The window that fills the link, packets.
    fn window_max(&self) -> f64 {
        self.rate_bps * self.rtt_s / (8.0 * self.packet_bytes)
    }
}

/// The physical transfer: windows drawn from the recorded ones and clean ones, such that the long-term loss
/// rate is `loss_rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Physical {
    /// Share of all packets lost in the long term; `None` takes the recorded windows once, in order.
    pub loss_rate: Option<f64>,
    /// Number of windows, if they are drawn.
    pub windows: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// Why nothing was simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DirectError {
    /// No recorded window has losses.
    #[error("no recorded window has a loss; give files with windows that lost packets")]
    NoLoss,
    /// The recorded windows are too clean.
    #[error(
        "a loss rate of {asked} is not possible with recorded windows that lose {recorded:.6} of their packets; give a \
         lower rate, or record windows with more loss"
    )]
    TooClean {
        /// The requested loss rate.
        asked: f64,
        /// The mean loss rate of the recorded windows with losses.
        recorded: f64,
    },
}

/// A row of the paper's Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Row {
    /// Long-term loss of the physical transfer.
    pub loss_rate: f64,
    /// Its windows.
    pub windows: u32,
    /// Windows with losses: congestion events.
    pub events: u32,
    /// Events with enough loss for a diagnosis ([`LOSS_RATE_MIN`]).
    pub in_range: u32,
    /// Of those, events attributed to the receiver.
    pub receiver: u32,
    /// Attributed to the network.
    pub network: u32,
    /// Attributed to neither.
    pub inconclusive: u32,
    /// Events in range that are labelled as the network's.
    pub labelled_network: u32,
    /// Average throughput of the virtual transfer that ignores receiver losses, bits per second.
    pub with_bps: f64,
    /// The same of the transfer that ignores none.
    pub without_bps: f64,
    /// The same of one that ignores what the receiving host's counters report; `None` unless every event has
    /// a count.
    pub ledger_bps: Option<f64>,
}

/// Runs the virtual transfers over the physical one.
///
/// # Errors
/// [`DirectError`] if the requested loss rate is not possible with the recorded windows.
pub fn simulate(
    recorded: &[Window],
    physical: &Physical,
    link: &Link,
    classifier: &mut Classifier,
) -> Result<Row, DirectError> {
    let lossy: Vec<&Window> = recorded.iter().filter(|window| window.signature.lost() > 0).collect();
    if lossy.is_empty() {
        return Err(DirectError::NoLoss);
    }
    // The windows of a file have one length; clean ones between them get the same.
    let packets = lossy[0].signature.packets();
    let mut row = Row::default();
    let (mut with, mut without, mut ledger) = (Virtual::new(), Virtual::new(), Virtual::new());
    let mut counted = true;
    let mut pass = |window: Option<&Window>| {
        let Some(window) = window else {
            row.windows += 1;
            with.pass(packets, 0, link);
            without.pass(packets, 0, link);
            ledger.pass(packets, 0, link);
            return;
        };
        let lost = window.signature.lost();
        let ignored = row.count(window, classifier) == Verdict::Receiver;
        with.pass(window.signature.packets(), if ignored { 0 } else { lost }, link);
        without.pass(window.signature.packets(), lost, link);
        let host = window.host_lost.map(|host| u32::try_from(host).unwrap_or(u32::MAX));
        counted &= host.is_some();
        ledger.pass(window.signature.packets(), lost.saturating_sub(host.unwrap_or(0)), link);
    };
    match physical.loss_rate {
        None => {
            for window in recorded {
                pass((window.signature.lost() > 0).then_some(window));
            }
        }
        Some(asked) => {
            let mean =
                lossy.iter().map(|window| window.signature.loss_rate()).sum::<f64>() / lossy.len() as f64;
            let often = asked / mean;
            if often.is_nan() || often > 1.0 {
                return Err(DirectError::TooClean { asked, recorded: mean });
            }
            let mut random = Random::new(physical.seed);
            for _ in 0..physical.windows {
                let event = random.chance(often);
                pass(event.then(|| lossy[random.below(lossy.len())]));
            }
        }
    }
    row.loss_rate = without.loss_rate();
    (row.with_bps, row.without_bps) = (with.throughput_bps(), without.throughput_bps());
    row.ledger_bps = counted.then(|| ledger.throughput_bps());
    Ok(row)
}

impl Row {
    /// Counts an event and returns its verdict.
    fn count(&mut self, window: &Window, classifier: &mut Classifier) -> Verdict {
        let verdict = classifier.classify(&window.signature).verdict;
        self.windows += 1;
        self.events += 1;
        if window.signature.loss_rate() >= LOSS_RATE_MIN {
            self.in_range += 1;
            self.labelled_network += u32::from(window.cause == Some(Cause::Net));
            match verdict {
                Verdict::Receiver => self.receiver += 1,
                Verdict::Network => self.network += 1,
                Verdict::Inconclusive => self.inconclusive += 1,
            }
        }
        verdict
    }
}

/// A virtual transfer.
#[derive(Debug)]
struct Virtual {
    /// The next window, packets.
    window: f64,
    /// Packets of the physical transfer.
    sent: f64,
    /// Those whose loss is not ignored.
    lost: f64,
    bits: f64,
    seconds: f64,
}

impl Virtual {
    fn new() -> Virtual {
        Virtual { window: LOW_WINDOW, sent: 0.0, lost: 0.0, bits: 0.0, seconds: 0.0 }
    }

    /// Advances by one window, physical and virtual; sets the next window by the loss rate so far.
    fn pass(&mut self, packets: u32, lost: u32, link: &Link) {
        let bits = self.window * link.packet_bytes * 8.0;
        let rate = (bits / link.rtt_s).min(link.rate_bps);
        self.bits += bits;
        self.seconds += bits / rate;
        self.sent += f64::from(packets);
        self.lost += f64::from(lost);
        self.window = match self.loss_rate() {
            0.0 => link.window_max(),
            loss => fobs_window(self.window, loss).clamp(1.0, link.window_max()),
        };
    }

    fn loss_rate(&self) -> f64 {
        if self.sent > 0.0 { self.lost / self.sent } else { 0.0 }
    }

    fn throughput_bps(&self) -> f64 {
        if self.seconds > 0.0 { self.bits / self.seconds } else { 0.0 }
    }
}
