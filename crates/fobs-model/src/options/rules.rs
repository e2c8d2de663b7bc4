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
    /// Times are equal to the nanosecond (`--modify-window=-1`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact_times: bool,
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
    /// Files with more bytes are left out (`--max-size`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_max: Option<u64>,
    /// Files with fewer bytes are left out (`--min-size`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_min: Option<u64>,
    /// Files that exist and are not shorter than their source are left (`--append`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub appends: bool,
    /// Deletion takes place although the sources could not be read whole (`--ignore-errors`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub despite_errors: bool,
    /// Links that lead out of the tree are left out (`--safe-links`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub safe_links: bool,
    /// A file that is replaced stays the same one, with its further names (`--inplace`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
    /// A device of the destination is written as a file (`--write-devices`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub writes_devices: bool,
    /// A file that is there becomes executable as the source is, where modes are not kept (`-E`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub executability: bool,
    /// Directories above a name that are not named themselves are left as they are, and made as any other
    /// (`--no-implied-dirs`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leaves_implied: bool,
    /// A link of the destination to a directory stands for it, where the source has a directory (`-K`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeps_dirlinks: bool,
}

/// The feature of a program that knows the rules of 0.3 (protocol 7.7).
pub const SYNC2: &str = "sync2";

impl SyncRules {
    /// The features that a receiver must have for these, beyond that of a sync, each with what needs it.
    pub fn features(&self) -> Vec<(&'static str, &'static str)> {
        let SyncRules {
            compare: _,
            modify_window: _,
            exact_times,
            present: _,
            absent: _,
            omit_directory_times: _,
            omit_link_times: _,
            makes_way: _,
            size_max,
            size_min,
            appends,
            despite_errors,
            safe_links,
            in_place,
            writes_devices,
            executability,
            leaves_implied,
            keeps_dirlinks,
        } = self;
        let needs = [
            (size_max.is_some(), (SYNC2, "--max-size")),
            (size_min.is_some(), (SYNC2, "--min-size")),
            (*appends, (SYNC2, "--append")),
            (*exact_times, (SYNC2, "--modify-window below 0")),
            (*despite_errors, (SYNC2, "--ignore-errors")),
            (*safe_links, (SYNC2, "--safe-links")),
            (*in_place, (SYNC2, "--inplace")),
            (*writes_devices, (SYNC2, "--write-devices")),
            (*executability, (SYNC2, "--executability")),
            (*keeps_dirlinks, (SYNC2, "--keep-dirlinks")),
            (*leaves_implied, (SYNC2, "--no-implied-dirs")),
        ];
        needs.into_iter().filter(|(is_so, _)| *is_so).map(|(_, feature)| feature).collect()
    }

    /// Whether a file of this size is taken.
    pub fn takes(&self, size: u64) -> bool {
        self.size_max.is_none_or(|most| size <= most) && self.size_min.is_none_or(|least| size >= least)
    }
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
