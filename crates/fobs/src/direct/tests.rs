use super::*;
use fobs_channel::control::pair::pair;
use fobs_model::shape::SourceShape;
use std::io::Cursor;
use std::sync::Arc;

/// Bytes that differ from place to place.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn filled(data: &[u8]) -> Option<Filled> {
    let source = Source::from_stream(Box::new(Cursor::new(data.to_vec())), false).unwrap();
    Filled::all_of(source, DIRECT_LEN_MAX).unwrap()
}

fn stored(chunk: &[u8]) -> Result<SinkSummary> {
    let (left, _right) = pair();
    let reporter = Reporter::new(Arc::new(|_| ()), left.writer);
    let sink = Sink::to_stream(Box::new(std::io::sink()), SourceShape::Stream).unwrap();
    store(chunk, sink, &reporter).map(|(summary, _)| summary)
}

#[test]
fn an_object_is_stored_as_it_was_filled_or_is_too_large() {
    for len in [0, 1, DIRECT_DATA_MAX - 1, DIRECT_DATA_MAX] {
        let object = filled(&content(len)).unwrap();
        let summary = stored(&object.chunk).unwrap();
        assert_eq!((summary.files, summary.bytes), (1, len as u64));
        assert_eq!(hex(&summary.root), object.root());
    }
    assert!(filled(&content(DIRECT_DATA_MAX + 1)).is_none());
    let source = Source::from_stream(Box::new(Cursor::new(content(1000))), false).unwrap();
    assert!(Filled::all_of(source, 1000).unwrap().is_none(), "there is no room for its records");
}

#[test]
fn what_came_is_never_trusted() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut rng = fobs_rng::Rng::new(seed);
    let chunk = filled(&content(5000)).unwrap().chunk;
    for _ in 0..300 {
        let mut bad = chunk.clone();
        let at = rng.below(bad.len());
        bad[at] ^= 1 << rng.below(8);
        let kind = stored(&bad).unwrap_err().kind;
        assert!(matches!(kind, ErrorKind::Integrity | ErrorKind::Protocol), "{kind:?} at {at}");
        assert!(stored(&chunk[..rng.below(chunk.len())]).is_err());
    }
    let long = vec![0; DIRECT_LEN_MAX + 1];
    assert!(stored(&long).unwrap_err().message.contains("are allowed"));
    assert!(stored(&[]).is_err());
}
