//! Tokens, as requests of this user's processes.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Problem, ask};
use crate::keeper::Keeper;
use crate::token::{Scope, Token};

/// A token that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedToken {
    /// Its name for people; may be empty.
    #[serde(default)]
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// For how long, s: a year at most.
    pub expires_s: u64,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeToken {
    /// As it is listed.
    pub token: Token,
    /// What its owner shows. It is not kept, and not said again.
    pub secret: String,
}

/// Makes a token. Over the Unix socket alone.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "create_token", tag = "tokens", request_body = WantedToken,
    responses((status = 201, body = MadeToken))
)]
pub(super) async fn create(
    State(keeper): State<Keeper>,
    body: Result<Json<WantedToken>, JsonRejection>,
) -> Result<(StatusCode, Json<MadeToken>), Problem> {
    let Json(WantedToken { name, scopes, expires_s }) = body?;
    let life = Duration::from_secs(expires_s);
    let (token, secret) = ask(keeper, move |keeper| keeper.create_token(name, &scopes, life)).await?;
    Ok((StatusCode::CREATED, Json(MadeToken { token, secret: secret.text() })))
}

/// All tokens, without their secrets. Over the Unix socket alone.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "list_tokens", tag = "tokens",
    responses((status = 200, body = Vec<Token>))
)]
pub(super) async fn list(State(keeper): State<Keeper>) -> Result<Json<Vec<Token>>, Problem> {
    ask(keeper, Keeper::tokens).await.map(Json)
}

/// Revokes a token. Over the Unix socket alone.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "revoke_token", tag = "tokens",
    params(("id" = u64, Path, description = "Its number")), responses((status = 200, body = Token))
)]
pub(super) async fn revoke(
    State(keeper): State<Keeper>,
    Path(id): Path<String>,
) -> Result<Json<Token>, Problem> {
    let no_number = |_| Problem::new(StatusCode::BAD_REQUEST, "a token has a number: a whole one from 1");
    let id: u64 = id.parse().map_err(no_number)?;
    ask(keeper, move |keeper| keeper.revoke_token(id)).await.map(Json)
}
