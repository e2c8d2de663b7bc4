//! The walls themselves on this kernel: what a domain stops, and that whatever storing needs works in one.

mod attacks;
mod storing;

use super::domain::{Access, Domain, Grant, Tcp};
use super::*;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two directories side by side: one that is served, and one that is not.
struct Place {
    _directory: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl Place {
    fn new(parent: &Path) -> Place {
        let directory = tempfile::tempdir_in(parent).unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| directory.path().join(name));
        for made in [&inside, &outside] {
            std::fs::create_dir(made).unwrap();
            std::fs::create_dir(made.join("sub")).unwrap();
            std::fs::write(made.join("file"), made.as_os_str().as_encoded_bytes()).unwrap();
        }
        Place { _directory: directory, inside, outside }
    }

    fn domain(&self, access: Access) -> Domain {
        let at = OwnedFd::from(File::open(&self.inside).unwrap());
        Domain::of_session(vec![Grant { at, access }], Tcp::None)
    }

    fn receiver(&self) -> Domain {
        Domain::of_receiver(vec![OwnedFd::from(File::open(&self.inside).unwrap())])
    }
}

/// Calls `body` in a thread in this domain, as a kernel with this version of Landlock would hold it.
fn confined<T: Send>(domain: Domain, landlock: u32, body: impl FnOnce() -> T + Send) -> T {
    let enter = move || {
        domain.enter(landlock).unwrap();
        body()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// Whether this kernel has what the test is about; the others say so and stop.
fn has_landlock(at_least: u32) -> bool {
    let has = landlock_here() >= at_least;
    if !has {
        eprintln!("skipped: needs Landlock {at_least}, and here is {}", landlock_here());
    }
    has
}

#[test]
fn a_stranger_reaches_no_file_and_no_tcp_port() {
    if !has_landlock(4) {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    confined(Domain::of_strangers(), landlock_here(), || {
        for path in ["/", "/etc/passwd", "/dev/null", "/proc/self/status", "/proc/self/mem"] {
            assert!(File::open(path).is_err(), "{path}");
        }
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_err());
        assert!(TcpStream::connect(at).is_err());
        // What it was given goes on.
        assert!(listener.local_addr().is_ok() && listener.try_clone().is_ok());
    });
}

#[test]
fn a_session_over_ssh_listens_and_one_that_fetches_connects() {
    if !has_landlock(4) {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    for (tcp, listens, connects) in [
        (Tcp::None, false, false),
        (Tcp::Listen, true, false),
        (Tcp::Connect, false, true),
        (Tcp::All, true, true),
    ] {
        let tried = confined(Domain::of_session(Vec::new(), tcp), landlock_here(), || {
            (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_ok(), TcpStream::connect(at).is_ok())
        });
        assert_eq!(tried, (listens, connects), "{tcp:?}");
    }
}

#[test]
fn a_serving_thread_runs_no_program_and_leaves_no_namespace() {
    if !calls_here() {
        return eprintln!("skipped: no seccomp here");
    }
    let serves = || {
        let ran = Command::new("true").status().map_err(|error| error.kind());
        let nested = thread::spawn(|| Command::new("true").status().is_err()).join().unwrap();
        let packets =
            rustix::net::socket(rustix::net::AddressFamily::PACKET, rustix::net::SocketType::RAW, None);
        let ordinary = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        (ran, nested, packets.is_err(), ordinary.is_ok())
    };
    let refused = Err(std::io::ErrorKind::PermissionDenied);
    let (ran, nested, packets, ordinary) = serving("serving", serves).unwrap();
    assert_eq!((ran.map(|_| ()), nested, packets, ordinary), (refused, true, true, true));
    assert!(Command::new("true").status().is_ok(), "the caller's threads are as before");
}

#[test]
fn the_clerk_of_the_outermost_domain_does_errands_in_all_of_them() {
    let place = Place::new(&std::env::temp_dir());
    let passwd = || File::open("/etc/passwd").is_ok();
    let nested = || {
        let inner = || (passwd(), outside(Errand::Accounts, passwd));
        let here = (passwd(), outside(Errand::Accounts, passwd));
        (here, within(place.receiver(), "inner", inner).unwrap())
    };
    let seen = within(place.domain(Access::Write), "outer", nested).unwrap();
    let reads_itself = landlock_here() < 2;
    assert_eq!(seen, ((reads_itself, true), (reads_itself, true)));
    assert!(passwd(), "the caller is not confined");
}

#[test]
fn without_landlock_everything_is_as_it_was() {
    let place = Place::new(&std::env::temp_dir());
    for domain in [Domain::of_strangers(), place.domain(Access::Write), place.receiver(), Domain::of_login()]
    {
        assert!(!domain.holds_under(0), "{domain:?}");
        confined(domain, 0, || {
            std::fs::write(place.outside.join("file"), "written").unwrap();
            assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_ok());
        });
    }
}

#[test]
fn the_login_of_a_user_keeps_its_files() {
    let place = Place::new(&std::env::temp_dir());
    confined(Domain::of_login(), landlock_here(), || {
        std::fs::write(place.outside.join("file"), "written").unwrap();
        std::fs::rename(place.outside.join("file"), place.inside.join("moved")).unwrap();
    });
}

#[test]
fn the_document_lists_what_a_session_must_have() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md")).unwrap();
    let table = errand::rows().join("\n");
    assert!(text.contains(&table), "docs/security.md, \"Walls\", must have these rows:\n{table}");
}
