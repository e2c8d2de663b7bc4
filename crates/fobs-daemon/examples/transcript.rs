//! Records what two processes of a release say to each other, for `src/tests/replay.rs`:
//!
//!     cargo run -p fobs-daemon --example transcript -- FOBS DIRECTORY
//!
//! runs `FOBS cp` against `FOBS server` for each scenario, and writes `DIRECTORY/SCENARIO.jsonl`: the
//! messages of the control channel, the records in it and the datagrams, in the order in which they passed.
//! The copy's `ssh` is this program again; the secret of the session is in the `accept` that it sees.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::{env, thread};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[path = "../src/tests/replay/tree.rs"]
mod tree;

/// Where the relay writes, if this process is one, and the program at its other end.
const TO_VARIABLE: &str = "TRANSCRIPT_TO";
const PROGRAM_VARIABLE: &str = "TRANSCRIPT_PROGRAM";
/// The bit of a frame's length that marks a record of a stream (protocol 11.2).
const RECORD_BIT: u32 = 1 << 31;
/// Largest datagram of UDP, bytes.
const DATAGRAM_LEN_MAX: usize = 65_536;

/// What is copied, and the side it lies on.
#[derive(Debug, Clone, Copy)]
enum Source {
    Here(&'static str),
    There(&'static str),
}

/// Name of the scenario, its options, and its source.
const SCENARIOS: &[(&str, &[&str], Source)] = &[
    ("push", &["--transport", "udp"], Source::Here("tree")),
    ("pull", &["--transport", "udp"], Source::There("tree")),
    ("pull-pattern", &["--transport", "udp"], Source::There("tr*")),
    ("pull-lane", &["--transport", "ssh"], Source::There("tree")),
];

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let outcome = match env::var_os(TO_VARIABLE) {
        Some(to) => relay(Path::new(&to)),
        None => match &env::args_os().skip(1).map(PathBuf::from).collect::<Vec<_>>()[..] {
            [fobs, directory] => SCENARIOS.iter().try_for_each(|scenario| record(fobs, directory, scenario)),
            _ => Err("give the program to record, and the directory for its transcripts".into()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("transcript: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// One copy of the tree, which must succeed.
fn record(
    fobs: &Path,
    directory: &Path,
    (name, options, source): &(&str, &[&str], Source),
) -> Result<(), Failure> {
    let fobs = fs::canonicalize(fobs)?;
    fs::create_dir_all(directory)?;
    let transcript = fs::canonicalize(directory)?.join(format!("{name}.jsonl"));
    let place = tempfile::tempdir()?;
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&to)?;
    tree::write(&from)?;
    let far = |path: PathBuf| format!("127.0.0.1:{}", path.display());
    let (source, target) = match source {
        Source::Here(what) => (from.join(what).display().to_string(), far(to.clone())),
        Source::There(what) => (far(from.join(what)), to.display().to_string()),
    };
    fs::write(&transcript, "")?;
    let status = Command::new(&fobs)
        .args(["cp", "-rpq", "--ssh"])
        .arg(env::current_exe()?)
        .args(*options)
        .args([source, target])
        .env(TO_VARIABLE, &transcript)
        .env(PROGRAM_VARIABLE, &fobs)
        .env("HOME", place.path())
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .status()?;
    if !status.success() {
        return Err(format!("{name}: the copy failed: {status}").into());
    }
    tree::compare(&to)?;
    println!("{}: {} bytes", transcript.display(), fs::metadata(&transcript)?.len());
    Ok(())
}

/// The place of `ssh`: runs the server and passes everything on, writing it down first.
fn relay(to: &Path) -> Result<(), Failure> {
    if env::args().any(|argument| argument == "-G") {
        return Err("there is no configuration".into());
    }
    let log: Log = Arc::new(Mutex::new(File::options().append(true).open(to)?));
    let mut server = Command::new(env::var_os(PROGRAM_VARIABLE).ok_or("no program is named")?)
        .arg("server")
        .env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (server.stdin.take(), server.stdout.take()) else {
        unreachable!("both were asked to be pipes");
    };
    let up = log.clone();
    // Ends with the client, which may be after the server.
    thread::spawn(move || pass(&mut io::stdin(), stdin, &up, "client"));
    pass(&mut { stdout }, io::stdout(), &log, "server")?;
    server.wait()?;
    Ok(())
}

type Log = Arc<Mutex<File>>;

fn note(log: &Log, from: &str, what: &str, value: &Value) -> io::Result<()> {
    let mut log = log.lock().map_err(|_| io::Error::other("another thread has failed"))?;
    writeln!(log, "{}", json!({ "from": from, what: value }))
}

/// Passes the frames of one direction on.
fn pass(from: &mut dyn Read, mut to: impl Write, log: &Log, who: &str) -> io::Result<()> {
    let mut length = [0; 4];
    while from.read_exact(&mut length).is_ok() {
        let bits = u32::from_be_bytes(length);
        let mut body = vec![0; (bits & !RECORD_BIT) as usize];
        from.read_exact(&mut body)?;
        if bits & RECORD_BIT != 0 {
            note(log, who, "record", &json!(STANDARD.encode(&body)))?;
        } else {
            let mut message: Value = serde_json::from_slice(&body)?;
            note(log, who, "message", &message)?;
            if message["type"] == "accept" {
                redirect(&mut message, log)?;
                body = serde_json::to_vec(&message)?;
            }
        }
        let bits = bits & RECORD_BIT | body.len() as u32;
        to.write_all(&[&bits.to_be_bytes()[..], &body].concat())?;
        to.flush()?;
    }
    Ok(())
}

/// Puts a relay of datagrams between the two, and takes the streams over TCP away.
fn redirect(accept: &mut Value, log: &Log) -> io::Result<()> {
    let port = accept["udp_addresses"][0][1].as_u64().and_then(|port| u16::try_from(port).ok());
    let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    far.connect(("127.0.0.1", port.ok_or_else(|| io::Error::other("the server names no port"))?))?;
    accept["udp_addresses"] = json!([["", near.local_addr()?.port()]]);
    accept["tcp_addresses"] = json!([]);
    let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let (near_too, far_too, client_too, log_too) =
        (near.try_clone()?, far.try_clone()?, client.clone(), log.clone());
    // Both end with the process.
    thread::spawn(move || -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        loop {
            let (len, from) = near.recv_from(&mut buffer)?;
            *client.lock().map_err(|_| io::Error::other("another thread has failed"))? = Some(from);
            note(&log_too, "client", "datagram", &json!(STANDARD.encode(&buffer[..len])))?;
            far.send(&buffer[..len])?;
        }
    });
    let log = log.clone();
    thread::spawn(move || -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        loop {
            let len = far_too.recv(&mut buffer)?;
            let to = *client_too.lock().map_err(|_| io::Error::other("another thread has failed"))?;
            note(&log, "server", "datagram", &json!(STANDARD.encode(&buffer[..len])))?;
            if let Some(to) = to {
                near_too.send_to(&buffer[..len], to)?;
            }
        }
    });
    Ok(())
}
