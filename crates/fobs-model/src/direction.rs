//! The direction of a transfer.

/// Which side of a session sends the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferDirection {
    /// The client sends.
    Push,
    /// The server sends.
    Pull,
}
