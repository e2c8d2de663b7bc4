//! Data of a file, written in its turn.

use super::*;

impl Sink {
    /// Data of the current file, written now.
    pub(super) fn extent(
        &mut self,
        (offset, data, tail): (u64, &[u8], Tail),
        origins: Option<&Origins<'_>>,
        values: &mut impl Iterator<Item = ChainingValue>,
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        let Some(file) = &mut self.file else { return Err(protocol("data comes without a file")) };
        if offset != file.tree.len() {
            return Err(protocol("a file's data comes out of order"));
        }
        file.tree.extend(data.len() as u64, tail, values).ok_or_else(mixed_up)?;
        if let Some(offers) = &self.offers {
            offers.stored(&file.path, file.tree.len());
        }
        if let Some(moving) = &mut file.moving
            && origins.is_some_and(|origins| origins.are_of(moving.row(), offset, data.len()))
        {
            moving.goes_on(data.len());
            return Ok(());
        }
        let stays = match &self.target {
            Target::Tree(tree) => moving::stays(file, tree),
            _ => Ok(()),
        };
        let written = match (&file.storing, &mut self.target) {
            _ if stays.is_err() => stays,
            (Storing::File(placing), Target::Tree(tree)) => {
                let written = match origins {
                    Some(origins) => origins.write(&placing.file, data, offset),
                    None => placing.file.write(data, offset),
                };
                written.map_err(|errno| tree.trouble("write", &file.path, errno))
            }
            (Storing::Stream, Target::Stream(stream)) => {
                stream.writer.write_all(data).map_err(|error| stream_failed(&error).into())
            }
            _ => Ok(()),
        };
        if settle(written, &file.path, events)?.is_none() {
            let failed = std::mem::replace(&mut file.storing, Storing::Discarded);
            self.target.discard(failed);
        }
        Ok(())
    }
}
