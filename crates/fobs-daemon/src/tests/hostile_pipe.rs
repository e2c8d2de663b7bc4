//! A client whose key may use pipes, and that lies in the messages of one: it is told by a sentence, nothing
//! waits for ever, and the next pipe works.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use fobs::{Location, Stream};
use fobs_channel::control::{ControlChannel, hello, tls};
use fobs_channel::secure::identity::Identity;
use fobs_model::cancel::CancelToken;
use fobs_model::message::{Message, PipeNews};
use fobs_model::options::AddressFamily;
use serde_json::{Value, json};

use crate::served::{Served, wait_for};

/// Longest wait for an answer; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// Branches of a pipe (protocol 2.18).
const BRANCHES: u8 = 3;

/// A connection up to the hellos.
fn connected(served: &Served) -> ControlChannel {
    let identity = Identity::load(&served.client_key()).unwrap();
    let (host, port) = (served.address().ip().to_string(), served.address().port());
    let mut channel =
        tls::connect(&host, port, AddressFamily::Any, &identity, &CancelToken::new(), |_| Ok(())).unwrap();
    hello(&mut channel).unwrap();
    channel
}

/// What the server says at the end: its sentence, or nothing where it hangs up.
fn last_word(channel: &mut ControlChannel) -> Option<String> {
    channel.set_read_deadline(Some(Instant::now() + PATIENCE));
    loop {
        match channel.reader.recv() {
            Ok(Some(Message::Abort { message, .. })) => return Some(message),
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => {
                assert!(!error.message.contains("timed out"), "the server waits: {error}");
                return None;
            }
        }
    }
}

