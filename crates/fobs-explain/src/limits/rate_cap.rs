//! The user's `--rate`, or the limit that another program was given: it sleeps in between.

use super::facts::unknown;
use super::{Place, Row, Stage};
use crate::figures::seconds;
use fobs_model::units::Wait;
use fobs_model::words::rate;

pub(super) const ROW: Row = Row {
    stages: |_| &[Stage::RateCap],
    place: Place::Ends,
    phrase: |facts| {
        if facts.is_of_another() {
            let had = rate(facts.goodput_bps);
            return format!("the program itself was the limit: it slept by its own choice, and moved {had}");
        }
        let cap = facts.cap_in_words(facts.sender().map_or(0, |s| s.cap_bps));
        format!("the rate that --rate sets{cap} was the limit")
    },
    evidence: |facts, sender| {
        if facts.is_of_another() {
            let slept_s = seconds(sender.waits.us(Wait::Cap));
            let slept = format!(
                "the process that moves the data was in a call that only sleeps, with nothing left to send, for \
                 {slept_s:.2} s"
            );
            return vec![slept];
        }
        vec![format!("the pacer waited at the cap; {} packets were lost", sender.packets_lost)]
    },
    fix: |facts| {
        let option =
            if facts.is_of_another() { "its limit (rsync --bwlimit, curl --limit-rate)" } else { "--rate" };
        format!("raise {option} or leave it out; how much more the path carries was not tried")
    },
    prediction: unknown,
};
