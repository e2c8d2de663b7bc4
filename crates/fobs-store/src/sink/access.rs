//! What others may know of a sink, and share with it.

use std::sync::Arc;

use super::kept::Linkable;
use super::outcome::current_umask;
use super::{Later, Sink, Target};
use crate::backups::Backups;
use crate::clearance::{Clearances, Gate};
use crate::delta::Offers;
use crate::delta::SourcesHere;
use crate::journal::{Adoptions, Doubt, Health, History, TakeoverWatch};
use crate::requested::Requested;
use crate::tree::{Entrances, FirstNames, Settling};
use crate::view::View;
use fobs_model::budget::MemoryBudget;
use fobs_model::event::DirectoriesMade;
use fobs_model::name::ours::Suffix;
/// When something counts as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Once the kernel has it.
    Kernel,
    /// Once the device has it (`--fsync`).
    Device,
}

use fobs_model::options::Terms;
use fobs_model::options::sync::{Enter, SyncOptions};

impl Sink {
    /// For a client that pulls: refuses every name that these sources cannot contain, so that a hostile
    /// server cannot add other files.
    pub fn expect(&mut self, sources: &[Vec<u8>], enters: Enter) {
        if let Target::Tree(_) = &self.target {
            self.gate = Gate::Request(Box::new(Requested::of(sources, enters)));
        }
    }

    /// A survey judges what comes by what was requested; from now on nothing is stored but what it clears.
    pub(crate) fn surveyed(&mut self) -> (Requested, Clearances) {
        let clearances = Clearances::within(&self.budget);
        self.linkable = Linkable::surveyed(self.terms, &self.budget);
        match std::mem::replace(&mut self.gate, Gate::Survey(clearances.clone())) {
            Gate::Request(requested) => (*requested, clearances),
            Gate::Survey(_) => (Requested::anything(), clearances),
        }
    }

    /// From now on a survey may offer what is there, and a chunk may be a patch of that.
    pub(crate) fn offer(&mut self) -> Offers {
        self.offers.get_or_insert_default().clone()
    }

    /// The sources are on this host.
    pub fn finds_sources(&mut self, here: &SourcesHere) {
        self.here = here.clone();
    }

    /// Where the sources are, if they are on this host.
    pub(crate) fn sources_here(&self) -> &SourcesHere {
        &self.here
    }

    /// What is offered.
    pub fn offers(&self) -> Option<Offers> {
        self.offers.clone()
    }

    /// A file came whole or does not come.
    pub(super) fn has_ended(&self, path: &[u8]) {
        if let Some(offers) = &self.offers {
            offers.ended(path);
        }
    }

    /// Whether hard links may come.
    pub(crate) fn has_hard_links(&self) -> bool {
        self.agreed.hard_links
    }

    /// What earlier runs of the same transfer stored; `None` if nothing.
    pub fn history(&mut self) -> Option<History> {
        let Target::Tree(tree) = &mut self.target else { return None };
        let view = tree.view();
        tree.journal()?.history(view)
    }

    /// What stands at the destination that an earlier run may have stored without the device's keeping it.
    pub(crate) fn doubt(&mut self) -> Option<Doubt> {
        let Target::Tree(tree) = &mut self.target else { return None };
        tree.journal()?.doubt()
    }

    /// The suffix of the names that it makes for a moment.
    pub(crate) fn suffix(&self) -> Option<Suffix> {
        match &self.target {
            Target::Tree(tree) => Some(tree.suffix()),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// Where to note how calls at the destination fail.
    pub(crate) fn health(&self) -> Health {
        match &self.target {
            Target::Tree(tree) => tree.health(),
            Target::Nothing(_) | Target::Stream(_) => Health::default(),
        }
    }

    /// Whether the one source gets a name of its own here, instead of landing in a directory.
    pub fn is_one_name(&self) -> bool {
        matches!(&self.target, Target::Tree(tree) if tree.is_one_name())
    }

    /// Where to offer files of other programs that are to be continued; `None` where none can be.
    pub fn adoptions(&mut self) -> Option<Adoptions> {
        let Target::Tree(tree) = &mut self.target else { return None };
        // What stands there is compared and gone on with.
        let may = self.terms == Terms::default();
        tree.journal().filter(|_| may).map(|_| self.adoptions.clone())
    }

    /// On which terms it stores.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }

    /// Large files are written through the page cache.
    pub fn use_cache(&mut self) {
        if let Target::Tree(tree) = &mut self.target {
            tree.use_cache();
        }
    }

    /// Stores as a sync does.
    pub fn follow(&mut self, sync: &Arc<SyncOptions>) {
        if let Target::Tree(tree) = &mut self.target {
            tree.follow(sync, &self.budget);
            if sync.rules.leaves_implied {
                tree.leave_implied(sync, &self.budget, current_umask());
            }
        }
    }

    /// The backups that a sync makes, if it makes any.
    pub(crate) fn backups(&self) -> Option<Backups> {
        match &self.target {
            Target::Tree(tree) => tree.backups(),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// Directories that were made for the destination, or would be; none where it was there.
    pub fn directories_made(&self) -> Option<DirectoriesMade> {
        Some(self.made).filter(|made| made.count > 0)
    }

    /// What the user should know before anything is stored.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Where to put which directories were seen that are to be entered.
    pub(crate) fn entrances(&self) -> Option<Entrances> {
        match &self.target {
            Target::Tree(tree) => tree.entrances(),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// Whether a path may come twice: the contents of several directories.
    pub(crate) fn may_repeat(&self) -> bool {
        self.may_repeat
    }

    /// The file systems on which it stores, where its sources are removed.
    pub(crate) fn settling(&self) -> Option<Settling> {
        match &self.target {
            Target::Tree(tree) => tree.settling(),
            Target::Nothing(_) | Target::Stream(_) => None,
        }
    }

    /// Which files the first names of several are.
    pub(crate) fn first_names(&self) -> FirstNames {
        match &self.target {
            Target::Tree(tree) => tree.first_names(),
            Target::Nothing(_) | Target::Stream(_) => FirstNames::default(),
        }
    }

    /// What the session may keep.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// When something counts as stored.
    pub(crate) fn durability(&self) -> Durability {
        match &self.target {
            Target::Tree(tree) if tree.syncs() => Durability::Device,
            _ => Durability::Kernel,
        }
    }

    /// Where to put what is to be deleted at the end.
    pub fn later(&self) -> Later {
        Arc::clone(&self.later)
    }

    /// What another thread may look at; `None` for a stream.
    pub fn view(&self) -> Option<View> {
        match &self.target {
            Target::Tree(tree) => Some(tree.view()),
            Target::Nothing(view) => view.clone(),
            Target::Stream(_) => None,
        }
    }

    /// Tells other threads when a later session of the same command wants the destination.
    pub fn watch(&mut self) -> Option<TakeoverWatch> {
        let Target::Tree(tree) = &mut self.target else { return None };
        tree.journal().map(|journal| journal.watch())
    }
}
