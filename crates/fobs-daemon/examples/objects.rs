//! Objects over an open session, between two processes.
//!
//! ```text
//! cargo run -p fobs-daemon --example objects                       both, the server as a child process
//! cargo run -p fobs-daemon --example objects serve DIR [ADDRESS]   the server, with its keys in DIR
//! cargo run -p fobs-daemon --example objects use DIR ADDRESS       the client, with the keys of the same DIR
//! ```
//!
//! The client sends objects from memory, reads parts of one, and prints what each takes. The two may run on
//! different hosts, or in different network namespaces, if both see DIR.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use fobs::{CancelToken, Carrier, Remote, ServeOptions, Session, TransferOptions};
use fobs_daemon::Server;

/// Bytes of the large object.
const LARGE: usize = 32 << 20;
/// Bytes of a range, and of a small object.
const SMALL: usize = 1000;
/// Ranges that are read; the median of their times is printed.
const RANGES: usize = 21;
/// How long small objects are sent, and received.
const BUSY: Duration = Duration::from_secs(2);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => both(),
        ["serve", directory] => serve(Path::new(directory), "127.0.0.1:0"),
        ["serve", directory, address] => serve(Path::new(directory), address),
        ["use", directory, address] => work(Path::new(directory), address),
        _ => Err("say nothing, serve DIR [ADDRESS], or use DIR ADDRESS".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("objects: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the server as a child process and works with it.
fn both() -> Outcome {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    let child = command.arg("serve").arg(directory.path()).stdout(Stdio::piped()).spawn()?;
    let mut child = Ended(child);
    let stdout = child.0.stdout.take().ok_or("the child has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening on ").ok_or("the server did not start")?;
    work(directory.path(), address)
}

/// A child that does not outlive us.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes keys for both ends, unless they are there, and serves until killed.
fn serve(directory: &Path, address: &str) -> Outcome {
    let path = |name: &str| directory.join(name);
    fs::create_dir_all(path("root"))?;
    if !path("authorized_keys").exists() {
        let key = fobs::keygen(Some(&path("client")))?;
        fs::write(path("authorized_keys"), format!("read-write {}\n", key.public_line))?;
    }
    let options = ServeOptions {
        listen: vec![address.parse::<SocketAddr>()?],
        identity: Some(path("server")),
        ..ServeOptions::new(path("root"), path("authorized_keys"))
    };
    let server = Server::bind(&options)?;
    println!("listening on {}", server.addresses()[0]);
    Ok(server.run(&CancelToken::new())?)
}

fn work(directory: &Path, address: &str) -> Outcome {
    let address: SocketAddr = address.parse()?;
    let remote = Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: address.ip().to_string(),
        port: Some(address.port()),
        path: Vec::new(),
    };
    let options = TransferOptions {
        identity: Some(directory.join("client")),
        known_hosts: Some(directory.join("known_hosts")),
        ..TransferOptions::default()
    };
    let began = Instant::now();
    let session = Session::builder(remote).options(options).open()?;
    println!("open after {:.1} ms", ms(began));

    let large: Vec<u8> = (0..LARGE).map(|index| (index / 7 % 251) as u8).collect();
    let began = Instant::now();
    let sent = session.send("large", &large)?;
    println!("{} bytes sent in {:.1} ms over {}", sent.bytes, ms(began), sent.transport);

    let mut times = Vec::new();
    let mut range = [0; SMALL];
    for number in 0..RANGES {
        let start = number * (LARGE / RANGES);
        let began = Instant::now();
        let len = session.read_range("large", start as u64, &mut range)?;
        times.push(ms(began));
        if range[..len] != large[start..start + SMALL] {
            return Err("a range differs".into());
        }
    }
    times.sort_by(f64::total_cmp);
    println!("a range of {SMALL} bytes takes {:.2} ms (median of {RANGES})", times[RANGES / 2]);

    let mut buffer = vec![0; LARGE];
    let began = Instant::now();
    let len = session.recv_into("large", &mut buffer)?;
    println!("{len} bytes received in {:.1} ms", ms(began));
    if buffer[..len] != large {
        return Err("the object differs".into());
    }

    let sent = repeat(|number| session.send(format!("small-{}", number % 100), &large[..SMALL]).map(drop))?;
    println!("{sent:.0} objects of {SMALL} bytes sent in a second");
    let received = repeat(|_| session.recv("small-0", SMALL as u64).map(drop))?;
    println!("{received:.0} objects of {SMALL} bytes received in a second");
    Ok(())
}

/// How often in a second something can be done.
fn repeat(mut act: impl FnMut(usize) -> fobs::Result<()>) -> fobs::Result<f64> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < BUSY {
        act(count)?;
        count += 1;
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
