use std::thread;

use super::pair::*;
pub use super::*;

fn theirs(protocol: u32, program: &str) -> Message {
    Message::Hello(Hello {
        protocol,
        newest: None,
        program: program.to_owned(),
        fast_aes: false,
        features: Vec::new(),
    })
}

#[test]
fn both_sides_exchange_hellos() {
    let (mut left, mut right) = pair();
    let other = thread::spawn(move || hello(&mut right).unwrap());
    let heard = hello(&mut left).unwrap();
    assert_eq!(heard, other.join().unwrap());
    assert_eq!(heard.protocol, PROTOCOL);
    assert!(heard.program.starts_with("fobs "));
}

#[test]
fn another_version_is_refused_by_name() {
    let (mut left, mut right) = pair();
    right.writer.send(&theirs(PROTOCOL + 1, "fobs \u{1b}[2J9.9.9")).unwrap();
    let error = hello(&mut left).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    let ours = format!("fobs {} speaks 1", env!("CARGO_PKG_VERSION"));
    for part in ["right via test", &ours, "9.9.9 speaks 2"] {
        assert!(error.message.contains(part), "{part} is missing: {error}");
    }
    assert!(!error.message.contains('\u{1b}'));
    assert!(matches!(right.reader.recv(), Ok(Some(Message::Hello(_)))));
    let Ok(Some(Message::Abort { code, message, .. })) = right.reader.recv() else { panic!("no abort") };
    assert_eq!(ErrorKind::from_code(&code), ErrorKind::Protocol);
    assert!(message.contains("speaks 2"));
}

#[test]
fn a_refusal_in_place_of_a_hello_is_quoted() {
    let (mut left, right) = pair();
    right
        .writer
        .send(&Message::Abort {
            code: "denied".to_owned(),
            message: "not you".to_owned(),
            busy: false,
            sync: String::new(),
        })
        .unwrap();
    right.writer.close();
    let error = hello(&mut left).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Denied, "right via test: not you"));
}

#[test]
fn anything_else_in_place_of_a_hello_is_an_error() {
    let (mut left, right) = pair();
    right.writer.send(&Message::Rejected { chunk: 0, attempt: 0 }).unwrap();
    assert_eq!(hello(&mut left).unwrap_err().kind, ErrorKind::Protocol);
    let (mut left, right) = pair();
    right.writer.close();
    assert_eq!(hello(&mut left).unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn unknown_messages_are_passed_over_and_close_ends_cleanly() {
    let (mut left, right) = pair();
    right.writer.send(&Message::Unknown).unwrap();
    right.writer.clone().send(&theirs(1, "x")).unwrap();
    right.writer.close();
    right.writer.close();
    assert_eq!(left.reader.recv(), Ok(Some(theirs(1, "x"))));
    assert_eq!(left.reader.recv(), Ok(None));
    let error = right.writer.send(&theirs(1, "y")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
}

#[test]
fn messages_of_many_threads_do_not_mix() {
    let (mut left, right) = pair();
    let threads: Vec<_> = (0..4)
        .map(|attempt| {
            let writer = right.writer.clone();
            thread::spawn(move || {
                for chunk in 0..500 {
                    writer.send(&Message::Rejected { chunk, attempt }).unwrap();
                }
            })
        })
        .collect();
    let mut next = [0; 4];
    for _ in 0..2000 {
        let Ok(Some(Message::Rejected { chunk, attempt })) = left.reader.recv() else { panic!("mixed") };
        assert_eq!(chunk, next[attempt as usize]);
        next[attempt as usize] += 1;
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn control_characters_of_a_peer_are_removed() {
    assert_eq!(printable("a\u{1b}]0;x\u{7}\tb\u{202e} é\n", 100), "a]0;xb é");
    assert_eq!(printable("abcdef", 3), "abc");
}
