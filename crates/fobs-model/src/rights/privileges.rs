//! What files may get from a client.

/// What a receiving process may give files that could hurt its host: owners, groups, set-id bits, devices,
/// and extended attributes beside `user.` ones and ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Privileges {
    /// What its user may give.
    #[default]
    OfTheUser,
    /// None of it, whatever its user may: it is left out.
    Withheld,
}
