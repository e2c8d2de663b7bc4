//! What is left of a session's secret in the memory of this process once its keys are made.

use std::fs::File;
use std::io::{BufRead, Cursor, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::key_schedules::{hello_with, push_to};
use super::replay::Login;
use fobs::server::open_session;
use fobs_channel::control::{ControlChannel, Peer};
use fobs_model::cancel::CancelToken;
use fobs_model::error::ErrorKind;
use fobs_model::message::{FEATURES, LEVEL_2, Message, Open};
use fobs_model::options::Carrier;

/// Bytes of memory that are read at once.
const PIECE: usize = 1 << 20;
/// Bytes that are looked for: enough that no other memory holds them by chance.
const NEEDLE: usize = 16;

/// The beginning of a secret. It is kept inverted, so that it is not found itself.
pub struct Needle([u8; NEEDLE]);

impl Needle {
    pub fn of(secret: &[u8]) -> Needle {
        Needle(std::array::from_fn(|at| !secret[at]))
    }

    /// How often it is in memory that this process can write.
    pub fn count(&self) -> usize {
        // What another test's search has read would be found.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut piece = vec![0; PIECE + NEEDLE];
        let own = piece.as_ptr() as u64..piece.as_ptr() as u64 + piece.len() as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut memory = File::open("/proc/self/mem").unwrap();
        let mut found = 0;
        for (begin, end) in maps.lines().filter_map(writable) {
            for at in (begin..end).step_by(PIECE) {
                let len = (end - at).min(piece.len() as u64) as usize;
                // What was unmapped meanwhile holds nothing.
                let read =
                    memory.seek(SeekFrom::Start(at)).and_then(|_| memory.read_exact(&mut piece[..len]));
                if read.is_ok() {
                    let places = self.places(&piece[..len]);
                    found += places.filter(|place| !own.contains(&(at + *place as u64))).count();
                }
            }
        }
        piece.fill(0);
        found
    }

    /// Where it begins in `bytes`; one across their end is in the next piece too.
    fn places<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let mut rest = Cursor::new(bytes);
        std::iter::from_fn(move || {
            // The library's search for a byte is fast in a build that is not optimised.
            while rest.skip_until(!self.0[0]).unwrap() > 0 {
                let place = rest.position() as usize - 1;
                let there = &bytes[place..(place + NEEDLE).min(bytes.len())];
                if place < PIECE
                    && there.iter().zip(&self.0).filter(|(there, ours)| **there == !**ours).count() == NEEDLE
                {
                    return Some(place);
                }
            }
            None
        })
    }
}

/// The range of a mapping that can be read and written.
fn writable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-').filter(|_| rest.starts_with("rw"))?;
    Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[test]
fn a_search_finds_what_is_there() {
    let secret: Box<[u8; 32]> = Box::new(fobs_channel::secure::random_bytes());
    let needle = Needle::of(&*secret);
    assert!(needle.count() > 0);
    let across = [&vec![0; PIECE - 7][..], &*secret, &[0; 99]].concat();
    assert_eq!(needle.places(&across).collect::<Vec<_>>(), [PIECE - 7]);
    assert_eq!(Needle::of(&fobs_channel::secure::random_bytes::<32>()).places(&across).count(), 0);
}

/// What a server over ssh keeps of the secret that it has told its client, as bytes and as the text of its
/// message, while it waits for the first packet.
fn kept_by_a_server(features: &[&str], streams: bool) -> [usize; 2] {
    let place = tempfile::tempdir().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let serving = thread::spawn(move || {
        let peer = Peer { description: "a test".to_owned(), address: None, zone: 0, key: None };
        let channel = ControlChannel::over(ours.try_clone().unwrap(), ours, Carrier::Ssh, peer);
        let cancel = CancelToken::new();
        open_session(channel, &cancel, &mut Login)?.serve(&cancel, &mut Login)
    });
    let open = push_to(place.path().join("file").to_str().unwrap());
    for message in [Message::Hello(hello_with(features)), Message::Open(Box::new(Open { streams, ..open }))] {
        std::io::Write::write_all(&mut theirs, &fobs_channel::control::frame::encode(&message).unwrap())
            .unwrap();
    }
    let needles = loop {
        let mut length = [0; 4];
        theirs.read_exact(&mut length).unwrap();
        let mut body = Zeroizing::new(vec![0; u32::from_be_bytes(length) as usize]);
        theirs.read_exact(&mut body).unwrap();
        let text = std::str::from_utf8(&body).unwrap();
        if let Some((_, rest)) = text.split_once("\"secret\":\"") {
            let secret = rest.split('"').next().unwrap();
            let decoded = Zeroizing::new(STANDARD.decode(secret).unwrap());
            break [Needle::of(&decoded), Needle::of(secret.as_bytes())];
        }
        assert!(!text.contains("\"abort\""), "{text}");
    };
    // It has sent the answer before it has cleared up behind it.
    thread::sleep(Duration::from_millis(200));
    assert!(!serving.is_finished());
    let found = needles.map(|needle| needle.count());
    drop(theirs);
    let error = serving.join().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect, "{error}");
    found
}

#[test]
fn a_server_keeps_nothing_of_the_secret_that_it_told() {
    assert_eq!(kept_by_a_server(FEATURES, true), [0, 0]);
    assert_eq!(kept_by_a_server(FEATURES, false), [0, 0]);
    // The first schedule needs it for streams, and for nothing else.
    let [bytes, text] = kept_by_a_server(LEVEL_2.features, true);
    assert!(bytes > 0 && text == 0, "{bytes}, {text}");
    assert_eq!(kept_by_a_server(LEVEL_2.features, false), [0, 0]);
}
