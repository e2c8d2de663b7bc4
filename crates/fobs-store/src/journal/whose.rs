//! Whether a journal that stands at the destination is for this transfer.

use super::book::Loaded;
use super::format::{ClientId, HEADER_LEN, Salt, decode_holder};
use super::store::Store;
use super::{JournalSpec, Partial};
use fobs_model::options::{Overwrite, Sight};

/// Whose journal it is.
pub(super) enum Whose {
    /// This transfer's, which goes on from it.
    Ours(Loaded),
    /// Another one's, which this one takes the place of.
    Others(Loaded),
    /// Another client's that may still go on from it: not for this one to remove, nor to know.
    NotForUs,
}

/// A client that may not look is told nothing of what another one stored, not even of the same transfer.
pub(super) fn whose(spec: &JournalSpec<'_>, key: &[u8; 16], store: &dyn Store, loaded: Loaded) -> Whose {
    let is_foreign = || last_client(store, &loaded.origin.salt) != spec.client;
    if spec.keep == Partial::Untouched {
        return Whose::Ours(loaded);
    }
    match (spec.terms.sight, spec.terms.overwrite) {
        (Sight::Own, Overwrite::Refuse) if is_foreign() => Whose::NotForUs,
        (Sight::Own, Overwrite::Replace) if is_foreign() => Whose::Others(loaded),
        _ if loaded.origin.key == *key && spec.keep == Partial::Keep => Whose::Ours(loaded),
        _ => Whose::Others(loaded),
    }
}

/// Who held it last.
fn last_client(store: &dyn Store, salt: &Salt) -> Option<ClientId> {
    let mut header = [0; HEADER_LEN];
    let filled = store.read_at(&mut header, 0).unwrap_or(0);
    decode_holder(salt, &header[..filled]).and_then(|holder| holder.client)
}
