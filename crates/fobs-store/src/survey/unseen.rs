//! A sync whose sender may not learn what stands at the destination: all that it lists is sent, but for what
//! an earlier run of the same transfer stored. No answer depends on anything else.

use super::choice::{Changes, Choice, Decision};
use super::itemize::Update;
use super::row::{Row, RowKind};
use super::target::Target;
use crate::journal::{Held, History};

impl Target {
    /// The answer to a row. `held` is what the journal says of a file, `past` what it says of all.
    pub(super) fn answer_unseen(&mut self, row: &Row, held: Held, past: Option<&mut History>) -> Choice {
        let sent = |decision, update| Choice { decision, changes: Changes::default().by(update) };
        match row.kind {
            RowKind::Directory | RowKind::DirectoryEnd | RowKind::PartEnd | RowKind::Failed => {
                Decision::Send.into()
            }
            RowKind::File => match held {
                Held::Complete if self.options.removes_sources() => self.stays(row).into(),
                Held::Complete => Decision::Done.into(),
                Held::Partial { len, stack } if len <= row.identity.size => {
                    sent(Decision::Resume { len, stack, check: false }, Update::Transfer)
                }
                _ => sent(Decision::Send, Update::Transfer),
            },
            RowKind::Missing => Decision::Skip.into(),
            _ if !self.keeps(row) => Decision::Skip.into(),
            _ if past.is_some_and(|past| past.has_stored(&row.path)) => self.stays(row).into(),
            RowKind::Hardlink { .. } => sent(Decision::Send, Update::Hardlink),
            RowKind::Symlink { .. } | RowKind::Special { .. } => sent(Decision::Send, Update::Local),
        }
    }
}
