//! A part of a tree by names: what one of many transfers of that tree moves.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::preserve::Preserve;
use super::sync::{Compare, Delta, Enter, SyncOptions, SyncRules};
use crate::name::RelPath;

/// Names of the one source of a transfer, and what is kept of them. Nothing else is chosen: neither deletion
/// nor a place for backups can come with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PickedNames {
    /// The names; a directory comes without what is in it.
    pub names: Vec<RelPath>,
    /// What is kept beside content.
    #[serde(default)]
    pub preserve: Preserve,
    /// Files of equal size and time are compared by their content (`-c`).
    #[serde(default)]
    pub content: bool,
}

impl PickedNames {
    /// The sync that moves them: links as links, and what is there already stays.
    pub fn sync(self) -> Arc<SyncOptions> {
        let compare = if self.content { Compare::Content } else { Compare::Time };
        Arc::new(SyncOptions {
            rules: SyncRules { compare, ..SyncRules::default() },
            preserve: self.preserve,
            directories: Enter::Made,
            names: Some(self.names),
            delta: Delta::Never,
            ..SyncOptions::default()
        })
    }
}
