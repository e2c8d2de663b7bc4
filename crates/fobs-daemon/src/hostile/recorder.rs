//! Records the sessions of `sessions/`: runs `fobs` as a client whose `ssh` is a relay, and keeps what the
//! client says, and what it waits for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, thread};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fobs_proto::wire::Frame;
use serde_json::{Value, json};

use super::lane::Lane;
use super::session::{Chunk, Step};
use super::world::World;
use fobs_channel::secure::datagram::Direction;

/// Where the relay writes, if this process is one, and what it runs.
const TO_VARIABLE: &str = "HOSTILE_RECORD_TO";
const PROGRAM_VARIABLE: &str = "HOSTILE_RECORD_PROGRAM";
const ROOT_VARIABLE: &str = "HOSTILE_RECORD_ROOT";
/// The bit of a frame's length that marks a record of the lane (protocol 11.2).
pub(super) const RECORD_BIT: u32 = 1 << 31;
/// What the client waits for before it goes on.
const AWAITED: &[&str] =
    &["accept", "expanded", "examined", "decisions", "listing", "complete", "finished", "answer"];
/// What a client repeats for display: once is enough.
const REPEATED: &[&str] = &["sender_sample", "receiver_sample", "standing"];

/// The sessions that the command line can have: name, and arguments with `SRC`, `FAR` and `BACK` in them.
const RECORDED: &[(&str, &[&str])] = &[
    ("push-object", &["cp", "SRC/ab", "FAR/in/ann/new"]),
    ("push", &["cp", "-rp", "--transport", "ssh", "SRC/", "FAR/in/ann/pushed"]),
    (
        "sync-push",
        &[
            "sync",
            "-aHAXSi",
            "--transport",
            "ssh",
            "--backup",
            "--suffix=.bak",
            "--delete",
            "--max-delete=9",
            "--filter=- *.o",
            "--filter=: .rules",
            "--link-dest=../base",
            "--chmod=F644",
            "--modify-window=1",
            "SRC/",
            "FAR/in/ann/d",
        ],
    ),
    (
        "sync-names",
        &[
            "sync",
            "-lti",
            "--transport",
            "ssh",
            "--files-from=SRC/list",
            "-c",
            "--delete-after",
            "--remove-source-files",
            "SRC/",
            "FAR/in/ann/d",
        ],
    ),
    ("sync-dry", &["sync", "-aiin", "-c", "--transport", "ssh", "--delete", "SRC/", "FAR/in/ann/d"]),
    ("pull", &["cp", "-rp", "--transport", "ssh", "FAR/in/ann/tree", "BACK"]),
    ("pull-pattern", &["cp", "-r", "--transport", "ssh", "FAR/in/ann/tr*", "BACK"]),
    (
        "sync-pull",
        &["sync", "-aHi", "--transport", "ssh", "--remove-source-files", "FAR/in/ann/tree/", "BACK"],
    ),
];

/// Whether this process is a relay.
pub fn is_relay() -> bool {
    env::var_os(TO_VARIABLE).is_some()
}

/// Records every session with the program `fobs`, into `directory`; `relay` is this program.
///
/// # Errors
/// Where a copy fails, or a file cannot be written.
pub fn record(fobs: &Path, relay: &Path, directory: &Path) -> io::Result<()> {
    let fobs = fs::canonicalize(fobs)?;
    fs::create_dir_all(directory)?;
    for (name, arguments) in RECORDED {
        let world = World::new()?;
        let (source, back) = (world.state().join("source"), world.state().join("back"));
        World::source(&source)?;
        fs::create_dir(&back)?;
        let raw = world.state().join("raw");
        fs::write(&raw, "")?;
        let filled = arguments.iter().map(|argument| {
            let far = argument.replace("FAR/", "127.0.0.1:").replace("BACK", &back.display().to_string());
            far.replace("SRC", &source.display().to_string())
        });
        let status = Command::new(&fobs)
            .args(filled)
            .arg("--ssh")
            .arg(relay)
            .env(TO_VARIABLE, &raw)
            .env(PROGRAM_VARIABLE, &fobs)
            .env(ROOT_VARIABLE, world.root())
            .env("HOME", world.state())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .status()?;
        if !status.success() {
            return Err(io::Error::other(format!("{name}: the copy failed: {status}")));
        }
        let mut lines = String::new();
        for step in steps(&fs::read_to_string(&raw)?)? {
            lines.push_str(&serde_json::to_string(&step)?);
            lines.push('\n');
        }
        fs::write(directory.join(format!("{name}.jsonl")), lines)?;
    }
    Ok(())
}

