//! Users of a keeper of the host: what each may see and do, and how a job that one hands in is looked at.

use std::ffi::OsString;
use std::time::Duration;

use super::core::Core;
use super::launch::{self, Order};
use super::orders::OrderError;
use super::{Keeper, Serves, notify};
use crate::job::{JobId, Spec, SpecError};
use crate::store::{Record, StoreError};

/// How long the look at what a user hands in may take: the program counts files for a second.
const PATIENCE: Duration = Duration::from_secs(20);

impl Keeper {
    /// A job, if it may be seen: another user's is none.
    pub(super) fn own(&self, core: &Core, id: JobId) -> Result<Record, StoreError> {
        core.store
            .job(id)
            .and_then(|record| if self.may_see(&record) { Ok(record) } else { Err(StoreError::NoJob(id)) })
    }

    pub(super) fn may_see(&self, record: &Record) -> bool {
        match self.1 {
            None => true,
            Some(asker) => asker.is_root() || record.owner.is_some_and(|owner| owner.uid == asker.uid),
        }
    }

    /// Refuses what is about all jobs, but for root.
    pub(super) fn needs_operator(&self) -> Result<(), OrderError> {
        if self.1.is_none_or(|asker| asker.is_root()) { Ok(()) } else { Err(OrderError::Denied) }
    }

    /// What is no part of a keeper of the host.
    pub(super) fn needs_own_keeper(&self) -> Result<(), OrderError> {
        if self.serves() == Serves::User { Ok(()) } else { Err(OrderError::NotOfHost) }
    }

    /// Fills in what a client did not that only hands in words.
    pub(super) fn complete(&self, spec: &mut Spec) -> Result<(), OrderError> {
        if self.serves() == Serves::User {
            let examine = self.core().config.examine;
            // `fobs submit` names the destination, having done the same.
            if let Some(examine) = examine.filter(|_| spec.destinations.is_empty()) {
                examine(spec)?;
                spec.check()?;
            }
            return Ok(());
        }
        if notify::is_url(&spec.notify) {
            let why = "a keeper of the host tells no URL, which its operator may reach and you may not: give a command \
                       to --notify, such as curl";
            return Err(OrderError::Value(why.to_owned()));
        }
        if spec.destinations.is_empty() {
            self.examine_as_owner(spec)?;
            spec.check()?;
        }
        // Below a user's paths nothing is looked at with root's rights: it is asked as another host is.
        if let Some(room) = spec.room.take() {
            spec.room_there.get_or_insert(room);
        }
        Ok(())
    }

    /// Has a program with the user's rights look at what is handed in.
    fn examine_as_owner(&self, spec: &mut Spec) -> Result<(), OrderError> {
        let (program, boot) = {
            let core = self.core();
            (core.config.program.clone(), core.boot.clone())
        };
        let own = ["jobs", "examine", "--"].map(OsString::from);
        let words = spec.words.iter().map(|word| word.as_os_str().to_owned());
        let order = Order {
            own_program: &program,
            owner: self.1,
            spec,
            words: [program.clone().into_os_string()].into_iter().chain(own).chain(words).collect(),
            added: Vec::new(),
        };
        let refused = |why: String| OrderError::Spec(SpecError(why));
        let command = order.command().map_err(|error| refused(error.to_string()))?;
        let said = launch::ask(command, &boot, PATIENCE, || !self.has_ended()).map_err(refused)?;
        let found: Spec = serde_json::from_str(said.trim()).map_err(|error| refused(error.to_string()))?;
        spec.destinations = found.destinations;
        spec.room = found.room;
        spec.room_there = found.room_there;
        spec.bytes = found.bytes.filter(|_| spec.every_ms.is_none());
        if spec.sources.is_empty() {
            spec.sources = found.sources;
        }
        Ok(())
    }
}
