use proptest::prelude::*;

use super::*;
use fobs_model::event::DirectoriesMade;
use fobs_model::message::{
    Accept, Bytes, Hello, HostPort, LanesGrant, LateLanesOffer, SecretBytes, SecretText,
};

/// Hands out a stream in pieces of one to `step` bytes, with an interruption between any two.
struct Dribble<'a> {
    bytes: &'a [u8],
    step: usize,
    interrupted: bool,
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.step.min(buffer.len()).min(self.bytes.len());
        buffer[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

fn hello() -> Message {
    Message::Hello(Hello {
        protocol: 1,
        newest: None,
        program: "fobs test".to_owned(),
        fast_aes: true,
        features: Vec::new(),
    })
}

fn raw(length: u32, body: &[u8]) -> Vec<u8> {
    [length.to_be_bytes().as_slice(), body].concat()
}

fn framed(body: &str) -> Vec<u8> {
    raw(body.len() as u32, body.as_bytes())
}

#[test]
fn messages_survive_any_cutting() {
    let failed = Message::Failed { path: Bytes(vec![0xff; 100_000]), reason: "läuft nicht".to_owned() };
    let stream = [encode(&hello()).unwrap(), encode(&failed).unwrap(), encode(&hello()).unwrap()].concat();
    for step in [1, 3, 1000, 1 << 20] {
        let mut reader = FrameReader::new(Dribble { bytes: &stream, step, interrupted: false });
        assert_eq!(reader.read(), Ok(Some(hello())));
        assert_eq!(reader.read(), Ok(Some(failed.clone())));
        assert!(reader.frame.capacity() <= READ_STEP_BYTES);
        assert_eq!(reader.read(), Ok(Some(hello())));
        assert_eq!(reader.read(), Ok(None));
        assert_eq!(reader.read(), Ok(None));
    }
}

#[test]
fn a_stream_cut_inside_a_frame_is_an_error() {
    let frame = encode(&hello()).unwrap();
    for cut in 1..frame.len() {
        let error = FrameReader::new(&frame[..cut]).read().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Connect, "cut at {cut}");
    }
}

#[test]
fn lengths_out_of_bounds_are_refused_unread() {
    for length in [0, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
        let mut reader = FrameReader::new(io::Cursor::new(raw(length, b"{}")));
        assert_eq!(reader.read().unwrap_err().kind, ErrorKind::Protocol);
        assert_eq!(reader.frame.capacity(), 0);
    }
}

#[test]
fn a_promised_frame_claims_only_a_step() {
    let mut reader = FrameReader::new(io::Cursor::new(raw(FRAME_BYTES_MAX as u32, b"{\"type\"")));
    assert_eq!(reader.read().unwrap_err().kind, ErrorKind::Connect);
    assert!(reader.frame.capacity() <= READ_STEP_BYTES, "{} bytes", reader.frame.capacity());
}

