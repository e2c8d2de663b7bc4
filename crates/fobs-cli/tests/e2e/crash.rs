//! A short run of `fobs-lab crash`: copies whose ends are killed at random points.

#[path = "../../../../lab/src/crash/trial/mod.rs"]
mod trial;

use trial::{Figures, Place};

use super::case::{Case, fobs_path};

/// Kills; `make crash` makes 300.
const KILLS: u64 = 10;

#[test]
fn copies_killed_at_random_points_go_on() {
    let case = Case::new("copies_killed_at_random_points_go_on");
    let seed = case.seed();
    let mut place = Place::new(&case.path("crash"), fobs_path(), seed, false, true).expect("keys");
    eprintln!("copies over ssh: {}", place.has_ssh());
    let mut figures = Figures::default();
    while figures.kills < KILLS {
        if let Err(message) = place.copy(KILLS - figures.kills, &mut figures) {
            panic!("seed {seed}, copy {}: {message}", figures.copies);
        }
    }
    eprintln!("{}", figures.summary());
    assert!(figures.resumed > 0, "nothing was gone on with");
}
