//! The page over a keeper without a network: what it holds, and what hostile names become in it.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::cards::card;
use super::*;
use crate::api::access::Origin;
use crate::api::router;
use crate::job::{JobId, Phase, RatePoint, Spec};
use crate::keeper::{KeeperConfig, Tried};

const HOSTILE: &str = r#"</script><script>alert(1)</script><img src=x onerror="alert(2)">&amp;"#;

struct Home {
    _directory: tempfile::TempDir,
    keeper: Keeper,
    runtime: tokio::runtime::Runtime,
}

impl Home {
    fn new() -> Home {
        let directory = tempfile::tempdir().expect("a directory");
        let config = KeeperConfig {
            boot: Some("a".to_owned()),
            ..KeeperConfig::new(directory.path().join("state"), "/bin/false".into())
        };
        let (keeper, _) = Keeper::open(config).expect("a state");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Home { _directory: directory, keeper, runtime }
    }

    fn submit(&self, name: &str, word: &str) -> JobId {
        let words = ["cp", word, "host:"].map(crate::job::Word::from).to_vec();
        let spec = Spec { name: name.to_owned(), ..Spec::new(words, "/".into()) };
        let (crate::store::Submitted::New(id) | crate::store::Submitted::Known(id)) =
            self.keeper.submit(spec).expect("room");
        id
    }

    fn ask(&self, method: &str, path: &str) -> Response {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
        let service = TowerToHyperService::new(router(self.keeper.clone()).layer(Extension(Origin::Socket)));
        self.runtime.block_on(service.call(request)).expect("an answer")
    }

    /// The first event of the page.
    fn first_event(&self) -> Value {
        let mut body = self.ask("GET", "/page/events").into_body();
        let begin = Instant::now();
        let mut text = String::new();
        while !text.contains("\n\n") {
            assert!(begin.elapsed() < Duration::from_secs(60), "in time: an event");
            let frame = self.runtime.block_on(body.frame()).expect("more").expect("no failure");
            text += &String::from_utf8_lossy(&frame.into_data().expect("data"));
        }
        serde_json::from_str(text.trim().trim_start_matches("data:")).expect("JSON")
    }
}

fn text_of(home: &Home, response: Response) -> String {
    let bytes = home.runtime.block_on(response.into_body().collect()).expect("whole").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn the_document_loads_nothing_and_runs_its_own_script_alone() {
    let home = Home::new();
    home.submit(HOSTILE, HOSTILE);
    let response = home.ask("GET", "/");
    assert_eq!(response.status(), StatusCode::OK);
    let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
    let nonce = policy.split("script-src 'nonce-").nth(1).and_then(|rest| rest.split('\'').next());
    let nonce = nonce.expect("a number").to_owned();
    let page = text_of(&home, response);
    for part in ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "one script, one style");
    let other = home.ask("GET", "/").headers()[header::CONTENT_SECURITY_POLICY].clone();
    assert_ne!(other.to_str().expect("text"), policy, "each answer has its own");
    for foreign in ["src=", "href=", "http:", "https:", "@import", "url(", "onclick", "style=", "alert("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("<html lang=\"en\">") && page.contains("<main>"));
    for input in page.split("<input ").skip(1) {
        let id = input.split("id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
        assert!(page.contains(&format!("<label for=\"{id}\">")), "{id} has a label");
    }
}

#[test]
fn names_of_jobs_are_text_and_nothing_else() {
    let home = Home::new();
    let id = home.submit(HOSTILE, HOSTILE);
    let event = home.first_event();
    let card = event["cards"][id.to_string()].as_str().expect("a card");
    assert!(card.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "{card}");
    for element in ["<script", "<img", "</script"] {
        assert!(!card.contains(element), "{card}");
    }
    // The name stands in an attribute, too.
    assert!(card.contains("data-title=\"&lt;/script&gt;") && !card.contains("onerror=\""), "{card}");
    assert_eq!(event["lists"]["waiting"], serde_json::json!([id]));
}

#[test]
fn lists_are_bounded_and_say_so() {
    let home = Home::new();
    for number in 0..70 {
        home.submit(&format!("n{number}"), "a");
    }
    let event = home.first_event();
    assert_eq!(event["cards"].as_object().map(serde_json::Map::len), Some(50));
    assert_eq!(event["lists"]["counts"][1], "50 of 70; fobs jobs --all lists all");
}

#[test]
fn a_job_shows_what_can_be_done_with_it_and_its_rate() {
    let home = Home::new();
    let id = home.submit("nightly", "a");
    let mut shown = home.keeper.overview().expect("a state").waiting.remove(0);
    let rates = (0..20).map(|second| RatePoint { at_ms: second * 1000, bps: 93_000_000 }).collect();
    let limit = Some("90% of the time the network was the limit.".to_owned());
    shown.tried = Some(Tried { number: 2, rates, limit });
    shown.is_explained = true;
    for (phase, acts, is_open) in [
        (Phase::Running, &["pause", "cancel", "why"][..], true),
        (Phase::Waiting, &["pause", "cancel", "why"], false),
        (Phase::Paused, &["resume", "cancel", "why"], false),
        (Phase::Done, &["why"], false),
        (Phase::Failed, &["retry", "why"], false),
        (Phase::Cancelled, &["retry", "why"], false),
    ] {
        shown.view.standing.phase = phase;
        let card = card(&shown).into_string();
        let given: Vec<&str> =
            card.split("data-act=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(given, acts, "{phase:?}");
        assert!(
            card.contains("<svg") && card.contains("Mbit/s") && card.contains("the network was"),
            "{card}"
        );
        assert_eq!(!card.contains("<details"), is_open, "{phase:?}: the rate is in sight while it runs");
        assert!(!card.contains("style="), "the policy of the page lets no style of an element");
    }
    let refused = home.ask("POST", &format!("/page/why/{id}"));
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(text_of(&home, refused).contains("has no record of an attempt"));
    assert_eq!(home.ask("GET", "/page/why/0123456789abcdef0123456789abcdef").status(), StatusCode::NOT_FOUND);
}
