//! The router without a carrier: what each request is answered.

mod host;

use std::time::Duration;

use axum::body::Body;
use axum::extract::Extension;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::access::{Access, Origin};
use super::*;
use crate::keeper::KeeperConfig;
use crate::token::Scope;

const JOB: &str = r#"{"words": ["cp", "a", "b"], "directory": "/"}"#;

struct Served {
    keeper: Keeper,
    router: Router,
    directory: tempfile::TempDir,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Served {
    /// A keeper that runs nothing.
    fn new() -> Served {
        let directory = tempfile::tempdir().expect("a directory");
        let config = KeeperConfig::new(directory.path().join("state"), "/bin/false".into());
        let (keeper, _) = Keeper::open(config).expect("a state");
        Served { router: router(keeper.clone()), keeper, directory }
    }

    fn token(&self, scopes: &[Scope]) -> String {
        let life = Duration::from_secs(600);
        self.keeper.create_token("test".to_owned(), scopes, life).expect("room").1.text()
    }

    /// The status and head of an answer, and its body where that ends.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.ask_from(Origin::Network, method, path, headers, body)
    }

    fn ask_from(
        &self,
        origin: Origin,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let service = TowerToHyperService::new(self.router.clone().layer(Extension(origin)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let response = service.call(request).await.expect("an answer");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let is_stream = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
            let body = if is_stream {
                Value::Null
            } else {
                let bytes = response.into_body().collect().await.expect("whole").to_bytes();
                serde_json::from_slice(&bytes).unwrap_or_default()
            };
            Answer { status, headers, body }
        })
    }
}

/// An address and a body for each verb, such that it is followed where it may be.
fn example(verb: &Verb) -> (String, &'static str) {
    let path = verb.path.replace("{id}", "1").replace("{change}", "pause");
    let body = match (verb.method.as_str(), verb.path) {
        ("POST", "/v1/jobs") => JOB,
        ("PUT", "/v1/limits") => r#"{"total": 4, "per_host": 2, "per_source": 2}"#,
        ("POST", "/v1/clean") => r#"{"older_than_s": 0}"#,
        ("POST", "/v1/tokens") => r#"{"scopes": ["read"], "expires_s": 60}"#,
        _ => "",
    };
    (path, body)
}

