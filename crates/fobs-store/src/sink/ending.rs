//! The end of a file: it gets its name, and the journal learns of it.

use super::moving::moves;
use super::*;

impl Sink {
    /// A file is complete.
    pub(super) fn end(&mut self, mut file: CurrentFile, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        let moved = match &self.target {
            Target::Tree(tree) if file.moving.is_some() => moves(&mut file, tree),
            _ => Ok(false),
        };
        let CurrentFile { path, meta, attributes, fingerprint, tree, mut storing, .. } = file;
        self.has_ended(&path);
        let (bytes, root) = (tree.len(), tree.root());
        self.root.file(&path, &root);
        let stored = match (&mut storing, &mut self.target) {
            _ if moved.is_err() || matches!(moved, Ok(true)) => moved.map(|_| ()),
            (Storing::File(placing), Target::Tree(tree)) => {
                let synced =
                    if tree.syncs() { synced(events, || tree.sync_file(placing, &path)) } else { Ok(()) };
                synced.and_then(|()| tree.commit(placing, &path, bytes, meta, attributes.as_ref()))
            }
            (Storing::Stream, Target::Stream(stream)) => {
                stream.writer.flush().map_err(|error| stream_failed(&error).into())
            }
            _ => Err(Trouble::Skipped),
        };
        if settle(stored, &path, events)?.is_none() {
            self.target.discard(storing);
            self.forget(&path);
            return Ok(());
        }
        if let (Storing::File(placing), Target::Tree(tree), Some(source)) =
            (&storing, &mut self.target, fingerprint)
            && let Some(journal) = tree.journal()
        {
            journal.completed(&path, source, placing.file.file(), placing.file.directory());
        }
        self.stored(&path);
        self.files += 1;
        self.bytes += bytes;
        events(SinkEvent::FileDone(FileDone { path, bytes, root }));
        Ok(())
    }
}
