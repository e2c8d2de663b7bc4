//! Directories beside the destination: of backups, and of files until they are complete.

use super::*;

impl Tree {
    /// Tells where backups go that do not lie beside their files.
    pub(crate) fn keeps_backups_in(&mut self, aside: Option<Arc<Aside>>) {
        self.aside = aside;
    }

    /// That directory.
    pub(crate) fn aside(&self) -> Option<&Arc<Aside>> {
        self.aside.as_ref()
    }

    /// Tells where files lie until they are complete.
    pub(crate) fn writes_in(&mut self, elsewhere: Option<(Arc<OwnedFd>, Vec<u8>)>) {
        self.elsewhere = elsewhere;
    }

    /// That directory, and its path as one of the request.
    pub(crate) fn elsewhere(&self) -> Option<&(Arc<OwnedFd>, Vec<u8>)> {
        self.elsewhere.as_ref()
    }

    /// Tells where unfinished files are kept together.
    pub(crate) fn keeps_partials_in(&mut self, partials: Option<(Arc<OwnedFd>, Vec<u8>)>) {
        self.partials = partials;
    }

    /// That directory, and its path as one of the request.
    pub(crate) fn partials(&self) -> Option<&(Arc<OwnedFd>, Vec<u8>)> {
        self.partials.as_ref()
    }

    pub(super) fn backups_of(&self, sync: &SyncOptions, budget: &MemoryBudget) -> Option<Backups> {
        match (&self.aside, sync.backup.clone()) {
            (Some(aside), suffix) => {
                Some(Backups::aside(suffix, Arc::clone(aside), Arc::clone(&self.top), budget))
            }
            (None, suffix) => suffix.map(|suffix| Backups::new(suffix, budget)),
        }
    }
}
