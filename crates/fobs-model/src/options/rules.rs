//! What `fobs sync` does with an entry, as data: the survey of `fobs-store` decides by it.

use serde::{Deserialize, Serialize};

/// The rules of a sync. They travel in the request; a member that is missing there is off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncRules {
    /// What makes two files the same.
    pub compare: Compare,
    /// Seconds by which times may differ and count as equal (`--modify-window`).
    pub modify_window: u32,
    /// What is done to files that have their name already.
    pub present: Present,
    /// What is done to entries that do not exist at the destination.
    pub absent: Absent,
    /// Modification times of directories are left (`-O`).
    pub omit_directory_times: bool,
    /// Modification times of symbolic links are left (`-J`).
    pub omit_link_times: bool,
    /// Directories in the way of something else are removed with all that is in them (`--delete`).
    pub makes_way: bool,
}

/// What makes two files of equal size the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Equal modification times.
    #[default]
    Time,
    /// Their size (`--size-only`).
    Size,
    /// Equal content (`-c`).
    Content,
    /// Nothing: all files are sent (`-I`).
    Nothing,
}

/// What is done to files that have their name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Present {
    /// They are brought up to date.
    #[default]
    Updated,
    /// Unless they are newer than the source's (`-u`).
    UpdatedUnlessNewer,
    /// They are left alone, as is everything but a directory (`--ignore-existing`).
    Left,
}

/// What is done to entries that do not exist at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absent {
    /// They are made.
    #[default]
    Made,
    /// They are left out, directories with all that is in them (`--existing`).
    LeftOut,
}
