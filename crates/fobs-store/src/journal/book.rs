//! What a journal says, and the order of its writes: a slot never says more than was written, and a synced
//! slot never more than the device has kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::format::{
    Boot, Completion, Current, HEADER_LEN, LOG_AT, Origin, RECORD_LEN, RECORDS_MAX, SLOTS, Salt, Slot,
    Unreadable, decode_origin, decode_record, decode_slot, encode_origin, encode_record, encode_slot,
    record_at, slot_at,
};
use super::store::Store;
use crate::identity::Fingerprint;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Bytes of the log that are read at once: a multiple of a record's length.
const READ_LEN: usize = 1 << 20;
/// What a record takes in memory, with its place in an order, bytes.
pub(super) const RECORD_MEMORY: usize = size_of::<Completion>() + size_of::<u32>();
/// Most files that the device may lose a part of before nothing more is recorded.
const DISOWNED_MAX: usize = 64;

/// An open journal's content. The writer appends, a second thread confirms.
pub(crate) struct Book {
    store: Arc<dyn Store>,
    salt: Salt,
    boot: Boot,
    state: Mutex<Progress>,
}

struct Progress {
    /// The newest sequence number in use.
    sequence: u64,
    records: u64,
    bytes: u64,
    /// The places of the partial files that each slot may name: several only after a failed write.
    named: Vec<(usize, Vec<u8>)>,
    /// The slot of each pair that is written next.
    next_written: usize,
    next_synced: usize,
    /// The newest state that the device has kept.
    synced: Slot,
    /// Rises when what a snapshot says of its partial file ceases to be true.
    epoch: u64,
    /// Sources whose completion does not count, because the device lost a part of the file.
    disowned: Vec<Fingerprint>,
    /// A write failed: nothing more is recorded, and what was recorded stays true.
    failed: bool,
    /// A withdrawal may be lost: nothing more is confirmed.
    is_doubtful: bool,
    /// What the device was not asked to keep does not count.
    is_demoted: bool,
}

/// A state that was recorded, to be confirmed once the device has kept it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) slot: Slot,
    epoch: u64,
}

/// What a journal said when it was loaded.
pub(crate) struct Loaded {
    pub(crate) origin: Origin,
    pub(crate) book: Book,
    /// In the order of their completion, withdrawn ones too.
    pub(crate) completions: Vec<Completion>,
    pub(crate) kept: Charge,
    /// The partial file.
    pub(crate) current: Option<Current>,
    /// What of that the device has kept, and how many of the completions.
    pub(crate) settled: Settled,
    /// Whether the device may not have kept all of the complete files yet.
    pub(crate) unsynced: bool,
    /// Whether more may have been stored than it says: its newest state is of another mount, or none is.
    pub(crate) is_behind: bool,
}

/// What the device has kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settled {
    /// The partial file.
    pub(crate) current: Option<Current>,
    /// How many of the completions.
    pub(crate) records: u64,
}

/// Why a journal was not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadError {
    Unreadable(Unreadable),
    Io(Errno),
}

impl From<Errno> for LoadError {
    fn from(errno: Errno) -> Self {
        LoadError::Io(errno)
    }
}

impl Book {
    /// Makes a journal that says nothing. The store's parts of an earlier one do not pass its salt. One that
    /// cannot be written goes on saying nothing: its lock counts, and the names that follow from its inode.
    pub(crate) fn create(store: Arc<dyn Store>, boot: Boot, origin: &Origin) -> Book {
        let written = store.write_at(&encode_origin(origin), 0);
        let state = Progress { failed: written.is_err(), ..Progress::new() };
        Book { store, salt: origin.salt, boot, state: Mutex::new(state) }
    }

