//! What was recorded, and one side of it as a peer.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fobs_proto::wire::Header;
use serde_json::{Value, json};

use super::{send, text};
use fobs_channel::secure::datagram::{Cipher, Direction, Opener, Sealer, TAG_LEN};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_model::options::Transport;

/// Longest wait for a message of our side.
const MESSAGE_WAIT: Duration = Duration::from_secs(30);
/// How long our side may take over a packet that its recorded counterpart sent: it need not send as many.
const PACKET_WAIT: Duration = Duration::from_millis(20);
/// The bit of a frame's length that marks a record of a stream (protocol 11.2).
const RECORD_BIT: u32 = 1 << 31;
/// Messages of our side without which the recorded one would not have gone on.
const AWAITED: [&str; 7] = ["hello", "expand", "expanded", "open", "accept", "complete", "finished"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Client,
    Server,
}

#[derive(Debug, Clone)]
enum What {
    Message(Value),
    Record(Vec<u8>),
    Datagram(Vec<u8>),
}

/// Who did what, in order.
pub struct Transcript(Vec<(Who, What)>);

impl Transcript {
    pub fn parse(text: &str) -> Transcript {
        let event = |line: &str| {
            let mut value: Value = serde_json::from_str(line).expect("a line of JSON");
            let who = if value["from"] == "client" { Who::Client } else { Who::Server };
            let bytes = |value: &Value| STANDARD.decode(value.as_str().expect("a text")).expect("base64");
            let what = match (&value["record"], &value["datagram"]) {
                (Value::Null, Value::Null) => What::Message(value["message"].take()),
                (Value::Null, datagram) => What::Datagram(bytes(datagram)),
                (record, _) => What::Record(bytes(record)),
            };
            (who, what)
        };
        Transcript(text.lines().map(event).collect())
    }

