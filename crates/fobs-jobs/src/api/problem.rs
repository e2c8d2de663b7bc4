//! Errors of the API, as RFC 9457 has them: `application/problem+json`.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::keeper::OrderError;
use crate::store::StoreError;

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// What a client must show (RFC 6750, 3).
    challenge: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: &str) -> Problem {
        Problem { status, detail: detail.to_owned(), challenge: None }
    }

    pub(super) fn challenge(self, challenge: String) -> Problem {
        Problem { challenge: Some(challenge), ..self }
    }
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Problem {
        let status = match &error {
            OrderError::Spec(_) | OrderError::Value(_) => StatusCode::UNPROCESSABLE_ENTITY,
            OrderError::Phase { .. } | OrderError::Store(StoreError::Key { .. }) => StatusCode::CONFLICT,
            OrderError::Store(StoreError::NoJob(_) | StoreError::NoToken(_)) => StatusCode::NOT_FOUND,
            OrderError::Store(StoreError::Queue(_) | StoreError::Tokens(_)) => StatusCode::TOO_MANY_REQUESTS,
            OrderError::Store(StoreError::Full(_)) => StatusCode::INSUFFICIENT_STORAGE,
            OrderError::Denied | OrderError::NotOfHost => StatusCode::FORBIDDEN,
            OrderError::Ending => StatusCode::SERVICE_UNAVAILABLE,
            OrderError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, &error.to_string())
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        Problem::new(rejection.status(), &rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::new(rejection.status(), &rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default().to_owned();
        let body = ProblemBody { title, status: self.status.as_u16(), detail: self.detail };
        let mut response = (self.status, Json(body)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if let Some(challenge) = self.challenge.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
