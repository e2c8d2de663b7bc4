//! A keeper over TLS on the loopback address.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::client::{Client, ClientError};
use crate::dial::{Trust, Url};
use crate::keeper::KeeperConfig;
use crate::token::Scope;

struct Far {
    keeper: Keeper,
    reached: Reached,
    _directory: tempfile::TempDir,
}

impl Far {
    fn new() -> Far {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path().join("state");
        let program = "/bin/false".into();
        let config = KeeperConfig::new(state.clone(), program);
        let (keeper, _) = Keeper::open(config).expect("a state");
        let address = "127.0.0.1:0".parse().expect("an address");
        let network = Network { address, certificate: None, directory: state };
        let reached = listen(keeper.clone(), &network).expect("a port");
        Far { keeper, reached, _directory: directory }
    }

    fn client(&self, trust: Trust, token: &str) -> Client {
        let url = Url::parse(&format!("https://{}", self.reached.address)).expect("a URL");
        Client::at(url, trust, token.to_owned()).expect("descriptors")
    }

    fn token(&self) -> String {
        let life = Duration::from_secs(600);
        self.keeper.create_token(String::new(), Scope::ALL, life).expect("room").1.text()
    }
}

#[test]
fn a_client_with_a_token_and_the_fingerprint_is_served() {
    let far = Far::new();
    let client = far.client(Trust::Certificate(far.reached.fingerprint), &far.token());
    assert_eq!(client.about().expect("an answer").process, std::process::id());
    assert_eq!(client.jobs().expect("an answer"), []);
    let stranger = far.client(Trust::Certificate(far.reached.fingerprint), "fobs_jobs_x");
    let refused = stranger.jobs().expect_err("no token");
    assert!(matches!(&refused, ClientError::Refused(problem) if problem.status == 401), "{refused}");
    // What only the socket's peers may, no token does.
    let refused = client.tokens().expect_err("not over the network");
    assert!(matches!(&refused, ClientError::Refused(problem) if problem.status == 403), "{refused}");
}

#[test]
fn a_certificate_that_is_another_one_is_shown_no_token() {
    let (far, other) = (Far::new(), Far::new());
    for trust in [Trust::Certificate(other.reached.fingerprint), Trust::Authorities] {
        let refused = far.client(trust.clone(), &far.token()).about().expect_err("another certificate");
        assert!(matches!(refused, ClientError::NotThere(_)), "{trust:?}: {refused}");
        let why = match trust {
            Trust::Certificate(other) => format!("another certificate than the one with the SHA-256 {other}"),
            Trust::Authorities => "no authority that this host trusts has signed".to_owned(),
        };
        assert!(refused.to_string().contains(&why), "{refused}");
    }
}

#[test]
fn clients_that_speak_no_tls_hold_up_nobody() {
    let far = Far::new();
    let mut plain = TcpStream::connect(far.reached.address).expect("it listens");
    plain.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
    let silent: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(far.reached.address).expect("it listens")).collect();
    far.client(Trust::Certificate(far.reached.fingerprint), &far.token())
        .about()
        .expect("served beside them");
    let mut answer = Vec::new();
    // An alert of TLS at most, or a reset.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    drop(silent);
}
