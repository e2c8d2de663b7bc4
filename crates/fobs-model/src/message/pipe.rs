//! Pipes between programs, as messages (protocol 2.18).

use super::wire;
use crate::bytes::SecretText;
use crate::message::Bytes;
use crate::text::printable;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bytes of a command at most: what a kernel takes as one argument (`MAX_ARG_STRLEN`), less what stands
/// before it.
pub const COMMAND_BYTES_MAX: usize = 100_000;
/// Bytes of one message of a command's standard error.
pub const ERRORS_BYTES_MAX: usize = 32 << 10;
/// Characters of a command in a log.
const SHOWN_MAX: usize = 200;

/// A client's request for a pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeOpen {
    /// What it asks to have at the other end.
    #[serde(flatten)]
    pub request: PipeRequest,
    /// How the pipe is to outlive its connection, if at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<PipeKeep>,
}

impl From<PipeRequest> for PipeOpen {
    fn from(request: PipeRequest) -> PipeOpen {
        PipeOpen { request, keep: None }
    }
}

/// How a pipe is to outlive its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeKeep {
    /// Bytes that an end keeps at most until the other one has confirmed them.
    pub window: u64,
    /// How long the server is to wait for the client to come back, milliseconds.
    pub wait_ms: u64,
}

/// A client's return to its pipe over a new connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeResume {
    /// The pipe.
    pub pipe: String,
    /// The number of this return: each is used once, and later ones are larger.
    pub turn: u32,
    /// What only the client of this pipe can know of this turn.
    pub proof: SecretText,
    /// Bytes of the other end that this one has.
    pub have: u64,
    /// Bytes of a command's standard error that it has.
    pub errors: u64,
}

/// What a client may return with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeTicket {
    /// The pipe.
    pub pipe: String,
    /// What the proofs of its returns are made of.
    pub secret: SecretText,
    /// Bytes that the server keeps at most until the client has confirmed them.
    pub window: u64,
}

/// What a client asks to have at the other end of its pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "with", rename_all = "snake_case")]
pub enum PipeRequest {
    /// A command for the shell of the user who logs in: over ssh only.
    Command {
        /// As the shell reads it.
        line: Bytes,
    },
    /// What has this name at the server: the command of the key's line, or a client that listens.
    Name {
        /// The name.
        name: String,
    },
    /// The client that asks for this name next.
    Listen {
        /// The name.
        name: String,
        /// How long to wait for that, milliseconds.
        wait_ms: u64,
    },
    /// What this client had there before its connection broke.
    Resume(PipeResume),
    /// Something of a newer version, which is refused.
    #[serde(other)]
    Unknown,
}

impl PipeRequest {
    /// A command for the shell of the user there.
    pub fn command(line: Vec<u8>) -> PipeRequest {
        PipeRequest::Command { line: Bytes(line) }
    }

    /// For a log.
    pub fn describe(&self) -> String {
        match self {
            PipeRequest::Command { line } => {
                format!("pipe to the command '{}'", printable(&String::from_utf8_lossy(&line.0), SHOWN_MAX))
            }
            PipeRequest::Name { name } => format!("pipe to '{}'", printable(name, SHOWN_MAX)),
            PipeRequest::Listen { name, .. } => {
                format!("pipe that listens as '{}'", printable(name, SHOWN_MAX))
            }
            PipeRequest::Resume(_) => "pipe that goes on over a new connection".to_owned(),
            PipeRequest::Unknown => "pipe of a kind that is not known here".to_owned(),
        }
    }
}

/// What happens at an end of a pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum PipeNews {
    /// Server: the other end is there.
    Joined {
        /// For a client that may come back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ticket: Option<PipeTicket>,
        /// Bytes of the client that its program was given before, if it came back.
        #[serde(default, skip_serializing_if = "wire::is_default")]
        have: u64,
    },
    /// Of a pipe that outlives its connection, several times a minute: what has arrived for good.
    Has {
        /// Bytes that the program at this end was given.
        bytes: u64,
        /// Client: bytes of the command's standard error that were passed on.
        #[serde(default, skip_serializing_if = "wire::is_default")]
        errors: u64,
    },
    /// Client of a pipe that outlives its connection, last: it has read how that ended.
    Read,
    /// Server: this came on the standard error of the command.
    Errors {
        /// At most [`ERRORS_BYTES_MAX`].
        bytes: Bytes,
    },
    /// What comes from the other side of this channel is read no more.
    Unread,
    /// Server: it is over.
    Ended(PipeEnd),
    /// Something of a newer version.
    #[serde(other)]
    Unknown,
}

/// How a pipe has ended at the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeEnd {
    /// The exit code of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// Bytes of the client that it was given.
    pub given: u64,
    /// Bytes that came from it.
    pub came: u64,
}

impl PipeEnd {
    /// The exit code as a shell and ssh tell it: 128 and the signal's number for a signal.
    pub fn exit_code(self) -> u8 {
        match (self.code, self.signal) {
            (_, Some(signal)) => 128_u8.saturating_add(signal & 0x7f),
            (Some(code), None) => code,
            (None, None) => 0,
        }
    }
}

/// Longest wait of a client that listens: a day.
pub const LISTEN_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_as_a_shell_tells_it() {
        let end = |code, signal| PipeEnd { code, signal, ..PipeEnd::default() }.exit_code();
        assert_eq!(end(Some(0), None), 0);
        assert_eq!(end(Some(255), None), 255);
        assert_eq!(end(None, Some(9)), 137);
        assert_eq!(end(None, Some(13)), 141);
        assert_eq!(end(None, Some(200)), 200, "a peer may say anything");
        assert_eq!(end(None, None), 0);
    }
}
