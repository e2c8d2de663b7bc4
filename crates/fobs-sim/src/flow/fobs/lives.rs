//! Deaths of a transfer's ends, and its next attempts: machines, policies and packet numbers begin anew,
//! after what the receiver's journal claims.

use super::kept::{Dies, Kept, Life};
use super::receiving::Receiving;
use super::sending::Sending;
use super::{CONTROL_DELAY, FobsFlow};
use crate::flow::{Outcome, Role};
use crate::net::Net;
use crate::packet::Way;
use crate::rng::Rng;
use crate::time::Nanos;
use std::mem::replace;

/// Streams of randomness of one attempt.
pub(super) fn streams(id: u16, seed: u64) -> impl Fn(u64) -> Rng {
    move |part| Rng::stream(seed, u64::from(id) * 16 + part + (1 << 20))
}

impl FobsFlow {
    /// The first attempt begins: its account, and when its ends die.
    pub(super) fn begin_lives(&mut self, net: &mut Net) {
        let Some(kept) = &self.kept else { return };
        self.sending.set_attempt(0, kept.trace());
        net.agenda.set(self.me.slot(Role::Fate), kept.next_kill(net.now));
    }

    /// Whether the sender, and the receiver, are at work.
    pub(super) fn alive(&self) -> (bool, bool) {
        match self.kept.as_ref().map_or(Life::Alive, |kept| kept.life) {
            Life::Alive => (true, true),
            Life::Dying { dead, .. } => (!dead.has_sender(), !dead.has_receiver()),
            Life::Down => (false, false),
        }
    }

    /// The next step between life and death is due.
    pub(super) fn on_fate(&mut self, net: &mut Net) {
        let Some(kept) = &mut self.kept else { return };
        match kept.life {
            Life::Alive => {
                let Some(kill) = kept.take_kill() else { return };
                self.kill(net, kill.dies, kill.pause);
            }
            Life::Dying { pause, .. } => self.go_down(net, pause),
            Life::Down => self.reopen(net),
        }
    }

    /// An end dies. The other finds the control channel closed when the news has crossed the path.
    fn kill(&mut self, net: &mut Net, dead: Dies, pause: Nanos) {
        if dead == Dies::Both {
            return self.go_down(net, pause);
        }
        let (roles, news): (&[Role], Way) = match dead {
            Dies::Sender => (&[Role::Send, Role::Read], Way::Data),
            Dies::Receiver | Dies::Both => (&[Role::Receive, Role::Write], Way::Acks),
        };
        for role in roles.iter().chain(&[Role::Control, Role::Heartbeat, Role::Streams]) {
            net.agenda.set(self.me.slot(*role), None);
        }
        if let Some(kept) = &mut self.kept {
            kept.life = Life::Dying { dead, pause };
        }
        let noticed = net.now + net.delay(self.me.id, news) + CONTROL_DELAY;
        net.agenda.set(self.me.slot(Role::Fate), Some(noticed));
    }

    /// Both ends are gone; they come again after `pause`.
    fn go_down(&mut self, net: &mut Net, pause: Nanos) {
        self.quiet(net);
        self.close_account(net);
        if let Some(kept) = &mut self.kept {
            kept.life = Life::Down;
        }
        net.agenda.set(self.me.slot(Role::Fate), Some(net.now + pause.max(1)));
    }

    /// What an attempt leaves behind is counted.
    pub(super) fn close_account(&mut self, net: &mut Net) {
        let trace = self.sending.take_trace();
        let held = self.receiving.held(&self.cut);
        if let Some(kept) = &mut self.kept {
            kept.on_attempt_over(net, trace, held);
        }
    }

    /// The transfer is opened again.
    fn reopen(&mut self, net: &mut Net) {
        let Some(kept) = &mut self.kept else { return };
        let Some(cut) = kept.rest() else {
            // Everything was stored; only the sender did not know.
            kept.check_end(net);
            return self.end(net, Outcome::Complete);
        };
        let attempt = kept.begin_attempt();
        self.session = attempt;
        self.me.start = net.now;
        let (from, to) = &kept.hosts;
        // Attempts are far apart from each other, as flows are.
        let stream = streams(self.me.id, kept.seed.wrapping_add(u64::from(attempt) << 32));
        self.cut = cut;
        self.sending = Sending::new(self.me, &self.config, from, (stream(0), stream(1)), None);
        self.sending.set_attempt(attempt, kept.trace());
        let receiving = Receiving::new(self.me, &self.config, to, stream(2), stream(3));
        self.framing = self.framing.as_ref().and_then(|f| f.again(self.me, &self.config, stream(4)));
        let disk = replace(&mut self.receiving, receiving).into_disk();
        self.receiving.set_attempt(attempt, disk);
        net.agenda.set(self.me.slot(Role::Fate), kept.next_kill(net.now));
        if kept.calm {
            self.sending.calm(net);
            self.receiving.calm(net);
        }
        self.sending.start(net, &mut self.cut);
        self.direct(net);
        self.wait_for_heartbeat(net);
    }

    /// An attempt ended because a side was silent; where ends are killed, the transfer goes on as after a
    /// death.
    pub(super) fn survives_silence(&mut self, net: &mut Net) -> bool {
        let pause = self.kept.as_deref_mut().and_then(Kept::take_silence);
        if let Some(pause) = pause {
            self.go_down(net, pause);
        }
        pause.is_some()
    }
}