    /// Loads a journal: the newest slot that is valid, and as much of the log as it says, and as the budget
    /// has room for; what does not fit is stored again.
    pub(crate) fn load(
        store: Arc<dyn Store>,
        boot: Boot,
        budget: &MemoryBudget,
    ) -> Result<Loaded, LoadError> {
        let mut header = vec![0; LOG_AT as usize];
        let filled = store.read_at(&mut header, 0)?;
        header.truncate(filled);
        let origin = decode_origin(&header).map_err(LoadError::Unreadable)?;
        let slots: [Option<Slot>; SLOTS] =
            std::array::from_fn(|index| decode_slot(&origin.salt, index, &header));
        let newest = newest(&slots, &boot);
        let is_behind = is_behind(&slots, &boot);
        let mut kept = budget.charge(Keeps::Journal);
        let completions = read_log(&*store, &origin.salt, newest.records, &mut kept)?;
        let cut = (completions.len() as u64) < newest.records;
        let synced =
            slots[2..].iter().flatten().max_by_key(|slot| slot.sequence).cloned().unwrap_or_default();
        let (current, unsynced) = (newest.current.clone(), newest.records > synced.records);
        let confirmed = synced.records;
        let settled = Settled { current: synced.current.clone(), records: confirmed };
        let state = Progress {
            sequence: slots.iter().flatten().map(|slot| slot.sequence).max().unwrap_or(0),
            records: completions.len() as u64,
            bytes: newest.bytes,
            named: named_in(&slots),
            next_written: older(&slots, 0),
            next_synced: older(&slots, 2),
            synced,
            epoch: 0,
            disowned: Vec::new(),
            failed: false,
            is_doubtful: false,
            is_demoted: false,
        };
        let book = Book { store, salt: origin.salt, boot, state: Mutex::new(state) };
        // A run before this one may have failed to have these kept, and the kernel forgets that it failed.
        for (index, completion) in (0..confirmed).zip(&completions) {
            if *completion == Completion::WITHDRAWN {
                book.withdraw_at(index)?;
            }
        }
        book.write_log(confirmed, completions.get(confirmed as usize..).unwrap_or_default())?;
        if cut {
            // Slots that say more must not find the records that replace those that were cut.
            book.limit_records(completions.len() as u64, current.as_ref())?;
        }
        Ok(Loaded { origin, book, completions, kept, current, settled, unsynced, is_behind })
    }

    /// Records files that are complete, of `bytes` in all, and the one that is partly stored, all of whose
    /// data is written. `None`: it could not be recorded, and nothing will be any more.
    pub(crate) fn record(
        &self,
        completions: &[Completion],
        bytes: u64,
        current: Option<Current>,
    ) -> Option<Snapshot> {
        let mut state = self.state();
        if state.failed {
            return None;
        }
        let room = (RECORDS_MAX - state.records) as usize;
        let completions = &completions[..completions.len().min(room)];
        let log: Vec<u8> = (state.records..)
            .zip(completions)
            .flat_map(|(index, completion)| {
                if state.disowned.contains(&completion.source) {
                    encode_record(&self.salt, index, &Completion::WITHDRAWN)
                } else {
                    encode_record(&self.salt, index, completion)
                }
            })
            .collect();
        let slot = Slot {
            sequence: state.sequence + 1,
            boot: self.boot,
            records: state.records + completions.len() as u64,
            bytes: state.bytes + bytes,
            current,
        };
        let index = state.next_written;
        let written =
            if log.is_empty() { Ok(()) } else { self.store.write_at(&log, record_at(state.records)) };
        let written = written.and_then(|()| self.write_slot(&mut state, index, &slot));
        if written.is_err() {
            state.failed = true;
            return None;
        }
        state.next_written = 1 - index;
        (state.sequence, state.records, state.bytes) = (slot.sequence, slot.records, slot.bytes);
        Some(Snapshot { slot, epoch: state.epoch })
    }

    /// Confirms a snapshot: the caller has had the device keep the files that it says are complete and the
    /// bytes of the partial one. Does nothing if the partial file was released since, or a withdrawal may be
    /// lost.
    pub(crate) fn confirm(&self, snapshot: &Snapshot) -> Result<(), Errno> {
        // The log, before the slot that counts its records.
        self.sync()?;
        {
            let mut state = self.state();
            if state.is_doubtful
                || snapshot.epoch != state.epoch
                || snapshot.slot.sequence <= state.synced.sequence
            {
                return Ok(());
            }
            let index = state.next_synced;
            self.write_slot(&mut state, index, &snapshot.slot)?;
            state.next_synced = 5 - index;
            state.synced = snapshot.slot.clone();
        }
        self.sync()
    }

    /// Has the device keep the journal. After an error it may have forgotten what it says it keeps.
    fn sync(&self) -> Result<(), Errno> {
        let synced = self.store.sync();
        self.state().is_doubtful |= synced.is_err();
        synced
    }

