//! `--temp-dir`: a file lies in another directory until all of it is verified, and comes beside its place
//! then: by one rename, or from another file system as a copy.

use std::fs::File;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use super::*;

impl TemporaryFile {
    /// Makes a file that is to become `name` in `home`, in another directory.
    pub(crate) fn create_elsewhere(
        names: &Names,
        directory: &Arc<OwnedFd>,
        home: Arc<OwnedFd>,
        name: Component<'_>,
        size_hint: u64,
    ) -> Result<TemporaryFile, Errno> {
        // Files of one name may come from several directories, so each name there is a new one.
        let foreign = Names::Alone(random_suffix());
        let file = TemporaryFile::create(&foreign, Arc::clone(directory), name, size_hint)?;
        Ok(TemporaryFile { home: Some((home, *names)), ..file })
    }

    /// Moves it beside its place.
    pub(crate) fn come_home(&mut self, name: Component<'_>) -> Result<(), Errno> {
        let Some((home, names)) = self.home.take() else { return Ok(()) };
        let (made, moved) = names.make(&home, name, |made| {
            let from = (&self.temporary.directory, self.temporary.name.as_component());
            match at::move_to_new(from.0, from.1, &home, made) {
                // A file system without this kind of rename: the name is ours, and nothing has it.
                Err(Errno::INVAL | Errno::NOSYS) => match at::stat(&home, made) {
                    Err(Errno::NOENT) => at::move_to(from.0, from.1, &home, made).map(|()| true),
                    Ok(_) => Err(Errno::EXIST),
                    Err(errno) => Err(errno),
                },
                Err(Errno::XDEV) => Ok(false),
                moved => moved.map(|()| true),
            }
        })?;
        if moved {
            (self.temporary.directory, self.temporary.name) = (home, made);
            return Inode::of_held(&self.temporary.held)?
                .has_name(&self.temporary.directory, self.temporary.name.as_component());
        }
        self.copy_home(&names, home, name)
    }

    /// Copies it beside its place, and goes on with the copy.
    fn copy_home(&mut self, names: &Names, home: Arc<OwnedFd>, name: Component<'_>) -> Result<(), Errno> {
        let mut old = File::from(at::reopen(&*self.file, OFlags::RDONLY)?);
        let len = u64::try_from(fstat(&*self.file)?.st_size).unwrap_or(0);
        let copy = TemporaryFile::create(names, home, name, len)?;
        let mut new = File::from(copy.file.try_clone().map_err(|_| Errno::MFILE)?);
        std::io::copy(&mut old, &mut new)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // What lay elsewhere goes with its name.
        *self = TemporaryFile { stands_for: self.stands_for, reserved: copy.reserved, ..copy };
        Ok(())
    }
}
