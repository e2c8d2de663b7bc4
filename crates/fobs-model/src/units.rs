//! Units and bounds of the core that storage, channels and explanations share with it.

pub use fobs_proto::object::{CHUNK_DATA_MAX, CHUNK_LEN_MAX, RECORDS_MAX, TRAILER_LEN};
pub use fobs_proto::receiver::ACK_DELAY_MAX;
pub use fobs_proto::session::{ABSENT_AFTER, STREAMS_HELD, STREAMS_QUEUED, Wait, WaitTimes};
pub use fobs_proto::wire::REPLAY_WINDOW;
