//! One request over HTTP/1.1, by a Unix socket, TCP or TLS: whom it reaches, what it trusts, what it bounds.

mod pinned;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

pub use pinned::Fingerprint;
use pinned::Pinned;

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Target {
    /// At a Unix socket.
    Socket(PathBuf),
    /// At a URL, whose path comes before a call's own.
    Url(Url, Trust),
}

/// Which certificate a server over TLS must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// One that this host's authorities have signed, for its name.
    #[default]
    Authorities,
    /// This one.
    Certificate(Fingerprint),
}

/// The part of a URL that a client needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    carrier: UrlCarrier,
    /// Without the brackets of an IPv6 address.
    host: String,
    /// As it is sent.
    authority: String,
    port: u16,
    /// With what is asked of it; at least `/`.
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlCarrier {
    Plain,
    Tls,
}

impl Url {
    /// Reads `http://HOST[:PORT][/PATH]` or `https://…`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Url, String> {
        let unreadable = |why: &str| format!("{text:?} is no URL of a server: {why}");
        let uri: Uri = text.parse().map_err(|error| unreadable(&format!("{error}")))?;
        let carrier = match uri.scheme_str() {
            Some("http") => UrlCarrier::Plain,
            Some("https") => UrlCarrier::Tls,
            _ => return Err(unreadable("it begins with http:// or https://")),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| unreadable("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(unreadable(
                "a name and password in it would stand in lists and logs; leave them out",
            ));
        }
        if authority.port_u16().is_none() && authority.as_str().len() > authority.host().len() {
            return Err(unreadable("its port is no number up to 65535"));
        }
        let usual = if carrier == UrlCarrier::Tls { 443 } else { 80 };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let port = authority.port_u16().unwrap_or(usual);
        Ok(Url { carrier, host, authority: authority.as_str().to_owned(), port, path })
    }

    /// Whether what is sent there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.carrier == UrlCarrier::Tls
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct Call {
    pub method: Method,
    /// Behind the target's own path.
    pub path: String,
    /// Beside its length, type and host.
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    /// Largest answer, bytes.
    pub answer_bytes_max: usize,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("{0}")]
    NotThere(io::Error),
    #[error("{0}")]
    Broken(String),
}

impl DialError {
    fn broken(why: impl ToString) -> DialError {
        DialError::Broken(why.to_string())
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Asks once, over a connection of its own; follows no redirect. The time is the caller's to bound.
pub(crate) async fn exchange(target: &Target, call: Call) -> Result<(StatusCode, Bytes), DialError> {
    let (stream, host, prefix) = connect(target).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(DialError::broken)?;
    // Its failure is the request's.
    let driver = tokio::spawn(connection);
    let path = format!("{}{}", prefix.trim_end_matches('/'), call.path);
    let path = if path.is_empty() { "/".to_owned() } else { path };
    let mut request = Request::builder().method(call.method).uri(path).header("host", host);
    for (name, value) in call.headers {
        request = request.header(name, value);
    }
    let request = request.header("content-type", "application/json").body(Full::new(call.body));
    let response =
        sender.send_request(request.map_err(DialError::broken)?).await.map_err(DialError::broken)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), call.answer_bytes_max).collect().await;
    driver.abort();
    Ok((status, body.map_err(DialError::broken)?.to_bytes()))
}

async fn connect(target: &Target) -> Result<(Box<dyn Stream>, String, &str), DialError> {
    match target {
        Target::Socket(path) => {
            let stream = UnixStream::connect(path).await.map_err(DialError::NotThere)?;
            Ok((Box::new(stream), "jobs".to_owned(), ""))
        }
        Target::Url(url, trust) => {
            let tcp = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(DialError::NotThere)?;
            let (host, path) = (url.authority.clone(), url.path.as_str());
            if !url.is_encrypted() {
                return Ok((Box::new(tcp), host, path));
            }
            let config = config(trust).map_err(DialError::Broken)?;
            let name = ServerName::try_from(url.host.clone()).map_err(DialError::broken)?;
            let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
            // Nothing was asked yet.
            Ok((Box::new(tls.map_err(|error| DialError::NotThere(of_tls(error, url, trust)))?), host, path))
        }
    }
}

/// The same error; one about the server's certificate in a sentence.
fn of_tls(error: io::Error, url: &Url, trust: &Trust) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(rustls::Error::InvalidCertificate(why)) = inner else { return error };
    let place = format!("{}:{}", url.host, url.port);
    io::Error::other(match trust {
        Trust::Certificate(fingerprint) => format!(
            "what listens at {place} has another certificate than the one with the SHA-256 {fingerprint}, so nothing was \
             asked; take the fingerprint that its server prints, if it has a new one"
        ),
        Trust::Authorities => format!(
            "no authority that this host trusts has signed the certificate of {place} for that name ({why}), so nothing \
             was asked; name its authority in SSL_CERT_FILE (a keeper that makes its own certificate is known by --fingerprint)"
        ),
    })
}

fn config(trust: &Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(match trust {
        Trust::Authorities => {
            let mut roots = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            let (count, _) = roots.add_parsable_certificates(found.certs);
            if count == 0 {
                let why = "this host has no certificates of authorities; install ca-certificates, or name one \
                           in SSL_CERT_FILE";
                return Err(why.to_owned());
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        Trust::Certificate(fingerprint) => {
            let verifier = Arc::new(Pinned::new(*fingerprint, provider));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_what_is_none_is_refused() {
        let url = Url::parse("https://[::1]:8443/base?x=1").expect("a URL");
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 8443, "/base?x=1"));
        assert_eq!(url.to_string(), "https://[::1]:8443/base?x=1");
        assert_eq!(Url::parse("http://host").expect("a URL").port, 80);
        assert_eq!(Url::parse("https://host").expect("a URL").port, 443);
        let words =
            ["", "host", "ftp://host/", "https://", "https:///x", "https://u:p@host/", "https://h:99999/"];
        for wrong in words {
            let why = Url::parse(wrong).expect_err(wrong);
            assert!(why.contains("no URL"), "{why}");
        }
    }
}
