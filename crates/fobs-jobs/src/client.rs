//! The other end of the API: blocking calls over its socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::api::{About, Clean, Cleaned, ProblemBody, Taken};
use crate::job::{JobId, Spec};
use crate::keeper::{Change, JobView};
use crate::schedule::Limits;
use crate::store::Line;

/// Largest answer, bytes: all jobs, with their words.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// How long an answer may take beside what it is asked to wait: the keeper's disk may be slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a keeper has not done what it was asked.
#[derive(Debug, Error)]
pub enum ClientError {
    /// None answers at the socket.
    #[error("no keeper of jobs answers: {0}")]
    NotThere(io::Error),
    /// It says no, in a sentence.
    #[error("{}", .0.detail)]
    Refused(ProblemBody),
    /// The connection broke, or the answer was none.
    #[error("the keeper of jobs has not answered: {0}")]
    Broken(String),
}

/// A keeper at a socket.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: Runtime,
}

impl Client {
    /// The keeper at this socket, whether there is one or not.
    ///
    /// # Errors
    /// Where the system gives no more descriptors.
    pub fn new(socket: &Path) -> io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { socket: socket.to_owned(), runtime })
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
        let exchange = exchange(&self.socket, method, path, body);
        let answer = self.runtime.block_on(async { tokio::time::timeout(time + PATIENCE, exchange).await });
        let (status, bytes) = answer.map_err(|_| broken("it takes longer than a minute"))??;
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

async fn exchange(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), ClientError> {
    let stream = UnixStream::connect(socket).await.map_err(ClientError::NotThere)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Its failure is that of the request.
    let driver = tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "jobs");
    let request = request.header("content-type", "application/json").body(Full::new(body)).map_err(broken)?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let bytes = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(broken)?;
    driver.abort();
    Ok((status, bytes.to_bytes()))
}
