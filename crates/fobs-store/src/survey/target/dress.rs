//! What stays at the destination gets what differs; what was looked at, and nothing put in its place since.

use super::*;

/// Bits of a mode that say who may do what.
const PERMISSIONS: u32 = 0o777;
/// Those of the owner, which storing needs.
const OWNERS: u32 = 0o700;

fn is_file(row: &Row) -> bool {
    row.kind == RowKind::File
}

impl Target {
    /// Has a third user's file that stays count as a first name where the source says that it is theirs.
    pub(super) fn is_first_name(&self, row: &Row, owner: Option<u32>, stat: Option<&Stat>) {
        if let Some(stat) = stat.filter(|stat| !is_trusted(stat) && owner == Some(stat.st_uid)) {
            self.first_names.are_right(&row.path, stat);
        }
    }

    /// Who may have moved what stands in a directory.
    pub(super) fn movable_in(&mut self, path: &[u8]) -> Movable {
        if let Some(open) = self.directories.iter().rev().find(|open| open.path == path) {
            return open.movable;
        }
        let Some(view) = &mut self.view else { return Movable::ByUs };
        let place = match path {
            // Where the one source gets another name, it lies in the top directory.
            b"" => Vec::new(),
            path => view.place(path).into_owned(),
        };
        view.hold(&place).map_or(Movable::ByUs, |directory| Movable::in_directory(&*directory))
    }

    /// A directory is about to be entered: what is `there` is what was looked at, and becomes as private as
    /// it is to be.
    pub(super) fn see_entrance(&mut self, row: &Row, there: Option<&Stat>) {
        let seen = there.map(|before| self.narrow(row, before).unwrap_or(Inode::of(before)));
        let (Some(view), Some(entrances)) = (&mut self.view, &self.entrances) else { return };
        let place = view.place(&row.path).into_owned();
        // Elsewhere nobody can exchange it.
        if !place.is_empty() && view.hold(path::split(&place).0).is_ok_and(|above| is_shared(&*above)) {
            entrances.see(&row.path, seen);
        }
    }

    /// Takes from others what they may not do in a directory any more, before anything comes to lie in it;
    /// which directory it is then, if something was set.
    fn narrow(&mut self, row: &Row, before: &Stat) -> Option<Inode> {
        // A sender of an earlier release does not say.
        let top_stays = row.path.is_empty() && self.options.leaves_top();
        let stays = top_stays || self.implied.has(&row.path);
        if !self.options.preserve.modes || row.meta == Meta::default() || stays {
            return None;
        }
        let mode = before.st_mode & MODE_BITS;
        let narrowed = mode & (row.meta.mode | !PERMISSIONS | OWNERS);
        // A third user, who could widen it again.
        let owner = row.attributes.as_ref().and_then(|attributes| self.applier.owner(attributes).0);
        let owner = owner.filter(|owner| *owner != before.st_uid && !is_trusted(before));
        // What is only noted is given to nobody.
        let owner = owner.filter(|_| !self.options.preserve.fake_super);
        if narrowed == mode && owner.is_none() {
            return None;
        }
        let held = self.view.as_mut()?.open(&row.path, OFlags::PATH).ok()?;
        if !is_unchanged(before, &fs::fstat(&held).ok()?) {
            return None;
        }
        let handle = Handle::Held(held.as_fd());
        let owned = owner.map_or(Ok(()), |owner| handle.set_owner(Some(owner), None));
        // If it fails, so does what is set at the directory's end, with a reason.
        let _ = owned.and_then(|()| handle.set_mode(narrowed));
        Inode::of_held(&held).ok()
    }

    /// Sets the metadata of what stays, which was looked at `before`.
    pub(super) fn set(&mut self, row: &Row, changes: Changes, before: Option<&Stat>) -> Result<(), String> {
        let health = self.health.clone();
        let (Some(view), Some(before)) = (&mut self.view, before) else { return Ok(()) };
        if changes.update() != Update::None || !changes.is_significant() {
            return Ok(());
        }
        let said = |what: &str, errno| {
            health.note(errno);
            sentence(what, &row.path, errno)
        };
        let failed = |errno| said("set the mode or time of", errno);
        let file = view.open(&row.path, OFlags::PATH).map_err(failed)?;
        if !fs::fstat(&file).is_ok_and(|now| is_unchanged(before, &now)) {
            return Err(sentence("set the mode or time of", &row.path, Errno::STALE));
        }
        let held = Handle::Held(file.as_fd());
        let is_link = matches!(row.kind, RowKind::Symlink { .. });
        let set = match (&row.attributes, is_link) {
            (Some(attributes), true) => self.applier.dress_link(held, attributes),
            (None, true) => Ok(()),
            (attributes, false) => {
                let now =
                    if changes.contains(Changes::PERMISSIONS) { ModeNow::Unknown } else { ModeNow::Stays };
                let mut meta = without_mark(path::split(&row.path).1, row.meta);
                if self.options.rules.executability && !self.options.preserve.modes && is_file(row) {
                    meta.mode = executable_as(meta.mode, before.st_mode);
                }
                self.applier.dress_without_time(held, now, meta, attributes.as_ref())
            }
        };
        set.map_err(|unset| said(&format!("set {} of", unset.what), unset.errno))?;
        // Without it, a change of the mode alone would set a time that only differs by less than a second.
        if changes.contains(Changes::TIME) {
            at::set_times_of_held(file.as_fd(), &timestamps(row.meta)).map_err(failed)?;
        }
        if changes.contains(Changes::ACCESS_TIME) {
            self.applier.set_access_time(held, row.attributes.as_ref()).map_err(failed)?;
        }
        Ok(())
    }

    /// What of an entry is kept.
    pub(super) fn kept(&self) -> Kept {
        let preserve = &self.options.preserve;
        let modes = if preserve.modes { self.applier.rights.mode_bits } else { 0 };
        Kept { modes, times: preserve.times }
    }

    pub(super) fn checksum(&mut self, path: &[u8]) -> Option<[u8; 32]> {
        checksum_in(self.view.as_mut()?, path)
    }
}
