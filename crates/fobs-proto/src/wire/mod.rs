//! Headers, acks and frames as bytes (protocol 4, 6 and 10). Reading never panics and never allocates more
//! than the input's size allows.

mod ack;
mod ack_ratio;
mod frame;
mod header;
mod varint;

pub use ack::{ACK_LEN_MAX, ACK_LEN_SMALL, Ack, BITMAPS_MAX, BlockBitmap, HostReport, RANGES_MAX};
pub use ack_ratio::AckRatio;
pub use frame::{
    FRAME_DATA_MAX, FRAME_HEADER_LEN, FRAME_LEN_MAX, FRAME_OVERHEAD, Frame, FrameHeader, FrameKind,
    FrameReport,
};
pub use header::{
    AEAD_TAG_LEN, ATTEMPT_MAX, CHALLENGE_LEN, DATA_HEADER_LEN, DATA_OVERHEAD, DataHeader, Header,
    PLAIN_HEADER_LEN, REPLAY_WINDOW, decode_packet_number,
};

/// Why bytes from the network were not understood. Counted by reason; never fatal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// Shorter than what it claims to be.
    #[error("truncated")]
    Truncated,
    /// A type or flag that protocol 4 does not define.
    #[error("unknown type or flags")]
    Unknown,
    /// A number outside its bounds.
    #[error("value out of bounds")]
    OutOfBounds,
}
