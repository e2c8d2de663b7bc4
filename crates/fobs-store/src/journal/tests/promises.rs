//! What a load returns was stored before, and outlives what it claims to.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::book::{Book, LoadError, Loaded, RECORD_MEMORY, Snapshot};
use super::super::format::{Boot, Completion, Current, Origin, RECORDS_MAX};
use super::super::history::{Left, Past};
use super::super::store::Store;
use super::faulty::{Cut, Faults, FaultyStore};
use crate::identity::Fingerprint;
use fobs_model::budget::{KEPT_BYTES_MAX, MemoryBudget};
use fobs_model::options::Overwrite;

const ORIGIN: Origin = Origin { salt: [7; 16], suffix: *b"abc123", key: [8; 16] };

/// What a transfer, its device or its power supply does.
#[derive(Debug, Clone)]
enum Step {
    /// Files are complete, and one may be partly stored.
    Record { files: u64, partial: bool },
    /// The device has kept all files of the newest state, or of the one before.
    Confirm { newest: bool },
    /// The partial file is made anew.
    Release,
    /// The device failed to keep the last complete file.
    Withdraw,
    /// It failed to keep a part of a file, which is the last complete one, or the next.
    Disown { next: bool },
    /// It fails altogether.
    Demote,
    /// The program is killed and started again.
    Kill,
    /// So is the machine, or the file system went and was mounted again.
    PowerCut(Cut),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u64..40, any::<bool>()).prop_map(|(files, partial)| Step::Record { files, partial }),
        3 => any::<bool>().prop_map(|newest| Step::Confirm { newest }),
        1 => Just(Step::Release),
        1 => Just(Step::Withdraw),
        1 => any::<bool>().prop_map(|next| Step::Disown { next }),
        2 => Just(Step::Kill),
        1 => Just(Step::Demote),
        1 => Just(Step::PowerCut(Cut::Torn)),
        2 => Just(Step::PowerCut(Cut::Wild)),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    prop_oneof![
        Just(Faults::default()),
        (0_usize..10, 0_usize..10).prop_map(|(writes, syncs)| Faults { writes, syncs })
    ]
}

/// What may be claimed.
struct World {
    store: FaultyStore,
    faults: Faults,
    boot: u8,
    book: Book,
    /// Number of the next file.
    next: u64,
    /// Recorded files by their records, since the load.
    records: Vec<u64>,
    stored: BTreeSet<u64>,
    kept: BTreeSet<u64>,
    stored_partly: Vec<Current>,
    kept_partly: Vec<Current>,
    /// The newest states that were recorded.
    snapshots: Vec<Snapshot>,
}

fn source(number: u64) -> Fingerprint {
    let mut source = [1; 16];
    source[..8].copy_from_slice(&number.to_be_bytes());
    source
}

