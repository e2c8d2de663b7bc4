//! Plays the steps of a session over a link, and keeps everything that the server said.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fobs_proto::wire::Frame;
use serde_json::{Value, json};

use super::lane::Lane;
use super::link::{Heard, Link};
use super::recorder::RECORD_BIT;
use super::records::root_of;
use super::session::{PORTS, ROOT, Step, TICKET};
use super::values::{TOP, grow, raw, replace};
use fobs_channel::secure::datagram::Direction;

/// What the player puts in the place of words in messages.
pub(super) struct Filling {
    /// The directory around the root.
    pub(super) top: String,
    pub(super) udp_ports: (u16, u16),
    /// A daemon's port, key and a ticket of it; of no use over ssh.
    pub(super) port: u16,
    pub(super) key: Vec<u8>,
    pub(super) ticket: String,
}

impl Filling {
    /// Fills a message.
    pub(super) fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) => match text.as_str() {
                PORTS => *value = json!([self.udp_ports.0, self.udp_ports.1]),
                "@port@" => *value = json!(self.port),
                "@key@" => *value = json!(STANDARD.encode(&self.key)),
                TICKET => *value = json!(self.ticket),
                _ => {
                    if let Some(filled) = STANDARD.decode(text.as_str()).ok().and_then(|it| self.filled(&it))
                    {
                        *text = STANDARD.encode(filled);
                    }
                }
            },
            Value::Array(items) if items.iter().all(Value::is_u64) => {
                let bytes: Option<Vec<u8>> =
                    items.iter().map(|item| item.as_u64()?.try_into().ok()).collect();
                if let Some(filled) = bytes.and_then(|bytes| self.filled(&bytes)) {
                    *value = json!(filled);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.fill(member)),
            _ => {}
        }
    }

    /// Bytes with the directory in them; `None` where none is meant.
    fn filled(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        // Only names are filled, and none of ours is longer.
        let is_meant = bytes.len() < 8192 && bytes.windows(TOP.len()).any(|window| window == TOP.as_bytes());
        is_meant.then(|| replace(bytes, TOP.as_bytes(), self.top.as_bytes()))
    }
}

/// How long one session may go on: a server may be asked to send for a minute.
const LIMIT: Duration = Duration::from_secs(3);
/// Data of the server that is looked through, bytes: many times what the world holds.
const KEPT_MAX: usize = 8 << 20;
/// What a server says all the while, whatever it waits for.
const DISPLAYED: &[&str] = &["standing", "sender_sample", "receiver_sample", "mode", "loss", "way", "remedy"];

/// Whether a session goes on by a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Progress,
    Display,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All that was waited for has come.
    Through,
    /// The server refused or gave up, or hung up.
    Ended,
    /// The server waits for something that the client does not say.
    Waits,
}

/// What was seen of a session.
pub(super) struct Played {
    pub(super) outcome: Outcome,
    /// The server's messages.
    pub(super) messages: Vec<Value>,
    /// Frames of the server that are no messages, which no server sends.
    pub(super) garbage: usize,
    /// Data of the server's chunks, by their numbers.
    pub(super) chunks: BTreeMap<u32, Vec<u8>>,
}

/// A session in progress.
pub(super) struct Player<'a> {
    link: &'a mut Link,
    filling: &'a Filling,
    /// How long the server may be silent before the next step.
    quiet: Duration,
    /// When the client goes on whatever the server says.
    end: Instant,
    lane: Option<Lane>,
    /// What the client writes into the lane.
    written: Direction,
    taking: bool,
    /// Data records of the server, and its complete chunks.
    delivered: u64,
    complete: u32,
    /// Bytes of its data.
    kept: usize,
    /// The server's data has come to its end.
    is_whole: bool,
    /// Chunks that were sent.
    sent: u32,
    /// Messages of `played` that a step has waited for.
    looked: usize,
    ended: bool,
    waited: bool,
    /// A pipe was asked for.
    has_pipe: bool,
    played: Played,
}

