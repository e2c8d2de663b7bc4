//! The object: index arithmetic and sets of packets. Knows no time, no wire, no machine.

mod bitmap;
mod geometry;
mod range_set;

pub use bitmap::Bitmap;
pub use geometry::{
    BLOCK_PACKETS, CHUNK_DATA_MAX, CHUNK_LEN_MAX, Geometry, PAYLOAD_MAX, PAYLOAD_MIN, RECORDS_MAX,
    TRAILER_LEN,
};
pub use range_set::RangeSet;
