//! Directories of the destination tree: made or entered, and dressed when they are complete.

use rustix::process::geteuid;

use super::*;
use crate::held::is_shared;

impl Tree {
    /// The top directory and the time that it is to have once the journal is gone: that of the source, or its
    /// own where nothing but the journal has changed it.
    pub(crate) fn end_of_top(&self) -> Option<(Arc<OwnedFd>, Meta)> {
        let now = fs::fstat(&self.top).ok().map(|stat| meta(&stat));
        let time = |meta: Meta| (meta.mtime_s, meta.mtime_ns);
        let is_untouched = self.opened.map(time) == now.map(time);
        let own = self.before.filter(|_| is_untouched && !self.is_made);
        self.top_meta.or(own).map(|meta| (Arc::clone(&self.top), meta))
    }

    /// A directory begins.
    pub(crate) fn directory(&mut self, cleared: Clearance<'_>) -> Attempt<()> {
        let path = cleared.path();
        if self.levels.last().is_some_and(|outer| !path::is_inside(path, &outer.path)) {
            return Err(protocol("a directory begins outside the one that is open").into());
        }
        let made = self.check_skipped(path).and_then(|()| self.make_directory(path));
        let (state, entered, made) = match made {
            Ok((state, place, inode)) => (state, Some((place, inode)), Ok(())),
            Err(trouble) => (LevelState::Skipped, None, Err(trouble)),
        };
        self.levels.push(Level { path: path.to_vec(), state, entered });
        made
    }

