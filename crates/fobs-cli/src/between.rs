//! A copy between two other hosts, seen from here: `fobs` on the first one reports in lines of JSON.

use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use fobs::event::{Event, Summary};
use fobs::options::{Remote, TransferOptions};
use fobs::{CancelToken, Error, ErrorKind, EventSink, FarRequest, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::{Cli, Command, CpArgs};
use crate::output;

/// Runs the copy.
///
/// # Errors
/// Those of a copy, and what keeps `fobs` from running on either host.
pub fn run(
    args: &CpArgs,
    (from, paths, to): (&Remote, &[Vec<u8>], &Remote),
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<Summary> {
    let mut words = args.far_words();
    words.push(b"--".to_vec());
    words.extend(paths.iter().cloned());
    words.push(url(to));
    let mut outcome = None;
    let hear = &mut |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(value) if value["v"].is_u64() => match read(&value) {
            Heard::Event(event) => events.event(event),
            Heard::End(end) => outcome = Some(*end),
            Heard::Nothing => {}
        },
        // Words of ssh.
        _ if line.is_empty() => {}
        _ => output::note(&format!("{}: {}", from.host, output::printable(line))),
    };
    fobs::copy_between(from, to, words, options, hear, cancel)?;
    outcome.unwrap_or_else(|| {
        let host = &from.host;
        let message =
            format!("fobs on {host} ended before it said how; is the same version installed there?");
        Err(Error::new(ErrorKind::Protocol, message))
    })
}

/// The arguments with which this host's request runs a copy on the host where this program is.
///
/// # Errors
/// `Protocol` for anything but such a request.
pub fn requested() -> Result<(Box<CpArgs>, Vec<String>)> {
    use clap::Parser;
    let request = FarRequest::from_stdin()?;
    let words = request.words.into_iter().map(std::ffi::OsString::from_vec);
    let words = ["fobs", "cp"].map(std::ffi::OsString::from).into_iter().chain(words);
    match Cli::try_parse_from(words) {
        Ok(Cli { command: Command::Cp(mut args) }) => {
            let (destination, sources) =
                args.paths.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last.clone()), rest));
            let sources: Vec<Vec<u8>> = sources.iter().map(|path| path.clone().into_vec()).collect();
            let expanded = fobs::expand_here(&sources)?;
            // A name with a colon is one here.
            let here =
                |path: Vec<u8>| if path.starts_with(b"/") { path } else { [b"./", &path[..]].concat() };
            args.paths =
                expanded.into_iter().map(here).map(std::ffi::OsString::from_vec).chain(destination).collect();
            Ok((args, request.hosts))
        }
        _ => Err(Error::new(
            ErrorKind::Protocol,
            "this fobs is another version than the one that asks; install the same one",
        )),
    }
}

/// A location as an argument that has one meaning, whatever it contains.
fn url(remote: &Remote) -> Vec<u8> {
    let user = remote.user.as_ref().map(|user| format!("{}@", encoded(user.as_bytes()))).unwrap_or_default();
    let host = if remote.host.contains(':') { format!("[{}]", remote.host) } else { remote.host.clone() };
    let port = remote.port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("ssh://{user}{host}{port}/{}", encoded(&remote.path)).into_bytes()
}

fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    bytes
        .iter()
        .map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// What a line says.
enum Heard {
    Event(Event),
    End(Box<Result<Summary>>),
    Nothing,
}

fn read(line: &Value) -> Heard {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    match line["event"].as_str().unwrap_or_default() {
        "start" => Heard::Event(Event::Started {
            walls: None,
            control: "ssh",
            key_exchange: None,
            transport: word(line, "transport"),
            cipher: word(line, "cipher"),
            cc: word(line, "cc"),
        }),
        "progress" => Heard::Event(Event::Progress(of(line).unwrap_or_default())),
        "file" => Heard::Event(Event::FileDone(of(line).unwrap_or_default())),
        "error" => Heard::Event(Event::FileFailed(of(line).unwrap_or_default())),
        "notice" => Heard::Event(Event::Notice(text("message"))),
        "done" => Heard::End(Box::new(of(line))),
        "failed" => {
            let error = Error::new(ErrorKind::from_code(&text("code")), text("message"));
            Heard::End(Box::new(Err(error)))
        }
        _ => Heard::Nothing,
    }
}

