//! The receiver's part of `sync`: looks at what stands at the destination, decides by the rules, sets
//! metadata of what stays, and removes what is in the way.

mod bases;
mod dirlinks;
mod dress;
mod look;
mod missing;
mod renaming;
mod said;
mod stays;

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{self, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::choice::{Changes, Choice, Decision};
use super::itemize::Update;
use super::listed_names::Left;
use super::row::{Row, RowKind};
use super::sync::{Action, Decide, Kept, There, ThereKind, WantedKind};
use crate::attributes::{
    Applier, Attributes, Collector, Handle, Keeping, MODE_BITS, ModeNow, Modes, SymbolicLinks, executable_as,
    timestamps, while_writable,
};
use crate::backups::Backups;
use crate::beneath::{kind, sentence};
use crate::extraneous::{Deleted, Extraneous, Scheme};
use crate::held::{Inode, Movable, is_shared, is_trusted, is_unchanged};
use crate::journal::{Doubt, Health, Held};
use crate::own::without_mark;
use crate::record::Meta;
use crate::select::{Implied, xattr_rules};
use crate::sink::{Durability, Sink};
use crate::tree::{Entrances, FirstNames, Settling};
use crate::view::View;
use crate::{Item, at};
pub(super) use bases::missing_bases;
use bases::{Bases, FromBasis};
use dirlinks::through_links;
use fobs_filter::path::show;
use fobs_filter::{Side, path};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Error;
use fobs_model::event::LeftOut;
use fobs_model::options::sync::{Compare, SyncOptions};
use fobs_model::options::{Overwrite, Privileges};
use look::{checksum_in, is_empty, look, look_at_end, wanted};
use missing::Missing;
use said::item;

/// For reading what stands at the destination: a fifo there must not be waited for.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The destination of a sync.
pub(super) struct Target {
    /// `None`: it does not exist, and nothing is made.
    pub(super) view: Option<View>,
    pub(super) options: Arc<SyncOptions>,
    directories: Vec<Open>,
    /// `None`: nothing is deleted.
    extraneous: Option<Extraneous>,
    /// Reads what is kept beside mode and time, and sets it.
    pub(super) collector: Collector,
    pub(super) applier: Applier,
    /// What made way and is not reported yet.
    deleted: Vec<Deleted>,
    pub(super) durability: Durability,
    settling: Option<Settling>,
    /// Of `--link-dest`.
    pub(super) bases: Bases,
    backups: Option<Backups>,
    resent: Resent,
    /// Why the last entry was left out: what has its name stays whatever it is, so nothing is linked to it.
    left: Option<Left>,
    first_names: FirstNames,
    entrances: Option<Entrances>,
    implied: Implied,
    missing: Missing,
    /// Where the link leads that has the next directory's name (`-K`), or why it is not followed.
    led: Result<Option<Vec<u8>>, String>,
    /// Files that an earlier run stored and the device may not have kept.
    doubt: Option<Doubt>,
    health: Health,
    /// Whether the sender reads by which rule an entry is left out.
    pub(super) tells_rules: bool,
}

/// Files of the destination that had several names, of which the first is sent again.
#[derive(Debug)]
struct Resent {
    files: HashSet<(u64, u64)>,
    is_full: bool,
    kept: Charge,
}

impl Resent {
    /// Most files that are remembered, 16 bytes each. Beyond that, every further name is made anew.
    const FILES_MAX: usize = 2 << 20;

    fn within(budget: &MemoryBudget) -> Resent {
        Resent { files: HashSet::new(), is_full: false, kept: budget.charge(Keeps::Resent) }
    }

    fn add(&mut self, stat: &Stat) {
        if stat.st_nlink < 2 {
            return;
        }
        let Resent { files, is_full, kept } = self;
        let file = (stat.st_dev, stat.st_ino);
        *is_full |= files.len() >= Resent::FILES_MAX || kept.insert(files, file).is_err();
    }

    fn has(&self, stat: &Stat) -> bool {
        self.is_full || self.files.contains(&(stat.st_dev, stat.st_ino))
    }
}

/// A directory whose rows are coming.
struct Open {
    path: Vec<u8>,
    before: Option<There>,
    left_out: bool,
    /// By which rule, if it is by one of its own.
    rule: Option<Changes>,
    /// Of what stood in it before.
    movable: Movable,
}

impl Target {
    pub(super) fn new(
        sink: &mut Sink,
        options: Arc<SyncOptions>,
        privileges: Privileges,
    ) -> Result<Target, Error> {
        let doubt = sink.doubt();
        let (view, backups, budget) = (sink.view(), sink.backups(), sink.budget());
        let view = through_links(view, &options, budget);
        let (backups_kept, may_repeat, suffix) = (backups.clone(), sink.may_repeat(), sink.suffix());
        let scheme = Scheme { options: &options, backups: backups_kept, may_repeat, suffix };
        let deletes = options.delete.is_some() || options.rules.makes_way;
        let extraneous = deletes.then(|| Extraneous::new(view.clone(), scheme, budget)).transpose()?;
        let implied = Implied::of(&options, budget)?;
        let (rules, preserve) = (xattr_rules(&options, Side::Receiver)?, options.preserve.clone());
        let modes = if preserve.modes { Modes::Exact } else { Modes::Ordinary { umask: 0 } };
        let (times, executability) = (preserve.times, options.rules.executability);
        let keeping = Keeping { modes, times, overwrite: Overwrite::Replace, executability };
        Ok(Target {
            view,
            options,
            directories: Vec::new(),
            extraneous,
            collector: Collector::new(preserve.clone(), privileges, rules.clone()),
            applier: Applier::new(preserve, keeping, privileges, rules),
            deleted: Vec::new(),
            durability: sink.durability(),
            settling: sink.settling(),
            bases: Bases::of(sink),
            backups,
            resent: Resent::within(budget),
            left: None,
            first_names: sink.first_names(),
            entrances: sink.entrances(),
            implied,
            missing: Missing::within(budget),
            led: Ok(None),
            doubt,
            health: sink.health(),
            tells_rules: true,
        })
    }

    /// Why the last entry was left out, if it was.
    pub(super) fn take_left(&mut self) -> Option<Left> {
        self.left.take()
    }

    /// Whether contents are compared.
    pub(super) fn reads_contents(&self) -> bool {
        self.options.rules.compare == Compare::Content
    }

    /// What made way since the last call.
    pub(super) fn take_deleted(&mut self) -> Vec<Deleted> {
        if let Some(extraneous) = &mut self.extraneous {
            extraneous.forget_reported();
        }
        std::mem::take(&mut self.deleted)
    }

    /// What is to be deleted, once every row was answered.
    pub(super) fn take_extraneous(&mut self) -> Option<Extraneous> {
        self.extraneous.take().filter(|_| self.options.delete.is_some())
    }

    /// The answer to a row, and what of it is carried out at once. `held` is what the journal says of a file.
    pub(super) fn answer(&mut self, row: &Row, held: Held) -> Choice {
        match row.kind {
            RowKind::Directory => self.directory(row),
            RowKind::DirectoryEnd | RowKind::PartEnd => self.directory_end(row),
            RowKind::Failed => {
                if let Some(extraneous) = &mut self.extraneous {
                    extraneous.see(&row.path);
                    extraneous.scan_failed();
                }
                Decision::Send.into()
            }
            RowKind::Missing => self.note_missing(row).into(),
            _ => self.entry(row, held),
        }
    }

    /// The item to report for a row, if the report wants it.
    pub(super) fn item(&self, row: &Row, choice: &Choice) -> Option<Item> {
        choice.changes.is_reported(self.options.report).then(|| item(row, choice.changes))?
    }

    fn left_out(&self) -> bool {
        self.directories.last().is_some_and(|open| open.left_out)
    }

    /// Whether nothing but deletions is carried out.
    fn is_dry(&self) -> bool {
        self.options.dry_run || self.options.only_delete
    }

    fn directory(&mut self, row: &Row) -> Choice {
        if let Some(extraneous) = &mut self.extraneous {
            extraneous.see(&row.path);
        }
        let outside = self.left_out();
        let entered = self.through_link(&row.path);
        let found = if outside { None } else { self.look(&row.path, None) };
        let (before, stat) = found.unzip();
        let (action, why) =
            self.options.rules.decide(&wanted(row, &self.applier), before.as_ref(), self.kept());
        let rule = (action == Action::LeaveOut).then_some(why).filter(|_| !outside);
        let left_out = outside || action == Action::LeaveOut;
        let is_there = before.as_ref().is_some_and(|there| there.kind == ThereKind::Directory);
        let mut decision = if left_out || self.is_dry() { Decision::Skip } else { Decision::Send };
        if let Err(why) = entered {
            decision = Decision::Failed(why);
        } else if let Some(why) = self.keeps_way(&row.path).filter(|_| before.is_some() && !is_there) {
            decision = Decision::Failed(why);
        } else if decision == Decision::Send && before.is_some() && !is_there {
            // A directory cannot replace anything: it makes way first.
            if let Err(errno) = self.unlink(&row.path) {
                decision = self.failed("make way for", &row.path, errno);
            }
        }
        // Its end is not sent either, nor what lies in it.
        let left_out = left_out || matches!(decision, Decision::Failed(_));
        // Before it becomes ours.
        let movable = if is_there { self.movable_in(&row.path) } else { Movable::ByUs };
        if decision == Decision::Send {
            let stat = stat.as_ref().filter(|_| is_there);
            self.see_entrance(row, stat);
        }
        if let Some(extraneous) = &mut self.extraneous {
            extraneous.enter(&row.path, is_there && !left_out);
        }
        self.directories.push(Open { path: row.path.clone(), before, left_out, rule, movable });
        decision.into()
    }

    fn directory_end(&mut self, row: &Row) -> Choice {
        let open = self.directories.pop().filter(|open| open.path == row.path);
        if let Some(extraneous) = &mut self.extraneous {
            if row.kind == RowKind::PartEnd {
                extraneous.is_part();
            }
            let before = open.as_ref().and_then(|open| open.before.as_ref());
            // By itself, a deletion leaves no trace in the times that are compared next.
            let before = before.filter(|_| self.options.only_delete);
            extraneous.leave(&row.path, before.map_or(row.meta, |before| before.meta));
        }
        let Some(Open { mut before, left_out: false, .. }) = open else {
            return self.leave_out(open.and_then(|open| open.rule));
        };
        if self.options.only_delete {
            return Decision::Skip.into();
        }
        if let (Some(view), Some(before)) = (&mut self.view, &mut before) {
            look_at_end(view, &self.collector, &row.path, row.attributes.as_ref(), before);
        }
        if self.view.as_ref().is_some_and(|view| view.is_made(&row.path)) {
            before = None;
        }
        let (_, mut changes) =
            self.options.rules.decide(&wanted(row, &self.applier), before.as_ref(), self.kept());
        if before.as_ref().is_none_or(|before| before.kind != ThereKind::Directory)
            && let Some(from_basis) = self.directory_in_basis(row)
        {
            changes = from_basis;
        }
        if row.path.is_empty() && self.options.leaves_top() || self.implied.has(&row.path) {
            changes = Changes::default();
        }
        let decision = if self.is_dry() { Decision::Skip } else { Decision::Send };
        Choice { decision, changes }
    }

    /// The answer to what is left out, for a sender that reads these bits as the rule that did it.
    fn leave_out(&self, rule: Option<Changes>) -> Choice {
        let why = rule.unwrap_or_else(|| Changes::left_out(LeftOut::Silently));
        let changes = if self.tells_rules { why } else { Changes::default() };
        Choice { decision: Decision::Skip, changes }
    }

    /// The source has an entry of this name.
    pub(super) fn see(&mut self, row: &Row) {
        if let Some(extraneous) = &mut self.extraneous {
            extraneous.see(&row.path);
        }
    }

    fn entry(&mut self, row: &Row, held: Held) -> Choice {
        self.see(row);
        if self.left_out() || self.options.only_delete {
            self.left = Some(Left::There);
            return self.leave_out(None);
        }
        if !self.keeps(row) {
            self.left = Some(Left::Itself);
            return Decision::Skip.into();
        }
        if let RowKind::Hardlink { first } = &row.kind {
            return self.hard_link(row, first);
        }
        let found = self.look(&row.path, row.attributes.as_ref());
        let (mut there, stat) = found.unzip();
        there.iter_mut().for_each(|there| self.take_device_for_file(row, there));
        let wanted = wanted(row, &self.applier);
        if let Some(there) = &mut there
            && self.options.rules.compares_content(&wanted, there)
        {
            there.checksum = self.checksum(&row.path);
        }
        let (mut action, mut changes) = self.options.rules.decide(&wanted, there.as_ref(), self.kept());
        if action == Action::Keep && there.is_some() && self.is_doubtful(row, &held) {
            (action, changes) = (Action::Send, changes.with(Changes::CONTENT).by(Update::Transfer));
        }
        if action == Action::LeaveOut {
            let is_its_size = wanted.kind == WantedKind::File && !self.options.rules.takes(wanted.size);
            self.left = Some(if is_its_size { Left::Itself } else { Left::There });
            return self.leave_out(Some(changes));
        }
        if action == Action::SendInPlaceOf
            && let Err(why) = self.make_way(&row.path)
        {
            return Decision::Failed(why).into();
        }
        match self.in_basis(row, &wanted, there.as_ref()) {
            FromBasis::Linked => {
                let changes = Changes::BASIS.by(Update::Hardlink);
                return Choice { decision: self.linked(), changes };
            }
            FromBasis::LeftOut => return self.left_to_basis(row, stat.is_some()).into(),
            FromBasis::Begins(from_basis) => changes = from_basis,
            FromBasis::No => {}
        }
        let decision = match action {
            _ if self.options.dry_run => Decision::Skip,
            Action::Keep => match self.set(row, changes, stat.as_ref()) {
                Ok(()) => {
                    self.is_first_name(row, wanted.owner, stat.as_ref());
                    self.stays(row)
                }
                Err(why) => Decision::Failed(why),
            },
            Action::Send | Action::SendInPlaceOf | Action::LeaveOut => {
                self.replace(row);
                send(row, held)
            }
        };
        match decision {
            // It says why, and nothing changes.
            Decision::Failed(_) => decision.into(),
            _ => Choice { decision, changes },
        }
    }

    /// Remembers that a file with several names gives up this one: the others have to follow.
    fn replace(&mut self, row: &Row) {
        if !self.options.preserve.hard_links || row.kind != RowKind::File {
            return;
        }
        if let Some(stat) = self.view.as_mut().and_then(|view| view.stat(&row.path).ok()) {
            self.resent.add(&stat);
        }
    }

    /// Whether entries of its kind are kept: others are only listed so that what has their name stays.
    pub(super) fn keeps(&self, row: &Row) -> bool {
        match &row.kind {
            RowKind::Symlink { .. } => self.options.preserve.links == SymbolicLinks::Kept,
            RowKind::Special { kind, .. } => {
                self.options.preserve.keeps(*kind) && (!kind.is_device() || self.applier.rights.is_root)
            }
            _ => true,
        }
    }

    /// One more name of a file: it is made unless it leads there already.
    fn hard_link(&mut self, row: &Row, first: &[u8]) -> Choice {
        let Some(view) = &mut self.view else {
            return Choice { decision: Decision::Skip, changes: Changes::NEW.by(Update::Hardlink) };
        };
        let (there, leads_to) = (view.stat(&row.path).ok(), view.stat(first).ok());
        let same = |one: &Stat, other: &Stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
        if let (Some(there), Some(leads_to)) = (&there, &leads_to)
            && same(there, leads_to)
            && !self.resent.has(there)
        {
            return Choice { decision: self.stays(row), changes: Changes::BASIS.by(Update::Hardlink) };
        }
        let is_new = if there.is_none() { Changes::NEW } else { Changes::default() };
        // As rsync: what has the name gets another time where times are not kept.
        let is_timed = there.is_some() && !self.options.preserve.times;
        let changes = is_new.and(Changes::TIME_NOW, is_timed).by(Update::Hardlink);
        let decision = match there {
            _ if self.options.dry_run => Decision::Skip,
            Some(stat) if kind(&stat) == FileType::Directory => match self.make_way(&row.path) {
                Ok(()) => Decision::Send,
                Err(why) => Decision::Failed(why),
            },
            _ => Decision::Send,
        };
        Choice { decision, changes }
    }

    /// What stands at a path, compared with what an entry is to have beside mode and time.
    fn look(&mut self, path: &[u8], wanted: Option<&Attributes>) -> Option<(There, Stat)> {
        let movable = self.movable_in(path::split(path).0);
        look(self.view.as_mut()?, &self.collector, path, wanted, movable)
    }

    /// Removes what is no directory, or makes it its own backup.
    fn unlink(&mut self, path: &[u8]) -> Result<(), Errno> {
        let Some(view) = &mut self.view else { return Ok(()) };
        let place = view.place(path).into_owned();
        let (parent, name) = path::split_name(&place)?;
        let directory = view.hold(parent)?;
        while_writable(Handle::Held(directory.as_fd()), || match &self.backups {
            Some(backups) if backups.take(path, &directory, name)? => Ok(()),
            _ => at::unlink(&*directory, name),
        })
    }

    /// Removes a directory for something else: with entries only where `--delete` says so.
    fn make_way(&mut self, path: &[u8]) -> Result<(), String> {
        let deleted = &mut self.deleted;
        let emptied = self.extraneous.as_mut().map(|it| it.empty(path, &mut |gone| deleted.push(gone)));
        let Some(view) = &mut self.view else { return Ok(()) };
        let place = view.place(path).into_owned();
        let removed = path::split_name(&place).map_err(Errno::from).and_then(|(parent, name)| {
            match (emptied, self.options.dry_run) {
                (Some(false), _) => Err(Errno::NOTEMPTY),
                (Some(true), true) => Ok(()),
                (None, true) => is_empty(&*view.hold(parent)?, name),
                (_, false) => {
                    let directory = view.hold(parent)?;
                    while_writable(Handle::Held(directory.as_fd()), || {
                        at::remove_directory(&*directory, name)
                    })
                }
            }
        });
        // The held directory may be the removed one.
        view.forget();
        if removed == Err(Errno::NOTEMPTY) {
            self.deleted.push(Deleted::Kept(path.to_vec()));
        }
        removed.map_err(|errno| match errno {
            Errno::NOTEMPTY => format!(
                "cannot make way for '{}': there is a directory with entries that are not to be deleted",
                show(path)
            ),
            errno => self.said("make way for", path, errno),
        })
    }
}

/// Sends an entry, unless an earlier run stored it or a part of it.
fn send(row: &Row, held: Held) -> Decision {
    match (&row.kind, held) {
        (RowKind::File, Held::Partial { len, stack }) if len <= row.identity.size => {
            Decision::Resume { len, stack, check: false }
        }
        _ => Decision::Send,
    }
}
