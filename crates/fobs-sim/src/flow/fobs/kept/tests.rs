use super::*;
use crate::Violation;

use crate::scene::{Played, Scene};
use crate::time::MS;
use crate::world::FlowView;
use fobs_proto::congestion::CongestionControl;
use fobs_proto::wire::DataHeader;

const CHUNK: u32 = 1_000_000;
const DISK: u64 = 10_000_000;

/// 20 chunks over 100 Mbit/s to a disk that takes 100 ms for each: it is storing nearly all the time.
fn scene(journaling: Journaling, kills: &[Kill]) -> Played {
    let object = Object::Chunks(vec![CHUNK; 20]);
    let fobs =
        FobsConfig { kills: kills.to_vec(), journaling, ..FobsConfig::new(object, CongestionControl::Auto) };
    Scene::new(100_000_000, 20 * MS).fobs(fobs).with(|flow| flow.receiver.disk.rate = DISK).start()
}

fn kill(after: Nanos, dies: Dies) -> Kill {
    Kill { after, dies, pause: 300 * MS }
}

fn broken(mut played: Played) -> Option<&'static str> {
    played.world.run().err().map(|Violation { rule, .. }| rule)
}

#[test]
fn a_killed_transfer_goes_on_after_what_was_stored() {
    for dies in [Dies::Sender, Dies::Receiver, Dies::Both] {
        let mut played = scene(Journaling::Stored, &[kill(SEC, dies), kill(500 * MS, dies)]);
        let end = played.world.config().duration;
        let FlowView { outcome, figures, .. } = played.run_until(end).flow(0);
        assert!(outcome.is_complete(), "{dies:?}: {outcome:?}");
        assert_eq!(figures.attempts, 3, "{dies:?}");
        let stored_late = figures.delivered;
        assert!(stored_late < 13 * u64::from(CHUNK), "{dies:?}: the last attempt took {stored_late} bytes");
        assert!(figures.again > 0, "{dies:?}: chunks are on the way at any time");
    }
}

#[test]
fn a_journal_that_claims_too_much_is_caught() {
    for dies in [Dies::Sender, Dies::Receiver, Dies::Both] {
        let rule = broken(scene(Journaling::TooEarly, &[kill(SEC, dies)]));
        assert_eq!(rule, Some("the store gets each byte once, in order"), "{dies:?}");
    }
    // The last chunk is being stored, which takes until 2 s at least: no later one can show the gap.
    let rule = broken(scene(Journaling::TooEarly, &[kill(2_050 * MS, Dies::Both)]));
    assert_eq!(rule, Some("complete means every byte in the store"));
}

fn kept(chunks: usize) -> Kept {
    let mut config = FobsConfig::new(Object::Chunks(vec![1000; chunks]), CongestionControl::Auto);
    config.kills = vec![kill(SEC, Dies::Both)];
    let host = HostConfig::ideal("h");
    *Kept::new(&config, (&host, &host), 1).expect("it has kills")
}

/// The cut of a whole object, and a packet that holds chunk `chunk`, with the number of its chunk.
fn sent(net: &mut Net, trace: &mut Trace, cut: &Cut, chunk: ChunkId) {
    let header = Header::Data(DataHeader {
        chunk,
        packet_index: 0,
        payload_size: 1000,
        last: true,
        final_chunk: false,
        attempt: 0,
    });
    let body = Body::Chunk { chunk, offset: 0, len: 1000 };
    trace.on_sent(net, cut, &PacketOut { number: u64::from(chunk), header, body });
}

fn cut(kept: &Kept) -> Cut {
    let mut cut = kept.rest().expect("something is left");
    while cut.next(1000).is_some() {}
    cut
}

#[test]
fn what_is_stored_and_sent_again_is_caught() {
    let (mut net, mut kept) = (Net::new(Vec::new(), Vec::new()), kept(3));
    let whole = cut(&kept);
    kept.on_written(&mut net, &whole, 2, 2);
    let mut trace = kept.trace();
    sent(&mut net, &mut trace, &whole, 2);
    assert_eq!(net.violation, None);
    sent(&mut net, &mut trace, &whole, 1);
    assert_eq!(net.violation.map(|v| v.rule), Some("nothing stored is sent again"));
}

#[test]
fn acked_bytes_that_nobody_holds_are_caught() {
    for (held, rule) in [(true, None), (false, Some("only what was in flight or held is sent again"))] {
        let (mut net, mut kept) = (Net::new(Vec::new(), Vec::new()), kept(3));
        let whole = cut(&kept);
        let mut first = kept.trace();
        (0..3).for_each(|chunk| sent(&mut net, &mut first, &whole, chunk));
        // Chunk 0 is stored, chunk 1 acked, chunk 2 in flight.
        kept.on_written(&mut net, &whole, 1, 1);
        first.on_acked(0, 1);
        let mut at_receiver = Bytes::default();
        if held {
            at_receiver.insert(whole.span(1));
        }
        kept.on_attempt_over(&mut net, Some(first), at_receiver);
        let (rest, mut second) = (cut(&kept), kept.trace());
        (0..2).for_each(|chunk| sent(&mut net, &mut second, &rest, chunk));
        kept.on_attempt_over(&mut net, Some(second), Bytes::default());
        assert_eq!(net.violation.map(|v| v.rule), rule, "held: {held}");
        assert_eq!(kept.again, 2000);
    }
}
