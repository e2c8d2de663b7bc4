//! The end of a complete transfer.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::at;
use crate::attributes::timestamps;
use crate::journal::Journal;
use crate::record::Meta;

/// A complete transfer whose sender may not know that yet. Dropped, the journal stays, so that a sender that
/// missed the completion signal finds everything there.
#[derive(Default)]
pub struct Closing {
    journal: Option<Journal>,
    /// The top directory, and the time that the end of the journal takes from it.
    top: Option<(Arc<OwnedFd>, Meta)>,
}

impl Closing {
    pub(super) fn new(journal: Option<Journal>, top: Option<(Arc<OwnedFd>, Meta)>) -> Closing {
        Closing { journal, top }
    }

    /// The sender knows, or this side has what it came for: nothing stays.
    pub fn acknowledged(self) {
        if let Some(journal) = self.journal {
            journal.finish();
        }
        if let Some((directory, meta)) = self.top {
            // It was set before; that it differs now does not matter enough to fail.
            let _ = at::set_own_times(directory, &timestamps(meta));
        }
    }
}
