//! A front over a keeper: what has the secret passes, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::keeper::{Keeper, KeeperConfig};

#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl Host for Noted {
    fn start(&self) -> Result<(), String> {
        Err("none can be started here".to_owned())
    }

    fn show(&self, address: &str) {
        self.0.lock().expect("whole").push(address.to_owned());
    }
}

impl Noted {
    /// The address that was shown last: host and port, secret.
    fn last(&self) -> (String, String) {
        let shown = self.0.lock().expect("whole");
        let (place, secret) = shown.last().and_then(|last| last.split_once('#')).expect("an address");
        (place.trim_start_matches("http://").trim_end_matches('/').to_owned(), secret.to_owned())
    }
}

/// Sends one request and reads the answer to its end.
fn ask(place: &str, head: &str, secret: &str) -> String {
    let mut stream = TcpStream::connect(place).expect("it listens");
    let bearer =
        if secret.is_empty() { String::new() } else { format!("authorization: Bearer {secret}\r\n") };
    let request =
        format!("{head} HTTP/1.1\r\nhost: {place}\r\nconnection: close\r\ncontent-length: 0\r\n{bearer}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("a status line")
}

#[test]
fn a_printed_secret_is_good_once_and_a_page_keeps_its_own() {
    let home = tempfile::tempdir().expect("a directory");
    let config = KeeperConfig {
        boot: Some("a".to_owned()),
        ..KeeperConfig::new(home.path().join("state"), "/bin/false".into())
    };
    let (keeper, _) = Keeper::open(config).expect("a state");
    let socket = home.path().join("socket");
    let listening = crate::api::serve(keeper.clone(), &socket).expect("a socket");
    let noted = Noted::default();
    let front = Front::open(0, &socket, noted.clone()).expect("a port");
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let serves = thread::spawn(move || front.run(|| is_over.load(Ordering::Acquire)));
    let (place, printed) = noted.last();
    let page = ask(&place, "GET /", "");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy: default-src 'none'"),
        "{page}"
    );
    assert_eq!(code(&ask(&place, "GET /v1/jobs", "")), "401");
    assert_eq!(code(&ask(&place, "GET /v1/jobs", &printed)), "401", "it opens a page, and is none of a page");
    let session = ask(&place, "POST /page/session", &printed);
    assert_eq!(code(&session), "200", "{session}");
    let own =
        session.split("\"secret\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a secret");
    assert_eq!(code(&ask(&place, "POST /page/session", &printed)), "401", "good once");
    let jobs = ask(&place, "GET /v1/jobs", own);
    assert!(jobs.starts_with("HTTP/1.1 200") && jobs.ends_with("[]"), "{jobs}");
    assert_eq!(code(&ask(&place, "GET /v1/jobs/7", own)), "404", "the keeper's own answers come through");
    let (_, next) = noted.last();
    assert_ne!(next, printed, "the next browser has its own");
    assert_eq!(code(&ask(&place, "POST /page/session", &next)), "200");
    assert_eq!(code(&ask(&place, "GET /v1/jobs", own)), "200", "the first one goes on");
    drop(listening);
    let gone = ask(&place, "GET /v1/jobs", own);
    assert!(gone.starts_with("HTTP/1.1 502") && gone.contains("none can be started here"), "{gone}");
    over.store(true, Ordering::Release);
    serves.join().expect("no panic").expect("it served");
    keeper.end();
}