    fn make_directory(&mut self, path: &[u8]) -> Attempt<(LevelState, Vec<u8>, Inode)> {
        let place = self.place(path)?.into_owned();
        let give_up = |message| Err(Trouble::Path(format!("{message}; what lies in it is left out")));
        if !place.is_empty() {
            let made = path::split_name(&place).map_err(Errno::from).and_then(|(parent, name)| {
                let parent = self.hold(parent)?;
                self.names_in(&parent)?;
                at::make_directory(&*parent, name, Mode::from_raw_mode(self.made_mode())).map(|()| parent)
            });
            match made {
                Ok(parent) => {
                    self.entrances.iter().for_each(|entrances| entrances.forget(path));
                    let allowed = self.applier.allowed_in(&parent);
                    return match self.made_directory(&parent, &place) {
                        Ok(inode) => Ok((LevelState::Created { allowed }, place, inode)),
                        Err(errno) => give_up(self.veiled("make the directory", path, errno)),
                    };
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return give_up(self.veiled("make the directory", path, errno)),
            }
        }
        let held = self.hold(&place).and_then(|held| Inode::of_held(&*held).map(|inode| (held, inode)));
        let held = held.and_then(|(held, inode)| {
            let entrances = self.entrances.clone();
            let mut is_safe = || self.hold(path::split(&place).0).is_ok_and(|above| !is_shared(&*above));
            let may_enter = entrances.is_none_or(|it| it.may_enter(path, inode, &mut is_safe));
            if may_enter { Ok((held, inode)) } else { Err(Errno::STALE) }
        });
        match held {
            Ok((existing, inode)) => {
                if let Some(allowed) = self.left_unfinished(&existing, &place) {
                    return Ok((LevelState::LeftUnfinished { allowed }, place, inode));
                }
                let stays = self.leaves_top && place.is_empty();
                let restores = if stays { None } else { self.make_writable(path, &existing) };
                Ok((LevelState::Existing { restores }, place, inode))
            }
            Err(errno @ Errno::NOTDIR) => {
                let shown = show(&place);
                let message = match self.terms.sight {
                    Sight::Own => self.veiled("make the directory", path, errno),
                    Sight::Whole => format!(
                        "cannot make the directory '{shown}': there is something else of that name; move it away"
                    ),
                };
                match self.naming {
                    // The destination itself: nothing can be stored.
                    Naming::First { .. } if !place.contains(&b'/') => {
                        Err(Error::new(ErrorKind::Destination, message).into())
                    }
                    _ => give_up(message),
                }
            }
            Err(errno) => give_up(self.veiled("enter the directory", path, errno)),
        }
    }

    /// Which directory was made just now: `STALE` where another user has put one of theirs in its place.
    fn made_directory(&mut self, parent: &Arc<OwnedFd>, place: &[u8]) -> Result<Inode, Errno> {
        let made = self.hold(place)?;
        let stat = fs::fstat(&*made)?;
        if is_made_here(&stat, parent) { Ok(Inode::of(&stat)) } else { Err(Errno::STALE) }
    }

    /// The mode of a directory that is made and not complete.
    fn made_mode(&self) -> u32 {
        match self.applier.keeping.modes {
            Modes::Exact => DIRECTORY_MODE,
            Modes::Ordinary { .. } => DIRECTORY_MODE | UNFINISHED,
        }
    }

    /// The permissions that a directory may have which an earlier run made and did not come to the end of.
    fn left_unfinished(&mut self, directory: &OwnedFd, place: &[u8]) -> Option<u32> {
        let Modes::Ordinary { .. } = self.applier.keeping.modes else { return None };
        let stat = fs::fstat(directory).ok()?;
        // Its group follows from its parent.
        let is_one =
            stat.st_mode & 0o5777 == DIRECTORY_MODE | UNFINISHED && stat.st_uid == geteuid().as_raw();
        if !is_one || place.is_empty() {
            return None;
        }
        let parent = self.hold(path::split(place).0).ok()?;
        Some(self.applier.allowed_in(&parent))
    }

    /// Makes a directory writable that an earlier copy left read-only: with `-p`, where its mode is set at
    /// its end, and in a sync, which returns the mode that it is to have again.
    fn make_writable(&self, path: &[u8], directory: &OwnedFd) -> Option<u32> {
        let mode = fs::fstat(directory).ok()?.st_mode & 0o7777;
        let is_ordinary = matches!(self.applier.keeping.modes, Modes::Ordinary { .. });
        let keeps_mode = is_ordinary || self.mask_of_implied(path).is_some();
        let is_wanted = if keeps_mode {
            self.applier.preserve.unkept == Unkept::LeftOut && at::may_write(directory) == Err(Errno::ACCESS)
        } else {
            mode & DIRECTORY_MODE != DIRECTORY_MODE
        };
        if !is_wanted {
            return None;
        }
        // If that fails, so do the writes in it, with a reason.
        let made = open_self(directory).and_then(|it| open_handle(&it).set_mode(mode | DIRECTORY_MODE));
        made.ok().filter(|()| keeps_mode).map(|()| mode)
    }

    /// Ends the innermost directory.
    pub(crate) fn directory_end(
        &mut self,
        cleared: Clearance<'_>,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        let path = cleared.path();
        let level = self.levels.pop().filter(|level| level.path == path);
        let Some(level) = level else {
            return Err(protocol("a directory ends that is not the one open").into());
        };
        if self.leaves_top && path.is_empty() {
            return Ok(());
        }
        let implied = self.mask_of_implied(path);
        let mode_now = match (level.state, self.applier.keeping.modes) {
            (LevelState::Skipped, _) => return Err(Trouble::Skipped),
            (LevelState::Existing { .. }, _) if self.terms.overwrite == Overwrite::Refuse => return Ok(()),
            (LevelState::Existing { restores: None }, _) if implied.is_some() => return Ok(()),
            (LevelState::Existing { restores: None }, Modes::Ordinary { .. })
                if !self.applier.keeping.times && attributes.is_none() =>
            {
                return Ok(());
            }
            (LevelState::Existing { .. }, Modes::Ordinary { .. }) => ModeNow::Stays,
            (LevelState::Existing { .. }, Modes::Exact) => ModeNow::Unknown,
            (LevelState::Created { allowed } | LevelState::LeftUnfinished { allowed }, _) => {
                ModeNow::Made(Made { mode: None, allowed, inherited: 0 })
            }
        };
        let Some((place, inode)) = level.entered else { return Err(Trouble::Skipped) };
        let directory = self
            .hold_as(&place, Some(inode))
            .and_then(|directory| open_self(&directory))
            .map_err(|errno| self.trouble("set the mode or time of", path, errno))?;
        let mode_now = mode_now.inheriting(&directory);
        if place.is_empty() && self.applier.keeping.times && !self.leaves_directory_times {
            self.top_meta = Some(meta);
        }
        let set = if let Some(umask) = implied {
            match mode_now {
                ModeNow::Made(made) => open_handle(&directory)
                    .set_mode(made.inherited | 0o777 & !umask)
                    .map_err(|errno| self.trouble("set the mode of", path, errno))?,
                ModeNow::Unknown | ModeNow::Stays => {}
            }
            Ok(())
        } else if self.leaves_directory_times {
            self.applier.dress_without_time(open_handle(&directory), mode_now, meta, attributes)
        } else {
            self.applier.dress(open_handle(&directory), mode_now, meta, attributes)
        };
        if let LevelState::Existing { restores: Some(mode) } = level.state {
            open_handle(&directory)
                .set_mode(mode)
                .map_err(|errno| self.trouble("set the mode of", path, errno))?;
        }
        set.map_err(|unset| self.not_set(&unset, path))
    }

    /// From now on directories above names stay as they are, or are made with this mask.
    pub(crate) fn leave_implied(&mut self, sync: &Arc<SyncOptions>, budget: &MemoryBudget, umask: u32) {
        // The survey has no room for the names either, and ends the session.
        self.implied = Implied::of(sync, budget).ok().map(|implied| (implied, umask));
    }

    fn mask_of_implied(&self, path: &[u8]) -> Option<u32> {
        self.implied.as_ref().filter(|(implied, _)| implied.has(path)).map(|(_, umask)| *umask)
    }
}
