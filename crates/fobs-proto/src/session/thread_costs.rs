//! What the threads of a copy cost, and what hosts of other cores would carry: a stage of one thread carries
//! a gigabyte in no less time than it costs.

/// Most threads that help the one that reads, and the one that stores: each reads and hashes 10 Gbit/s or
/// more, which is more together than one thread seals.
pub const HANDS_MAX: usize = 8;

/// A part of the work of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Sealing and sending packets: one thread for each lane.
    Sealing,
    /// Reading and hashing at the sender: one thread and its hands.
    Reading,
    /// Receiving and opening packets: one thread for each lane.
    Opening,
    /// Hashing at the receiver: hands, or the storing thread where there is no core for them.
    Verifying,
    /// Storing what is verified: one thread.
    Storing,
    /// Not a thread: all cores of an end are busy.
    Cores,
}

impl CopyStage {
    /// Those that are threads, in the order in which a byte passes them.
    pub const THREADS: &[CopyStage] = &[
        CopyStage::Sealing,
        CopyStage::Reading,
        CopyStage::Opening,
        CopyStage::Verifying,
        CopyStage::Storing,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            CopyStage::Sealing => "sealing and sending",
            CopyStage::Reading => "reading and hashing",
            CopyStage::Opening => "receiving and opening",
            CopyStage::Verifying => "verifying",
            CopyStage::Storing => "storing",
            CopyStage::Cores => "all cores",
        }
    }

    /// Threads that share it at an end with `cores`, of a copy with `lanes`.
    fn threads(self, cores: usize, lanes: usize) -> usize {
        let hands = HANDS_MAX.min(cores.saturating_sub(1));
        match self {
            CopyStage::Sealing | CopyStage::Opening => lanes.clamp(1, cores.max(1)),
            CopyStage::Reading => 1 + hands,
            CopyStage::Verifying => hands.max(1),
            CopyStage::Storing => 1,
            CopyStage::Cores => cores.max(1),
        }
    }
}

/// CPU seconds that a gigabyte costs, by what they are spent on; 0 for what costs nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadCosts {
    /// See [`CopyStage::Sealing`], and so on.
    pub sealing: f64,
    /// Likewise.
    pub reading: f64,
    /// Likewise.
    pub opening: f64,
    /// Likewise.
    pub verifying: f64,
    /// Likewise.
    pub storing: f64,
    /// All threads of the sender, and all of the receiver.
    pub ends: [f64; 2],
}

impl ThreadCosts {
    /// The most that a stage carries at an end of `cores`, with `lanes`, Gbit/s.
    pub fn ceiling(&self, stage: CopyStage, cores: usize, lanes: usize) -> f64 {
        let cost = match stage {
            CopyStage::Sealing => self.sealing,
            CopyStage::Reading => self.reading,
            CopyStage::Opening => self.opening,
            CopyStage::Verifying => self.verifying,
            CopyStage::Storing => self.storing,
            CopyStage::Cores => self.ends[0].max(self.ends[1]),
        };
        8.0 * stage.threads(cores, lanes) as f64 / cost.max(0.0)
    }

    /// What carries least with `cores` at each end, and its rate, Gbit/s.
    pub fn limit(&self, cores: usize, lanes: usize) -> (CopyStage, f64) {
        let all = (CopyStage::Cores, self.ceiling(CopyStage::Cores, cores, lanes));
        let stages = CopyStage::THREADS.iter().map(|&stage| (stage, self.ceiling(stage, cores, lanes)));
        stages.filter(|it| it.1.is_finite()).fold(all, |least, it| if it.1 < least.1 { it } else { least })
    }

    /// Likewise, with both ends on the same cores.
    pub fn shared(&self, cores: usize, lanes: usize) -> (CopyStage, f64) {
        let [sender, receiver] = self.ends;
        ThreadCosts { ends: [sender + receiver, 0.0], ..*self }.limit(cores, lanes)
    }

    /// The fewest lanes, up to `most`, with which `cores` at each end carry most.
    pub fn lanes(&self, cores: usize, most: usize) -> usize {
        let rate = |lanes: usize| self.limit(cores, lanes).1;
        (1..=most.max(1)).fold(1, |best, lanes| if rate(lanes) > rate(best) { lanes } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.8 s of storing and verifying, half of that hashing.
    fn costs() -> ThreadCosts {
        ThreadCosts {
            sealing: 0.25,
            reading: 0.6,
            opening: 0.2,
            verifying: 0.4,
            storing: 0.4,
            ends: [0.86, 1.0],
        }
    }

    #[test]
    fn the_slowest_stage_is_named() {
        assert_eq!(costs().limit(8, 1), (CopyStage::Storing, 20.0));
        assert_eq!(costs().limit(2, 1), (CopyStage::Cores, 16.0));
        let (stage, rate) = costs().shared(2, 1);
        assert!(stage == CopyStage::Cores && (rate - 16.0 / 1.86).abs() < 1e-9, "{rate}");
        assert_eq!(ThreadCosts { storing: 0.0, ..costs() }.limit(64, 1), (CopyStage::Sealing, 32.0));
    }

    #[test]
    fn hands_are_as_many_as_cores_are_left_and_lanes_as_were_asked_for() {
        let ceilings = |cores, lanes| {
            [CopyStage::Sealing, CopyStage::Reading, CopyStage::Verifying, CopyStage::Storing]
                .map(|stage| costs().ceiling(stage, cores, lanes).round())
        };
        assert_eq!(ceilings(1, 1), [32.0, 13.0, 20.0, 20.0]);
        assert_eq!(ceilings(4, 2), [64.0, 53.0, 60.0, 20.0]);
        assert_eq!(ceilings(64, 4), [128.0, 120.0, 160.0, 20.0]);
        assert_eq!(ceilings(2, 16)[0], 64.0, "no more lanes than cores");
    }

    #[test]
    fn lanes_are_as_few_as_carry_most() {
        let sealing = ThreadCosts { storing: 0.0, ..costs() };
        assert_eq!(sealing.lanes(64, 8), 4, "then reading is next");
        assert_eq!(sealing.lanes(2, 8), 1, "all cores are busy with one");
        assert_eq!(costs().lanes(64, 8), 1, "storing is next anyway");
        assert_eq!(ThreadCosts::default().lanes(8, 8), 1, "nothing costs anything");
    }
}