#[track_caller]
fn is_problem(answer: &Answer, what: &str) {
    let kind = answer.headers.get(header::CONTENT_TYPE).expect("a type");
    assert_eq!(kind, "application/problem+json", "{what}");
    assert_eq!(answer.body["status"], answer.status, "{what}");
    assert!(answer.body["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{what}");
}

#[test]
fn each_scope_opens_its_verbs_and_no_others() {
    for scope in Scope::ALL {
        for verb in verbs() {
            // For each anew: one verb changes what the next one finds.
            let served = Served::new();
            served.ask_from(Origin::Socket, "POST", "/v1/jobs", &[], JOB);
            let token = format!("Bearer {}", served.token(&[*scope]));
            let (path, body) = example(&verb);
            let what = format!("{} {} with {}", verb.method, verb.path, scope.name());
            let answer = served.ask(verb.method.as_str(), &path, &[("authorization", &token)], body);
            let may = match verb.access {
                Access::Anyone => true,
                Access::Token(needed) => needed == *scope,
                Access::Own => false,
            };
            if may {
                assert!((200..300).contains(&answer.status), "{what}: {} {}", answer.status, answer.body);
                continue;
            }
            assert_eq!(answer.status, 403, "{what}");
            is_problem(&answer, &what);
            let challenge =
                answer.headers.get(header::WWW_AUTHENTICATE).map(|text| text.to_str().expect("ASCII"));
            match verb.access {
                Access::Token(needed) => {
                    let wanted = format!("error=\"insufficient_scope\", scope=\"{}\"", needed.name());
                    assert!(challenge.is_some_and(|text| text.contains(&wanted)), "{what}: {challenge:?}");
                }
                // No token opens it: none is asked for.
                Access::Anyone | Access::Own => assert_eq!(challenge, None, "{what}"),
            }
        }
    }
}

#[test]
fn a_token_that_is_none_opens_nothing() {
    let served = Served::new();
    let all = Scope::ALL;
    let good = served.token(all);
    let (_, expired) =
        served.keeper.create_token(String::new(), all, Duration::from_millis(1)).expect("room");
    let (revoked, revoked_secret) =
        served.keeper.create_token(String::new(), all, Duration::from_secs(60)).expect("room");
    served.keeper.revoke_token(revoked.id).expect("there");
    std::thread::sleep(Duration::from_millis(5));
    let never = crate::token::Secret::random().expect("random bytes").text();
    let cases: [(&str, Option<String>, &str); 9] = [
        ("none", None, "needs a token"),
        ("expired", Some(format!("Bearer {}", expired.text())), "expired"),
        ("revoked", Some(format!("Bearer {}", revoked_secret.text())), "revoked"),
        ("unknown", Some(format!("Bearer {never}")), "not known"),
        ("malformed", Some("Bearer x".to_owned()), "malformed"),
        ("empty", Some("Bearer ".to_owned()), "malformed"),
        ("two words", Some(format!("Bearer {good} {good}")), "malformed"),
        ("another scheme", Some(format!("Basic {good}")), "malformed"),
        ("no scheme", Some(good.clone()), "malformed"),
    ];
    for verb in verbs().into_iter().filter(|verb| matches!(verb.access, Access::Token(_))) {
        let (path, body) = example(&verb);
        for (name, shown, why) in &cases {
            let what = format!("{} {}: {name}", verb.method, verb.path);
            let headers: Vec<(&str, &str)> =
                shown.iter().map(|text| ("authorization", text.as_str())).collect();
            let answer = served.ask(verb.method.as_str(), &path, &headers, body);
            assert_eq!(answer.status, 401, "{what}");
            is_problem(&answer, &what);
            assert!(answer.body["detail"].as_str().expect("text").contains(why), "{what}: {}", answer.body);
            let challenge = answer.headers.get(header::WWW_AUTHENTICATE).expect("a challenge");
            let challenge = challenge.to_str().expect("ASCII");
            assert!(challenge.starts_with("Bearer realm="), "{what}: {challenge}");
            assert_eq!(challenge.contains("invalid_token"), shown.is_some(), "{what}: {challenge}");
        }
        let bearer = format!("Bearer {good}");
        let twice = [("authorization", bearer.as_str()), ("authorization", bearer.as_str())];
        assert_eq!(served.ask(verb.method.as_str(), &path, &twice, body).status, 401, "two headers");
    }
    let jobs = served.ask_from(Origin::Socket, "GET", "/v1/jobs", &[], "");
    assert_eq!(jobs.body, serde_json::json!([]), "nothing was taken");
}

#[test]
fn without_an_origin_a_request_is_one_of_the_network() {
    let served = Served::new();
    let service = TowerToHyperService::new(served.router.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let request = Request::get("/v1/jobs").body(Body::empty()).expect("a request");
    let response = runtime.block_on(service.call(request)).expect("an answer");
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[test]
fn tokens_are_kept_as_hashes_and_stay_revoked() {
    let served = Served::new();
    let wanted = r#"{"name": "lab", "scopes": ["read", "submit", "read"], "expires_s": 3600}"#;
    let made = served.ask_from(Origin::Socket, "POST", "/v1/tokens", &[], wanted);
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.body["token"]["scopes"], serde_json::json!(["submit", "read"]));
    let secret = made.body["secret"].as_str().expect("once").to_owned();
    let listed = served.ask_from(Origin::Socket, "GET", "/v1/tokens", &[], "").body;
    assert_eq!(listed, serde_json::json!([made.body["token"]]));
    let state = served.directory.path().join("state");
    let secret_bytes = &secret.as_bytes()["fobs_jobs_".len()..];
    for file in
        std::fs::read_dir(&state).expect("own directory").flatten().filter(|file| file.path().is_file())
    {
        let bytes = std::fs::read(file.path()).expect("own file");
        assert!(!bytes.windows(secret_bytes.len()).any(|window| window == secret_bytes), "{:?}", file.path());
    }
    let revoked = served.ask_from(Origin::Socket, "DELETE", "/v1/tokens/1", &[], "");
    let again = served.ask_from(Origin::Socket, "DELETE", "/v1/tokens/1", &[], "");
    assert_eq!((revoked.status, &revoked.body), (200, &again.body), "{}", revoked.body);
    assert_eq!(served.ask_from(Origin::Socket, "DELETE", "/v1/tokens/2", &[], "").status, 404);
    assert_eq!(served.ask_from(Origin::Socket, "DELETE", "/v1/tokens/x", &[], "").status, 400);
    for wrong in [
        r#"{"scopes": [], "expires_s": 60}"#,
        r#"{"scopes": ["all"], "expires_s": 60}"#,
        r#"{"scopes": ["read"], "expires_s": 0}"#,
        r#"{"scopes": ["read"], "expires_s": 31708800}"#,
        r#"{"scopes": ["read"]}"#,
    ] {
        let refused = served.ask_from(Origin::Socket, "POST", "/v1/tokens", &[], wrong);
        assert_eq!(refused.status, 422, "{wrong}: {}", refused.body);
        is_problem(&refused, wrong);
    }
}

#[test]
fn the_environment_of_a_job_is_not_shown_over_the_network() {
    let served = Served::new();
    let job =
        r#"{"words": ["cp", "a", "b"], "directory": "/", "environment": [["RSYNC_PASSWORD", "secret"]]}"#;
    served.ask_from(Origin::Socket, "POST", "/v1/jobs", &[], job);
    let token = format!("Bearer {}", served.token(Scope::ALL));
    for (method, path) in [("GET", "/v1/jobs"), ("GET", "/v1/jobs/1"), ("POST", "/v1/jobs/1/pause")] {
        let far = served.ask(method, path, &[("authorization", &token)], "").body.to_string();
        assert!(far.contains("words") && !far.contains("secret"), "{far}");
        let near = served.ask_from(Origin::Socket, method, path, &[], "").body.to_string();
        assert!(near.contains("secret") || near.contains("nothing to pause"), "{near}");
    }
}

#[test]
fn the_header_of_a_key_is_the_jobs_key() {
    let served = Served::new();
    let submit = |key: &[(&str, &str)], body| served.ask_from(Origin::Socket, "POST", "/v1/jobs", key, body);
    let first = submit(&[("idempotency-key", "\"run 7\"")], JOB);
    assert_eq!((first.status, &first.body["new"]), (201, &Value::Bool(true)), "{}", first.body);
    let with_key = r#"{"words": ["cp", "a", "b"], "directory": "/", "key": "run 7"}"#;
    for again in
        [submit(&[("idempotency-key", "run 7")], JOB), submit(&[("idempotency-key", "run 7")], with_key)]
    {
        assert_eq!((again.status, &again.body["id"]), (200, &first.body["id"]), "{}", again.body);
    }
    assert_eq!(submit(&[("idempotency-key", "run 8")], with_key).status, 422);
    assert_eq!(submit(&[("idempotency-key", "a"), ("idempotency-key", "a")], JOB).status, 400);
    assert_eq!(submit(&[("idempotency-key", "")], JOB).status, 422);
    assert_eq!(submit(&[("idempotency-key", &"x".repeat(201))], JOB).status, 422);
    let other = r#"{"words": ["cp", "a", "c"], "directory": "/"}"#;
    assert_eq!(submit(&[("idempotency-key", "run 7")], other).status, 409);
}

#[test]
fn what_is_no_request_is_a_problem_in_a_sentence() {
    let served = Served::new();
    for (method, path, body, status) in [
        ("GET", "/nowhere", "", 404),
        ("DELETE", "/v1/jobs", "", 405),
        ("GET", "/v1/jobs/x", "", 400),
        ("GET", "/v1/jobs/7", "", 404),
        ("GET", "/v1/jobs/7?wait_s=soon", "", 400),
        ("POST", "/v1/jobs/7/explode", "", 404),
        ("POST", "/v1/jobs", "{", 400),
        ("POST", "/v1/jobs", "{}", 422),
    ] {
        let answer = served.ask_from(Origin::Socket, method, path, &[], body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        is_problem(&answer, path);
    }
    let long = "x".repeat(BODY_BYTES_MAX + 1);
    assert_eq!(served.ask_from(Origin::Socket, "POST", "/v1/jobs", &[], &long).status, 413);
}
