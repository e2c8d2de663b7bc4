//! The keeper's API: HTTP/1.1 with JSON, on a Unix socket. The router knows nothing of what carries it.

mod events;
mod page;
mod problem;
mod serve;

use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};

use crate::job::{JobId, Spec};
use crate::keeper::{Change, JobView, Keeper, OrderError};
use crate::schedule::Limits;
use crate::store::Submitted;
pub(crate) use problem::Problem;

pub use page::is_open;
pub use problem::ProblemBody;
pub use serve::{Listening, serve};

/// Largest body of a request, bytes: the words of a job and their JSON.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Longest time that a request waits for a change, s: clients ask again.
const WAIT_S_MAX: u64 = 60;

/// What the keeper is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its release.
    pub version: String,
    /// Its process.
    pub process: u32,
}

/// The answer to a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The job.
    pub id: JobId,
    /// Whether it is a new one; else that of the same key.
    pub new: bool,
}

/// Which jobs are to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clean {
    /// Those that were over this long ago or longer, s.
    pub older_than_s: u64,
}

/// How many were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Jobs.
    pub forgotten: usize,
}

/// How a job is looked at.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Look {
    /// Answer once it is over, or has had more runs than `runs`; after this time in any case, s.
    #[serde(default)]
    wait_s: u64,
    /// Runs that it has had; see `wait_s`.
    #[serde(default)]
    runs: Option<u64>,
}

/// Which jobs are listed.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct Which {
    /// Those alone that are not over.
    #[serde(default)]
    open: bool,
}

/// All verbs of the API, over a keeper.
pub fn router(keeper: Keeper) -> Router {
    Router::new()
        .route("/v1/about", get(about))
        .route("/v1/jobs", get(list).post(submit))
        .route("/v1/jobs/{id}", get(show))
        .route("/v1/jobs/{id}/log", get(log))
        .route("/v1/jobs/{id}/{change}", post(change))
        .route("/v1/limits", get(limits).put(set_limits))
        .route("/v1/clean", post(clean))
        .route("/v1/events", get(events::events))
        .merge(page::routes())
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "there is no such address in this API") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address has no such method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(keeper)
}

/// Asks the keeper in a thread that may block: it reads a disk.
async fn ask<T: Send + 'static>(
    keeper: Keeper,
    question: impl FnOnce(&Keeper) -> Result<T, OrderError> + Send + 'static,
) -> Result<T, Problem> {
    let answer = tokio::task::spawn_blocking(move || question(&keeper)).await;
    match answer {
        Ok(answer) => answer.map_err(Problem::from),
        Err(error) => {
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &format!("a bug in the keeper: {error}")))
        }
    }
}

async fn about() -> Json<About> {
    Json(About { version: env!("CARGO_PKG_VERSION").to_owned(), process: std::process::id() })
}

async fn list(
    State(keeper): State<Keeper>,
    Query(which): Query<Which>,
) -> Result<Json<Vec<JobView>>, Problem> {
    ask(keeper, if which.open { Keeper::open_jobs } else { Keeper::jobs }).await.map(Json)
}

async fn submit(
    State(keeper): State<Keeper>,
    body: Result<Json<Spec>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(spec) = body?;
    let (status, id) = match ask(keeper, |keeper| keeper.submit(spec)).await? {
        Submitted::New(id) => (StatusCode::CREATED, id),
        Submitted::Known(id) => (StatusCode::OK, id),
    };
    Ok((status, Json(Taken { id, new: status == StatusCode::CREATED })).into_response())
}

async fn show(
    State(keeper): State<Keeper>,
    Path(id): Path<String>,
    Query(look): Query<Look>,
) -> Result<Json<JobView>, Problem> {
    let id = job_of(&id)?;
    let mut changes = keeper.changes();
    let time = Duration::from_secs(look.wait_s.min(WAIT_S_MAX));
    let end = tokio::time::Instant::now() + time;
    loop {
        changes.borrow_and_update();
        let view = ask(keeper.clone(), move |keeper| keeper.job(id)).await?;
        let ran = look.runs.is_some_and(|runs| view.standing.runs > runs);
        if view.standing.phase.is_final() || ran || keeper.has_ended() {
            return Ok(Json(view));
        }
        if tokio::time::timeout_at(end, changes.changed()).await.is_err() {
            return Ok(Json(view));
        }
    }
}

async fn log(State(keeper): State<Keeper>, Path(id): Path<String>) -> Result<Response, Problem> {
    let id = job_of(&id)?;
    ask(keeper, move |keeper| keeper.log(id)).await.map(|lines| Json(lines).into_response())
}

async fn change(
    State(keeper): State<Keeper>,
    Path((id, change)): Path<(String, String)>,
) -> Result<Json<JobView>, Problem> {
    let id = job_of(&id)?;
    let change = match change.as_str() {
        "cancel" => Change::Cancel,
        "pause" => Change::Pause,
        "resume" => Change::Resume,
        "retry" => Change::Retry,
        _ => {
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                "a job is cancelled, paused, resumed or retried",
            ));
        }
    };
    ask(keeper, move |keeper| keeper.change(id, change)).await.map(Json)
}

async fn limits(State(keeper): State<Keeper>) -> Result<Json<Limits>, Problem> {
    ask(keeper, |keeper| Ok(keeper.limits())).await.map(Json)
}

async fn set_limits(
    State(keeper): State<Keeper>,
    body: Result<Json<Limits>, JsonRejection>,
) -> Result<Json<Limits>, Problem> {
    let Json(limits) = body?;
    ask(keeper, move |keeper| keeper.set_limits(limits)).await?;
    Ok(Json(limits))
}

async fn clean(
    State(keeper): State<Keeper>,
    body: Result<Json<Clean>, JsonRejection>,
) -> Result<Json<Cleaned>, Problem> {
    let Json(Clean { older_than_s }) = body?;
    let forgotten = ask(keeper, move |keeper| keeper.clean(Duration::from_secs(older_than_s))).await?;
    Ok(Json(Cleaned { forgotten }))
}

fn job_of(text: &str) -> Result<JobId, Problem> {
    let refused = || Problem::new(StatusCode::BAD_REQUEST, "a job has a number: a whole one from 1");
    text.parse().map(JobId).map_err(|_| refused())
}
