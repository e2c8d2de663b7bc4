//! The page of jobs: one document, what it shows as events, and what its form hands in.
//!
//! What is shown is written here and escaped here; the script only puts it into its place. The page itself
//! has nothing of any job in it, so that it may be given to anyone; everything else needs what its carrier
//! asks for: the peer's user, or a secret in the header `Authorization`, which a page of another origin can
//! neither know nor send.

mod cards;
mod document;
mod hand_in;
mod live;
#[cfg(test)]
mod tests;
mod tickets;

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;

use super::access::Access;
use super::verbs::job_of;
use super::{Problem, Verb, ask};
use crate::keeper::Keeper;
use crate::token::Scope;
use tickets::Tickets;

/// Where the address of an explanation begins; a ticket follows.
const WHY: &str = "/page/why/";
/// What a page of an explanation may do: be looked at. Its style is within it.
const WHY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// Whether anyone may have this: the document, and an explanation of which someone knows the ticket.
pub fn is_open(path: &str) -> bool {
    let ticket = path.strip_prefix(WHY);
    path == "/" || ticket.is_some_and(tickets::is_ticket)
}

/// The page's part of the API, which its script alone asks for: no part of what is described to clients.
pub(super) fn verbs() -> Vec<Verb> {
    let verb = |method, path, access, serve| Verb { method, path, access, serve };
    let (read, submit) = (Access::Token(Scope::Read), Access::Token(Scope::Submit));
    let tickets = Extension(Tickets::default());
    let (give, take) = (post(ticket).layer(tickets.clone()), get(explanation).layer(tickets));
    vec![
        verb(Method::GET, "/", Access::Anyone, get(document::document)),
        verb(Method::GET, "/page/events", read, get(live::events)),
        verb(Method::POST, "/page/jobs", submit, post(hand_in::hand_in)),
        // A ticket is all that this asks for.
        verb(Method::GET, "/page/why/{of}", Access::Anyone, take),
        verb(Method::POST, "/page/why/{of}", read, give),
    ]
}

/// Where an explanation is to be found.
#[derive(Debug, Serialize)]
struct Address {
    address: String,
}

/// A browser that follows an address sends no header of ours: it has a ticket instead.
async fn ticket(
    State(keeper): State<Keeper>,
    Extension(tickets): Extension<Tickets>,
    Path(id): Path<String>,
) -> Result<Json<Address>, Problem> {
    let id = job_of(&id)?;
    // Drawn here, so that a reason why there is none is told on the page.
    ask(keeper, move |keeper| keeper.explanation(id)).await?;
    let ticket = tickets.give(id)?;
    Ok(Json(Address { address: format!("{WHY}{ticket}") }))
}

async fn explanation(
    State(keeper): State<Keeper>,
    Extension(tickets): Extension<Tickets>,
    Path(ticket): Path<String>,
) -> Result<Response, Problem> {
    let Some(id) = tickets.job(&ticket) else {
        let why =
            "this address was good for an hour only, or its keeper has ended; go back to the page of jobs";
        return Err(Problem::new(StatusCode::NOT_FOUND, why));
    };
    let page = ask(keeper, move |keeper| keeper.explanation(id)).await?;
    Ok(html(page, WHY_POLICY))
}

/// A document with its policy; nothing is kept of it, and nothing of it travels on.
fn html(body: impl Into<axum::body::Body>, policy: &str) -> Response {
    let mut response = body.into().into_response();
    let policy = HeaderValue::from_str(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let fixed: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    headers.extend(fixed.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
