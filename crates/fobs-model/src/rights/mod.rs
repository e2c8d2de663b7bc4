//! Rights: what a key may do. No I/O; `permit` judges requests by them.
//!
//! ```text
//!   action       what a request can do, in one enumeration
//!   access       the rights, and the table from them to actions
//!   privileges   what files may get from a client
//!   key          the rights of one key: access, privileges, subtrees
//! ```

mod access;
mod action;
mod key;
mod privileges;

pub use access::Access;
pub use action::Action;
pub use key::{Rights, normalised};
pub use privileges::Privileges;
