//! Names that come from outside, as types: a value of one was checked. No file is opened.
//!
//! ```text
//!   component   one name in one directory: what a system call may take
//!   rel_path    a path within a transfer
//!   suffix      the end of a backup's name
//!   ours        the names of journals and unfinished files
//! ```

mod component;
pub mod ours;
mod rel_path;
mod suffix;

pub use component::{BadName, Component, ComponentBuf, NAME_LEN_MAX};
pub use rel_path::{PATH_LEN_MAX, RelPath};
pub use suffix::BackupSuffix;
