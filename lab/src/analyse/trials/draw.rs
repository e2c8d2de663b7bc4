//! What a trial is: everything random comes from its case and its number.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::case::{Case, Drawn, WIDE_MBIT, rounded};
use super::unrehearsed;

/// Payload of a full packet, bytes.
const PAYLOAD_BYTES: f64 = 1472.0;

impl Drawn {
    /// The parameters of a trial.
    pub fn of(case: Case, number: u64) -> Drawn {
        let key = blake3::hash(format!("{} {number}", case.name()).as_bytes());
        let mut random = Pcg64::from_seed(*key.as_bytes());
        let mut uniform = |low: f64, high: f64, decimals: i32| {
            rounded(low + (high - low) * random.random::<f64>(), decimals)
        };
        let whole = |value: f64| value.floor() as u32;
        match case {
            Case::SourceDisk | Case::DestinationDisk => {
                let rate = whole(uniform(15.0, 40.0, 3));
                Drawn { disk_mb_s: Some(rate), megabytes: f64::from(rate * 3), ..Drawn::default() }
            }
            Case::ReceiverCpu | Case::SenderCpu => {
                Drawn { cpu_share: Some(uniform(0.08, 0.2, 3)), megabytes: 160.0, ..Drawn::default() }
            }
            Case::ReceiverBuffer => {
                let rate = uniform(300.0, 800.0, 3).floor();
                Drawn {
                    rmem_max: Some(u64::from(whole(uniform(8.0, 32.0, 3))) << 10),
                    rate_mbit: Some(rate),
                    rtt_ms: Some(whole(uniform(5.0, 40.0, 3))),
                    off_ms: Some(whole(uniform(4.0, 8.0, 3))),
                    every_ms: Some(whole(uniform(30.0, 60.0, 3))),
                    megabytes: rounded(rate / 8.0 * 0.4, 1),
                    ..Drawn::default()
                }
            }
            Case::NarrowLink => {
                let rate = uniform(20.0, 100.0, 1);
                let (rate_mbit, rtt_ms) = (Some(rate), Some(whole(uniform(5.0, 60.0, 3))));
                Drawn { rate_mbit, rtt_ms, megabytes: rounded(rate / 8.0 * 2.5, 1), ..Drawn::default() }
            }
            Case::RandomLoss => {
                let (loss, rtt_ms) = (uniform(0.3, 2.0, 2), whole(uniform(15.0, 60.0, 3)));
                // Bytes per second of a loss-based controller (Mathis and others, 1997).
                let expected = 1.22 * PAYLOAD_BYTES / (f64::from(rtt_ms) / 1e3 * (loss / 100.0).sqrt());
                Drawn {
                    loss_percent: Some(loss),
                    rate_mbit: Some(WIDE_MBIT),
                    rtt_ms: Some(rtt_ms),
                    cc: Some("cubic".to_owned()),
                    megabytes: rounded(3.0 * expected / 1e6, 2),
                    ..Drawn::default()
                }
            }
            Case::Policer => {
                let rate = uniform(20.0, 100.0, 1);
                Drawn {
                    policer_mbit: Some(rate),
                    burst_kib: Some(whole(uniform(16.0, 96.0, 3))),
                    rate_mbit: Some(WIDE_MBIT),
                    rtt_ms: Some(whole(uniform(5.0, 60.0, 3))),
                    megabytes: rounded(rate / 8.0 * 3.0, 1),
                    ..Drawn::default()
                }
            }
            Case::RateCap => {
                let rate = uniform(30.0, 300.0, 1);
                Drawn { cap_mbit: Some(rate), megabytes: rounded(rate / 8.0 * 2.5, 1), ..Drawn::default() }
            }
            _ => unrehearsed::drawn(case, &mut uniform),
        }
    }

    /// The emulated path, as `fobs-lab link` reads it, if the trial has one.
    pub fn link(&self, number: u64) -> Option<String> {
        let (rate, rtt) = (self.rate_mbit?, self.rtt_ms?);
        let mut spec = format!("seed = {}\nrtt = '{rtt}ms'\nrate = '{rate}Mbit'\n", number + 1);
        for way in ["forward", "backward"] {
            if let Some(loss) = self.loss_percent {
                spec += &format!("{way} = {{ loss = '{loss}%' }}\n");
            }
            if let (Some(rate), Some(burst)) = (self.policer_mbit, self.burst_kib) {
                spec += &format!("{way} = {{ policer = {{ rate = '{rate}Mbit', burst = '{burst}KiB' }} }}\n");
            }
        }
        spec += &unrehearsed::keys(self);
        Some(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::*;
    use crate::link::spec::LinkSpec;

    #[test]
    fn draws_are_the_same_for_a_number_and_within_bounds() {
        for (case, ..) in CASES {
            assert_eq!(Drawn::of(case, 7), Drawn::of(case, 7));
            assert!((0..20).any(|number| Drawn::of(case, number) != Drawn::of(case, 20)), "{case:?}");
            for number in 0..200 {
                let drawn = Drawn::of(case, number);
                assert!(
                    drawn.bytes() > 100_000 && drawn.bytes() <= 160_000_000,
                    "{case:?} {number}: {drawn:?}"
                );
                assert!(drawn.rmem_max.is_none_or(|bytes| (8 << 10..32 << 10).contains(&bytes)));
                let stopped = matches!(case, Case::StoppedReceiver | Case::StoppedSender);
                assert!(stopped || drawn.off_ms.is_none_or(|off| (4..8).contains(&off)));
            }
        }
    }

    #[test]
    fn every_emulated_path_makes_sense() {
        for (case, ..) in CASES {
            for number in 0..50 {
                if let Some(spec) = Drawn::of(case, number).link(number) {
                    LinkSpec::read(&spec, &[])
                        .unwrap_or_else(|error| panic!("{case:?} {number}: {error}\n{spec}"));
                }
            }
        }
    }
}