fn number(source: &Fingerprint) -> u64 {
    u64::from_be_bytes(*source.first_chunk().unwrap())
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let store = FaultyStore::new(seed, Faults::default());
        let book = Book::create(Arc::new(store.clone()), [1; 16], &ORIGIN);
        store.sync().unwrap();
        store.set(faults);
        World {
            store,
            faults,
            boot: 1,
            book,
            next: 0,
            records: Vec::new(),
            stored: BTreeSet::new(),
            kept: BTreeSet::new(),
            stored_partly: Vec::new(),
            kept_partly: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    fn boot(&self) -> Boot {
        [self.boot; 16]
    }

    fn record(&mut self, files: u64, partial: bool) {
        let numbers: Vec<u64> = (self.next..self.next + files).collect();
        self.next += files;
        let current = partial.then(|| {
            self.next += 1;
            let stack = vec![[9; 32]; 3];
            Current {
                fingerprint: source(self.next),
                place: b"p".to_vec(),
                inode: self.next,
                len: 65_536,
                stack,
                birth: Some((self.next as i64, 7)),
            }
        });
        self.stored.extend(&numbers);
        self.stored_partly.extend(current.clone());
        let completions: Vec<Completion> =
            numbers.iter().map(|&it| Completion { source: source(it), destination: [3; 8] }).collect();
        if let Some(snapshot) = self.book.record(&completions, files, current) {
            self.records.extend(numbers);
            self.snapshots.push(snapshot);
        }
    }

    fn confirm(&mut self, newest: bool) {
        let back = if newest { 1 } else { 2 };
        let Some(snapshot) = self.snapshots.len().checked_sub(back).map(|at| self.snapshots[at].clone())
        else {
            return;
        };
        let kept = self.records[..snapshot.slot.records as usize].iter();
        self.kept.extend(kept.filter(|&number| self.stored.contains(number)));
        let partly = snapshot.slot.current.iter().filter(|&current| self.stored_partly.contains(current));
        self.kept_partly.extend(partly.cloned());
        // What fails here was kept all the same.
        let _ = self.book.confirm(&snapshot);
    }

    /// Whether the journal is still of use.
    fn release(&mut self) -> bool {
        self.stored_partly.clear();
        self.kept_partly.clear();
        self.book.release(b"p").is_ok()
    }

    /// It says nothing more, neither after a kill nor after a power cut, and the next run records again.
    fn clear(&mut self) -> Result<(), TestCaseError> {
        prop_assert!(self.book.clear().is_ok());
        (self.stored, self.kept) = (BTreeSet::new(), BTreeSet::new());
        self.record(2, true);
        self.confirm(true);
        (self.stored, self.stored_partly) = (BTreeSet::new(), Vec::new());
        (self.kept, self.kept_partly) = (BTreeSet::new(), Vec::new());
        self.load(false)
    }

    /// The last record, if the device has not kept its file.
    fn last(&self) -> Option<(usize, u64)> {
        let last = self.records.last().copied().filter(|last| !self.kept.contains(last));
        Some((self.records.len().checked_sub(1)?, last?))
    }

    fn withdraw(&mut self) {
        if let Some((index, number)) = self.last() {
            self.book.withdraw(index as u64);
            self.lost(number);
        }
    }

    fn disown(&mut self, next: bool) {
        let number = match self.last() {
            Some((_, last)) if !next => last,
            _ => self.next,
        };
        let before = self.records.iter().take_while(|&record| *record != number).count();
        self.book.disown(&source(number), before as u64);
        self.lost(number);
        if number == self.next {
            // It becomes complete all the same.
            self.record(1, false);
            self.lost(number);
        }
    }

    fn demote(&mut self) {
        self.book.demote();
        if self.faults.writes == 0 {
            (self.stored, self.stored_partly) = (self.kept.clone(), self.kept_partly.clone());
        }
    }

    fn lost(&mut self, number: u64) {
        // A withdrawal that fails is one more fault of a failing device: only what was kept counts then.
        if self.faults.writes == 0 {
            self.stored.remove(&number);
        } else {
            self.records.iter_mut().filter(|it| **it == number).for_each(|it| *it = u64::MAX);
        }
    }

    /// Loads what is there, and compares it with what may be claimed.
    fn load(&mut self, power_cut: bool) -> Result<(), TestCaseError> {
        self.store.set(Faults::default());
        let loaded = Book::load(Arc::new(self.store.clone()), self.boot(), &MemoryBudget::default());
        let Ok(Loaded { origin, book, completions, current, .. }) = loaded else {
            return Err(TestCaseError::fail("a journal that was made cannot be loaded"));
        };
        prop_assert_eq!(origin, ORIGIN);
        if power_cut {
            (self.stored, self.stored_partly) = (self.kept.clone(), self.kept_partly.clone());
        }
        let claimed: Vec<u64> = completions
            .iter()
            .map(|it| if *it == Completion::WITHDRAWN { u64::MAX } else { number(&it.source) })
            .collect();
        for number in claimed.iter().filter(|number| **number != u64::MAX) {
            prop_assert!(self.stored.contains(number), "file {} was not stored", number);
        }
        if let Some(current) = current {
            prop_assert!(self.stored_partly.contains(&current), "{:?} was not stored", current);
        }
        self.records = claimed;
        self.snapshots.clear();
        self.book = book;
        self.store.set(self.faults);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(feature = "long") { 20_000 } else { 512 }))]
    #[test]
    fn a_journal_claims_only_what_was_stored(
        seed: u64,
        faults in faults(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(seed, faults);
        for step in steps {
            match step {
                Step::Record { files, partial } => world.record(files, partial),
                Step::Confirm { newest } => world.confirm(newest),
                Step::Release => if !world.release() {
                    world.clear()?;
                },
                Step::Withdraw => world.withdraw(),
                Step::Disown { next } => world.disown(next),
                Step::Kill => world.load(false)?,
                Step::Demote => world.demote(),
                Step::PowerCut(cut) => {
                    world.store.power_cut(cut);
                    world.boot += 1;
                    world.load(true)?;
                }
            }
        }
    }

    /// Without faults nothing that was recorded is forgotten by a kill, and nothing that was confirmed by a
    /// power cut.
    #[test]
    fn a_healthy_journal_forgets_nothing(seed: u64, counts in prop::collection::vec((0_u64..40, any::<bool>()), 1..20)) {
        let mut world = World::new(seed, Faults::default());
        for (files, confirmed) in counts {
            world.record(files, true);
            if confirmed {
                world.confirm(true);
            }
            world.load(false)?;
            let recorded: Vec<u64> = world.stored.iter().copied().collect();
            prop_assert_eq!(&world.records, &recorded);
        }
        world.store.power_cut(Cut::Torn);
        world.boot += 1;
        world.load(true)?;
        let kept: Vec<u64> = world.kept.iter().copied().collect();
        prop_assert_eq!(&world.records, &kept);
    }

    #[test]
    fn any_bytes_load_or_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..40_000),
        changes in prop::collection::vec((0_usize..45_000, any::<u8>()), 0..8),
        keep in 0_usize..45_000,
    ) {
        let _ = Book::load(Arc::new(FaultyStore::of_bytes(&bytes)), [1; 16], &MemoryBudget::default());
        let mut world = World::new(1, Faults::default());
        world.record(100, true);
        world.confirm(true);
        world.record(100, true);
        let mut bytes = world.store.bytes();
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.truncate(keep);
        let loaded = Book::load(Arc::new(FaultyStore::of_bytes(&bytes)), [1; 16], &MemoryBudget::default());
        if let Ok(loaded) = loaded {
            for completion in &loaded.completions {
                prop_assert!(world.stored.contains(&number(&completion.source)));
            }
            prop_assert!(loaded.current.is_none_or(|current| world.stored_partly.contains(&current)));
        }
    }
}