/// A pipe to the command of the key's line, whose other end is there.
fn joined(served: &Served) -> (ControlChannel, Vec<ControlChannel>) {
    let mut channel = connected(served);
    let branches = channel.branch(BRANCHES).unwrap();
    channel.writer.send_json(r#"{"type":"pipe","with":"name","name":""}"#);
    channel.set_read_deadline(Some(Instant::now() + PATIENCE));
    loop {
        match channel.reader.recv().unwrap() {
            Some(Message::PipeNews(PipeNews::Joined { .. })) => return (channel, branches),
            Some(_) => {}
            None => panic!("the server hung up"),
        }
    }
}

/// Every seat is free, and a good pipe works.
#[track_caller]
fn expect_a_good_pipe(served: &Served) {
    wait_for(|| (served.handle.sessions() == 0).then_some(()));
    let Location::Remote(remote) = served.remote("") else { panic!("a remote") };
    let mut stream = Stream::to(remote).options(served.options()).open().unwrap();
    stream.write_all(b"through").unwrap();
    stream.shutdown_write().unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!((got.as_str(), stream.finish().unwrap().end.exit_code()), ("through", 0));
}

fn with_cat() -> Served {
    let served = Served::start(|options| options.sessions_max = 2);
    served.authorize_client_with("pipe=\"cat\"");
    served
}

#[test]
fn a_request_for_a_pipe_that_lies_is_refused_by_a_sentence() {
    let served = with_cat();
    let long = "x".repeat(60_000);
    for request in [
        json!({"type": "pipe", "with": "telepathy", "name": "x"}),
        json!({"type": "pipe", "with": "command", "line": "Y2F0"}),
        json!({"type": "pipe", "with": "command", "line": "no base64!"}),
        json!({"type": "pipe", "with": "command"}),
        json!({"type": "pipe", "with": "name", "name": "../../etc"}),
        json!({"type": "pipe", "with": "name", "name": "a\u{0}b"}),
        json!({"type": "pipe", "with": "name", "name": long}),
        json!({"type": "pipe", "with": "name", "name": ["cat"]}),
        json!({"type": "pipe", "with": "name"}),
        json!({"type": "pipe", "with": "listen", "name": "x", "wait_ms": u64::MAX}),
        json!({"type": "pipe", "with": "listen", "name": "x", "wait_ms": -1}),
        json!({"type": "pipe", "with": "listen", "name": "x", "wait_ms": 1e300}),
        json!({"type": "pipe", "with": "listen", "name": "x"}),
        json!({"type": "pipe"}),
        json!({"type": "pipe_news", "what": "joined"}),
        json!({"type": "pipe_news", "what": "ended", "given": u64::MAX, "came": 0}),
    ] {
        let mut channel = connected(&served);
        let _branches = channel.branch(BRANCHES).unwrap();
        channel.writer.send_json(&request.to_string());
        let said = last_word(&mut channel);
        let shown: String = request.to_string().chars().take(100).collect();
        assert!(said.as_ref().is_some_and(|said| said.len() > 20 && said.len() < 2000), "{shown}: {said:?}");
    }
    expect_a_good_pipe(&served);
}

#[test]
fn one_that_listens_and_goes_away_frees_its_name_and_seat() {
    let served = Served::start(|options| options.sessions_max = 2);
    served.authorize_client_with("pipe-names");
    let listen = json!({"type": "pipe", "with": "listen", "name": "x", "wait_ms": u64::MAX});
    for _ in 0..3 {
        let channel = connected(&served);
        channel.writer.send_json(&listen.to_string());
        wait_for(|| (served.handle.sessions() == 1).then_some(()));
        drop(channel);
        wait_for(|| (served.handle.sessions() == 0).then_some(()));
    }
    served.authorize_client_with("pipe=\"cat\"");
    expect_a_good_pipe(&served);
}

#[test]
fn news_that_a_client_cannot_have_change_nothing() {
    let served = with_cat();
    let (mut channel, branches) = joined(&served);
    for news in [
        json!({"type": "pipe_news", "what": "joined"}),
        json!({"type": "pipe_news", "what": "errors", "bytes": "bm8K"}),
        json!({"type": "pipe_news", "what": "ended", "code": 0, "given": u64::MAX, "came": u64::MAX}),
        json!({"type": "pipe_news", "what": "telepathy"}),
        json!({"type": "pipe", "with": "name", "name": ""}),
        json!({"type": "notice", "text": "\u{1b}[2J".repeat(100)}),
    ] {
        channel.writer.send_json(&news.to_string());
    }
    // As often as it likes.
    for _ in 0..5000 {
        channel.writer.send_json(&json!({"type": "pipe_news", "what": "unread"}).to_string());
    }
    drop(branches);
    let said = last_word(&mut channel);
    assert!(said.is_some_and(|said| said.contains("pipe")), "its parts were ended before they began");
    expect_a_good_pipe(&served);
}

#[test]
fn a_part_of_a_pipe_that_asks_for_something_else_ends_it() {
    let served = with_cat();
    let open = |change: fn(&mut Value)| {
        let mut open = json!({
            "type": "open", "direction": "push", "paths": ["LQ=="], "recursive": false, "preserve": false,
            "compress": false, "payload_size": 0, "ack_every": 0,
            "shape": {"contents": true, "sources": 1, "stream": true}, "sending": {"cc": "auto"}
        });
        change(&mut open);
        open
    };
    let lies: [(usize, Value); 8] = [
        (0, open(|open| open["direction"] = json!("pull"))),
        (1, open(|_| ())),
        (0, open(|open| open["survey"] = json!(true))),
        (0, open(|open| open["probe"] = json!({"secs": 1, "nanos": 0}))),
        (0, open(|open| open["sending"] = json!({"cc": "telepathy"}))),
        (0, json!({"type": "complete", "files": 1, "bytes": u64::MAX})),
        (1, json!({"type": "hello", "protocol": 1, "program": "again"})),
        (0, json!({"type": 7})),
    ];
    for (index, lie) in lies {
        let (mut channel, branches) = joined(&served);
        branches[index].writer.send_json(&lie.to_string());
        let said = last_word(&mut channel);
        assert!(said.as_ref().is_some_and(|said| said.len() > 20), "{lie}: {said:?}");
        drop((channel, branches));
        expect_a_good_pipe(&served);
    }
}
