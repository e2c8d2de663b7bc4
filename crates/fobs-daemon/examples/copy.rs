//! A server and a transfer in one process: copies a file to the server over loopback.
//!
//! ```text
//! cargo run -p fobs-daemon --example copy [FILE]
//! ```
//!
//! Without a file it makes one of 64 MiB. All keys and copies lie in a temporary directory that is removed at
//! the end.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fobs::{
    CancelToken, Carrier, ErrorKind, Event, Location, Remote, ServeOptions, Transfer, TransferOptions,
};
use fobs_daemon::Server;

/// Bytes of the file that is made if none is named.
const SAMPLE_BYTES: usize = 64 << 20;
/// How often progress is printed.
const PRINT_EVERY: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let file = match std::env::args_os().nth(1) {
        Some(file) => PathBuf::from(file),
        None => {
            fs::write(path("sample"), vec![7; SAMPLE_BYTES])?;
            path("sample")
        }
    };

    // The client's key, with the right to read and write at the server.
    let client_key = fobs::keygen(Some(&path("client")))?;
    fs::write(path("authorized_keys"), format!("read-write {}\n", client_key.public_line))?;

    fs::create_dir(path("root"))?;
    let server = Server::bind(&serve_options(directory.path()))?;
    let address = server.addresses()[0];
    let stop = CancelToken::new();
    let token = stop.clone();
    let serving = thread::spawn(move || server.run(&token));

    let destination = Location::Remote(Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: address.ip().to_string(),
        port: Some(address.port()),
        path: b"copy".to_vec(),
    });
    let options = TransferOptions {
        identity: Some(client_key.path),
        // The server's key is pinned here at the first connection.
        known_hosts: Some(path("known_hosts")),
        ..TransferOptions::default()
    };
    let transfer = Transfer::builder([Location::Local(file)], destination)
        .options(options)
        .events(Arc::new(print_notice))
        .start()?;
    while !transfer.is_finished() {
        let progress = transfer.progress();
        println!("{} of {} bytes", progress.bytes, progress.bytes_known);
        thread::sleep(PRINT_EVERY);
    }
    let summary = transfer.wait()?;
    println!(
        "{} bytes in {:.2} s, {:.0} Mbit/s, root {}",
        summary.bytes,
        summary.seconds,
        summary.goodput_bps / 1e6,
        summary.root
    );

    stop.cancel();
    match serving.join() {
        Ok(Err(error)) if error.kind == ErrorKind::Interrupted => Ok(()),
        Ok(ended) => Ok(ended?),
        Err(_) => Err("the server's thread panicked".into()),
    }
}

fn serve_options(directory: &Path) -> ServeOptions {
    ServeOptions {
        listen: vec![([127, 0, 0, 1], 0).into()],
        identity: Some(directory.join("server")),
        sessions_max: 4,
        ..ServeOptions::new(directory.join("root"), directory.join("authorized_keys"))
    }
}

fn print_notice(event: Event) {
    if let Event::Notice(line) = event {
        println!("{line}");
    }
}
