//! What the journal learns of a transfer, after each chunk and at an early end, and what it knew before.

use super::*;
use crate::journal::{NotKept, PartialFile};

impl Sink {
    /// Records what is stored.
    pub(super) fn checkpoint(&mut self, events: &mut dyn FnMut(SinkEvent)) {
        let Target::Tree(tree) = &mut self.target else { return };
        let Some(journal) = tree.journal() else { return };
        let partial = self.file.as_ref().and_then(CurrentFile::partial);
        for NotKept { path, errno, is_complete } in journal.checkpoint(partial) {
            let message = sentence("have the device keep", &path, errno);
            if let Some(file) = &mut self.file
                && file.path == path
                && !is_complete
            {
                let failed = std::mem::replace(&mut file.storing, Storing::Discarded);
                self.target.discard(failed);
            }
            events(SinkEvent::FileFailed(FileError { path, message }));
        }
    }

    /// Finds the first `from` bytes of a file, which the sender does not send.
    pub(super) fn resume(
        &mut self,
        cleared: Clearance<'_>,
        size: u64,
        from: u64,
    ) -> Result<(FileTree, Attempt<Storing>)> {
        let path = cleared.path();
        let unknown = || protocol("a file goes on of which nothing was kept");
        let identity = self.identity.ok_or_else(unknown)?;
        let source = Identity { size, ..identity };
        let Target::Tree(tree) = &mut self.target else { return Err(unknown()) };
        let adoption = self.adoptions.take(path).filter(|it| it.len == from && it.source == source);
        let (stack, placing) = match adoption {
            Some(adoption) => {
                let placing = tree.resume(cleared, size, |held| adoption.is_in(held));
                (adoption.stack, placing)
            }
            None => {
                let journal = tree.journal().ok_or_else(unknown)?;
                let kept = journal.take_partial(&fingerprint(path, &source), from).ok_or_else(unknown)?;
                let placing = tree.resume(cleared, size, |held| kept.is_in(held));
                (kept.stack, placing)
            }
        };
        let file_tree = FileTree::resume(from, stack).ok_or_else(unknown)?;
        Ok((file_tree, placing.map(Storing::File)))
    }

    pub(super) fn end_early(&mut self) -> Option<Suspended> {
        self.over = true;
        self.checkpoint(&mut |_| {});
        let Target::Tree(tree) = &mut self.target else { return None };
        let keeps = tree.journal().is_some_and(|journal| journal.records());
        if let Some(file) = self.file.take() {
            let is_kept = keeps && file.partial().is_some();
            let (len, is_ahead) = (file.written().unwrap_or(0), !file.begun.is_empty());
            match (file.storing, &mut self.target) {
                (Storing::File(placing), Target::Tree(tree))
                    if is_kept || tree.keeps_partials() && len > 0 =>
                {
                    if is_ahead {
                        // Behind a gap is nothing that anybody goes on with; a later run cuts it off, too.
                        let _ = placing.file.cut_back(len);
                    }
                    tree.keep(placing);
                }
                (storing, target) => target.discard(storing),
            }
        }
        let Target::Tree(tree) = &mut self.target else { return None };
        let top = tree.end_of_top();
        let left = tree.take_journal().and_then(Journal::suspend);
        Closing::new(None, top).acknowledged();
        left
    }
}

impl CurrentFile {
    /// As the journal records it; `None` while there is nothing to record.
    pub(super) fn partial(&self) -> Option<PartialFile<'_>> {
        let Storing::File(placing) = &self.storing else { return None };
        // What is not written yet is not there to go on with.
        if !placing.is_found_again || self.moving.is_some() {
            return None;
        }
        let (len, stack) = self.stored()?;
        Some(PartialFile {
            path: &self.path,
            place: &placing.place,
            fingerprint: self.fingerprint?,
            file: placing.file.file(),
            directory: placing.file.directory(),
            len,
            stack,
        })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.over {
            self.end_early();
        }
    }
}
