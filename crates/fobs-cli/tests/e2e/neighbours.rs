//! A short run of `fobs-lab hostile --neighbour`: another user of the host that stores, who may write in a
//! directory of the tree.

#[path = "../../../../lab/src/hostile/neighbour/mod.rs"]
mod neighbour;

use super::case::{Case, fobs_path};
use super::needs;

/// Runs; `make neighbour` plays 2,000.
const RUNS: u64 = 20;

#[test]
fn a_neighbour_changes_and_learns_nothing_outside_its_directory() {
    let name = "a_neighbour_changes_and_learns_nothing_outside_its_directory";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    case.open_to_every_user();
    let place = case.path("neighbour");
    std::fs::create_dir(&place).expect("a fresh directory");
    let figures = neighbour::play(&place, fobs_path(), case.seed(), RUNS).expect("runs");
    eprintln!("{}", figures.summary());
    assert!(figures.findings.is_empty(), "{}", figures.findings.join("\n"));
    assert!(figures.acts > 0, "the neighbour did nothing");
}

/// Whether the neighbour can be played here.
pub fn can_be_played() -> bool {
    neighbour::missing().is_none()
}
