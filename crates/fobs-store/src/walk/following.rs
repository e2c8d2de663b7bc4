//! Which symbolic links stand for what they lead to, and where that is.

use std::sync::Arc;

use crate::beneath::Base;
use crate::select::Selection;
use fobs_filter::path;
use fobs_model::options::Follow;

/// How the walk came to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// From one directory to the next.
    Plainly,
    /// A link stands for it, or for one above it.
    ThroughLinks,
}

/// Whether something that was named (`-R`, `--files-from`) lies below a path, or its contents are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AboveNames {
    Yes,
    No,
}

impl AboveNames {
    pub(super) fn of(selection: Option<&Selection>, path: &[u8]) -> AboveNames {
        let is_above = selection.is_some_and(|selection| selection.leads_to_names(path));
        if is_above { AboveNames::Yes } else { AboveNames::No }
    }
}

/// Which links are followed, and how what they lead to is reached: by its whole path, within the same bounds
/// as a source that is named.
#[derive(Clone)]
pub(crate) struct Following {
    pub(super) which: Follow,
    pub(super) base: Arc<Base>,
    /// The path of the source directory in the request.
    pub(super) top: Arc<[u8]>,
    /// Length of the prefix of a path in the transfer before the path below it.
    pub(super) prefix_len: usize,
}

impl Following {
    /// Below a source directory of this path and name.
    pub(super) fn below(which: Follow, base: &Arc<Base>, top: &[u8], name: &[u8]) -> Following {
        let prefix_len = if name.is_empty() { 0 } else { name.len() + 1 };
        Following { which, base: Arc::clone(base), top: Arc::from(top), prefix_len }
    }

    /// Whether links are followed wherever they are.
    pub(super) fn is_asked(&self) -> bool {
        self.which != Follow::None
    }

    /// The whole path of something in the transfer.
    pub(super) fn place(&self, path: &[u8]) -> Vec<u8> {
        path::join(&self.top, path.get(self.prefix_len..).unwrap_or_default())
    }
}
