//! Many clients of one key at once, from one address, as the jobs of an array come: all of them finish.

mod served;

use std::fs;
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fobs::{CancelToken, ErrorKind, Location, Remote, Session, Transfer, TransferOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use served::Served;

/// Clients of a burst.
const CLIENTS: usize = 200;
/// Only a failing test takes so long.
const LONG: Duration = Duration::from_secs(300);

/// Both ends of each connection are in this process.
fn many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// A daemon with few sessions, which lets clients wait as long as it does by default.
fn served(adjust: impl FnOnce(&mut fobs::ServeOptions)) -> Served {
    many_descriptors();
    let served = Served::start(|options| {
        options.sessions_max = 4;
        options.queue_wait = fobs::options::DEFAULT_QUEUE_WAIT;
        adjust(options);
    });
    fs::write(served.root().join("file"), "content").unwrap();
    served
}

/// Clients at the same time, of which every second puts a file of its own and the others get one; the errors
/// of those that failed.
fn burst(served: &Served, count: usize, name: &str, options: &TransferOptions) -> Vec<String> {
    let (start, here) = (Barrier::new(count), served.directory(name));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..count)
            .map(|number| {
                let (start, here) = (&start, &here);
                let client = move || {
                    let file = here.join(format!("{name}-{number}"));
                    fs::write(&file, number.to_string()).unwrap();
                    start.wait();
                    match number % 2 {
                        0 => served.push(&file, "", options),
                        _ => served.pull("file", &file, options),
                    }
                };
                thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, client).unwrap()
            })
            .collect();
        let failed = clients.into_iter().filter_map(|client| client.join().unwrap().err());
        failed.map(|error| error.to_string()).collect()
    })
}

fn silent(served: &Served, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(served.address()).unwrap()).collect()
}

#[test]
fn all_clients_of_a_burst_finish_beside_silent_connections() {
    let served = served(|_| ());
    let held = silent(&served, 1000);
    let began = Instant::now();
    assert_eq!(burst(&served, CLIENTS, "burst", &served.options()), [""; 0]);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    let stored = fs::read_dir(served.root()).unwrap().count();
    assert_eq!(stored, CLIENTS / 2 + 1, "each has its file");
    let lines = served.notices();
    assert!(
        !lines.iter().any(|line| line.contains("client-burst") && line.contains("make room")),
        "{lines:#?}"
    );
    drop(held);
}

#[test]
fn clients_that_are_told_to_come_again_do_and_say_so() {
    // Nobody waits at the server, and a key has two sessions.
    let served = served(|options| options.queue_wait = Duration::ZERO);
    served.authorize_client_with("read-write,sessions=2");
    assert_eq!(burst(&served, 40, "again", &served.options()), [""; 0]);
    let told = served.client_events().notices();
    let says = "127.0.0.1 via tls is busy: this server is full";
    assert!(
        told.iter().any(|line| line.contains(says) && line.contains("trying again for up to")),
        "{told:?}"
    );
}

#[test]
fn waves_go_through_beside_a_slow_client_and_after_killed_ones() {
    let served = served(|options| options.sessions_max = 3);
    fs::write(served.root().join("large"), served::content(8 << 20)).unwrap();
    let slow = TransferOptions { rate_limit: Some(4_000_000), ..served.options() };
    let (forever, cancel) = (CancelToken::new(), CancelToken::new());
    thread::scope(|scope| {
        let slowly = |cancel: &CancelToken, to: &str| {
            let (served, slow, cancel) = (&served, &slow, cancel.clone());
            let to = served.directory(to);
            scope.spawn(move || served.pull_until("large", &to, slow, &cancel))
        };
        let patient = slowly(&forever, "slow");
        served::wait_for(|| (served.handle.sessions() == 1).then_some(()));
        // Two of them run, the others are killed while they wait.
        let killed: Vec<_> = (0..40).map(|number| slowly(&cancel, &format!("left-{number}"))).collect();
        served::wait_for(|| (served.handle.waiting() == 38).then_some(()));
        cancel.cancel();
        for wave in 0..8 {
            assert_eq!(burst(&served, 25, &format!("wave-{wave}"), &served.options()), [""; 0]);
        }
        for left in killed {
            assert_eq!(left.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        }
        forever.cancel();
        assert_eq!(patient.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    });
    served::wait_for(|| (served.handle.sessions() + served.handle.waiting() == 0).then_some(()));
}

#[test]
fn programs_with_many_sessions_of_one_key_finish() {
    let served = served(|_| ());
    let (start, options) = (Barrier::new(CLIENTS), served.options());
    let failed: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (start, served, options) = (&start, &served, &options);
                let client = move || {
                    start.wait();
                    let Location::Remote(remote) = served.remote("") else { unreachable!("it is remote") };
                    let session = Session::builder(remote).options(options.clone()).open()?;
                    session.stat("file")?;
                    session.send(format!("object-{number}"), &number.to_be_bytes())?;
                    session.stat("file").map(drop)
                };
                thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, client).unwrap()
            })
            .collect();
        let failed = clients.into_iter().filter_map(|client| client.join().unwrap().err());
        failed.map(|error: fobs::Error| error.to_string()).collect()
    });
    assert_eq!(failed, [""; 0]);
    assert_eq!(fs::read_dir(served.root()).unwrap().count(), CLIENTS + 1);
}

#[test]
fn what_ends_every_connection_is_called_busy_and_not_tried_for_ever() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            drop(socket)
        }
    });
    let served = served(|_| ());
    let options = TransferOptions { timeout: Duration::from_secs(2), ..served.options() };
    let began = Instant::now();
    let Location::Remote(remote) = served.remote("file") else { unreachable!("it is remote") };
    let elsewhere = Location::Remote(Remote { port: Some(port), ..remote });
    let here = Location::Local(served.directory("here"));
    let copy = Transfer::builder([elsewhere], here).options(options).start().unwrap();
    let error = copy.wait().unwrap_err();
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(error.kind, ErrorKind::Connect);
    for part in ["the server at 127.0.0.1 port", "is busy", "attempts in 2 s", "fobs serve"] {
        assert!(error.message.contains(part), "{part}: {error}");
    }
    assert!(!error.message.contains("TLS"), "{error}");
}
