//! `--fake-super`: links, devices, fifos and sockets as files that stand for them.

use super::*;

/// Types as `stat` has them.
const SYMLINK: u32 = 0o120_000;

impl Tree {
    /// Stores a link as a file with its target.
    pub(super) fn noted_link(
        &mut self,
        path: &[u8],
        target: &[u8],
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        let meta = Meta { mode: 0o777, ..meta };
        self.noted(path, target, (SYMLINK, Device::default()), meta, attributes)
    }

    /// Stores a device, fifo or socket as an empty file.
    pub(super) fn noted_special(
        &mut self,
        path: &[u8],
        (kind, device): (SpecialKind, Device),
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        self.noted(path, b"", (type_bits(kind), device), meta, attributes)
    }

    fn noted(
        &mut self,
        path: &[u8],
        content: &[u8],
        stands_for: (u32, Device),
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        self.check_skipped(path)?;
        let at = self.place_of_file(path)?.into_owned();
        let made = path::split_name(&at).map_err(Errno::from).and_then(|(parent, name)| {
            let parent = self.hold(parent)?;
            self.names_in(&parent)?;
            self.keep_backup(path, &parent, name, Some((content.len() as u64, meta)))?;
            self.clear(&at, &parent, name);
            let mut file = TemporaryFile::create(&self.names, parent, name, 0)?;
            file.write(content, 0)?;
            let len = content.len() as u64;
            file.stand_for(stands_for);
            let movable = Movable::in_directory(file.directory());
            let set = file.commit(name, len, meta, attributes, &self.applier, movable)?;
            Ok((set, file))
        });
        match made {
            Ok((set, file)) => {
                self.first_names.stored_file(path, file.file(), file.directory());
                set.map_err(|unset| self.not_set(&unset, path))
            }
            Err(errno) => Err(Trouble::Path(self.veiled("write", path, errno))),
        }
    }
}