/// A log without end of records that are right, in no memory.
struct EndlessLog {
    head: Vec<u8>,
}

impl Store for EndlessLog {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, rustix::io::Errno> {
        if offset < super::super::format::LOG_AT {
            let rest = &self.head[(offset as usize).min(self.head.len())..];
            let filled = rest.len().min(buf.len());
            buf[..filled].copy_from_slice(&rest[..filled]);
            return Ok(filled);
        }
        let first = (offset - super::super::format::LOG_AT) / 32;
        for (index, record) in (first..).zip(buf.as_chunks_mut::<32>().0) {
            let completion = Completion { source: source(index), destination: [3; 8] };
            *record = super::super::format::encode_record(&ORIGIN.salt, index, &completion);
        }
        Ok(buf.len())
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<(), rustix::io::Errno> {
        Ok(())
    }

    fn sync(&self) -> Result<(), rustix::io::Errno> {
        Ok(())
    }

    fn shorten(&self, _: u64) -> Result<(), rustix::io::Errno> {
        Ok(())
    }
}

#[test]
fn a_log_without_end_is_read_up_to_the_bound() {
    use super::super::format::{LOG_AT, Slot, encode_origin, encode_slot, slot_at};
    let mut head = vec![0; LOG_AT as usize];
    let origin = encode_origin(&ORIGIN);
    head[..origin.len()].copy_from_slice(&origin);
    let slot = Slot { sequence: 1, records: u64::MAX, ..Slot::default() };
    let slot = encode_slot(&ORIGIN.salt, 2, &slot).unwrap();
    let at = slot_at(2) as usize;
    head[at..at + slot.len()].copy_from_slice(&slot);
    for (budget, records) in [
        (MemoryBudget::of(usize::MAX), RECORDS_MAX as usize),
        (MemoryBudget::default(), (KEPT_BYTES_MAX / RECORD_MEMORY).min(RECORDS_MAX as usize)),
        (MemoryBudget::of(1 << 20), (1 << 20) / RECORD_MEMORY),
    ] {
        let loaded = Book::load(Arc::new(EndlessLog { head: head.clone() }), [1; 16], &budget);
        let Loaded { completions, kept, .. } = loaded.expect("it is a journal");
        assert_eq!(completions.len(), records);
        let past =
            Past::new(Left { completions, ..Left::nothing(*b"suffix", kept) }, Overwrite::Replace, true);
        assert!(!past.is_empty() && budget.used() <= KEPT_BYTES_MAX.max(records * RECORD_MEMORY));
        drop(past);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn another_version_is_refused_by_its_number() {
    let mut bytes = World::new(1, Faults::default()).store.bytes();
    bytes[8] = 9;
    let loaded = Book::load(Arc::new(FaultyStore::of_bytes(&bytes)), [1; 16], &MemoryBudget::default());
    let refused = LoadError::Unreadable(super::super::format::Unreadable::Version(9));
    assert_eq!(loaded.err(), Some(refused));
}
