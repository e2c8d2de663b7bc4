//! What the words of a time budget mean, where they stand: a sentence for each.

use super::names::Stage;

#[cfg(test)]
#[test]
fn every_stage_has_a_sentence_of_its_own() {
    let mut meanings: Vec<&str> = Stage::ALL.iter().map(|stage| stage.meaning()).collect();
    meanings.sort_unstable();
    meanings.dedup();
    assert_eq!(meanings.len(), Stage::ALL.len());
    assert!(meanings.iter().all(|text| text.len() <= 80 && !text.ends_with('.')), "{meanings:?}");
}

impl Stage {
    /// What its time went to.
    pub fn meaning(self) -> &'static str {
        match self {
            Stage::Reading => "the sender waited for the next bytes of its disk or stream",
            Stage::Hashing => "a core of the sender hashed, or compressed, while the network waited",
            Stage::Sealing => "the sending thread encrypted packets and gave them to the kernel",
            Stage::SenderCpu => "threads of the sender were ready while other programs had the CPU",
            Stage::SenderPaused => "the sending process did not run: it was stopped, or its host slept",
            Stage::RateCap => "the rate that was asked for allowed no more",
            Stage::Deadline => "the deadline needed no more",
            Stage::RemoteLimit => "the daemon at the far end gives this key no more",
            Stage::Pacing => "packets waited for their moment: the path was found to carry no more",
            Stage::CongestionWindow => "as much was in flight as the path was found to hold",
            Stage::LateAnswers => "acknowledgements came late, or not at all",
            Stage::Outage => "nothing came back from the far end",
            Stage::LocalSocket => "the sending host's own queue was full",
            Stage::Streams => "all TCP connections were full: TCP found the path to carry no more",
            Stage::ReceiverPaused => "the receiving process did not run: it was stopped, or its host slept",
            Stage::ReceiverDrain => "the sender kept to the rate at which the receiver emptied its socket",
            Stage::ReceiverCpu => {
                "threads of the receiver verified, or waited while other programs had the CPU"
            }
            Stage::ReceiverSocket => "the receiver's socket was full, and what it dropped was sent again",
            Stage::Writing => "the sender waited until the receiver had written to its disk or stream",
            Stage::Syncing => "the sender waited until the receiver's disk had made files safe (--fsync)",
            Stage::Unseen => "the far end or the path: of another program they cannot be told apart",
            Stage::Control => "messages before and after the data, each of a round trip",
        }
    }
}
