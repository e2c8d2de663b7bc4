//! Windows in which both the receiver and the network lost packets, made of one window of each.

use fobs_proto::loss_cause::Signature;

use crate::{Cause, Random, Window};

/// Network scenarios whose losses are solid blocks. No pattern distinguishes them from a receiver's, so they
/// are left out of training; counters and lag decide there.
pub const INDISTINCT: &[&str] = &["outage", "gelong"];
/// Network scenarios that are not congestion.
pub const NOT_CONGESTION: &[&str] = &["bern", "ge", "gelong", "outage"];
/// Prefix of scenarios recorded on real sockets with packets that the sender omitted: random loss, not
/// congestion.
const REAL_PREFIX: &str = "real_";

/// Smallest share of the losses that makes the network a cause of a window.
pub const NETWORK_SHARE_MIN: f64 = 0.05;

/// Whether a window's losses are labelled as congestion.
pub fn is_congestion(window: &Window) -> bool {
    window.cause == Some(Cause::Net)
        && !NOT_CONGESTION.contains(&window.scenario.as_str())
        && !window.scenario.starts_with(REAL_PREFIX)
}

/// Makes `count` windows from pairs of equal length, with at least [`NETWORK_SHARE_MIN`] of their losses in
/// the network and at least 8 at the receiver; fewer if too few pairs fit. `run` is that of the receiver's
/// window.
pub fn splices(windows: &[&Window], count: usize, seed: u64) -> Vec<Window> {
    let mut random = Random::new(seed);
    let receivers: Vec<&Window> = of(windows, |w| w.cause == Some(Cause::Cpu) && w.signature.lost() >= 8);
    let networks: Vec<&Window> = of(windows, |w| {
        w.cause == Some(Cause::Net) && w.signature.lost() > 0 && !INDISTINCT.contains(&w.scenario.as_str())
    });
    let mut spliced = Vec::with_capacity(count);
    if receivers.is_empty() || networks.is_empty() {
        return spliced;
    }
    for _ in 0..count * 20 {
        if spliced.len() == count {
            break;
        }
        let (receiver, network) = (random.pick(&receivers), random.pick(&networks));
        let (r, n) = (f64::from(receiver.signature.lost()), f64::from(network.signature.lost()));
        if n / (r + n) < NETWORK_SHARE_MIN || receiver.signature.packets() != network.signature.packets() {
            continue;
        }
        spliced.push(Window {
            signature: union(&receiver.signature, &network.signature),
            cause: Some(Cause::Hybrid),
            // Named by the network's scenario alone: the pairs are hundreds.
            scenario: format!("spliced {}", network.scenario),
            run: receiver.run,
            host_lost: Some(u64::from(receiver.signature.lost())),
        });
    }
    spliced
}

fn of<'a>(windows: &[&'a Window], keep: impl Fn(&Window) -> bool) -> Vec<&'a Window> {
    windows.iter().copied().filter(|window| keep(window)).collect()
}

/// The packets lost in either window, with the length and burst of the first.
fn union(a: &Signature, b: &Signature) -> Signature {
    let mut ranges: Vec<(u64, u64)> = [a, b]
        .iter()
        .flat_map(|signature| signature.runs())
        .map(|run| (u64::from(run.start), u64::from(run.end())))
        .collect();
    ranges.sort_unstable();
    let mut position = 0;
    let mut pairs = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        if end > position {
            let start = start.max(position);
            pairs.push((start - position, end - start));
            position = end;
        }
    }
    // Invalid only if it has more runs than a window may have.
    Signature::from_gaps(u64::from(a.packets()), a.burst(), pairs).unwrap_or_else(|_| a.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cause: Cause, pairs: &[(u64, u64)]) -> Window {
        let signature = Signature::from_gaps(1000, 1, pairs.iter().copied()).expect("good");
        Window { signature, cause: Some(cause), scenario: "x".to_owned(), run: 0, host_lost: None }
    }

    #[test]
    fn a_spliced_window_has_the_losses_of_both() {
        let cpu = window(Cause::Cpu, &[(10, 50), (100, 20)]);
        let net = window(Cause::Net, &[(5, 1), (30, 1), (22, 3), (300, 1)]);
        let spliced = splices(&[&cpu, &net], 3, 1);
        assert_eq!(spliced.len(), 3);
        let gaps: Vec<(u32, u32)> =
            spliced[0].signature.runs().iter().map(|run| (run.start, run.len)).collect();
        // The network's loss at 36 is inside the receiver's block; its run from 59 overlaps the block by one
        // packet.
        assert_eq!(gaps, [(5, 1), (10, 52), (160, 20), (362, 1)]);
        assert_eq!(spliced[0].host_lost, Some(70));
        assert!(splices(&[&cpu], 3, 1).is_empty());
    }
}
