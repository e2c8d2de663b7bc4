//! What would decide between two limits that the measurements do not tell apart.

use super::limits::{Limit, Place};

/// The observation that would decide, without a full stop; `HOST` is the far end.
pub(super) fn decide(first: Limit, second: Option<Limit>, is_of_another: bool) -> &'static str {
    use Limit::{
        ChannelWindow, CompetingTraffic, NarrowPath, Outage, Pipe, Policer, RandomLoss, ReceiverBuffer,
        ReceiverPaused, Reordering, ReturnPath, RouteChange, StartUp,
    };
    let Some(second) = second else { return "a longer copy" };
    let pair = [first, second];
    let has = |limits: &[Limit]| pair.iter().all(|limit| limits.contains(limit));
    let one_of = |limit: Limit| pair.contains(&limit);
    if one_of(StartUp) {
        "a longer copy: the rate was still ramping up in this one"
    } else if has(&[NarrowPath, CompetingTraffic, RouteChange]) {
        "the same copy at another time, at night say: other traffic goes away, a narrow path stays"
    } else if has(&[Policer, RandomLoss, ReceiverBuffer, NarrowPath, CompetingTraffic]) {
        if is_of_another {
            "a second copy limited to half of this one's rate: losses that stay do not depend on the rate"
        } else {
            "a second copy with --rate at half of this one's rate: losses that stay do not depend on the rate"
        }
    } else if one_of(ReturnPath) || one_of(Reordering) || one_of(Outage) {
        "fobs doctor HOST, and the same copy in the other direction"
    } else if one_of(ReceiverPaused) || one_of(ChannelWindow) || one_of(Pipe) || both_ends(pair) {
        "fobs doctor HOST, which examines both hosts apart from the path"
    } else {
        if is_of_another {
            "a second copy limited to half of this one's rate: an end that is then idle was not the limit"
        } else {
            "a second copy with --rate at half of this one's rate: an end that is then idle was not the limit"
        }
    }
}

fn both_ends(pair: [Limit; 2]) -> bool {
    pair.iter().all(|limit| limit.row().place == Place::Ends)
}
