//! Who may ask at a TCP port of this host: any program of any user reaches it, and so does any page that a
//! browser shows.
//!
//! A name that an attacker's server resolves to 127.0.0.1 is not a name of this host (DNS rebinding: `Host`).
//! A page of another origin, another port of this host among them, is told apart by `Origin` and
//! `Sec-Fetch-Site` where a browser sends them. What both leave over lacks the secret: it travels in the
//! header `Authorization`, never as a cookie, which a browser sends to every port of a host (RFC 6265 8.5).

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, header};

use crate::api::is_open;

/// Why a request is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is meant for another host.
    Host,
    /// A page of another origin sends it.
    Origin,
    /// It has no secret, or one that is not good any more.
    Secret,
}

impl Refusal {
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Refusal::Host => {
                "this is not the host that was asked for: open the address that fobs jobs page has printed"
            }
            Refusal::Origin => "a page of another origin has asked, and may not",
            Refusal::Secret => {
                "this page is closed: open the address that fobs jobs page printed last; each is good once"
            }
        }
    }
}

/// Judges the head of a request. `is_good` says whether a secret is.
pub(super) fn judge(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    is_good: impl FnOnce(&str) -> bool,
) -> Result<(), Refusal> {
    let text = |name| {
        let mut all = headers.get_all(name).iter();
        // Of two, each end may believe another one.
        match (all.next(), all.next()) {
            (None, _) => Ok(None),
            (Some(one), None) => one.to_str().map(Some).map_err(|_| ()),
            (Some(_), Some(_)) => Err(()),
        }
    };
    let host = text(header::HOST).ok().flatten().ok_or(Refusal::Host)?;
    if !is_here(host) {
        return Err(Refusal::Host);
    }
    let origin = text(header::ORIGIN).map_err(|()| Refusal::Origin)?;
    if origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return Err(Refusal::Origin);
    }
    let is_read = *method == Method::GET || *method == Method::HEAD;
    let site = text(header::HeaderName::from_static("sec-fetch-site")).map_err(|()| Refusal::Origin)?;
    // Links lead to the document from anywhere; it has nothing in it, and cannot be framed.
    let is_ours = matches!(site, None | Some("same-origin" | "none")) || (is_read && path == "/");
    if !is_ours {
        return Err(Refusal::Origin);
    }
    if is_read && is_open(path) {
        return Ok(());
    }
    let given = text(header::AUTHORIZATION).map_err(|()| Refusal::Secret)?;
    let secret = given.and_then(|given| given.strip_prefix("Bearer ")).ok_or(Refusal::Secret)?;
    if is_good(secret) { Ok(()) } else { Err(Refusal::Secret) }
}

/// Whether a `Host` is this host by a name that no server can give out. Its port is not looked at: a tunnel
/// of ssh has another one at its near end.
fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(name, _)| name),
        None => host.split(':').next(),
    };
    let Some(name) = name else { return false };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123";
    const HOST: (&str, &str) = ("host", "127.0.0.1:4000");
    const BEARER: (&str, &str) = ("authorization", "Bearer 0123");

    fn judged(method: Method, path: &str, given: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            let name = header::HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        judge(&method, path, &headers, |secret| secret == SECRET)
    }

    #[test]
    fn what_another_page_of_the_same_browser_can_send_is_refused() {
        let change = "/v1/jobs/1/cancel";
        let host = Err(Refusal::Host);
        let origin = Err(Refusal::Origin);
        let secret = Err(Refusal::Secret);
        let ticket = "/page/why/0123456789abcdef0123456789abcdef";
        type Row<'a> = (Method, &'a str, &'a [(&'a str, &'a str)], Result<(), Refusal>);
        let table: &[Row<'_>] = &[
            // Its own page, with and without what a browser adds; a program such as curl; a tunnel's port.
            (Method::POST, change, &[HOST, BEARER], Ok(())),
            (
                Method::POST,
                change,
                &[HOST, BEARER, ("origin", "http://127.0.0.1:4000"), ("sec-fetch-site", "same-origin")],
                Ok(()),
            ),
            (Method::GET, "/v1/jobs", &[("host", "localhost:8888"), BEARER], Ok(())),
            (Method::GET, "/v1/jobs", &[("host", "[::1]:8888"), BEARER], Ok(())),
            (Method::GET, "/", &[HOST], Ok(())),
            (Method::GET, "/", &[HOST, ("sec-fetch-site", "cross-site")], Ok(())),
            (Method::GET, ticket, &[HOST, ("sec-fetch-site", "same-origin")], Ok(())),
            // A name that was made to lead here.
            (Method::GET, "/", &[("host", "attacker.example:4000")], host),
            (Method::GET, "/", &[("host", "127.0.0.1.attacker.example")], host),
            (Method::GET, "/", &[("host", "localhost.attacker.example")], host),
            (Method::GET, "/", &[("host", "10.0.0.1:4000")], host),
            (Method::GET, "/", &[("host", "[127.0.0.1")], host),
            (Method::GET, "/", &[("host", "")], host),
            (Method::GET, "/", &[], host),
            (Method::GET, "/", &[HOST, ("host", "attacker.example")], host),
            // A form or a script of a page elsewhere, and of another port of this host.
            (Method::POST, change, &[HOST, ("origin", "https://attacker.example")], origin),
            (Method::POST, change, &[HOST, BEARER, ("origin", "http://127.0.0.1:5000")], origin),
            (Method::POST, change, &[HOST, BEARER, ("origin", "null")], origin),
            (Method::POST, change, &[HOST, BEARER, ("sec-fetch-site", "same-site")], origin),
            (Method::POST, "/", &[HOST, BEARER, ("sec-fetch-site", "cross-site")], origin),
            (Method::GET, "/v1/jobs", &[HOST, BEARER, ("sec-fetch-site", "cross-site")], origin),
            (Method::GET, ticket, &[HOST, ("sec-fetch-site", "cross-site")], origin),
            // Without the secret, or with a wrong one.
            (Method::GET, "/v1/jobs", &[HOST], secret),
            (Method::GET, "/page/events", &[HOST], secret),
            (Method::POST, change, &[HOST, ("authorization", "Bearer 4567")], secret),
            (Method::POST, change, &[HOST, ("authorization", "Basic 0123")], secret),
            (Method::POST, change, &[HOST, ("cookie", "secret=0123")], secret),
            (Method::POST, change, &[HOST, BEARER, ("authorization", "Bearer 4567")], secret),
            (Method::POST, "/page/why/1", &[HOST], secret),
            (Method::GET, "/page/why/../../v1/jobs", &[HOST], secret),
            (Method::POST, ticket, &[HOST], secret),
        ];
        for (method, path, given, expected) in table {
            assert_eq!(judged(method.clone(), path, given), *expected, "{method} {path} {given:?}");
        }
    }
}