#[test]
fn unknown_messages_and_fields_are_ignored() {
    let unknown = framed(r#"{"type":"telepathy","what":{"deep":[1,2,3]}}"#);
    assert_eq!(FrameReader::new(unknown.as_slice()).read(), Ok(Some(Message::Unknown)));
    let more = framed(r#"{"type":"rejected","chunk":7,"attempt":1,"mood":"sad"}"#);
    assert_eq!(
        FrameReader::new(more.as_slice()).read(),
        Ok(Some(Message::Rejected { chunk: 7, attempt: 1 }))
    );
}

#[test]
fn values_of_a_newer_version_are_passed_over_where_they_only_inform() {
    for kind in FOR_DISPLAY {
        let newer = framed(&format!(
            r#"{{"type":"{kind}","way":"pigeon","verdict":"weather","seconds":"many","time_us":"late","looked":"so"}}"#
        ));
        assert_eq!(FrameReader::new(newer.as_slice()).read(), Ok(Some(Message::Unknown)), "{kind}");
    }
    let open = framed(r#"{"type":"open","direction":"sideways"}"#);
    let error = FrameReader::new(open.as_slice()).read().unwrap_err();
    assert!(error.kind == ErrorKind::Protocol && error.message.contains("sideways"), "{error}");
}

#[test]
fn anything_but_a_message_is_a_protocol_error() {
    for body in [
        "hello",
        "{}",
        "[]",
        r#"["hello",1]"#,
        r#"["rejected",{"chunk":1,"attempt":0}]"#,
        r#"{"type":7}"#,
        r#"{"type":"hello"}"#,
        r#"{"type":"rejected","chunk":-1,"attempt":0}"#,
        r#"{"type":"failed","path":"not base64!","reason":""}"#,
        r#"{"type":"rejected","chunk":1,"attempt":0} trailing"#,
        "null",
        " ",
    ] {
        let error = FrameReader::new(framed(body).as_slice()).read().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{body}");
    }
    let deep = "{\"type\":\"x\",\"a\":".to_owned() + &"[".repeat(100_000);
    assert!(FrameReader::new(framed(&deep).as_slice()).read().is_err());
}

#[test]
fn values_are_counted_before_they_take_memory() {
    let list = |value: &str, count: usize| {
        format!(r#"{{"type":"expand","role":"sources","paths":[{}]}}"#, vec![value; count].join(","))
    };
    // As many paths as a request may have, the shortest there are.
    let most = FrameReader::new(framed(&list(r#""YQ==""#, 100_000)).as_slice()).read();
    assert!(matches!(most, Ok(Some(Message::Expand { paths, .. })) if paths.len() == 100_000));
    let map = format!(r#"{{"type":"x","a":{{{}}}}}"#, vec![r#""":0"#; 150_000].join(","));
    for (what, body) in [
        ("empty texts", list(r#""""#, 300_000)),
        ("numbers", list("0", 400_000)),
        ("lists", list("[]", 300_000)),
        ("lists of lists", list("[[],[]]", 100_000)),
        ("paths", list(r#""YQ==""#, 140_000)),
        ("members", map),
        ("a small message of many", list("0", 4000)),
    ] {
        let error = FrameReader::new(framed(&body).as_slice()).read().expect_err(what);
        let is_named = error.kind == ErrorKind::Protocol && error.message.contains("values");
        assert!(is_named, "{what}: {error}");
    }
    // What is in a text is no value.
    let text = list(&format!("\"{}\"", r#"\\\",[{:"#.repeat(100_000)), 1);
    assert!(values_in(text.as_bytes()) < 10);
}

#[test]
fn a_peer_without_rights_opens_with_little() {
    let ticket = |len| framed(&format!(r#"{{"type":"ticket","ticket":"{}"}}"#, "t".repeat(len)));
    let read = |frame: &[u8], length| {
        let mut reader = FrameReader::new(frame);
        reader.bound(length);
        reader.read()
    };
    let longest = ticket(TICKET_LEN_MAX);
    assert!(matches!(read(&longest, Length::Opening), Ok(Some(Message::Ticket { .. }))));
    let longer = ticket(TICKET_LEN_MAX + 1024);
    let error = read(&longer, Length::Opening).expect_err("too long");
    assert!(error.message.contains("are allowed"), "{error}");
    assert!(read(&longer, Length::Full).is_ok());
    let many = framed(&format!(r#"{{"type":"x","a":[{}]}}"#, vec!["123456789"; 2000].join(",")));
    assert!(read(&many, Length::Opening).expect_err("too many").message.contains("values"));
    assert!(read(&many, Length::Full).is_ok());
}

proptest! {
    /// No text has more values than are counted.
    #[test]
    fn values_are_counted(json in any_json(3)) {
        fn count(value: &serde_json::Value) -> usize {
            1 + match value {
                serde_json::Value::Array(all) => all.iter().map(count).sum(),
                serde_json::Value::Object(all) => all.values().map(|value| 1 + count(value)).sum(),
                _ => 0,
            }
        }
        for text in [json.to_string(), serde_json::to_string_pretty(&json).unwrap()] {
            prop_assert!(values_in(text.as_bytes()) >= count(&json), "{}", text);
            prop_assert!(values_in(text.as_bytes()) <= 3 * count(&json), "{}", text);
        }
    }
}

fn any_json(depth: u32) -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(serde_json::Value::from),
        r#"[a"\\,:{\[]{0,6}"#.prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(depth, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::btree_map(r#"[a"\\,]{0,3}"#, inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn a_message_too_large_is_not_sent() {
    let message = Message::Abort {
        code: String::new(),
        message: "x".repeat(FRAME_BYTES_MAX),
        busy: false,
        sync: String::new(),
    };
    assert_eq!(encode(&message).unwrap_err().kind, ErrorKind::Usage);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        // Errors are expected; what counts is that each read ends and takes bytes away.
        let mut reader = FrameReader::new(bytes.as_slice());
        for _ in 0..=bytes.len() {
            if !matches!(reader.read(), Ok(Some(_))) {
                break;
            }
        }
        let mut framed = FrameReader::new(io::Cursor::new(raw(bytes.len() as u32, &bytes)));
        prop_assert!(!matches!(framed.read(), Ok(None)));
    }

    #[test]
    fn garbage_with_data_frames_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        // A length that announces a record of up to 255 bytes, then anything.
        let length = DATA_BIT | u32::from(bytes.first().copied().unwrap_or(0));
        let stream = raw(length, &bytes);
        let mut reader = FrameReader::new(stream.as_slice());
        for _ in 0..=stream.len() {
            match reader.read_frame(DataFrames::Allowed) {
                Ok(Some(Frame::Data(record))) => prop_assert!(!record.is_empty() && record.len() < 256),
                Ok(Some(Frame::Message(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // Where they are refused, nothing of it is read.
        prop_assert!(FrameReader::new(raw(length, &bytes).as_slice()).read().is_err());
    }

    #[test]
    fn one_changed_byte_never_panics(index in 0_usize..80, value in any::<u8>()) {
        let mut frame = encode(&hello()).unwrap();
        let index = index % frame.len();
        frame[index] = value;
        let outcome = FrameReader::new(frame.as_slice()).read();
        prop_assert!(!matches!(outcome, Ok(None)));
    }

    #[test]
    fn texts_round_trip(program in any::<String>(), protocol in any::<u32>(), fast_aes in any::<bool>()) {
        let message = Message::Hello(Hello { protocol, newest: None, program, fast_aes, features: Vec::new() });
        let frame = encode(&message).unwrap();
        prop_assert_eq!(FrameReader::new(frame.as_slice()).read(), Ok(Some(message)));
    }
}

#[test]
fn a_frame_with_a_secret_is_written_to_one_piece_of_memory() {
    let at = |index: u16| HostPort { host: Some("fe80::1234:5678:9abc:def0".to_owned()), port: index };
    let accept = Message::Accept(Accept {
        udp_addresses: (0..16).map(at).collect(),
        tcp_addresses: (0..16).map(at).collect(),
        lanes: Some(LanesGrant { ports: vec![u16::MAX; 15], window: u32::MAX }),
        late_lanes: Some(LateLanesOffer { most: u8::MAX, window: u32::MAX }),
        secret: Some(SecretBytes::new(&[7; 32])),
        key_schedule: 2,
        cipher: "ChaCha20-Poly1305".to_owned(),
        shape: None,
        chunk_limit: u32::MAX,
        survey: true,
        limit_bps: Some(u64::MAX),
        withholds: true,
        made: Some(DirectoriesMade { count: u32::MAX, itself: false }),
        object: None,
    });
    let ticket = Message::Ticket { ticket: SecretText::new("x".repeat(500_000)) };
    for (message, first) in [(accept, ACCEPT_BYTES), (ticket, 500_000 + LENGTH_BYTES + TICKET_FRAME_BYTES)] {
        let frame = encode(&message).unwrap();
        assert_eq!(frame.capacity(), first, "it has grown: {} bytes", frame.len());
    }
}
