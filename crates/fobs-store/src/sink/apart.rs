//! Chunks that are nothing but a part of a large file: other threads write them, several at a time, while
//! their order is that of their results.

use std::ops::Range;

use super::*;
use crate::temporary::Pen;
use rustix::io::Errno;

/// A chunk that may be written on any thread.
pub struct Apart {
    pen: Pen,
    offset: u64,
    /// Where the file's data is in the chunk's body.
    data: Range<usize>,
    verified: Verified,
}

/// What came of writing it.
#[must_use = "the sink is to learn of it"]
pub struct WrittenApart(std::result::Result<(), Errno>);

/// How the next chunk is stored.
pub enum Begun {
    /// By [`Apart::write`], on any thread.
    Apart(Apart),
    /// By [`Sink::apply`], once all that was begun is settled.
    InTurn(Verified),
}

/// A file before a chunk that is being written: what of it is stored if that fails.
pub(super) struct Before {
    len: u64,
    stack: Option<Vec<ChainingValue>>,
}

impl Apart {
    /// Writes it; `chunk` and `scratch` are those that it was begun with.
    pub fn write(&self, chunk: &[u8], scratch: &[u8]) -> WrittenApart {
        let body = self.verified.body(chunk, scratch);
        let data = body.and_then(|(data, _)| data.get(self.data.clone()));
        WrittenApart(data.ok_or(Errno::INVAL).and_then(|data| self.pen.write(data, self.offset)))
    }
}

impl Sink {
    /// Begins to store the next chunk in order. One that any thread may write counts as stored once
    /// [`settle`](Self::settle) has its result, in the order of the chunks.
    ///
    /// # Errors
    /// `Internal` where `verified` is another chunk's.
    pub fn begin_next(&mut self, chunk: &[u8], verified: Verified, scratch: &[u8]) -> Result<Begun> {
        let Some((data, records)) = verified.body(chunk, scratch) else { return Err(mixed_up()) };
        let Some((offset, len)) = one_extent(data, records) else { return Ok(Begun::InTurn(verified)) };
        let Some(file) = self.file.as_mut().filter(|_| self.attributes.is_none()) else {
            return Ok(Begun::InTurn(verified));
        };
        let end = offset.saturating_add(len as u64);
        // The file gets its full size with what is written last: after a power cut it would look complete.
        let is_within = offset == file.tree.len() && end < file.size;
        let Storing::File(placing) = &file.storing else { return Ok(Begun::InTurn(verified)) };
        if !is_within || file.moving.is_some() || !verified.copied.is_empty() {
            return Ok(Begun::InTurn(verified));
        }
        let Some(pen) = placing.file.pen(len) else { return Ok(Begun::InTurn(verified)) };
        placing.file.grow_towards(end, file.size);
        file.begun.push_back(Before { len: offset, stack: file.tree.stack() });
        let mut values = verified.values.iter().copied();
        file.tree.extend(len as u64, Tail::Continues, &mut values).ok_or_else(mixed_up)?;
        if values.next().is_some() {
            return Err(mixed_up());
        }
        Ok(Begun::Apart(Apart { pen, offset, data: 0..len, verified }))
    }

    /// The oldest chunk that was begun and is not settled has been written, or not.
    ///
    /// # Errors
    /// `Internal` if none was begun. A failure of the file is an event.
    pub fn settle(&mut self, written: WrittenApart, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        self.noting(events, |sink, events| {
            let Some(file) = &mut sink.file else { return Err(mixed_up()) };
            file.begun.pop_front().ok_or_else(mixed_up)?;
            if let (Some(offers), Some(len)) = (&sink.offers, file.written()) {
                offers.stored(&file.path, len);
            }
            if let (Err(errno), Storing::File(_), Target::Tree(tree)) =
                (written.0, &file.storing, &sink.target)
            {
                settle(Err::<(), _>(tree.trouble("write", &file.path, errno)), &file.path, events)?;
                let failed = std::mem::replace(&mut file.storing, Storing::Discarded);
                sink.target.discard(failed);
            }
            sink.checkpoint(events);
            Ok(())
        })
    }

    /// Whether something was begun that is not settled.
    pub(super) fn has_begun(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.begun.is_empty())
    }

    /// Runs something with events that name what they are about as the user does, and notes what is not
    /// stored.
    pub(super) fn noting<T>(
        &mut self,
        events: &mut dyn FnMut(SinkEvent),
        act: impl FnOnce(&mut Sink, &mut dyn FnMut(SinkEvent)) -> Result<T>,
    ) -> Result<T> {
        let naming = self.naming.clone();
        let unstored = Cell::new(self.unstored);
        let done = act(self, &mut |event: SinkEvent| {
            unstored.set(unstored.get().max(event.unstored()));
            events(naming.named(event));
        });
        self.unstored = unstored.get();
        done
    }
}

impl CurrentFile {
    /// How much of it is stored without a gap, bytes; none if a write has failed.
    pub(super) fn written(&self) -> Option<u64> {
        let len = self.begun.front().map_or(self.tree.len(), |before| before.len);
        matches!(self.storing, Storing::File(_)).then_some(len)
    }

    /// Likewise, with the values that stand for it.
    pub(super) fn stored(&self) -> Option<(u64, Vec<ChainingValue>)> {
        match self.begun.front() {
            Some(before) => Some((before.len, before.stack.clone()?)),
            None => Some((self.tree.len(), self.tree.stack()?)),
        }
    }
}

/// Place and length of the one extent that a body is, if it is nothing else.
fn one_extent(data: &[u8], records: &[u8]) -> Option<(u64, usize)> {
    let mut items = Items::new(data, records);
    match (items.next(), items.next()) {
        (Some(Ok(Item::Extent { offset, data, tail: Tail::Continues })), None) => Some((offset, data.len())),
        _ => None,
    }
}
