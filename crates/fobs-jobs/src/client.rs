//! The other end of the API: blocking calls over its socket, or over the network with a token.

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::body::Bytes;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::runtime::Runtime;

use crate::api::{About, Clean, Cleaned, MadeToken, ProblemBody, Taken, WantedToken};
use crate::dial::{Call, DialError, Target, Trust, Url, exchange};
use crate::job::{JobId, Spec};
use crate::keeper::{Change, JobView};
use crate::schedule::Limits;
use crate::store::Line;
use crate::token::Token;

/// Largest answer, bytes: all jobs, with their words.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How long an answer may take beside what it is asked to wait: the keeper's disk may be slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a keeper has not done what it was asked.
#[derive(Debug, Error)]
pub enum ClientError {
    /// None answers there.
    #[error("no keeper of jobs answers: {0}")]
    NotThere(io::Error),
    /// It says no, in a sentence.
    #[error("{}", .0.detail)]
    Refused(ProblemBody),
    /// The connection broke, or the answer was none.
    #[error("the keeper of jobs has not answered: {0}")]
    Broken(String),
}

/// A keeper somewhere.
#[derive(Debug)]
pub struct Client {
    target: Target,
    token: Option<String>,
    runtime: Runtime,
}

impl Client {
    /// The keeper at this socket, whether there is one or not.
    ///
    /// # Errors
    /// Where the system gives no more descriptors.
    pub fn new(socket: &Path) -> io::Result<Client> {
        Client::of(Target::Socket(socket.to_owned()), None)
    }

    /// The keeper at this URL, whether there is one or not, with a token.
    ///
    /// # Errors
    /// Where the system gives no more descriptors.
    pub fn at(url: Url, trust: Trust, token: String) -> io::Result<Client> {
        Client::of(Target::Url(url, trust), Some(token))
    }

    /// Whether it is the keeper of this host.
    pub fn is_here(&self) -> bool {
        matches!(self.target, Target::Socket(_))
    }

    /// Its socket, where it is on this host.
    pub fn socket(&self) -> Option<&Path> {
        match &self.target {
            Target::Socket(path) => Some(path),
            Target::Url(..) => None,
        }
    }

    fn of(target: Target, token: Option<String>) -> io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { target, token, runtime })
    }

    /// Makes a token.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn create_token(&self, wanted: &WantedToken) -> Result<MadeToken, ClientError> {
        self.send(Method::POST, "/v1/tokens", wanted)
    }

    /// All tokens.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.get("/v1/tokens", Duration::ZERO)
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn revoke_token(&self, id: u64) -> Result<Token, ClientError> {
        self.call(Method::DELETE, &format!("/v1/tokens/{id}"), Bytes::new(), Duration::ZERO)
    }

    /// What it is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn about(&self) -> Result<About, ClientError> {
        self.get("/v1/about", Duration::ZERO)
    }

    /// Hands a job in.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn submit(&self, spec: &Spec) -> Result<Taken, ClientError> {
        self.send(Method::POST, "/v1/jobs", spec)
    }

    /// All jobs, by number.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn jobs(&self) -> Result<Vec<JobView>, ClientError> {
        self.get("/v1/jobs", Duration::ZERO)
    }

    /// The jobs that are not over, by number.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn open_jobs(&self) -> Result<Vec<JobView>, ClientError> {
        self.get("/v1/jobs?open=true", Duration::ZERO)
    }

    /// A job.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn job(&self, id: JobId) -> Result<JobView, ClientError> {
        self.get(&format!("/v1/jobs/{id}"), Duration::ZERO)
    }

    /// A job once it is over, or has had more runs than these; at the latest after this time, at most a
    /// minute.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn wait(&self, id: JobId, runs: u64, time: Duration) -> Result<JobView, ClientError> {
        self.get(&format!("/v1/jobs/{id}?wait_s={}&runs={runs}", time.as_secs()), time)
    }

    /// What a job has said.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn log(&self, id: JobId) -> Result<Vec<Line>, ClientError> {
        self.get(&format!("/v1/jobs/{id}/log"), Duration::ZERO)
    }

    /// Changes a job.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn change(&self, id: JobId, change: Change) -> Result<JobView, ClientError> {
        let verb = match change {
            Change::Cancel => "cancel",
            Change::Pause => "pause",
            Change::Resume => "resume",
            Change::Retry => "retry",
        };
        self.send(Method::POST, &format!("/v1/jobs/{id}/{verb}"), &())
    }

    /// The limits.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn limits(&self) -> Result<Limits, ClientError> {
        self.get("/v1/limits", Duration::ZERO)
    }

    /// Sets the limits.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn set_limits(&self, limits: Limits) -> Result<Limits, ClientError> {
        self.send(Method::PUT, "/v1/limits", &limits)
    }

    /// Forgets jobs that were over this long ago; how many there were.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn clean(&self, age: Duration) -> Result<usize, ClientError> {
        let cleaned: Cleaned =
            self.send(Method::POST, "/v1/clean", &Clean { older_than_s: age.as_secs() })?;
        Ok(cleaned.forgotten)
    }

    fn get<T: DeserializeOwned>(&self, path: &str, time: Duration) -> Result<T, ClientError> {
        self.call(Method::GET, path, Bytes::new(), time)
    }

    fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(broken)?;
        self.call(method, path, body.into(), Duration::ZERO)
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        time: Duration,
    ) -> Result<T, ClientError> {
        let bearer = self.token.as_ref().map(|token| ("authorization", format!("Bearer {token}")));
        let headers = bearer.into_iter().collect();
        let call = Call { method, path: path.to_owned(), headers, body, answer_bytes_max: ANSWER_BYTES_MAX };
        let exchange = exchange(&self.target, call);
        let answer = self.runtime.block_on(async { tokio::time::timeout(time + PATIENCE, exchange).await });
        let answer = answer.map_err(|_| broken("it takes longer than a minute"))?;
        let (status, bytes) = answer.map_err(|error| match error {
            DialError::NotThere(error) => ClientError::NotThere(error),
            DialError::Broken(why) => ClientError::Broken(why),
        })?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(broken);
        }
        match serde_json::from_slice(&bytes) {
            Ok(problem) => Err(ClientError::Refused(problem)),
            Err(_) => Err(broken(status)),
        }
    }
}

fn broken(why: impl ToString) -> ClientError {
    ClientError::Broken(why.to_string())
}
