//! A transfer that is one lane of a session: its end is the session's. It has no streams, and its ends are
//! not killed.

use super::{FobsFlow, LaneSeat};
use crate::check::rule;
use crate::flow::{Outcome, Role};
use crate::net::Net;
use fobs_proto::congestion::Controller;
use fobs_proto::pacing::LimitShare;

/// What a lane shares with others of its session.
pub(crate) struct LaneShared {
    /// The congestion state of its path.
    pub(crate) controller: Box<dyn Controller>,
    /// The session's limit on the rate.
    pub(crate) limit: LimitShare,
}

impl FobsFlow {
    /// The session's lanes are looked at with each heartbeat: one may be silent by now.
    pub(super) fn look_after_lane(&mut self, net: &mut Net) {
        let Some(seat) = self.config.seat else { return };
        self.sending.observe_lane(net, seat);
        net.wake_lanes(seat.session);
    }

    /// The lane ends and will not come back; its chunks go to the others.
    pub(super) fn leave_session(&mut self, net: &mut Net) {
        let Some(seat) = self.config.seat else { return };
        if net.sessions[seat.session].on_lane_ended(seat.lane) {
            net.wake_lanes(seat.session);
        }
    }

    /// The lane ends when its session has everything.
    pub(super) fn finish_lane_if_done(&mut self, net: &mut Net, seat: LaneSeat) {
        if !self.outcome.is_running() || !net.sessions[seat.session].is_complete() {
            return;
        }
        let figures = net.sessions[seat.session].figures();
        let (delivered, total) = (figures.delivered, figures.total);
        rule!(net, delivered == total, "complete means stored", "{delivered} of {total} bytes");
        self.sending.check_lane_end(net);
        self.end(net, Outcome::Complete);
    }

    /// Its session has this place for it.
    pub(crate) fn take_seat(&self, net: &mut Net) {
        if let Some(seat) = self.config.seat {
            net.sessions[seat.session].seat(seat.lane, self.me.slot(Role::Send));
        }
    }
}
