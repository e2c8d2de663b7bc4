//! What follows from the terms of storing: what is known of earlier runs, and what the sender is told; and
//! the sentences of what could not be set.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use fobs_model::name::ours::Suffix;

impl Tree {
    /// Whether an earlier run of the same transfer stored what has this path.
    pub(crate) fn has_stored(&mut self, path: &[u8]) -> bool {
        let view = self.view();
        self.journal().and_then(|journal| journal.history(view)).is_some_and(|mut past| past.has_stored(path))
    }
}

impl Tree {
    /// The suffix of temporary names.
    pub(crate) fn suffix(&self) -> Suffix {
        self.names.ours()
    }

    /// Where to note how calls at the destination fail.
    pub(crate) fn health(&self) -> Health {
        self.health.clone()
    }

    /// A call for a path failed.
    pub(crate) fn trouble(&self, what: &str, path: &[u8], errno: Errno) -> Trouble {
        self.health.note(errno);
        Trouble::Path(sentence(what, path, errno))
    }

    /// Likewise, in words that tell no more than the sender may know.
    pub(super) fn veiled(&self, what: &str, path: &[u8], errno: Errno) -> String {
        self.health.note(errno);
        veiled(self.terms, what, path, errno)
    }

    /// Something of a path that is complete could not be set.
    pub(super) fn not_set(&self, unset: &Unset, path: &[u8]) -> Trouble {
        let what = format!("set {} of (its content is complete)", unset.what);
        self.trouble(&what, path, unset.errno)
    }
}

/// Why a path could not be stored. Where the sender may not look, nothing is said of what is in the way.
fn veiled(terms: Terms, what: &str, path: &[u8], errno: Errno) -> String {
    let shown = show(path);
    match (terms.overwrite, terms.sight, errno) {
        (Overwrite::Refuse, _, Errno::EXIST | Errno::ISDIR | Errno::NOTEMPTY) => format!(
            "cannot store '{shown}': its name was taken before, and this key replaces nothing; give it a new name"
        ),
        (
            _,
            Sight::Own,
            Errno::EXIST
            | Errno::ISDIR
            | Errno::NOTEMPTY
            | Errno::NOTDIR
            | Errno::NOENT
            | Errno::LOOP
            | Errno::XDEV,
        ) => format!(
            "cannot store '{shown}': something else has its name or that of its directory, which is not for this \
             key to know; give it a new name, or ask whoever runs the server"
        ),
        _ => sentence(what, path, errno),
    }
}

/// With the time of something written now.
pub(super) fn written_now(meta: Meta) -> Meta {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mtime_s = i64::try_from(since_1970.as_secs()).unwrap_or(0);
    Meta { mtime_s, mtime_ns: since_1970.subsec_nanos(), ..meta }
}