    fn message(&self, from: Who, kind: &str) -> &Value {
        let found = self.0.iter().find_map(|(who, what)| match what {
            What::Message(message) if *who == from && message["type"] == kind => Some(message),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("{from:?} never said {kind}"))
    }

    pub fn hello(&self, from: Who) -> &Value {
        self.message(from, "hello")
    }

    pub fn is_push(&self) -> bool {
        self.message(Who::Client, "open")["direction"] == "push"
    }

    /// What carried the data.
    pub fn transport(&self) -> Transport {
        if self.0.iter().any(|(_, what)| matches!(what, What::Record(_))) {
            Transport::Channel
        } else {
            Transport::Udp
        }
    }

    /// What seals as `who` did with the keys of an `accept`, and what opens that.
    fn keys(&self, accept: &Value, who: Who) -> (Sealer, Opener) {
        let secret: [u8; 32] =
            STANDARD.decode(text(accept, "secret")).expect("base64").try_into().expect("32 bytes");
        let cipher = Cipher::from_name(text(accept, "cipher")).expect("a cipher of then");
        let number = accept["keys"].as_u64().map_or(1, |number| number as u8);
        let schedule = KeySchedule::from_number(number).expect("a schedule of then");
        let end =
            |ours| SessionKeys::derive(SessionSecret::new(secret), schedule, cipher).datagrams.of_end(ours);
        if self.is_push() == (who == Who::Client) {
            (end(Direction::Sender).0, end(Direction::Receiver).1)
        } else {
            (end(Direction::Receiver).0, end(Direction::Sender).1)
        }
    }
}

/// Plays one side.
pub struct Player<W> {
    transcript: Transcript,
    who: Who,
    write: W,
    /// Frames of our side, without those of streams.
    heard: Receiver<Value>,
    socket: UdpSocket,
    /// Where our side's socket is.
    peer: Option<SocketAddr>,
    /// Packets that our side has sent.
    received: usize,
    /// Opens what was recorded, and seals it for our side; made at `accept`.
    keys: Option<(Opener, Sealer)>,
    /// The path that the client asks for, or that the server finds for a pattern.
    path: Option<PathBuf>,
}

impl<W: Write> Player<W> {
    pub fn new(
        transcript: Transcript,
        who: Who,
        read: impl Read + Send + 'static,
        write: W,
        path: Option<PathBuf>,
    ) -> Player<W> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PACKET_WAIT)).unwrap();
        let heard = listen(read);
        Player { transcript, who, write, heard, socket, peer: None, received: 0, keys: None, path }
    }

    /// All of it, in order; the channel ends with the last of it.
    pub fn play(mut self) {
        let mut due = 0;
        for (who, what) in self.transcript.0.clone() {
            match (who == self.who, what) {
                (true, What::Message(message)) => self.say(message),
                (true, What::Record(record)) => send(&mut self.write, RECORD_BIT, &record),
                (true, What::Datagram(datagram)) => self.send_datagram(&datagram),
                (false, What::Message(message)) if AWAITED.contains(&text(&message, "type")) => {
                    self.wait_for(text(&message, "type"));
                }
                (false, What::Datagram(_)) => {
                    due += 1;
                    self.hear_datagrams(due);
                }
                (false, What::Message(_) | What::Record(_)) => {}
            }
        }
    }

    fn say(&mut self, mut message: Value) {
        match text(&message, "type") {
            "accept" => {
                self.make_keys(&message.clone());
                let port = self.socket.local_addr().unwrap().port();
                message["udp_addresses"] = json!([["", port]]);
                message["tcp_addresses"] = json!([]);
            }
            "open" | "expand" | "expanded" => {
                let path =
                    self.path.as_ref().expect("a client has a path, a server what it makes of a pattern");
                message["paths"] = json!([STANDARD.encode(path.as_os_str().as_bytes())]);
            }
            _ => {}
        }
        send(&mut self.write, 0, &serde_json::to_vec(&message).unwrap());
    }

    /// `live` is the `accept` that our side goes by.
    fn make_keys(&mut self, live: &Value) {
        let recorded = self.transcript.message(Who::Server, "accept");
        let (_, opener) = self.transcript.keys(recorded, self.who);
        let (sealer, _) = self.transcript.keys(live, self.who);
        self.keys = Some((opener, sealer));
    }

    fn wait_for(&mut self, kind: &str) {
        let deadline = Instant::now() + MESSAGE_WAIT;
        loop {
            let message = match self.heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("our side never said {kind}")
                }
            };
            match text(&message, "type") {
                "abort" => panic!("our side ended: {message}"),
                "accept" => {
                    let port =
                        message["udp_addresses"][0][1].as_u64().and_then(|port| u16::try_from(port).ok());
                    self.peer = Some(SocketAddr::from(([127, 0, 0, 1], port.expect("a port"))));
                    self.make_keys(&message);
                }
                _ => {}
            }
            if message["type"] == kind {
                return;
            }
        }
    }

    /// Waits for our side's packets, until there are as many as were recorded, or none comes; for the first
    /// one of a client as long as for a message.
    fn hear_datagrams(&mut self, count: usize) {
        let deadline = Instant::now() + MESSAGE_WAIT;
        let mut buffer = [0; 65_536];
        while self.received < count {
            match self.socket.recv_from(&mut buffer) {
                Ok((_, from)) => {
                    self.received += 1;
                    self.peer = Some(from);
                }
                Err(_) if self.peer.is_none() && Instant::now() < deadline => {}
                Err(_) => return,
            }
        }
    }

    fn send_datagram(&mut self, recorded: &[u8]) {
        let (opener, sealer) = self.keys.as_mut().expect("accept came first");
        let (header, number) = Header::decode(recorded).expect("a packet of ours");
        let (head, sealed) = recorded.split_at(header.len());
        let mut body = vec![0; sealed.len() - TAG_LEN];
        // Few packets: the low bits of a number are all of it.
        assert!(opener.open(u64::from(number), head, sealed, &mut body), "packet {number} opens no longer");
        let mut again = [head, sealed].concat();
        sealer.seal(u64::from(number), head, &body, &mut again[head.len()..]);
        if self.who == Who::Server {
            assert_eq!(again, recorded, "a packet is sealed as it was");
        }
        let peer = self.peer.expect("our side sent first, or said where it is");
        self.socket.send_to(&again, peer).unwrap();
    }
}

/// Messages of a channel, until it ends.
fn listen(mut read: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut length = [0; 4];
        while read.read_exact(&mut length).is_ok() {
            let bits = u32::from_be_bytes(length);
            let mut body = vec![0; (bits & !RECORD_BIT) as usize];
            if read.read_exact(&mut body).is_err() {
                return;
            }
            if bits & RECORD_BIT == 0 && sender.send(serde_json::from_slice(&body).expect("JSON")).is_err() {
                return;
            }
        }
    });
    receiver
}
