//! A store that fails, tears, and forgets what was not synced.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use fobs_rng::Rng;
use rustix::io::Errno;

use super::super::store::Store;

/// What a device writes as a whole, bytes.
const SECTOR: usize = 512;

/// How often what fails, of 100 calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub writes: usize,
    pub syncs: usize,
}

/// What a power cut does to what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// A sector is as before, new, or its beginning is.
    Torn,
    /// Likewise, or it is zeros, or anything; neighbours mostly fare alike.
    Wild,
}

/// What becomes of a run of sectors.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Old,
    New,
    Torn,
    Zeros,
    Garbage,
}

/// Longest run of sectors that fare alike.
const RUN_MAX: usize = 16;

/// Clones are one store.
#[derive(Clone)]
pub struct FaultyStore(Arc<Mutex<Disk>>);

struct Disk {
    rng: Rng,
    faults: Faults,
    /// What reads return.
    cached: Vec<u8>,
    /// What outlives a power cut.
    kept: Vec<u8>,
    /// Sectors that were written since they were kept.
    dirty: BTreeSet<usize>,
}

impl FaultyStore {
    pub fn new(seed: u64, faults: Faults) -> FaultyStore {
        let rng = Rng::new(seed);
        FaultyStore(Arc::new(Mutex::new(Disk {
            rng,
            faults,
            cached: Vec::new(),
            kept: Vec::new(),
            dirty: BTreeSet::new(),
        })))
    }

    /// The power goes: of what was not synced, any part of any sector may be there.
    pub fn power_cut(&self, cut: Cut) {
        let mut disk = self.0.lock().unwrap();
        let (mut fate, mut left) = (Fate::Old, 0);
        for sector in std::mem::take(&mut disk.dirty) {
            if left == 0 {
                left = if cut == Cut::Wild { 1 + disk.rng.below(RUN_MAX) } else { 1 };
                fate = match disk.rng.below(if cut == Cut::Wild { 5 } else { 3 }) {
                    0 => Fate::Old,
                    1 => Fate::New,
                    2 => Fate::Torn,
                    3 => Fate::Zeros,
                    _ => Fate::Garbage,
                };
            }
            left -= 1;
            disk.suffer(sector, fate);
        }
        disk.cached = disk.kept.clone();
    }

    /// From here on it has these faults.
    pub fn set(&self, faults: Faults) {
        self.0.lock().unwrap().faults = faults;
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().cached.clone()
    }

    pub fn of_bytes(bytes: &[u8]) -> FaultyStore {
        let store = FaultyStore::new(0, Faults::default());
        store.0.lock().unwrap().cached = bytes.to_vec();
        store
    }
}

impl Disk {
    fn happens(&mut self, percent: usize) -> bool {
        self.rng.below(100) < percent
    }

    /// The device keeps the first bytes of a sector.
    fn keep(&mut self, sector: usize, len: usize) {
        let start = sector * SECTOR;
        let end = (start + len).min(self.cached.len());
        if end > start {
            self.kept.resize(self.kept.len().max(end), 0);
            self.kept[start..end].copy_from_slice(&self.cached[start..end]);
        }
    }

    fn suffer(&mut self, sector: usize, fate: Fate) {
        match fate {
            Fate::Old => {}
            Fate::New => self.keep(sector, SECTOR),
            Fate::Torn => {
                let torn_at = self.rng.below(SECTOR);
                self.keep(sector, torn_at);
            }
            Fate::Zeros | Fate::Garbage => {
                self.keep(sector, SECTOR);
                let end = ((sector + 1) * SECTOR).min(self.kept.len());
                for at in sector * SECTOR..end {
                    let byte = if matches!(fate, Fate::Zeros) { 0 } else { self.rng.below(256) as u8 };
                    self.kept[at] = byte;
                }
            }
        }
    }

    fn write(&mut self, data: &[u8], offset: usize) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len();
        self.cached.resize(self.cached.len().max(end), 0);
        self.cached[offset..end].copy_from_slice(data);
        self.dirty.extend(offset / SECTOR..=(end - 1) / SECTOR);
        // The kernel writes back when it likes, in whatever order.
        for sector in self.dirty.clone() {
            if self.happens(10) {
                self.keep(sector, SECTOR);
                self.dirty.remove(&sector);
            }
        }
    }
}

impl Store for FaultyStore {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let disk = self.0.lock().unwrap();
        let rest = disk.cached.get(offset as usize..).unwrap_or_default();
        let filled = rest.len().min(buf.len());
        buf[..filled].copy_from_slice(&rest[..filled]);
        Ok(filled)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        let mut disk = self.0.lock().unwrap();
        let percent = disk.faults.writes;
        if disk.happens(percent) {
            let written = disk.rng.below(data.len() + 1);
            disk.write(&data[..written], offset as usize);
            return Err(Errno::NOSPC);
        }
        disk.write(data, offset as usize);
        Ok(())
    }

    /// As Linux does, a failed one forgets what it could not write: the next one does not try again.
    fn sync(&self) -> Result<(), Errno> {
        let mut disk = self.0.lock().unwrap();
        let percent = disk.faults.syncs;
        let fails = disk.happens(percent);
        for sector in std::mem::take(&mut disk.dirty) {
            if !fails || disk.happens(50) {
                disk.keep(sector, SECTOR);
            }
        }
        if fails { Err(Errno::IO) } else { Ok(()) }
    }

    /// A file system keeps lengths in the order of its calls.
    fn shorten(&self, len: u64) -> Result<(), Errno> {
        let mut disk = self.0.lock().unwrap();
        disk.cached.truncate(len as usize);
        disk.kept.truncate(len as usize);
        disk.dirty.retain(|sector| ((sector * SECTOR) as u64) < len);
        Ok(())
    }
}
