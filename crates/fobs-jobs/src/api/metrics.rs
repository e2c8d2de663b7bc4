//! What the keeper counts, for scrapers.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::{Problem, ask};
use crate::keeper::Keeper;

/// The type of OpenMetrics text.
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counts of jobs, bytes and waiting times as OpenMetrics text.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "keeper",
    responses((status = 200, body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(keeper): State<Keeper>) -> Result<Response, Problem> {
    let text = ask(keeper, Keeper::metrics).await?;
    Ok(([(header::CONTENT_TYPE, KIND)], text).into_response())
}
