//! Who may ask what: this user's processes everything, clients over the network what their token says.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{Problem, ask};
use crate::job::Spec;
use crate::keeper::{JobView, Keeper, TokenRefusal};
use crate::token::{Scope, Token};

/// What a client over the network must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Anyone,
    /// A token with this scope.
    Token(Scope),
    /// What it has not: only this user's processes may.
    Own,
}

/// Where a request came from; without one, from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The Unix socket, whose peer is this user or root.
    Socket,
    /// Anywhere else.
    Network,
}

impl Origin {
    /// A job as it is shown there: what of an environment is a secret, nobody knows.
    pub(super) fn shown(self, view: JobView) -> JobView {
        let environment = if self == Origin::Socket { view.spec.environment } else { Vec::new() };
        JobView { spec: Spec { environment, ..view.spec }, ..view }
    }
}

/// Lets a request through, or answers it.
pub(super) async fn admit(
    State((keeper, access)): State<(Keeper, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    let origin = request.extensions().get::<Origin>().copied().unwrap_or(Origin::Network);
    request.extensions_mut().insert(origin);
    if origin == Origin::Network {
        match judge(keeper, access, request.headers()).await {
            Ok(Some(token)) => {
                request.extensions_mut().insert(token);
            }
            Ok(None) => {}
            Err(problem) => return problem.into_response(),
        }
    }
    next.run(request).await
}

async fn judge(keeper: Keeper, access: Access, headers: &HeaderMap) -> Result<Option<Token>, Problem> {
    let scope = match access {
        Access::Anyone => return Ok(None),
        Access::Token(scope) => scope,
        Access::Own => {
            let why = "tokens are made, listed and revoked over the keeper's Unix socket alone";
            return Err(Problem::new(StatusCode::FORBIDDEN, why));
        }
    };
    let Some(text) = bearer(headers)? else {
        let why = "this needs a token: send it as Authorization: Bearer TOKEN";
        return Err(
            Problem::new(StatusCode::UNAUTHORIZED, why).challenge(r#"Bearer realm="fobs jobs""#.to_owned())
        );
    };
    let token = match ask(keeper, move |keeper| keeper.token_of(&text)).await? {
        Ok(token) => token,
        Err(refusal) => return Err(invalid(refusal)),
    };
    if token.scopes.contains(&scope) {
        return Ok(Some(token));
    }
    let has: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
    let why = format!("this needs a token with the scope {}; this one has {}", scope.name(), has.join(", "));
    let challenge =
        format!(r#"Bearer realm="fobs jobs", error="insufficient_scope", scope="{}""#, scope.name());
    Err(Problem::new(StatusCode::FORBIDDEN, &why).challenge(challenge))
}

fn invalid(refusal: TokenRefusal) -> Problem {
    let challenge =
        format!(r#"Bearer realm="fobs jobs", error="invalid_token", error_description="{refusal}""#);
    Problem::new(StatusCode::UNAUTHORIZED, &refusal.to_string()).challenge(challenge)
}

/// The token of the header, which stands there once (RFC 6750, 2.1).
fn bearer(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    match text.split_once(' ') {
        Some((scheme, token)) if second.is_none() && scheme.eq_ignore_ascii_case("bearer") => {
            Ok(Some(token.trim().to_owned()))
        }
        _ => Err(invalid(TokenRefusal::Malformed)),
    }
}
