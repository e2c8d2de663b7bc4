//! A neighbour on a host: another user, in whose directory, or beside whose files, root or a plain user has a
//! tree stored or read. Knows nothing of the laboratory: the end-to-end tests use it too.

mod attacker;
mod check;
mod place;

use std::path::Path;

pub use place::Place;

/// The neighbour's user and group; no account needs to exist.
const NEIGHBOUR: u32 = 1_234_501;
/// A plain user who copies beside the neighbour.
const PLAIN: u32 = 1_234_502;
/// How files begin that the neighbour wrote.
const MARK: &[u8] = b"what the neighbour wrote\n";
/// How files begin that the neighbour must not read.
const SECRET: &[u8] = b"nobody else may read this\n";

/// How files begin that anybody might read, in a directory that is private.
const PRIVATE: &[u8] = b"nobody else may look at it\n";

/// Why the neighbour cannot be played on this host, if so.
pub fn missing() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    // A namespace with one user has no second one.
    let has_others = || std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_neighbour(&map));
    match (is_root, is_root && has_others()) {
        (false, _) => Some("root, who can become another user"),
        (true, false) => Some("a second user"),
        (true, true) => None,
    }
}

fn maps_neighbour(map: &str) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next().unwrap_or(0), numbers.next(), numbers.next().unwrap_or(0));
        (first..first + count).contains(&u64::from(PLAIN))
    })
}

/// What was found over all runs.
#[derive(Debug, Default)]
pub struct Figures {
    /// Runs, each with a neighbour at work.
    pub runs: u64,
    /// Of them by root; the others by a plain user.
    pub by_root: u64,
    /// Runs that were killed and gone on with.
    pub killed: u64,
    /// What the neighbours exchanged, replaced, linked, cut short or removed.
    pub acts: u64,
    /// Runs that reported paths as failed.
    pub reported: u64,
    /// Effects outside of the neighbour's directory, and what it got that was not its own.
    pub findings: Vec<String>,
}

impl Figures {
    /// A line of them.
    pub fn summary(&self) -> String {
        let Figures { runs, by_root, killed, acts, reported, findings } = self;
        format!(
            "{runs} runs ({by_root} by root, {killed} killed and gone on with), {acts} names meddled with, \
             {reported} runs reported paths; {} effects outside",
            findings.len()
        )
    }
}

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Plays `runs` runs below `directory`; a failure to play, which is no finding.
pub fn play(directory: &Path, fobs: &Path, seed: u64, runs: u64) -> Result<Figures, String> {
    let mut figures = Figures::default();
    let mut place = Place::new(directory, fobs, seed)?;
    while figures.runs < runs {
        place.run(&mut figures)?;
    }
    Ok(figures)
}
