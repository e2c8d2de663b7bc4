//! Rights: what a request can do, which right allows it, and the one place that asks. No I/O.
//!
//! ```text
//!   action   what a request can do, in one enumeration
//!   access   the rights, and the table from them to actions
//!   key      the rights of one key: access, privileges, subtrees
//!   needs    from each member of each request to actions
//!   permit   what a session's client may do; judges, and says on which terms a push is stored
//! ```

mod access;
mod action;
mod key;
mod needs;
mod permit;

pub use access::Access;
pub use action::Action;
pub use key::Rights;
pub use key::normalised;
pub use needs::Needs;
pub use permit::Permit;
