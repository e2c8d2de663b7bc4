//! Shipped windows of congestion: a model that is trained after a copy must not blame the receiver for any of
//! them.
//!
//! Six windows of each of the sixteen scenarios of congestion, made by `fobs-lab diagnose generate`. They are
//! a file so that every host tests its models on the same windows, and the simulator stays out of the program
//! that copies.

use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::Window;
use crate::window::Windows;

/// Packets of each window.
pub const PACKETS: u32 = 10_000;

const FILE: &[u8] = include_bytes!("../models/congestion.jsonl.gz");

/// All of them, in the order of the file.
pub fn windows() -> Vec<Window> {
    let lines = std::io::BufReader::new(MultiGzDecoder::new(FILE));
    let windows = Windows::new(Path::new("congestion.jsonl.gz"), Box::new(lines));
    windows.map(|read| read.expect("the shipped windows are tested").1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splice::is_congestion;
    use std::collections::BTreeMap;

    #[test]
    fn shipped_windows_cover_every_congestion_scenario() {
        let windows = windows();
        let mut counts = BTreeMap::new();
        for window in &windows {
            assert!(is_congestion(window) && window.signature.lost() > 0, "{}", window.scenario);
            assert_eq!(window.signature.packets(), PACKETS);
            *counts.entry(window.scenario.as_str()).or_insert(0) += 1;
        }
        assert!(counts.len() == 16 && counts.values().all(|count| *count == 6), "{counts:?}");
    }
}
