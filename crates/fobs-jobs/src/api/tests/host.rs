//! A keeper of the host: each verb for the owner of a job, for another user and for root.

use axum::body::Body;
use axum::extract::Extension;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::super::access::Origin;
use super::super::*;
use crate::job::Owner;
use crate::keeper::{KeeperConfig, Serves};

const JOB: &str =
    r#"{"words": ["cp", "a", "h:b"], "directory": "/", "destinations": ["h"], "key": "k", "label": "l"}"#;
const OWNER: Owner = Owner { uid: 1001, gid: 1001 };
const OTHER: Owner = Owner { uid: 1002, gid: 1001 };
const ROOT: Owner = Owner { uid: 0, gid: 0 };

struct Served {
    keeper: Keeper,
    _directory: tempfile::TempDir,
}

impl Served {
    /// A keeper that runs nothing, with one job of the owner.
    fn new() -> Served {
        let directory = tempfile::tempdir().expect("a directory");
        let usual = KeeperConfig::new(directory.path().join("state"), "/bin/false".into());
        let (keeper, _) = Keeper::open(KeeperConfig { serves: Serves::Host, ..usual }).expect("a state");
        let served = Served { keeper, _directory: directory };
        assert_eq!(served.ask(OWNER, "POST", "/v1/jobs", JOB), (201, r#"{"id":1,"new":true}"#.to_owned()));
        served
    }

    fn ask(&self, asker: Owner, method: &str, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let router = router(self.keeper.asked_by(asker)).layer(Extension(Origin::Socket));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let response = TowerToHyperService::new(router).call(request).await.expect("an answer");
            let status = response.status().as_u16();
            let mut body = response.into_body();
            // Of a stream, what comes first.
            let text = if path == "/v1/events" {
                let frame = tokio::time::timeout(std::time::Duration::from_secs(3), body.frame()).await;
                frame.ok().flatten().and_then(|frame| frame.ok()?.into_data().ok()).unwrap_or_default()
            } else {
                body.collect().await.expect("whole").to_bytes()
            };
            (status, String::from_utf8_lossy(&text).into_owned())
        })
    }
}

/// What another user is answered, and what root is.
fn expected(verb: &Verb) -> (u16, u16) {
    match (verb.method.as_str(), verb.path) {
        (_, "/v1/jobs/{id}" | "/v1/jobs/{id}/log" | "/v1/jobs/{id}/{change}") => (404, 200),
        ("PUT", "/v1/limits") | ("GET", "/metrics") => (403, 200),
        (_, "/v1/tokens" | "/v1/tokens/{id}") => (403, 403),
        ("POST", "/v1/jobs") => (201, 201),
        _ => (200, 200),
    }
}

fn example(verb: &Verb) -> &'static str {
    match (verb.method.as_str(), verb.path) {
        // The same key is another job where it is another user's.
        ("POST", "/v1/jobs") => JOB,
        ("PUT", "/v1/limits") => r#"{"total": 4, "per_host": 2, "per_source": 2}"#,
        ("POST", "/v1/clean") => r#"{"older_than_s": 0}"#,
        ("POST", "/v1/tokens") => r#"{"scopes": ["read"], "expires_s": 60}"#,
        _ => "",
    }
}

#[test]
fn each_verb_knows_nothing_of_another_users_job() {
    for verb in verbs() {
        let changes: &[&str] =
            if verb.path.contains("{change}") { &["pause", "resume", "cancel", "retry"] } else { &[""] };
        for change in changes {
            let served = Served::new();
            let path = verb.path.replace("{id}", "1").replace("{change}", change);
            let what = format!("{} {path}", verb.method);
            let before = served.ask(OWNER, "GET", "/v1/jobs/1", "").1;
            let (of_other, of_root) = expected(&verb);
            let (status, body) = served.ask(OTHER, verb.method.as_str(), &path, example(&verb));
            assert_eq!(status, of_other, "{what}: {body}");
            assert!(!body.contains("h:b") || verb.path == "/openapi.json", "{what} shows the job: {body}");
            if verb.path == "/v1/jobs/{id}" {
                let none = served.ask(OTHER, "GET", "/v1/jobs/77", "").1;
                assert_eq!(body.replace("job 1;", "job 77;"), none, "as one that is not there");
            }
            assert_eq!(served.ask(OWNER, "GET", "/v1/jobs/1", "").1, before, "{what} changes the job");
            if *change == "retry" {
                served.ask(OWNER, "POST", "/v1/jobs/1/cancel", "");
            }
            let (status, body) = served.ask(ROOT, verb.method.as_str(), &path, example(&verb));
            assert_eq!(status, of_root, "{what} by root: {body}");
        }
    }
}

#[test]
fn lists_are_ones_own_and_roots_are_whole() {
    let served = Served::new();
    assert_eq!(served.ask(OTHER, "POST", "/v1/jobs", JOB).0, 201);
    assert_eq!(served.ask(OTHER, "POST", "/v1/jobs", JOB).0, 200, "his own key");
    let ids = |asker, path: &str| -> Vec<u64> {
        let jobs: Vec<Value> = serde_json::from_str(&served.ask(asker, "GET", path, "").1).expect("a list");
        jobs.iter().map(|job| job["id"].as_u64().expect("a number")).collect()
    };
    for path in ["/v1/jobs", "/v1/jobs?open=true"] {
        assert_eq!((ids(OWNER, path), ids(OTHER, path), ids(ROOT, path)), (vec![1], vec![2], vec![1, 2]));
    }
    let after = JOB.replace("\"key\": \"k\"", "\"after\": [1]");
    assert_eq!(served.ask(OTHER, "POST", "/v1/jobs", &after).0, 404, "no job of his");
    for id in [1, 2] {
        served.ask(ROOT, "POST", &format!("/v1/jobs/{id}/cancel"), "");
    }
    let clean = r#"{"older_than_s": 0}"#;
    assert_eq!(served.ask(OTHER, "POST", "/v1/clean", clean), (200, r#"{"forgotten":1}"#.to_owned()));
    assert_eq!(ids(ROOT, "/v1/jobs"), [1]);
}

#[test]
fn what_the_operator_would_do_for_a_user_is_refused() {
    let served = Served::new();
    for url in ["http://127.0.0.1:1/x", "https://h/x"] {
        let job = JOB.replace("\"key\": \"k\"", &format!("\"notify\": [\"{url}\"]"));
        let (status, body) = served.ask(OTHER, "POST", "/v1/jobs", &job);
        assert!(status == 422 && body.contains("give a command"), "{body}");
    }
    // The page hands in as its keeper.
    for path in ["/", "/page/events"] {
        assert_eq!(served.ask(OTHER, "GET", path, "").0, 404, "{path}");
    }
}

#[test]
fn one_user_does_not_take_the_queue_of_all() {
    let served = Served::new();
    let keeper = served.keeper.asked_by(OWNER);
    let job = |name: u64| {
        let words = ["cp", "a", "h:b"].map(crate::job::Word::from).to_vec();
        let spec = crate::job::Spec::new(words, "/".into());
        crate::job::Spec { destinations: vec!["h".to_owned()], name: name.to_string(), ..spec }
    };
    let taken = (0..crate::store::QUEUE_OF_USER_MAX).take_while(|number| keeper.submit(job(*number)).is_ok());
    assert_eq!(taken.count() as u64, crate::store::QUEUE_OF_USER_MAX - 1, "one was there");
    served.keeper.asked_by(OTHER).submit(job(0)).expect("there is room for others");
}
