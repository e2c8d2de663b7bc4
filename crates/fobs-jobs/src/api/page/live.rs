//! What the page shows, as it changes: server-sent events with the cards that are new.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use tokio::sync::watch;

use super::cards::card;
use super::{Problem, ask};
use crate::api::events::{LOOK_EVERY, PAUSE};
use crate::job::JobId;
use crate::keeper::{Keeper, Overview, Shown};

/// The lists of the page, as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Lists {
    /// Numbers of jobs, in the order in which they are shown.
    running: Vec<JobId>,
    waiting: Vec<JobId>,
    over: Vec<JobId>,
    /// Of each list, what stands behind its heading.
    counts: [String; 3],
}

/// One event: the lists, and the cards that have changed since the one before.
#[derive(Debug, Serialize)]
struct Update {
    lists: Lists,
    cards: BTreeMap<JobId, String>,
}

struct Watcher {
    keeper: Keeper,
    changes: watch::Receiver<u64>,
    /// What each card looked like when it was sent last.
    sent: BTreeMap<JobId, u64>,
    lists: Option<Lists>,
}

/// An event for each change: at first with all cards.
pub(super) async fn events(
    State(keeper): State<Keeper>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let watcher = Watcher { changes: keeper.changes(), keeper, sent: BTreeMap::new(), lists: None };
    let stream = unfold(watcher, |mut watcher| async move {
        loop {
            if watcher.lists.is_some() {
                tokio::time::sleep(PAUSE).await;
            }
            if watcher.keeper.has_ended() {
                return None;
            }
            watcher.changes.borrow_and_update();
            let overview = ask(watcher.keeper.clone(), Keeper::overview).await.ok()?;
            if let Some(update) = watcher.update(&overview) {
                let event = Event::default().json_data(update).ok()?;
                return Some((Ok(event), watcher));
            }
            // Bounded by the keeper's end, which drops the sender of changes.
            let waited = tokio::time::timeout(LOOK_EVERY, watcher.changes.changed()).await;
            if matches!(waited, Ok(Err(_))) {
                return None;
            }
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

impl Watcher {
    /// What is new; none where nothing is.
    fn update(&mut self, overview: &Overview) -> Option<Update> {
        let numbers = |jobs: &[Shown]| jobs.iter().map(|job| job.view.id).collect();
        let count = |shown: usize, all: usize| {
            if shown < all { format!("{shown} of {all}; fobs jobs --all lists all") } else { all.to_string() }
        };
        let Overview { running, waiting, over, waiting_count, over_count } = overview;
        let lists = Lists {
            running: numbers(running),
            waiting: numbers(waiting),
            over: numbers(over),
            counts: [
                running.len().to_string(),
                count(waiting.len(), *waiting_count),
                count(over.len(), *over_count),
            ],
        };
        let (mut cards, mut sent) = (BTreeMap::new(), BTreeMap::new());
        for job in running.iter().chain(waiting).chain(over) {
            let text = card(job).into_string();
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let hash = hasher.finish();
            sent.insert(job.view.id, hash);
            if self.sent.get(&job.view.id) != Some(&hash) {
                cards.insert(job.view.id, text);
            }
        }
        self.sent = sent;
        if cards.is_empty() && self.lists.as_ref() == Some(&lists) {
            return None;
        }
        self.lists = Some(lists.clone());
        Some(Update { lists, cards })
    }
}