    /// The partial file at `place` is about to be made anew or removed: no slot names it any more, now or
    /// after a power cut. Waits for the device if one did.
    pub(crate) fn release(&self, place: &[u8]) -> Result<(), Errno> {
        let mut state = self.state();
        if !state.named.iter().any(|(_, named)| named == place) {
            return Ok(());
        }
        self.rewrite_slots(&mut state, None, None)?;
        drop(state);
        self.sync()
    }

    /// Has it say nothing more but whose it is, and which suffix its temporary files have: a later run finds
    /// those. Nothing is recorded or confirmed any more.
    pub(crate) fn clear(&self) -> Result<(), Errno> {
        let mut state = self.state();
        (state.failed, state.is_doubtful) = (true, true);
        self.store.shorten(HEADER_LEN as u64)?;
        state.named.clear();
        (state.records, state.bytes) = (0, 0);
        Ok(())
    }

    /// Withdraws a recorded completion: the device failed to keep that file.
    pub(crate) fn withdraw(&self, index: u64) {
        let written = self.withdraw_at(index);
        self.state().is_doubtful |= written.is_err();
    }

    /// Writes records anew, from `first` on.
    fn write_log(&self, first: u64, completions: &[Completion]) -> Result<(), Errno> {
        let mut index = first;
        for part in completions.chunks(READ_LEN / RECORD_LEN) {
            let records = (index..).zip(part);
            let bytes: Vec<u8> = records
                .flat_map(|(index, completion)| encode_record(&self.salt, index, completion))
                .collect();
            self.store.write_at(&bytes, record_at(index))?;
            index += part.len() as u64;
        }
        Ok(())
    }

    fn withdraw_at(&self, index: u64) -> Result<(), Errno> {
        self.store.write_at(&encode_record(&self.salt, index, &Completion::WITHDRAWN), record_at(index))
    }

    /// The device failed to keep a part of a file that was not complete when `records` were recorded:
    /// withdraws its completion, or has it never recorded.
    pub(crate) fn disown(&self, source: &Fingerprint, records: u64) {
        let mut state = self.state();
        let withdrawn = self.withdraw_source(source, records, state.records);
        state.is_doubtful |= withdrawn.is_err();
        state.failed |= withdrawn.is_err() || state.disowned.len() >= DISOWNED_MAX;
        if !state.failed {
            state.disowned.push(*source);
        }
    }

    fn withdraw_source(&self, source: &Fingerprint, from: u64, to: u64) -> Result<(), Errno> {
        let mut record = [0; RECORD_LEN];
        for index in from..to {
            self.store.read_at(&mut record, record_at(index))?;
            if decode_record(&self.salt, index, &record).is_some_and(|it| it.source == *source) {
                self.withdraw_at(index)?;
            }
        }
        Ok(())
    }

    /// Has nothing count that the device was not asked to keep, as far as it still takes writes. Nothing more
    /// is recorded or confirmed.
    pub(crate) fn demote(&self) {
        let mut state = self.state();
        (state.failed, state.is_doubtful, state.is_demoted) = (true, true, true);
        let nothing = Slot { sequence: state.sequence, ..Slot::default() };
        for index in 0..2 {
            // Where that fails, what is there is worth this mount, and is compared.
            let _ = self.write_slot(&mut state, index, &nothing);
        }
    }

