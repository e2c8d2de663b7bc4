//! The receiver's part: what stands at the destination, and the decisions that follow.

mod directory;
mod moved;
mod offering;
mod replaced;
mod whole;

use std::borrow::Cow;
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

use rustix::fs::{FileType, OFlags, fstat};

use self::moved::Moved;
use self::offering::Neighbours;
use self::replaced::Replaced;
use self::whole::Whole;
use super::choice::{Changes, Choice, Decision};
use super::listed_names::{Fate, ListedNames};
use super::lister::checksum;
use super::row::{Row, RowKind};
use super::rules::{Append, CompareBy, Existing, ExistingKind, Plan, Rules, Ruling, Standing, decide};
use super::target::{Target, missing_bases};
use crate::beneath::{kind, meta};
use crate::clearance::{Clearances, Kind};
use crate::delta::Offers;
use crate::delta::SourcesHere;
use crate::extraneous::Deleted;
use crate::held::is_private;
use crate::identity::Identity;
use crate::journal::{Adoption, Adoptions, Held, History};
use crate::looked::Looked;
use crate::prefix::hash_prefix;
use crate::requested::Requested;
use crate::sink::Sink;
use crate::tree_hash::GROUP;
use crate::view::View;
use crate::{Item, Later};
use fobs_filter::NameKind;
use fobs_filter::path::show;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::Result;
use fobs_model::name::ours::is_journal;
use fobs_model::options::sync::{DeleteWhen, SyncOptions};
use fobs_model::options::{Overwrite, Privileges, Sight, Terms};

/// For reading what stands at the destination: a fifo there must not be waited for.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Bits of a mode with which others may read.
const READ_BY_OTHERS: u32 = 0o044;

/// What the user of a sync is told whose key may not look at the destination.
const UNSEEN: &str = "nothing is compared with what is there, which this key may not see: everything is sent";

/// Compares rows with the destination, beside the thread that stores there.
pub struct Compare {
    history: Option<History>,
    adoptions: Option<Adoptions>,
    /// `None` for a stream.
    view: Option<View>,
    rules: Rules,
    /// For a sync.
    target: Option<Target>,
    later: Later,
    /// For the user.
    notices: Vec<String>,
    terms: Terms,
    budget: MemoryBudget,
    /// Which rows count, and what of them the sink may store.
    requested: Requested,
    clearances: Clearances,
    /// Names that a hard link may lead to; `None` where none is made.
    listed: Option<ListedNames>,
    /// Where to offer what is there; `None` where nothing is.
    offers: Option<Offers>,
    here: SourcesHere,
    neighbours: Option<Neighbours>,
    /// The files of the destination, once one of them may have moved.
    moved: Option<Moved>,
    /// What rows before replace.
    replaced: Replaced,
    /// What files have of which nothing stands under their name, bytes.
    new_bytes: u64,
    /// Rows answered.
    rows: u64,
    /// Whether the sender answers about paths of the sources, and what is known by that.
    asks_about_paths: bool,
    whole: Option<Whole>,
}

impl Compare {
    /// For what `sink` stores. From now on it stores only what this decides on.
    pub fn new(sink: &mut Sink, rules: Rules) -> Compare {
        let (history, adoptions, view) = (sink.history(), sink.adoptions(), sink.view());
        let (later, terms, budget) = (sink.later(), sink.terms(), sink.budget().clone());
        let notices = sink.take_notices();
        let listed = sink.has_hard_links().then(|| ListedNames::within(&budget));
        let ((requested, clearances), replaced) = (sink.surveyed(), Replaced::within(&budget));
        Compare {
            history,
            adoptions,
            view,
            rules,
            target: None,
            later,
            notices,
            terms,
            budget,
            requested,
            clearances,
            listed,
            offers: None,
            here: SourcesHere::default(),
            neighbours: None,
            moved: None,
            replaced,
            new_bytes: 0,
            rows: 0,
            asks_about_paths: false,
            whole: None,
        }
    }

