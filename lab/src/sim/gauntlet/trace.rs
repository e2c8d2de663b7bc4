//! What a contestant does in a cell, moment by moment.

use fobs_sim::scene::Played;
use fobs_sim::time::{MS, Nanos, SEC};

use crate::output::print;

/// Prints a line every `every` of virtual time.
pub fn printer(name: &str, every: Nanos) -> impl FnMut(&mut Played) -> Nanos + use<> {
    let (name, mut before) = (name.to_owned(), (0, 0, 0));
    move |played| {
        let (now, figures, link) = (played.world.now(), played.flow(0).figures, played.bottleneck().stats);
        let dropped = link.dropped_full + link.dropped_early + link.policed;
        let (delivered, sent, drops) = before;
        before = (figures.delivered, figures.sent, dropped);
        let states = played.world.describe();
        let state = states.split("; ").next().unwrap_or_default();
        // A failure to print also ends the figures that follow.
        let _ = print(&format!(
            "{name} {:>9.1} ms  {:>8.2} Mbit/s, pacing {:>8.2}, rtt {:>7.2} ms, sent {:>5}, dropped {:>4} | {state}\n",
            now as f64 / MS as f64,
            (figures.delivered - delivered) as f64 * 8e-6 * SEC as f64 / every as f64,
            figures.pacing.unwrap_or(0) as f64 / 1e6,
            figures.rtt.unwrap_or(0) as f64 / MS as f64,
            figures.sent - sent,
            dropped - drops,
        ));
        if played.flow(0).outcome.is_running() { every } else { Nanos::MAX }
    }
}
