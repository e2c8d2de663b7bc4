//! The options of `fobs sync` that are rsync's: its names and letters, most with a `--no-` form, in effect in
//! the order in which they are given. What they mean together is in `sync/options.rs`.

mod attributes;
mod choosing;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fobs::named::LinkOwners;
use fobs::options::sync::{RunAs, SyncOptions};
use fobs::{NameCharsets, Preserve, SymbolicLinks, Unkept};

pub use attributes::ATTRIBUTES;
pub use choosing::{CHOOSING, CONTINUING, DELETING, LEAVING, RUNNING};
#[cfg(test)]
pub use values::bandwidth;
pub use values::{RULES, VALUES, size};

use super::there::There;

/// What they say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncWords {
    /// What each says alone.
    pub choices: SyncOptions,
    pub recursion: Recursion,
    pub directories: Directories,
    pub checksum: bool,
    pub size_only: bool,
    pub ignore_times: bool,
    pub update: bool,
    pub ignore_existing: bool,
    pub delete: bool,
    pub delete_before: bool,
    pub delete_during: bool,
    pub delete_after: bool,
    pub delete_excluded: bool,
    pub max_delete: Option<u64>,
    pub backup: bool,
    pub suffix: Option<OsString>,
    pub chmod: Vec<String>,
    pub from0: bool,
    pub files_from: Option<PathBuf>,
    /// `-R`
    pub relative: Option<bool>,
    /// Whether a shell's words are made of far sources, where the line says so.
    pub old_args: Option<bool>,
    pub rules: Vec<(RuleOption, OsString)>,
    pub itemize: u8,
    pub stats: bool,
    /// Figures: plain, with commas, in units of 1000, of 1024.
    pub human: u8,
    pub out_format: Option<OsString>,
    pub log_file: Option<PathBuf>,
    pub log_format: Option<OsString>,
    pub list_only: bool,
    /// `--delay-updates`, `--partial-dir`: names that rsync leaves out for them.
    pub delay_updates: bool,
    pub partial_dir: Option<OsString>,
    /// `-T`
    pub temp_dir: Option<OsString>,
    /// `--iconv`
    pub charsets: Option<NameCharsets>,
    /// What the other side does alone.
    pub there: There,
    /// `--copy-as`
    pub copy_as: Option<RunAs>,
    /// `--insecure-links`
    pub link_owners: LinkOwners,
    /// `--drop-D`
    pub drops_devices: bool,
    /// `--stop-after`, `--stop-at`: when the run ends.
    pub stop_at: Option<SystemTime>,
    /// `--contimeout`
    pub connect_within: Option<Duration>,
    pub progress: bool,
    /// `--no-inc-recursive`
    pub whole_list: bool,
    /// `--outbuf=L`: lines are printed as they come.
    pub is_live: bool,
    /// `--force`
    pub force: bool,
    /// `-C`
    pub cvs_exclude: bool,
    /// `--track-renames`, where it was said or denied.
    pub track_renames: Option<bool>,
    /// `--rsync-path`: what stands before the program.
    pub before_program: String,
}

impl Default for SyncWords {
    /// Without an option, only files are taken, and nothing is kept of them.
    fn default() -> SyncWords {
        let preserve =
            Preserve { links: SymbolicLinks::LeftOut, unkept: Unkept::LeftOut, ..Preserve::default() };
        SyncWords {
            choices: SyncOptions { preserve, ..SyncOptions::default() },
            recursion: Recursion::Off,
            directories: Directories::Implied,
            checksum: false,
            size_only: false,
            ignore_times: false,
            update: false,
            ignore_existing: false,
            delete: false,
            delete_before: false,
            delete_during: false,
            delete_after: false,
            delete_excluded: false,
            max_delete: None,
            backup: false,
            suffix: None,
            chmod: Vec::new(),
            from0: false,
            files_from: None,
            relative: None,
            old_args: None,
            rules: Vec::new(),
            itemize: 0,
            stats: false,
            human: 1,
            out_format: None,
            log_file: None,
            log_format: None,
            list_only: false,
            delay_updates: false,
            partial_dir: None,
            temp_dir: None,
            charsets: None,
            there: There::default(),
            copy_as: None,
            link_owners: LinkOwners::Trusted,
            drops_devices: false,
            stop_at: None,
            connect_within: None,
            progress: false,
            whole_list: false,
            is_live: false,
            force: false,
            cvs_exclude: false,
            track_renames: None,
            before_program: String::new(),
        }
    }
}

/// Whether directories are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recursion {
    /// Not.
    #[default]
    Off,
    /// As `-a` implies it, which `--files-from` takes back.
    Implied,
    /// As `-r` says.
    On,
}

/// Whether directories are made that are not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directories {
    /// As the other options imply.
    #[default]
    Implied,
    /// `-d`
    On,
    /// `--no-dirs`
    Off,
}

/// The option that a filter rule came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleOption {
    Filter,
    Exclude,
    Include,
    ExcludeFrom,
    IncludeFrom,
}