    /// For what `sink` stores in a sync.
    ///
    /// # Errors
    /// Names or rules that are not possible, or that the budget has no room for.
    pub fn for_sync(sink: &mut Sink, options: Arc<SyncOptions>, privileges: Privileges) -> Result<Compare> {
        let notices = match sink.terms().sight {
            Sight::Own => vec![UNSEEN.to_owned()],
            Sight::Whole if options.only_delete => Vec::new(),
            Sight::Whole => missing_bases(sink, options.basis_use),
        };
        let target = Target::new(sink, options.clone(), privileges)?;
        let mut compare = Compare::new(sink, Rules::default());
        compare.notices.extend(notices);
        let requested = compare.requested.in_sync(&options, &compare.budget)?;
        // The sink of a dry run, which stores nothing, has agreed on nothing.
        let listed = || ListedNames::within(&compare.budget).under(&options.rules);
        let listed = options.preserve.hard_links.then(listed);
        Ok(Compare { target: Some(target), requested, listed, ..compare })
    }

    /// What is read of the destination to be compared.
    pub fn looked(&self) -> Looked {
        self.view.as_ref().map(|view| view.looked().clone()).unwrap_or_default()
    }

    /// From now on offers what stands where a file is to come, for patches of it, to a sender that may know
    /// what is there and replace it.
    pub fn offer(&mut self, sink: &mut Sink) {
        if self.terms == Terms::default() && self.view.is_some() {
            let offers = sink.offer();
            // What is changed in its place is its own basis.
            if self.target.as_ref().is_none_or(|target| !target.is_in_place()) {
                self.here = sink.sources_here().clone();
            }
            self.view.iter().for_each(|view| offers.look_in(view.clone(), self.here.clone()));
            self.offers = Some(offers);
        }
    }

    /// What is offered, where anything may be.
    pub fn offers(&self) -> Option<Offers> {
        self.offers.clone()
    }

    /// The sender is too old to tell of directories that it has not looked at.
    pub fn doubt_empty_directories(&mut self) {
        self.target.iter_mut().for_each(Target::doubt_empty_directories);
    }

    /// What the session may keep.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// What the user should know before anything else.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// What a sync reports of a row.
    pub fn item(&self, row: &Row, choice: &Choice) -> Option<Item> {
        self.target.as_ref()?.item(row, choice)
    }

    /// What made way for something else since the last call.
    pub fn take_deleted(&mut self) -> Vec<Deleted> {
        self.target.as_mut().map(Target::take_deleted).unwrap_or_default()
    }

    /// Deletes what the sources do not have, now or at the end; every row was answered.
    pub fn delete(&mut self, report: &mut dyn FnMut(Deleted)) {
        if self.terms.sight == Sight::Own {
            return;
        }
        let Some(target) = &mut self.target else { return };
        target.delete_missing(report);
        let Some(extraneous) = target.take_extraneous() else { return };
        let later = match extraneous.when() {
            None => None,
            Some(DeleteWhen::Before) => {
                extraneous.carry_out(report);
                None
            }
            // The rest makes room: only what new files are made of stays until they are stored.
            Some(DeleteWhen::During) => match self.moved.as_ref().map(Moved::sources) {
                Some(sources) => extraneous.carry_out_but(sources, report),
                None => {
                    extraneous.carry_out(report);
                    None
                }
            },
            Some(DeleteWhen::After) => Some(extraneous),
        };
        if let Some(later) = later {
            *self.later.lock().unwrap_or_else(PoisonError::into_inner) = Some(later);
        }
    }

