//! Rights: what a key may do. No I/O; `permit` judges requests by them.
//!
//! ```text
//!   action       what a request can do, in one enumeration
//!   access       the rights, and the table from them to actions
//!   privileges   what files may get from a client
//!   pipe         the command of a key's line
//!   key          the rights of one key: access, privileges, subtrees, pipes
//! ```

mod access;
mod action;
mod key;
mod pipe;
mod privileges;

pub use access::Access;
pub use action::Action;
pub use key::{PipeNames, Rights, normalised};
pub use pipe::{NOT_PLAIN, PipeCommand, is_pipe_name};
pub use privileges::Privileges;
