//! Whose a job is, where one keeper serves all users of a host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A user of this host, as the kernel names the peer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group, of a user without an account.
    pub gid: u32,
}

impl Owner {
    /// Whether it is the operator, who sees and changes all jobs.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }
}
