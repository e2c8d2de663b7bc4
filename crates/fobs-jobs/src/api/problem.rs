//! Errors of the API, as RFC 9457 has them: `application/problem+json`.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::keeper::OrderError;
use crate::store::StoreError;

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemBody {
    /// The status's usual words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// One sentence: what failed, why, what to do.
    pub detail: String,
}

/// An error of the API.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: &str) -> Problem {
        Problem { status, detail: detail.to_owned() }
    }
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Problem {
        let status = match &error {
            OrderError::Spec(_) | OrderError::Value(_) => StatusCode::UNPROCESSABLE_ENTITY,
            OrderError::Phase { .. } | OrderError::Store(StoreError::Key { .. }) => StatusCode::CONFLICT,
            OrderError::Store(StoreError::NoJob(_)) => StatusCode::NOT_FOUND,
            OrderError::Store(StoreError::Queue(_)) => StatusCode::TOO_MANY_REQUESTS,
            OrderError::Store(StoreError::Full(_)) => StatusCode::INSUFFICIENT_STORAGE,
            OrderError::Ending => StatusCode::SERVICE_UNAVAILABLE,
            OrderError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem { status, detail: error.to_string() }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        Problem { status: rejection.status(), detail: rejection.body_text() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default().to_owned();
        let body = ProblemBody { title, status: self.status.as_u16(), detail: self.detail };
        let mut response = (self.status, Json(body)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
