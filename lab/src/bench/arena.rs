//! The bench's place: two hosts joined by a wire, files in memory, and what its contestants share.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3::Hasher;

use super::memory::WarmMemory;
use crate::link::host::HostError;
use crate::run::data::Data;
use crate::run::pair::{DEVICE, Pair};
use crate::tool::{Amount, PathFacts, Programs, Task};

/// Seeds of the contents.
const LARGE_SEED: u64 = 1;
const SMALL_SEED: u64 = 2;
/// The tree of small files.
pub const SMALL_FILES: u64 = 20_000;
pub const SMALL_BYTES: usize = 4096;
const FOLDERS: u64 = 100;
/// Why a bench that got a signal has no more records.
pub const STOPPED: &str = "stopped by a signal; the records of the runs so far are kept";

/// What the devices do to large sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// As on a real wire: the kernel cuts TCP and UDP super-packets into packets of 1500 bytes before the
    /// device (software GSO), and the receiver's GRO puts them together again. veth runs no GRO for packets
    /// of a device without TSO unless `gro` is on.
    Wire,
    /// veth as it comes: super-packets of up to 64 KiB cross whole. Flattering, so never quoted alone.
    Super,
}

impl Offloads {
    fn words(self) -> [&'static str; 10] {
        let [tso, udp, gro, forwarding] = match self {
            Offloads::Wire => ["off", "off", "on", "on"],
            Offloads::Super => ["on", "on", "off", "off"],
        };
        ["tso", tso, "gso", "on", "tx-udp-segmentation", udp, "gro", gro, "rx-udp-gro-forwarding", forwarding]
    }
}

/// Everything that the contestants share; gone when it is dropped.
pub struct Arena {
    pub pair: Pair,
    pub data: Data,
    /// Where copies arrive; made anew for each run.
    pub target: PathBuf,
    pub programs: Programs,
    /// ssh's cipher of every contestant that uses ssh for the data.
    pub cipher: String,
    /// Set when the bench itself is to end.
    pub interrupted: Arc<AtomicBool>,
    warm: Option<WarmMemory>,
}

impl Arena {
    /// Makes the hosts and directories.
    pub fn new(programs: Programs, interrupted: Arc<AtomicBool>) -> Result<Arena, String> {
        crate::run::group::remove_leftovers();
        crate::run::data::remove_leftovers();
        let pair = Pair::new("bench").map_err(|error: HostError| error.to_string())?;
        for namespace in pair.namespaces() {
            // One run's slow-start threshold must not decide the next one's rate.
            namespace.set_sysctls(&[("net/ipv4/tcp_no_metrics_save", "1".to_owned())])?;
        }
        let data = Data::new(LARGE_SEED)?;
        let target = data.folder().join("target");
        let cipher = crate::tool::sshd::FASTEST_CIPHER.to_owned();
        Ok(Arena { pair, data, target, programs, cipher, interrupted, warm: None })
    }

    /// Sets the devices of both hosts, and forgets what TCP has learned.
    pub fn set_offloads(&self, offloads: Offloads) -> Result<(), String> {
        for namespace in self.pair.namespaces() {
            namespace.output(&[&["ethtool", "-K", DEVICE][..], &offloads.words()].concat())?;
            // An empty table of metrics is as good.
            let _ = namespace.output(&["ip", "tcp_metrics", "flush"]);
        }
        Ok(())
    }

    /// Empties the destination, so that every contestant writes new pages, and warms the memory for them.
    pub fn clean(&mut self, bytes: u64) -> Result<(), String> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(STOPPED.to_owned());
        }
        let failed = |error: std::io::Error| format!("cannot make room in memory: {error}");
        if self.target.exists() {
            fs::remove_dir_all(&self.target).map_err(failed)?;
        }
        fs::create_dir(&self.target).map_err(failed)?;
        if !self.warm.as_ref().is_some_and(|warm| warm.holds(bytes)) {
            // The old memory goes first: there may not be room for both.
            self.warm = None;
            self.warm = Some(WarmMemory::new(bytes, &self.target).map_err(failed)?);
        }
        WarmMemory::touch_whole().map_err(failed)
    }

    /// A task that moves `source` from the first host to the second; its keys and logs lie in a directory of
    /// its own.
    pub fn task<'a>(
        &'a self,
        directory: PathBuf,
        (programs, options): (&'a Programs, &'a crate::tool::Options),
        source: &Path,
        bytes: u64,
    ) -> Result<Task<'a>, String> {
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let [sender, receiver] = self.pair.hosts().clone();
        Ok(Task {
            options,
            programs,
            path: UNLIMITED,
            sender,
            receiver,
            amount: Amount::Bytes(bytes),
            source: source.to_owned(),
            destination: self.target.clone(),
            directory,
            index: 0,
        })
    }

    /// The tree of small files, 100 directories of 4 KiB files whose content does not compress.
    pub fn small_files(&self) -> Result<PathBuf, String> {
        let tree = self.data.folder().join("tree");
        write_tree(&tree).map_err(|error| format!("cannot write {}: {error}", tree.display()))?;
        Ok(tree)
    }
}

/// A pair of virtual devices has no rate and no delay of its own; no contestant of the bench reads these
/// figures.
const UNLIMITED: PathFacts = PathFacts {
    rate_bps: f64::INFINITY,
    return_rate_bps: f64::INFINITY,
    rtt: std::time::Duration::ZERO,
    queue_bytes: 0,
    mtu: 1500,
};

fn write_tree(tree: &Path) -> std::io::Result<()> {
    let mut content = [0; SMALL_BYTES];
    Hasher::new()
        .update(b"fobs-lab bench")
        .update(&SMALL_SEED.to_le_bytes())
        .finalize_xof()
        .fill(&mut content);
    for folder in 0..FOLDERS {
        let path = tree.join(format!("d{folder:02}"));
        fs::create_dir_all(&path)?;
        for file in 0..SMALL_FILES / FOLDERS {
            content[..8].copy_from_slice(&(file << 32 | folder).to_be_bytes());
            fs::File::create(path.join(format!("f{file:03}")))?.write_all(&content)?;
        }
    }
    Ok(())
}
