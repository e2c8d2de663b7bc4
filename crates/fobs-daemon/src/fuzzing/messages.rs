//! The control channel.

use fobs_channel::control::frame::{FrameReader, encode};

/// A stream of frames: read to its end or to the first error, without data frames and with them.
pub(super) fn frames(input: &[u8]) {
    let mut with_data = FrameReader::new(input);
    let passed = (0..=input.len()).take_while(|_| with_data.pass().is_ok_and(|passed| passed)).count();
    assert!(passed <= input.len() / 5, "a frame has a length and at least a byte");
    let mut reader = FrameReader::new(input);
    // Each frame takes away at least its length.
    for _ in 0..=input.len() {
        match reader.read() {
            Ok(Some(message)) => {
                // A number of our own may need more digits than the peer wrote.
                let _ = encode(&message);
            }
            Ok(None) | Err(_) => return,
        }
    }
    panic!("the stream does not end");
}

/// One message: what is understood of it is the same when it is written again.
pub(super) fn message(input: &[u8]) {
    let read = |body: &[u8]| {
        let length = u32::try_from(body.len()).expect("an input of the fuzzer").to_be_bytes();
        FrameReader::new([&length, body].concat().as_slice()).read()
    };
    let Ok(Some(message)) = read(input) else { return };
    let Ok(frame) = encode(&message) else { return };
    let again = read(&frame[4..]).expect("our own messages can be read");
    assert_eq!(again, Some(message));
}
