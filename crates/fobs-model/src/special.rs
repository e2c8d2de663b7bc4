//! What is neither file, directory nor symbolic link.

use serde::{Deserialize, Serialize};

/// Something that is neither file, directory nor symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

impl SpecialKind {
    /// Whether it has a number.
    pub fn is_device(self) -> bool {
        matches!(self, SpecialKind::CharacterDevice | SpecialKind::BlockDevice)
    }
}
