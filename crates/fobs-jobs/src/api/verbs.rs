//! What is done with jobs, as requests.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::access::Origin;
use super::{Problem, ask};
use crate::job::{JobId, Spec};
use crate::keeper::{Change, JobView, Keeper};
use crate::schedule::Limits;
use crate::store::{Line, Submitted};

/// Longest time that a request waits for a change, s: clients ask again.
pub(super) const WAIT_S_MAX: u64 = 60;
/// The header that stands for a job's key (draft-ietf-httpapi-idempotency-key-header).
const KEY_HEADER: &str = "idempotency-key";

/// What the keeper is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct About {
    /// Its release.
    pub version: String,
    /// Its process.
    pub process: u32,
}

/// The answer to a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Taken {
    /// The job.
    pub id: JobId,
    /// Whether it is a new one; else the one that has the same key.
    pub new: bool,
}

/// Which jobs are to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Clean {
    /// Those that were over this long ago or longer, s.
    pub older_than_s: u64,
}

/// How many were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cleaned {
    /// Jobs.
    pub forgotten: usize,
}

/// How a job is looked at.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Look {
    /// Answer once it is over, or has had more runs than `runs`; after this time in any case, s (60 at most).
    #[serde(default)]
    wait_s: u64,
    /// Runs that it has had; see `wait_s`.
    #[serde(default)]
    runs: Option<u64>,
}

/// Which jobs are listed.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Those alone that are not over.
    #[serde(default)]
    open: bool,
}

/// The keeper's release and process.
#[utoipa::path(get, path = "/v1/about", operation_id = "about", tag = "keeper", responses((status = 200, body = About)))]
pub(super) async fn about() -> Json<About> {
    Json(About { version: env!("CARGO_PKG_VERSION").to_owned(), process: std::process::id() })
}

/// The jobs, by number.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs", params(Which),
    responses((status = 200, body = Vec<JobView>))
)]
pub(super) async fn list(
    State(keeper): State<Keeper>,
    Extension(origin): Extension<Origin>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Vec<JobView>>, Problem> {
    let Query(Which { open }) = which?;
    let jobs = ask(keeper, if open { Keeper::open_jobs } else { Keeper::jobs }).await?;
    Ok(Json(jobs.into_iter().map(|job| origin.shown(job)).collect()))
}

/// Takes a job. The same key twice, in the job or as the header `Idempotency-Key`, is one job.
#[utoipa::path(
    post, path = "/v1/jobs", operation_id = "submit_job", tag = "jobs", request_body = Spec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The job's key, where it has none itself")),
    responses(
        (status = 201, description = "A new job", body = Taken),
        (status = 200, description = "The job that has the key", body = Taken),
        (status = 409, description = "The key stands for other work", body = super::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "It cannot be a job", body = super::ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn submit(
    State(keeper): State<Keeper>,
    headers: HeaderMap,
    body: Result<Json<Spec>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(mut spec) = body?;
    if let Some(key) = key_of(&headers)? {
        if spec.key.as_ref().is_some_and(|own| *own != key) {
            let why = "the job's key and the header Idempotency-Key differ: send one of them";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why));
        }
        spec.key = Some(key);
    }
    let (status, id) = match ask(keeper, |keeper| keeper.submit(spec)).await? {
        Submitted::New(id) => (StatusCode::CREATED, id),
        Submitted::Known(id) => (StatusCode::OK, id),
    };
    Ok((status, Json(Taken { id, new: status == StatusCode::CREATED })).into_response())
}

/// The key of a header: as it stands, or a quoted string (RFC 8941), as the draft has it.
fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let refused = |why: &str| Problem::new(StatusCode::BAD_REQUEST, why);
    let mut values = headers.get_all(KEY_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused("there are two headers Idempotency-Key: send one"));
    }
    let text = value.to_str().map_err(|_| refused("an Idempotency-Key is ASCII"))?.trim();
    let key = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => text.to_owned(),
    };
    Ok(Some(key))
}