    /// A row with its link's target as it is stored.
    pub fn as_stored<'r>(&self, row: &'r Row) -> Cow<'r, Row> {
        let preserve = self.target.as_ref().map(|target| &target.options.preserve);
        match (&row.kind, preserve.filter(|it| it.munge_links)) {
            (RowKind::Symlink { target }, Some(preserve)) => {
                let target = preserve.target_stored(target).into_owned();
                Cow::Owned(Row { kind: RowKind::Symlink { target }, ..row.clone() })
            }
            _ => Cow::Borrowed(row),
        }
    }

    /// What is to happen to an entry, by what is known without reading files.
    pub fn rule(&mut self, row: &Row) -> Ruling {
        if self.target.is_some() {
            return Ruling { plan: Plan::Sync, changes: Changes::default() };
        }
        if self.is_made(row) {
            return Ruling { plan: Plan::Skip, changes: Changes::default() };
        }
        let standing = self.standing(row);
        let mut ruling = decide(row, &standing, &self.rules);
        if standing.held == Held::Changed && ruling.plan == Plan::Send {
            ruling.changes.insert(Changes::STARTS_OVER);
        }
        ruling
    }

    /// Whether an earlier run made a link or the like, where making it again would fail.
    fn is_made(&mut self, row: &Row) -> bool {
        let is_one =
            matches!(row.kind, RowKind::Symlink { .. } | RowKind::Hardlink { .. } | RowKind::Special { .. });
        let past = self.history.as_mut().filter(|_| is_one && self.terms.overwrite == Overwrite::Refuse);
        past.is_some_and(|past| past.has_stored(&row.path))
    }

    fn standing(&mut self, row: &Row) -> Standing {
        if row.kind != RowKind::File {
            return Standing { held: Held::Nothing, existing: None };
        }
        let lookup = |history: &mut History| history.lookup(&row.path, &row.identity);
        let held = self.history.as_mut().map_or(Held::Nothing, lookup);
        let wanted = self.rules.append == Append::IfEqual && held == Held::Nothing;
        let existing = match &mut self.view {
            Some(view) if wanted => view.stat(&row.path).ok().map(|stat| Existing {
                kind: match kind(&stat) {
                    FileType::RegularFile => ExistingKind::File,
                    FileType::Directory => ExistingKind::Directory,
                    FileType::Symlink => ExistingKind::Symlink,
                    _ => ExistingKind::Special,
                },
                size: u64::try_from(stat.st_size).unwrap_or(0),
                meta: meta(&stat),
            }),
            _ => None,
        };
        Standing { held, existing }
    }

    /// Whether [`carry_out`](Self::carry_out) has to read a whole file for it.
    pub fn is_slow(&self, ruling: &Ruling) -> bool {
        match ruling.plan {
            Plan::Append => true,
            Plan::Sync => {
                self.terms.sight == Sight::Whole && self.target.as_ref().is_some_and(Target::reads_contents)
            }
            Plan::Done => self.rules.compare == CompareBy::Content,
            _ => false,
        }
    }

    /// The answer to a row; reads what has to be compared, and clears what is to be sent for the sink. Gives
    /// up once `stop` says that nobody waits.
    ///
    /// # Errors
    /// The session may keep no more; nothing can be stored.
    pub fn carry_out(&mut self, row: &Row, ruling: Ruling, stop: &dyn Fn() -> bool) -> Result<Choice> {
        if let Some(obstacle) = self.target.as_mut().and_then(|target| target.obstacle(row)) {
            return Err(obstacle);
        }
        let mut choice: Choice = match self.refusal(row) {
            Some(refusal) => refusal.into(),
            None => self.decided(row, ruling, stop),
        };
        self.as_new(row, &mut choice);
        if let Some(told) = self.offered(row, &choice.decision, stop) {
            choice.changes.insert(told);
        }
        self.rows += 1;
        let left = self.target.as_mut().and_then(Target::take_left);
        if let Some(listed) = &mut self.listed
            && !matches!(choice.decision, Decision::Failed(_))
        {
            listed.add(row, left);
        }
        if let Some((kind, first)) = cleared(row, &choice.decision) {
            self.clearances.issue(&row.path, kind, first, stop)?;
        }
        Ok(choice)
    }

    /// Why a row may not touch anything, if it may not: a hostile sender may list what was not asked for.
    fn refusal(&mut self, row: &Row) -> Option<Decision> {
        let kind = match row.kind {
            // Says only that something could not be read.
            RowKind::Failed => return None,
            RowKind::Directory | RowKind::DirectoryEnd | RowKind::PartEnd => NameKind::Directory,
            _ => NameKind::Other,
        };
        if !self.requested.includes(&row.path, kind) || row.path.split(|&byte| byte == b'/').any(is_journal) {
            return Some(Decision::Failed(format!("'{}' was not asked for", show(&row.path))));
        }
        // Where a link of this side leads, too: a sender may have made it earlier.
        let place = self.view.as_ref().and_then(|view| view.place_through_link(&row.path));
        if place.is_some_and(|place| !self.requested.includes(&place, kind)) {
            let shown = show(&row.path);
            return Some(Decision::Failed(format!("'{shown}' lies behind a link in what was not asked for")));
        }
        if row.kind == RowKind::Missing && !self.requested.names(&row.path) {
            return Some(Decision::Failed(format!("'{}' was not asked for by its name", show(&row.path))));
        }
        let RowKind::Hardlink { first } = &row.kind else { return None };
        let listed = self.listed.as_ref().and_then(|listed| listed.get(first));
        if let (Some(target), Some(listed)) = (&mut self.target, listed)
            && target.leaves(row, listed)
        {
            return Some(Decision::Skip);
        }
        let why = match listed.map(|listed| listed.fate) {
            Some(Fate::Right) => return None,
            Some(Fate::Left(_)) => "stays as it is, by the options given: copy without -H to have it sent",
            None => "was not listed before it",
        };
        // What stands there is no less the source's.
        self.target.iter_mut().for_each(|target| target.see(row));
        Some(Decision::Failed(format!(
            "cannot make the hard link '{}': its first name '{}' {why}",
            show(&row.path),
            show(first)
        )))
    }

    fn decided(&mut self, row: &Row, ruling: Ruling, stop: &dyn Fn() -> bool) -> Choice {
        let Ruling { plan, mut changes } = ruling;
        if let (Plan::Sync, Some(target)) = (&plan, &mut self.target) {
            if row.kind == RowKind::Directory {
                let requested = &mut self.requested;
                target.look_through(&row.path, |place| requested.includes(place, NameKind::Directory));
            }
            let lookup = |history: &mut History| history.lookup(&row.path, &row.identity);
            let held = match row.kind {
                RowKind::File => self.history.as_mut().map_or(Held::Nothing, lookup),
                _ => Held::Nothing,
            };
            return match self.terms.sight {
                Sight::Whole => target.answer_noted(row, held),
                Sight::Own => target.answer_unseen(row, held, self.history.as_mut()),
            };
        }
        let decision = match plan {
            Plan::Send => Decision::Send,
            Plan::Skip | Plan::Sync => Decision::Skip,
            Plan::Done if self.rules.compare == CompareBy::Content && !self.is_equal(row) => {
                changes.insert(Changes::STARTS_OVER);
                Decision::Send
            }
            Plan::Done => Decision::Done,
            Plan::GoOn { len, stack } => {
                Decision::Resume { len, stack, check: self.rules.compare == CompareBy::Content }
            }
            Plan::Append => self.append(row, stop).unwrap_or(Decision::Send),
            Plan::Failed(reason) => Decision::Failed(reason),
        };
        Choice { decision, changes }
    }

    /// Whether the file at the destination has the content of the source.
    fn is_equal(&mut self, row: &Row) -> bool {
        let (Some(view), Some(expected)) = (&mut self.view, row.checksum) else { return false };
        let file = view.open(&row.path, READ).ok();
        file.and_then(|file| checksum(file, view.looked()).ok()).is_some_and(|found| found == expected)
    }

    /// Goes on after the file that stands there; `None` if that is not possible.
    fn append(&mut self, row: &Row, stop: &dyn Fn() -> bool) -> Option<Decision> {
        let file = self.view.as_mut()?.open(&row.path, READ).ok()?;
        // What another user can still write to, or read where the source's file cannot be, is made anew.
        let stat = fstat(&file).ok().filter(|stat| is_private(file.as_fd(), stat))?;
        if stat.st_mode & READ_BY_OTHERS & !row.meta.mode != 0 {
            return None;
        }
        let destination = Identity::of(&stat);
        let len = destination.size.min(row.identity.size) / GROUP * GROUP;
        if len == 0 {
            return None;
        }
        let looked = self.view.as_ref()?.looked();
        let stack = hash_prefix(&file, len, looked, stop).ok()??.stack()?;
        let adoption = Adoption { source: row.identity, destination, len, stack: stack.clone() };
        let offered = self.adoptions.as_ref()?.offer(&row.path, adoption);
        offered.then_some(Decision::Resume { len, stack, check: true })
    }
}

/// What a decision allows to come: the kind of the record, and what a link leads to.
fn cleared<'r>(row: &'r Row, decision: &Decision) -> Option<(Kind, Option<&'r [u8]>)> {
    let is_sent = matches!(decision, Decision::Send);
    match &row.kind {
        // A sender has them in its object unless they are skipped.
        RowKind::Directory | RowKind::DirectoryEnd | RowKind::PartEnd
            if matches!(decision, Decision::Skip | Decision::Same | Decision::Failed(_)) =>
        {
            None
        }
        RowKind::Directory => Some((Kind::Directory, None)),
        RowKind::DirectoryEnd | RowKind::PartEnd => Some((Kind::DirectoryEnd, None)),
        RowKind::File if is_sent || matches!(decision, Decision::Resume { .. }) => Some((Kind::File, None)),
        RowKind::Symlink { .. } if is_sent => Some((Kind::Symlink, None)),
        RowKind::Hardlink { first } if is_sent => Some((Kind::Hardlink, Some(first))),
        RowKind::Special { .. } if is_sent => Some((Kind::Special, None)),
        _ => None,
    }
}