impl<'a> Player<'a> {
    pub(super) fn new(link: &'a mut Link, filling: &'a Filling, quiet: Duration) -> Player<'a> {
        Player {
            link,
            filling,
            quiet,
            end: Instant::now() + quiet.max(LIMIT),
            lane: None,
            written: Direction::Sender,
            taking: false,
            delivered: 0,
            complete: 0,
            kept: 0,
            is_whole: false,
            sent: 0,
            looked: 0,
            ended: false,
            waited: false,
            has_pipe: false,
            played: Played {
                outcome: Outcome::Through,
                messages: Vec::new(),
                garbage: 0,
                chunks: BTreeMap::new(),
            },
        }
    }

    /// Plays all steps, unless the server ends the session.
    pub(super) fn play(mut self, steps: &[Step]) -> Played {
        for step in steps {
            if self.ended {
                break;
            }
            match step {
                Step::Say(message) => self.say(message),
                Step::Raw(bytes) => self.link.send_raw(bytes.clone()),
                Step::Hear(kind) => self.hear(kind),
                Step::Chunk(chunk) => {
                    if let Some(lane) = &mut self.lane {
                        for record in lane.chunk(self.sent, &chunk.decoded(), chunk.last) {
                            self.link.send(RECORD_BIT, &record);
                        }
                        self.sent += 1;
                    }
                }
                Step::Take => {
                    self.taking = true;
                    self.report();
                }
            }
        }
        self.played.outcome = match (self.ended, self.waited) {
            (true, _) => Outcome::Ended,
            (false, true) => Outcome::Waits,
            (false, false) => Outcome::Through,
        };
        self.played
    }

    fn say(&mut self, message: &Value) {
        let mut message = message.clone();
        grow(&mut message);
        self.filling.fill(&mut message);
        if message["root"] == ROOT {
            self.receive();
            message["root"] =
                json!(root_of(self.played.chunks.values().map(Vec::as_slice)).unwrap_or_default());
        }
        // Its records have keys of its own, which this player does not use.
        self.has_pipe |= message["type"] == "pipe";
        if message["type"] == "open" {
            let pulls = message["direction"] == "pull";
            self.written = if pulls { Direction::Receiver } else { Direction::Sender };
        }
        self.link.send(0, &raw(&message));
    }

    /// Waits for the last of the server's data; gives up where nothing comes.
    fn receive(&mut self) {
        let mut deadline = Instant::now() + self.quiet;
        while !self.ended && !self.is_whole && self.taking {
            match self.link.hear(deadline.min(self.end)) {
                Heard::Message(body) => drop(self.take_message(&body)),
                Heard::Record(record) => {
                    self.take_record(&record);
                    deadline = Instant::now() + self.quiet;
                }
                Heard::End => self.ended = true,
                Heard::Nothing => break,
            }
        }
    }

    /// Waits for a message; gives up where the server says nothing but how far it is.
    fn hear(&mut self, kind: &str) {
        let mut deadline = Instant::now() + self.quiet;
        loop {
            while let Some(message) = self.played.messages.get(self.looked) {
                self.looked += 1;
                // Of decisions the last ones are meant.
                if message["type"] == kind && message["last"] != json!(false) {
                    return;
                }
            }
            if self.ended {
                return;
            }
            match self.link.hear(deadline.min(self.end)) {
                Heard::Message(body) => {
                    if self.take_message(&body) == Meaning::Progress {
                        deadline = Instant::now() + self.quiet;
                    }
                }
                Heard::Record(record) => self.take_record(&record),
                Heard::End => self.ended = true,
                Heard::Nothing => {
                    self.waited = true;
                    return;
                }
            }
        }
    }

    fn take_message(&mut self, body: &[u8]) -> Meaning {
        let Ok(message) = serde_json::from_slice::<Value>(body) else {
            self.played.garbage += 1;
            return Meaning::Display;
        };
        let kind = message["type"].as_str().unwrap_or_default();
        let meaning = if DISPLAYED.contains(&kind) { Meaning::Display } else { Meaning::Progress };
        if message["type"] == "accept" && self.lane.is_none() {
            self.lane = Lane::of(&message, self.link.exporter.as_ref(), self.written);
        }
        self.ended |= message["type"] == "abort";
        self.played.messages.push(message);
        meaning
    }

    fn take_record(&mut self, record: &[u8]) {
        if self.has_pipe {
            return;
        }
        let Some(plain) = self.lane.as_mut().and_then(|lane| lane.open_answer(record)) else {
            self.played.garbage += 1;
            return;
        };
        if let Ok(Frame::Data(header, data)) = Frame::decode(&plain) {
            self.kept += data.len();
            if self.kept <= KEPT_MAX {
                self.played.chunks.entry(header.first.chunk).or_default().extend_from_slice(data);
            }
            self.delivered += 1;
            self.is_whole |= header.first.last && header.first.final_chunk;
            if header.first.last {
                self.complete = self.complete.max(header.first.chunk.saturating_add(1));
            }
            self.report();
        }
    }

    fn report(&mut self) {
        if let (true, Some(lane)) = (self.taking, &mut self.lane) {
            let record = lane.report(self.delivered, self.complete);
            self.link.send(RECORD_BIT, &record);
        }
    }
}