    /// Whether recording has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed
    }

    /// Complete files, and their bytes.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let state = self.state();
        (state.records, state.bytes)
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(super) fn salt(&self) -> &Salt {
        &self.salt
    }

    fn limit_records(&self, records: u64, current: Option<&Current>) -> Result<(), Errno> {
        self.rewrite_slots(&mut self.state(), Some(records), current)?;
        self.sync()
    }

    /// Writes all four slots anew: without a partial file, or with `current`; with `records` at most.
    fn rewrite_slots(
        &self,
        state: &mut Progress,
        records: Option<u64>,
        current: Option<&Current>,
    ) -> Result<(), Errno> {
        state.epoch += 1;
        let limit = records.unwrap_or(u64::MAX);
        let mut synced = Slot { boot: self.boot, ..state.synced.clone() };
        synced.records = synced.records.min(limit);
        // Only what the synced slot said itself is known to be kept.
        synced.current = synced.current.filter(|file| Some(file) == current);
        let written = Slot {
            sequence: 0,
            boot: if state.is_demoted { Boot::default() } else { self.boot },
            records: state.records.min(limit),
            bytes: state.bytes,
            current: current.cloned(),
        };
        // A synced slot never hides a written one, not even when this is cut short.
        for (index, slot, ahead) in [(0, &written, 3), (1, &written, 4), (2, &synced, 1), (3, &synced, 2)] {
            let slot = Slot { sequence: state.sequence + ahead, ..slot.clone() };
            if let Err(errno) = self.write_slot(state, index, &slot) {
                state.failed = true;
                return Err(errno);
            }
            if index >= 2 {
                state.synced = slot;
            }
        }
        state.sequence += 4;
        Ok(())
    }

    fn write_slot(&self, state: &mut Progress, index: usize, slot: &Slot) -> Result<(), Errno> {
        let bytes = encode_slot(&self.salt, index, slot).ok_or(Errno::NAMETOOLONG)?;
        let written = self.store.write_at(&bytes, slot_at(index));
        if written.is_ok() {
            state.named.retain(|(named_in, _)| *named_in != index);
        }
        // After an error it may be in place all the same.
        if let Some(file) = &slot.current {
            state.named.push((index, file.place.clone()));
        }
        written
    }

    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn new() -> Progress {
        Progress {
            sequence: 0,
            records: 0,
            bytes: 0,
            named: Vec::new(),
            next_written: 0,
            next_synced: 2,
            synced: Slot::default(),
            epoch: 0,
            disowned: Vec::new(),
            failed: false,
            is_doubtful: false,
            is_demoted: false,
        }
    }
}

/// The newest slot that is valid under this boot; an empty one where none is.
pub(super) fn newest(slots: &[Option<Slot>; SLOTS], boot: &Boot) -> Slot {
    let unknown = *boot == Boot::default();
    let written = slots[..2].iter().flatten().filter(|slot| slot.boot == *boot && !unknown);
    let newest = written.chain(slots[2..].iter().flatten()).max_by_key(|slot| slot.sequence);
    newest.cloned().unwrap_or_default()
}

/// Whether the newest written slot does not count under this boot, or there is none.
fn is_behind(slots: &[Option<Slot>; SLOTS], boot: &Boot) -> bool {
    let newest = slots[..2].iter().flatten().max_by_key(|slot| slot.sequence);
    *boot == Boot::default() || newest.is_none_or(|slot| slot.boot != *boot)
}

/// Which of the two slots from `first` on is to be written next.
fn older(slots: &[Option<Slot>; SLOTS], first: usize) -> usize {
    let sequence = |index: usize| slots[index].as_ref().map(|slot| slot.sequence);
    if sequence(first) <= sequence(first + 1) { first } else { first + 1 }
}

fn named_in(slots: &[Option<Slot>; SLOTS]) -> Vec<(usize, Vec<u8>)> {
    let named = slots.iter().enumerate();
    named.filter_map(|(index, slot)| Some((index, slot.as_ref()?.current.as_ref()?.place.clone()))).collect()
}

/// The first `records` records of the log, up to the first that is torn or has no room.
fn read_log(
    store: &dyn Store,
    salt: &Salt,
    records: u64,
    kept: &mut Charge,
) -> Result<Vec<Completion>, Errno> {
    let mut completions = Vec::new();
    let mut buf = vec![0; READ_LEN];
    let room = kept.left() / RECORD_MEMORY;
    let (mut index, records) = (0, records.min(RECORDS_MAX).min(room as u64));
    if kept.room_in_vec(&mut completions, records as usize).is_err() {
        return Ok(completions);
    }
    while index < records {
        let wanted = READ_LEN.min((records - index) as usize * RECORD_LEN);
        let filled = store.read_at(&mut buf[..wanted], record_at(index))?;
        let before = index;
        for record in buf[..filled].as_chunks::<RECORD_LEN>().0 {
            let Some(completion) = decode_record(salt, index, record) else { return Ok(completions) };
            completions.push(completion);
            index += 1;
        }
        if index == before {
            break;
        }
    }
    Ok(completions)
}
