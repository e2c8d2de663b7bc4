//! Whether the device still keeps what it is given.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use rustix::fs::{StatVfsMountFlags, fstatvfs};
use rustix::io::Errno;

use super::book::Book;

/// Takes note of how calls at the destination fail, wherever they are made. A device that fails may have lost
/// what it was not asked to keep: then that counts no more.
#[derive(Clone, Default)]
pub(crate) struct Health {
    book: Weak<Book>,
    top: Option<Arc<OwnedFd>>,
}

impl Health {
    pub(super) fn new(book: &Arc<Book>, top: &Arc<OwnedFd>) -> Health {
        Health { book: Arc::downgrade(book), top: Some(Arc::clone(top)) }
    }

    /// A call failed so.
    pub(crate) fn note(&self, errno: Errno) {
        if self.is_grave(errno)
            && let Some(book) = self.book.upgrade()
        {
            book.demote();
        }
    }

    fn is_grave(&self, errno: Errno) -> bool {
        match errno {
            Errno::IO | Errno::STALE => true,
            // Another file system that is read-only says nothing of this one; what is on it and not synced
            // does not count anyway.
            Errno::ROFS => self.top.as_ref().is_none_or(|top| {
                fstatvfs(top).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
            }),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Health").finish_non_exhaustive()
    }
}
