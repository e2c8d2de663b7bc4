//! What is remembered of the path to a peer from one transfer to the next. Whoever keeps it, in a file or in memory, is no
//! business of this crate.

/// Most ceilings that are kept: more bands than `linear` has steps from nothing to three times the link.
pub const CEILINGS_MAX: usize = 64;

/// What controllers leave for their successors; each reads and writes its own part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathHistory {
    /// Datagram bytes per second at which `linear` ended.
    pub safe_rate: Option<u64>,
    /// Datagram bytes per second that the path was last found to carry.
    pub link_rate: Option<u64>,
    /// Attempts to go faster, at most [`CEILINGS_MAX`], ascending.
    pub ceilings: Vec<Ceiling>,
}

/// How attempts to send at a rate ended (`seeds/004` section 2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Datagram bytes per second.
    pub rate: u64,
    /// Times that it was tried.
    pub tries: u32,
    /// Times that too much was lost.
    pub failures: u32,
}
