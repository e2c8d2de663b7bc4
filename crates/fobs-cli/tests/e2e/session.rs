//! The library's session over ssh, with the program under test at the other end.

use std::fs;
use std::path::PathBuf;

use fobs::options::SshOptions;
use fobs::{Carrier, ErrorKind, Remote, Session, TransferOptions};

use super::case::{Case, peer_path};
use super::net::{Side, namespaces_work};
use super::sshd::{HOST, Sshd};

#[test]
fn many_objects_go_over_one_ssh() {
    let case = Case::new("many_objects_go_over_one_ssh");
    let sshd = Sshd::start(&case);
    let remote = Remote {
        carrier: Carrier::Ssh,
        user: None,
        host: HOST.to_owned(),
        port: None,
        path: sshd.root.as_os_str().as_encoded_bytes().to_vec(),
    };
    let options = TransferOptions {
        fobs_path: peer_path().display().to_string(),
        ssh: SshOptions { config_file: Some(sshd.config.clone()), ..SshOptions::default() },
        udp_ports: Some(case.net.udp_ports()),
        ..TransferOptions::default()
    };
    let root = sshd.root.clone();
    let body = move || use_session(remote, options, root);
    let using =
        if namespaces_work() { case.net.thread(Side::Client, body) } else { std::thread::spawn(body) };
    using.join().expect("no panic");
    assert_eq!(sshd.logins(), 1);
}

fn use_session(remote: Remote, options: TransferOptions, root: PathBuf) {
    let session = Session::builder(remote).options(options).open().expect("a session");
    for number in 0..10_u8 {
        let name = format!("object-{number}");
        // Every fifth over the data plane.
        let data = vec![number; if number % 5 == 4 { 100_000 } else { 100 * usize::from(number) }];
        session.send(&name, &data).expect("an object");
        assert_eq!(fs::read(root.join(&name)).expect("a file"), data);
        assert_eq!(session.recv(&name, 100_000).expect("an object"), data);
        assert_eq!(session.recv("none", 1).unwrap_err().kind, ErrorKind::NoSource);
        let mut range = [0; 7];
        let expected = data.len().saturating_sub(90).min(7);
        assert_eq!(session.read_range(&name, 90, &mut range).expect("a range"), expected);
    }
}
