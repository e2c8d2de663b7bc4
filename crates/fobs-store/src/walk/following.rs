//! Which symbolic links stand for what they lead to, and where that is.

use std::sync::Arc;

use crate::beneath::Base;
use fobs_filter::path;
use fobs_model::options::Follow;

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
    /// Below a source directory of this path and name; none where no link is followed.
    pub(super) fn below(which: Follow, base: &Arc<Base>, top: &[u8], name: &[u8]) -> Option<Following> {
        let prefix_len = if name.is_empty() { 0 } else { name.len() + 1 };
        let all = || Following { which, base: Arc::clone(base), top: Arc::from(top), prefix_len };
        (which != Follow::None).then(all)
    }

    /// The whole path of something in the transfer.
    pub(super) fn place(&self, path: &[u8]) -> Vec<u8> {
        path::join(&self.top, path.get(self.prefix_len..).unwrap_or_default())
    }
}
