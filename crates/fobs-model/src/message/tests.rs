use super::*;
use crate::listing::FileStamp;
use crate::shape::SourceShape;
use std::time::Duration;

fn recorded() -> impl Iterator<Item = (&'static str, Message)> {
    RECORDED.lines().map(|line| (line, serde_json::from_str(line).expect(line)))
}

#[test]
fn recorded_messages_are_encoded_byte_for_byte() {
    for (line, message) in recorded() {
        assert_ne!(message, Message::Unknown, "{line}");
        assert_eq!(serde_json::to_string(&message).unwrap(), line);
    }
}

#[test]
fn every_kind_of_message_is_recorded() {
    let mut kinds: Vec<_> = recorded().map(|(_, message)| std::mem::discriminant(&message)).collect();
    kinds.dedup();
    assert_eq!(kinds.len(), 31, "one for each variant but Unknown, in their order");
}

#[test]
fn zero_and_empty_stand_for_none_on_the_wire() {
    let opens: Vec<Open> = recorded()
        .filter_map(|(_, message)| match message {
            Message::Open(open) => Some(*open),
            _ => None,
        })
        .collect();
    let [full, stream, pull, again, probe, streams, small, part] = &opens[..] else {
        panic!("eight requests are recorded")
    };
    assert_eq!((full.payload_size, full.ack_every), (Some(1444), Some(32)));
    assert_eq!((full.probe, probe.probe), (None, Some(Duration::from_secs(2))));
    assert_eq!(full.shape, Some(SourceShape::Paths { count: 3, contents: true }));
    assert_eq!(full.sending.deadline, Some(Duration::from_secs(60)));
    assert_eq!(stream.shape, Some(SourceShape::Stream));
    assert_eq!((pull.payload_size, pull.ack_every, pull.shape), (None, None, None));
    assert_eq!(pull.sending, Sending { cc: "cubic".to_owned(), ..Sending::default() });
    assert_eq!(pull.resuming, Resuming::default());
    assert_eq!((probe.streams, probe.sending.transport.as_deref()), (false, None));
    assert_eq!((streams.streams, streams.sending.transport.as_deref()), (true, Some("tcp:4")));
    assert_eq!((streams.sending.tcp_cc.as_deref(), streams.sending.tcp_buffer), (Some("reno"), Some(65_536)));
    assert_eq!(again.resuming.transfer_id, Some(std::array::from_fn(|index| index as u8)));
    assert_eq!(probe.reuse, Reuse::default());
    assert_eq!((small.reuse.keep, small.reuse.object.as_deref()), (true, Some(&b"chunk"[..])));
    let range = ByteRange { start: 1 << 40, len: 1000, whole: false, stamp: None };
    assert_eq!((part.reuse.range, part.reuse.room), (Some(range), Some(81_964)));
    assert!(again.resuming.survey && again.resuming.no_partial && again.resuming.append_verify);
}

#[test]
fn a_deadline_of_now_is_still_a_deadline() {
    let now = Sending { deadline: Some(Duration::ZERO), ..Sending::default() };
    let back: Sending = serde_json::from_str(&serde_json::to_string(&now).unwrap()).unwrap();
    assert_eq!(back.deadline, Some(Duration::from_millis(1)));
}

/// Whether release 0.2.0 knows all that a request needs.
fn is_of_level_2(open: &Open) -> bool {
    let needs = crate::permit::Needs::of_transfer(open);
    needs.must().is_empty() && needs.unknown_to(|feature| LEVEL_2.features.contains(&feature)).is_none()
}

#[test]
fn what_release_0_2_0_serves_is_asked_of_it() {
    let mut parts = 0;
    for (line, message) in recorded() {
        let Message::Open(mut open) = message else { continue };
        assert!(is_of_level_2(&open), "{line}");
        // Whole objects came with ranges. A stamp it passes over, and the client compares.
        if let Some(range) = open.reuse.range {
            let stamp = FileStamp { size: 5, mtime_s: 1, mtime_ns: 0, inode: 7 };
            for (whole, stamp) in [(true, None), (false, Some(stamp)), (true, Some(stamp))] {
                open.reuse.range = Some(ByteRange { whole, stamp, ..range });
                assert!(is_of_level_2(&open), "{whole} {stamp:?}");
                parts += 1;
            }
        }
    }
    assert_eq!(parts, 3, "one request for a part is recorded");
}
