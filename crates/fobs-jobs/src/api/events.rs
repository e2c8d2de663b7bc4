//! Changes of jobs as they happen: server-sent events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

use super::access::Origin;
use super::{Problem, ask};
use crate::job::JobId;
use crate::keeper::Keeper;

/// Shortest time between two events: a page redraws no faster.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// Longest time between two looks at figures of running jobs, which are no changes of theirs.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

struct Watcher {
    origin: Origin,
    keeper: Keeper,
    changes: watch::Receiver<u64>,
    /// What each job looked like when it was sent last.
    sent: BTreeMap<JobId, u64>,
}

/// Changes as server-sent events: `jobs` with an array of the jobs that have changed, all of them at first;
/// and
/// `gone` with the numbers of those that were forgotten.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events", tag = "jobs",
    responses((status = 200, description = "Events until the client ends", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(keeper): State<Keeper>,
    Extension(origin): Extension<Origin>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let watcher = Watcher { changes: keeper.changes(), keeper, origin, sent: BTreeMap::new() };
    let stream = unfold(watcher, |mut watcher| async move {
        loop {
            let event = watcher.next().await?;
            if let Some(event) = event {
                return Some((Ok(event), watcher));
            }
            // Bounded by the keeper's end, which drops the sender of changes.
            let waited = tokio::time::timeout(LOOK_EVERY, watcher.changes.changed()).await;
            if matches!(waited, Ok(Err(_))) || watcher.keeper.has_ended() {
                return None;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

impl Watcher {
    /// What is new: none outside where the jobs cannot be read, none within where nothing is.
    async fn next(&mut self) -> Option<Option<Event>> {
        self.changes.borrow_and_update();
        let jobs = ask(self.keeper.clone(), Keeper::jobs).await.ok()?;
        let (mut changed, mut seen) = (Vec::new(), BTreeMap::new());
        for job in jobs.into_iter().map(|job| self.origin.shown(job)) {
            let text = serde_json::to_string(&job).ok()?;
            let mut hasher = DefaultHasher::new();
            hasher.write(text.as_bytes());
            let hash = hasher.finish();
            seen.insert(job.id, hash);
            if self.sent.get(&job.id) != Some(&hash) {
                changed.push(job);
            }
        }
        let gone: Vec<JobId> = self.sent.keys().filter(|id| !seen.contains_key(id)).copied().collect();
        if !gone.is_empty() {
            self.sent.retain(|id, _| seen.contains_key(id));
            return Some(Event::default().event("gone").json_data(gone).ok());
        }
        self.sent = seen;
        if changed.is_empty() {
            return Some(None);
        }
        Some(Event::default().event("jobs").json_data(changed).ok())
    }
}
