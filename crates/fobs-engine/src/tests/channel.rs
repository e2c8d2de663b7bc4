//! A relay in the middle of the control channel.

use std::io::{BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use super::support::End;
use fobs_channel::control::frame::{FrameReader, encode};
use fobs_channel::control::pair::ShutOnDrop;
use fobs_channel::control::{ControlChannel, Peer};
use fobs_model::message::Message;
use fobs_model::options::Carrier;

/// Maps a message of one end to the messages that reach the other.
pub type Messages = Box<dyn FnMut(End, Message) -> Vec<Message> + Send>;

/// The control channel of a session, with a relay in the middle.
pub struct Control {
    to_sender: Mutex<UnixStream>,
    to_receiver: Mutex<UnixStream>,
}

impl Control {
    pub fn start(messages: Option<Messages>) -> (Arc<Control>, ControlChannel, ControlChannel) {
        let (sender, to_sender) = UnixStream::pair().unwrap();
        let (receiver, to_receiver) = UnixStream::pair().unwrap();
        let channel = |stream: UnixStream| {
            let peer = Peer { description: "the peer".to_owned(), address: None, zone: 0, key: None };
            ControlChannel::over(stream.try_clone().unwrap(), ShutOnDrop(stream), Carrier::Ssh, peer)
        };
        let directions = [(End::Sender, &to_sender), (End::Receiver, &to_receiver)]
            .map(|(end, stream)| (end, stream.try_clone().unwrap()));
        let control =
            Arc::new(Control { to_sender: Mutex::new(to_sender), to_receiver: Mutex::new(to_receiver) });
        let messages = Arc::new(Mutex::new(messages));
        for (from, stream) in directions {
            let (control, messages) = (control.clone(), messages.clone());
            // Ends with its stream.
            thread::spawn(move || control.forward(from, stream, &messages));
        }
        (control, channel(sender), channel(receiver))
    }

    fn forward(&self, from: End, stream: UnixStream, messages: &Mutex<Option<Messages>>) {
        let to = if from == End::Sender { End::Receiver } else { End::Sender };
        let mut frames = FrameReader::new(BufReader::new(stream));
        while let Ok(Some(message)) = frames.read() {
            let passed = match &mut *messages.lock().unwrap() {
                Some(decide) => decide(from, message),
                None => vec![message],
            };
            passed.iter().for_each(|message| self.say(to, message));
        }
        let _ = self.way_to(to).lock().unwrap().shutdown(Shutdown::Write);
    }

    fn way_to(&self, end: End) -> &Mutex<UnixStream> {
        match end {
            End::Sender => &self.to_sender,
            End::Receiver => &self.to_receiver,
        }
    }

    /// Sends a message to one end in the other's name. An end that is gone gets nothing.
    pub fn say(&self, to: End, message: &Message) {
        self.say_bytes(to, &encode(message).unwrap());
    }

    pub fn say_bytes(&self, to: End, bytes: &[u8]) {
        let _ = self.way_to(to).lock().unwrap().write_all(bytes);
    }

    /// A frame of any JSON.
    pub fn say_json(&self, to: End, json: &str) {
        let length = u32::try_from(json.len()).unwrap().to_be_bytes();
        self.say_bytes(to, &[&length, json.as_bytes()].concat());
    }

    /// Ends the channel for both.
    pub fn cut(&self) {
        for end in End::BOTH {
            self.way_to(end).lock().unwrap().shutdown(Shutdown::Both).unwrap();
        }
    }
}
