//! The keeper's API: HTTP/1.1 with JSON. The router knows nothing of what carries it.

mod access;
mod certificate;
mod document;
mod events;
mod metrics;
mod network;
mod page;
mod problem;
mod serve;
#[cfg(test)]
mod tests;
mod tokens;
mod verbs;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::keeper::{Keeper, OrderError, Serves};
use crate::token::Scope;
use access::{Access, admit};
pub(crate) use problem::Problem;

pub use certificate::CertificateFiles;
pub use network::{Network, Reached, listen};
pub use page::is_open;
pub use problem::ProblemBody;
pub use serve::{Listening, serve};
pub use tokens::{MadeToken, WantedToken};
pub use verbs::{About, Clean, Cleaned, Taken};

/// Largest body of a request, bytes: the words of a job and their JSON.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A request that is answered.
struct Verb {
    method: Method,
    path: &'static str,
    access: Access,
    serve: MethodRouter<Keeper>,
}

/// All of them: the router is made of these, and a test compares the document with them.
fn verbs() -> Vec<Verb> {
    let verb = |method, path, access, serve| Verb { method, path, access, serve };
    let (read, control) = (Access::Token(Scope::Read), Access::Token(Scope::Control));
    let submit = Access::Token(Scope::Submit);
    vec![
        verb(Method::GET, "/v1/about", read, get(verbs::about)),
        verb(Method::GET, "/v1/jobs", read, get(verbs::list)),
        verb(Method::POST, "/v1/jobs", submit, post(verbs::submit)),
        verb(Method::GET, "/v1/jobs/{id}", read, get(verbs::show)),
        verb(Method::GET, "/v1/jobs/{id}/log", read, get(verbs::log)),
        verb(Method::POST, "/v1/jobs/{id}/{change}", control, post(verbs::change)),
        verb(Method::GET, "/v1/limits", read, get(verbs::limits)),
        verb(Method::PUT, "/v1/limits", control, put(verbs::set_limits)),
        verb(Method::POST, "/v1/clean", control, post(verbs::clean)),
        verb(Method::GET, "/v1/events", read, get(events::events)),
        verb(Method::GET, "/metrics", read, get(metrics::metrics)),
        verb(Method::GET, "/v1/tokens", Access::Own, get(tokens::list)),
        verb(Method::POST, "/v1/tokens", Access::Own, post(tokens::create)),
        verb(Method::DELETE, "/v1/tokens/{id}", Access::Own, delete(tokens::revoke)),
        verb(Method::GET, "/openapi.json", Access::Anyone, get(document::openapi)),
    ]
}

/// All verbs of the API, over a keeper.
pub fn router(keeper: Keeper) -> Router {
    // The page hands in as its keeper: only where that is the user.
    let page = if keeper.serves() == Serves::User { page::verbs() } else { Vec::new() };
    let verbs = verbs().into_iter().chain(page);
    let router = verbs.fold(Router::new(), |router, verb| {
        // On each verb: one without an access cannot be written.
        let admits = from_fn_with_state((keeper.clone(), verb.access), admit);
        router.route(verb.path, verb.serve.route_layer(admits))
    });
    router
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
