//! The direction of a transfer.

use serde::{Deserialize, Serialize};

/// Which side of a session sends the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferDirection {
    /// The client sends.
    Push,
    /// The server sends.
    Pull,
}
