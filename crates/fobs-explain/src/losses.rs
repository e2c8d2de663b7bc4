//! What lost the packets, from the windows that the sender judged.

use super::journal::Journal;
use super::trace::Trace;
use fobs_model::cause::{LossVerdict, LossWindow};
use serde::Serialize;

/// A cause of losses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossCause {
    /// Where the packets were lost.
    pub cause: LossVerdict,
    /// How many packets.
    pub packets: u64,
    /// Probability of the cause by the pattern of the losses, 0 to 1; `None` where no pattern was evaluated.
    pub probability: Option<f64>,
    /// What supports it, in one sentence.
    pub evidence: String,
}

impl LossCause {
    /// Where packets with this verdict were lost, for people.
    pub fn place(cause: LossVerdict) -> &'static str {
        match cause {
            LossVerdict::Receiver => "at the receiver",
            LossVerdict::Network => "in the network",
            LossVerdict::Inconclusive => "for an unclear cause",
        }
    }
}

/// The causes of a transfer's losses; empty if nothing was lost.
pub(super) fn losses(trace: &Trace) -> Vec<LossCause> {
    let journal = &trace.journal;
    let verdicts = [LossVerdict::Receiver, LossVerdict::Network, LossVerdict::Inconclusive];
    let judged: Vec<LossCause> =
        verdicts.into_iter().filter_map(|verdict| judged_as(journal, verdict)).collect();
    if judged.is_empty() { unjudged(trace).into_iter().collect() } else { judged }
}

/// The windows of one verdict; `None` without a lost packet.
fn judged_as(journal: &Journal, cause: LossVerdict) -> Option<LossCause> {
    let windows: Vec<&LossWindow> =
        journal.losses().iter().map(|w| &w.what).filter(|w| w.verdict == cause).collect();
    let packets: u64 = windows.iter().map(|w| u64::from(w.network_lost) + u64::from(w.receiver_lost)).sum();
    if packets == 0 {
        return None;
    }
    let evaluated: Vec<f64> = windows.iter().filter_map(|w| w.p_receiver).collect();
    let p_receiver = (!evaluated.is_empty()).then(|| evaluated.iter().sum::<f64>() / evaluated.len() as f64);
    let model = match windows.iter().map(|w| w.learned_from).max() {
        _ if evaluated.is_empty() => String::new(),
        None | Some(0) => " by the shipped model".to_owned(),
        Some(count) => format!(" by a model that learned from {count} windows of this peer"),
    };
    // The host's counters include the packets of other programs: never more than this transfer lost.
    let host = match journal.receiver().last().map_or(0, |r| r.what.host_drops()).min(packets) {
        0 => String::new(),
        _ if cause == LossVerdict::Receiver => String::new(),
        up_to => format!("; its network card or backlog dropped packets, up to {up_to} of these"),
    };
    let counted: u64 = windows.iter().filter_map(|w| w.host_drops).map(u64::from).sum();
    Some(LossCause {
        cause,
        packets,
        probability: match cause {
            LossVerdict::Receiver => p_receiver,
            LossVerdict::Network => p_receiver.map(|p| 1.0 - p),
            LossVerdict::Inconclusive => None,
        },
        evidence: format!(
            "{} windows judged{model}; the receiver's kernel counted {counted} drops in them{host}",
            windows.len()
        ),
    })
}

/// Losses of which no window was judged: too few, or too late.
fn unjudged(trace: &Trace) -> Option<LossCause> {
    let last = &trace.journal.sender().last()?.what;
    let drops = last.socket_drops;
    (last.packets_lost > 0).then(|| LossCause {
        cause: if drops > 0 { LossVerdict::Inconclusive } else { LossVerdict::Network },
        packets: last.packets_lost,
        probability: None,
        evidence: if trace.head.is_of_another() {
            "sent again by TCP here; what the far end's kernel dropped is not known".to_owned()
        } else {
            format!("the receiver's kernel counted {drops} drops")
        },
    })
}