/// What `--json` made of one of our types.
fn of<T: DeserializeOwned>(line: &Value) -> Result<T> {
    T::deserialize(line).map_err(|error| {
        let message = format!("the program there says what this one does not understand: {error}");
        Error::new(ErrorKind::Protocol, message)
    })
}

/// One of the words that a session can begin with.
fn word(line: &Value, name: &str) -> &'static str {
    let known = ["udp", "tcp", "channel", "AES-128-GCM", "ChaCha20-Poly1305"];
    let ccs = fobs::options::CongestionControl::ALL.map(fobs::options::CongestionControl::name);
    let said = line[name].as_str().unwrap_or_default();
    known.into_iter().chain(ccs).find(|known| *known == said).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location;
    use crate::output::Reporter;
    use crate::output::json_of;
    use fobs::event::{FileError, OtherEntries, Progress};
    use fobs::options::Location;
    use std::ffi::OsString;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let progress = Progress {
            path: Some(b"\xff".to_vec()),
            bytes: 1,
            bytes_known: 2,
            scan_complete: true,
            files: 3,
            rate_bps: 4.5,
            rtt_ms: Some(5.5),
            loss_rate: 0.25,
            waste: 0.5,
            streams: 2,
        };
        let done = Event::FileDone(fobs::event::FileDone { path: b"a".to_vec(), bytes: 7, root: [0xab; 32] });
        let failed = Event::FileFailed(FileError { path: b"b".to_vec(), message: "no".to_owned() });
        let summary = Summary {
            bytes: 1,
            files: 2,
            others: OtherEntries { directories: 1, links: 2, devices: 3 },
            seconds: 3.5,
            packets_sent: 6,
            rtt_ms_min: Some(7.5),
            cc: "auto".to_owned(),
            root: "ab".to_owned(),
            errors: vec![FileError { path: b"x".to_vec(), message: "gone".to_owned() }],
            ..Summary::default()
        };
        let events = [Event::Progress(progress), done, failed, Event::Notice("hear".to_owned())];
        let text = json_of(|json| {
            events.iter().for_each(|event| json.event(event.clone()));
            json.finish(&Ok(summary.clone()), None).expect("a vector takes everything");
        });
        let mut heard = text.lines().map(|line| read(&serde_json::from_str(line).expect("JSON")));
        for event in events {
            let Some(Heard::Event(found)) = heard.next() else { panic!("{event:?}") };
            assert_eq!(found, event);
        }
        let Some(Heard::End(end)) = heard.next() else { panic!("the end") };
        assert_eq!(*end, Ok(summary));
        let text = json_of(|json| drop(json.finish(&Err(Error::new(ErrorKind::Denied, "why")), None)));
        let Heard::End(end) = read(&serde_json::from_str(text.trim()).expect("JSON")) else {
            panic!("the end")
        };
        assert_eq!(*end, Err(Error::new(ErrorKind::Denied, "why")));
    }

    #[test]
    fn a_destination_means_the_same_over_there() {
        for text in
            ["b:", "b:dir/x", "me@b:/abs/it's a name", "[fe80::1]:x", "ssh://b:2222/%ff%25?*", "b:~ann/x"]
        {
            let Ok(Location::Remote(remote)) = location::parse(&OsString::from(text)) else {
                panic!("{text}")
            };
            let again = location::parse(&OsString::from_vec(url(&remote))).expect(text);
            assert_eq!(again, Location::Remote(remote), "{text}");
        }
    }
}
