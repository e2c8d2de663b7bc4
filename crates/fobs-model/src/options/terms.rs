//! The terms on which a receiver stores what a peer pushes.

/// What becomes of a name that is taken when its file, link or device is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// What has it is replaced.
    #[default]
    Replace,
    /// What has it stays as it is, and the sender is told that its own is not stored.
    Refuse,
}

/// What the sender may learn of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sight {
    /// All that helps it.
    #[default]
    Whole,
    /// What it stored itself in this transfer.
    Own,
}

/// Whose times and permissions stored entries have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stamps {
    /// The sender's, as far as it asks for that.
    #[default]
    Senders,
    /// The receiver's: the time of storing, and permissions less its umask.
    Ours,
}

/// How a receiver stores what a peer pushes. By default as the user of this process would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// What becomes of a name that is taken.
    pub overwrite: Overwrite,
    /// What the sender may learn.
    pub sight: Sight,
    /// Whose times and permissions count.
    pub stamps: Stamps,
}