/// The steps of the client in what a relay has written.
fn steps(raw: &str) -> io::Result<Vec<Step>> {
    let (mut steps, mut repeated, mut taking) = (Vec::new(), Vec::new(), false);
    let (mut lane, mut chunks) = (None, BTreeMap::<u32, Vec<u8>>::new());
    for line in raw.lines() {
        let event: Value = serde_json::from_str(line)?;
        let of_client = event["from"] == "client";
        if let Some(record) = event["record"].as_str() {
            let (true, Some(lane)) = (of_client, &mut lane) else { continue };
            let lane: &mut Lane = lane;
            let sealed = STANDARD.decode(record).map_err(io::Error::other)?;
            let plain = lane.open(&sealed).ok_or_else(|| io::Error::other("a record does not open"))?;
            match Frame::decode(&plain) {
                Ok(Frame::Data(header, data)) => {
                    let chunk = chunks.entry(header.first.chunk).or_default();
                    chunk.extend_from_slice(data);
                    if header.first.last {
                        steps.push(Step::Chunk(Chunk::of(chunk, header.first.final_chunk)));
                    }
                }
                _ if !taking => {
                    taking = true;
                    steps.push(Step::Take);
                }
                _ => {}
            }
            continue;
        }
        let message = &event["message"];
        let kind = message["type"].as_str().unwrap_or_default();
        if !of_client {
            if kind == "accept" {
                let pushes =
                    steps.iter().any(|step| matches!(step, Step::Say(it) if it["direction"] == "push"));
                let written = if pushes { Direction::Sender } else { Direction::Receiver };
                lane = Lane::of(message, None, written);
            }
            let hear = Step::Hear(kind.to_owned());
            // Of several decisions the last one is waited for; how many there are depends on the time.
            if AWAITED.contains(&kind) && !steps.contains(&hear) {
                steps.push(hear);
            }
        } else if !REPEATED.contains(&kind) || !repeated.contains(&kind.to_owned()) {
            repeated.push(kind.to_owned());
            steps.push(Step::Say(message.clone()));
        }
    }
    Ok(steps)
}

/// The place of `ssh`: runs the server and passes everything on, writing it down first.
///
/// # Errors
/// Where a stream fails.
pub fn relay() -> io::Result<()> {
    if env::args().any(|argument| argument == "-G") {
        return Err(io::Error::other("there is no configuration"));
    }
    let variable = |name| env::var_os(name).ok_or_else(|| io::Error::other(format!("{name} is not set")));
    let log: Log = Arc::new(Mutex::new(File::options().append(true).open(variable(TO_VARIABLE)?)?));
    let mut server = Command::new(variable(PROGRAM_VARIABLE)?)
        .args(["server", "--privileged", "--restrict"])
        .arg(variable(ROOT_VARIABLE)?)
        .env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22")
        .env("SSH_ORIGINAL_COMMAND", "fobs server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut stdin), Some(mut stdout)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let up = log.clone();
    // Ends with the client, which may be after the server.
    thread::spawn(move || pass(&mut io::stdin(), &mut stdin, &up, "client"));
    pass(&mut stdout, &mut io::stdout(), &log, "server")?;
    server.wait().map(|_| ())
}

type Log = Arc<Mutex<File>>;

/// Passes the frames of one direction on. The server's TCP port is kept to itself: data is to take the lane.
fn pass(from: &mut dyn Read, to: &mut dyn Write, log: &Log, who: &str) -> io::Result<()> {
    let mut length = [0; 4];
    while from.read_exact(&mut length).is_ok() {
        let bits = u32::from_be_bytes(length);
        let mut body = vec![0; (bits & !RECORD_BIT) as usize];
        from.read_exact(&mut body)?;
        let event = match bits & RECORD_BIT {
            0 => json!({ "from": who, "message": serde_json::from_slice::<Value>(&body)? }),
            _ => json!({ "from": who, "record": STANDARD.encode(&body) }),
        };
        writeln!(log.lock().unwrap_or_else(PoisonError::into_inner), "{event}")?;
        to.write_all(&[&length[..], &body].concat())?;
        to.flush()?;
    }
    Ok(())
}