/// A job with its attempts: at once, or when it is over or has had more runs.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "show_job", tag = "jobs",
    params(("id" = u64, Path, description = "Its number"), Look), responses((status = 200, body = JobView))
)]
pub(super) async fn show(
    State(keeper): State<Keeper>,
    Extension(origin): Extension<Origin>,
    Path(id): Path<String>,
    look: Result<Query<Look>, QueryRejection>,
) -> Result<Json<JobView>, Problem> {
    let (id, Query(look)) = (job_of(&id)?, look?);
    let mut changes = keeper.changes();
    let time = Duration::from_secs(look.wait_s.min(WAIT_S_MAX));
    let end = tokio::time::Instant::now() + time;
    loop {
        changes.borrow_and_update();
        let view = ask(keeper.clone(), move |keeper| keeper.job(id)).await?;
        let ran = look.runs.is_some_and(|runs| view.standing.runs > runs);
        if view.standing.phase.is_final() || ran || keeper.has_ended() {
            return Ok(Json(origin.shown(view)));
        }
        if tokio::time::timeout_at(end, changes.changed()).await.is_err() {
            return Ok(Json(origin.shown(view)));
        }
    }
}

/// What a job's attempts have said, oldest line first.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/log", operation_id = "job_log", tag = "jobs",
    params(("id" = u64, Path, description = "Its number")), responses((status = 200, body = Vec<Line>))
)]
pub(super) async fn log(
    State(keeper): State<Keeper>,
    Path(id): Path<String>,
) -> Result<Json<Vec<Line>>, Problem> {
    let id = job_of(&id)?;
    ask(keeper, move |keeper| keeper.log(id)).await.map(Json)
}

/// Cancels, pauses, resumes or retries a job.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/{change}", operation_id = "change_job", tag = "jobs",
    params(("id" = u64, Path, description = "Its number"), ("change" = Change, Path, description = "What is done")),
    responses(
        (status = 200, body = JobView),
        (status = 409, description = "Its phase does not fit", body = super::ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn change(
    State(keeper): State<Keeper>,
    Extension(origin): Extension<Origin>,
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
    let view = ask(keeper, move |keeper| keeper.change(id, change)).await?;
    Ok(Json(origin.shown(view)))
}

/// How many jobs run at once.
#[utoipa::path(get, path = "/v1/limits", operation_id = "limits", tag = "keeper", responses((status = 200, body = Limits)))]
pub(super) async fn limits(State(keeper): State<Keeper>) -> Result<Json<Limits>, Problem> {
    ask(keeper, |keeper| Ok(keeper.limits())).await.map(Json)
}

/// Sets how many jobs run at once.
#[utoipa::path(
    put, path = "/v1/limits", operation_id = "set_limits", tag = "keeper", request_body = Limits,
    responses((status = 200, body = Limits))
)]
pub(super) async fn set_limits(
    State(keeper): State<Keeper>,
    body: Result<Json<Limits>, JsonRejection>,
) -> Result<Json<Limits>, Problem> {
    let Json(limits) = body?;
    ask(keeper, move |keeper| keeper.set_limits(limits)).await?;
    Ok(Json(limits))
}

/// Forgets jobs that are over, with their keys.
#[utoipa::path(
    post, path = "/v1/clean", operation_id = "clean", tag = "keeper", request_body = Clean,
    responses((status = 200, body = Cleaned))
)]
pub(super) async fn clean(
    State(keeper): State<Keeper>,
    body: Result<Json<Clean>, JsonRejection>,
) -> Result<Json<Cleaned>, Problem> {
    let Json(Clean { older_than_s }) = body?;
    let forgotten = ask(keeper, move |keeper| keeper.clean(Duration::from_secs(older_than_s))).await?;
    Ok(Json(Cleaned { forgotten }))
}

pub(super) fn job_of(text: &str) -> Result<JobId, Problem> {
    let refused = || Problem::new(StatusCode::BAD_REQUEST, "a job has a number: a whole one from 1");
    text.parse().map(JobId).map_err(|_| refused())
}
