//! A job that has ended, posted to a URL as JSON.

use std::thread;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::dial::{Call, Target, Trust, Url, exchange};
use crate::job::Spec;
use crate::keeper::JobView;

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pauses before further tries, of this unit: with them a receiver may be away for two minutes.
const PAUSES: &[u32] = &[2, 10, 30, 60];
/// In tests a thousandth of a second.
const UNIT: Duration = if cfg!(test) { Duration::from_millis(1) } else { Duration::from_secs(1) };
/// Largest answer, bytes: nothing of it is used.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Posts it, and again where that may help. Redirects are not followed: what is told is told to one host.
///
/// # Errors
/// Why the last try failed.
pub(super) fn post(url: &Url, view: &JobView, phase: &str) -> Result<(), String> {
    // Without its environment, which may have what only the job should know.
    let spec = Spec { environment: Vec::new(), ..view.spec.clone() };
    let view = JobView { spec, ..view.clone() };
    let mut body = serde_json::to_value(&view).map_err(|error| error.to_string())?;
    if let Value::Object(members) = &mut body {
        members.insert("v".to_owned(), 1.into());
        // A run of a repeated job: the job itself waits by now.
        members.insert("phase".to_owned(), phase.into());
    }
    let body = body.to_string();
    let key = format!("fobs-job-{}-{}", view.id, view.standing.runs);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let target = Target::Url(url.clone(), Trust::Authorities);
    let mut pauses = PAUSES.iter();
    loop {
        let call = Call {
            method: Method::POST,
            path: String::new(),
            headers: vec![
                ("user-agent", concat!("fobs/", env!("CARGO_PKG_VERSION")).to_owned()),
                ("idempotency-key", key.clone()),
            ],
            body: body.clone().into(),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let answer =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange(&target, call)).await });
        let (why, may_pass) = match answer {
            Ok(Ok((status, _))) if status.is_success() => return Ok(()),
            Ok(Ok((status, _))) => (of_status(status), may_pass(status)),
            Ok(Err(error)) => (error.to_string(), true),
            Err(_) => (format!("no answer within {} s", PATIENCE.as_secs()), true),
        };
        match pauses.next().filter(|_| may_pass) {
            Some(&pause) => thread::sleep(UNIT * pause),
            None => return Err(format!("{url}: {why}")),
        }
    }
}

fn of_status(status: StatusCode) -> String {
    let hint = if status.is_redirection() { ", a redirect, which is not followed" } else { "" };
    format!("it answered {}{hint}", status.as_u16())
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use crate::job::JobId;
    use crate::schedule::Begin;
    use crate::store::Standing;

    fn view() -> JobView {
        let spec = Spec::new(["cp", "a", "b"].map(crate::job::Word::from).to_vec(), "/".into());
        JobView {
            user: None,
            id: JobId(7),
            standing: Standing::of(Begin::new(&spec, 0)),
            spec: Spec { environment: vec![("RSYNC_PASSWORD".to_owned(), "secret".into())], ..spec },
            submitted_ms: 0,
            reason: None,
            why: None,
            figures: None,
            attempts: vec![],
        }
    }

    /// Answers with these statuses, one a connection; returns what was asked.
    fn server(statuses: &'static [&'static str]) -> (Url, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook?x=1", listener.local_addr().expect("bound"));
        let serve = move || {
            let mut asked = Vec::new();
            for status in statuses {
                let (mut stream, _) = listener.accept().expect("a client");
                let (mut text, mut buffer) = (String::new(), [0; 4096]);
                while !text.ends_with('}') {
                    let count = stream.read(&mut buffer).expect("a request");
                    assert!(count > 0, "whole: {text}");
                    text.push_str(&String::from_utf8_lossy(&buffer[..count]));
                }
                asked.push(text);
                let answer =
                    format!("HTTP/1.1 {status}\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).expect("it reads");
            }
            asked
        };
        (Url::parse(&url).expect("a URL"), thread::spawn(serve))
    }

    #[test]
    fn what_may_pass_is_tried_again_with_the_same_key() {
        let (url, server) = server(&["503 Away", "429 Slow", "204 Done"]);
        post(&url, &view(), "done").expect("told");
        let asked = server.join().expect("three requests");
        assert!(asked[0].starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{}", asked[0]);
        assert!(asked.iter().all(|text| text.contains("idempotency-key: fobs-job-7-0")), "{asked:?}");
        let (_, body) = asked[2].split_once("\r\n\r\n").expect("a body");
        assert!(!body.contains("secret"), "{body}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&body["id"], &body["phase"], &body["v"]), (&7.into(), &"done".into(), &1.into()));
    }

    #[test]
    fn refusals_and_redirects_are_said_at_once() {
        for (statuses, why) in [(&["404 Gone"][..], "answered 404"), (&["302 Elsewhere"], "not followed")] {
            let (url, server) = server(statuses);
            let said = post(&url, &view(), "failed").expect_err(why);
            assert!(said.contains(why) && said.contains("/hook"), "{said}");
            server.join().expect("one request");
        }
    }

    #[test]
    fn tries_have_an_end() {
        let (url, server) = server(&["500 No"; PAUSES.len() + 1]);
        post(&url, &view(), "done").expect_err("never");
        assert_eq!(server.join().expect("all tries").len(), PAUSES.len() + 1);
        // The port is closed by now.
        post(&url, &view(), "done").expect_err("nobody there");
    }
}
