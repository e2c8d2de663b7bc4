//! Carries packets along routes, link by link, and keeps the time: what flows see of the world.

use crate::agenda::{Agenda, Slot};
use crate::link::Link;
use crate::log::{Entry, Event};
use crate::packet::{FlowId, Packet, Way};
use crate::session::Session;
use crate::time::Nanos;
use crate::violation::Violation;
use fobs_proto::ChunkId;

/// A link's place in the list of links.
pub(crate) type LinkId = usize;

/// Routes of a flow, there and back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    pub(crate) data: Vec<LinkId>,
    pub(crate) acks: Vec<LinkId>,
}

/// The newest packets of one way of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Passage {
    /// When one left its host.
    pub(crate) sent: Option<Nanos>,
    /// When one reached the other host undamaged.
    pub(crate) arrived: Option<Nanos>,
}

/// The newest packets of a flow, there and back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Passages {
    pub(crate) data: Passage,
    pub(crate) acks: Passage,
}

impl Passages {
    /// Whether the path, and not its hosts, has left the flow without an answer since `since`: no ack
    /// reached the sender, although the sender sent, and the receiver answered what reached it.
    pub(crate) fn are_silent_since(&self, since: Nanos) -> bool {
        let happened = |at: Option<Nanos>| at.is_some_and(|at| at >= since);
        self.acks.arrived.is_none_or(|at| at <= since)
            && happened(self.data.sent)
            && (happened(self.acks.sent) || !happened(self.data.arrived))
    }

    /// Whether any ack has reached the sender.
    pub(crate) fn have_answer(&self) -> bool {
        self.acks.arrived.is_some()
    }

    fn way(&mut self, way: Way) -> &mut Passage {
        match way {
            Way::Data => &mut self.data,
            Way::Acks => &mut self.acks,
        }
    }
}

/// The network.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) now: Nanos,
    pub(crate) agenda: Agenda,
    pub(crate) links: Vec<Link>,
    /// Slots of each link: departure, arrival.
    slots: Vec<(Slot, Slot)>,
    routes: Vec<Routes>,
    /// What passed lately, by flow.
    pub(crate) passages: Vec<Passages>,
    /// Sessions of several lanes.
    pub(crate) sessions: Vec<Session>,
    /// The first rule that was broken.
    pub(crate) violation: Option<Violation>,
    /// Packets that reached their hosts.
    pub(crate) delivered: u64,
    /// What FOBS flows send and store, where that is recorded.
    pub(crate) log: Option<Vec<Entry>>,
}

impl Net {
    /// A network of these links; slots 0 and 1 are the first link's, and so on.
    pub(crate) fn new(links: Vec<Link>, routes: Vec<Routes>) -> Net {
        let mut agenda = Agenda::default();
        let slots = links.iter().map(|_| (agenda.add(), agenda.add())).collect();
        let passages = vec![Passages::default(); routes.len()];
        Net {
            now: 0,
            agenda,
            links,
            slots,
            routes,
            passages,
            sessions: Vec::new(),
            violation: None,
            delivered: 0,
            log: None,
        }
    }

    /// A packet leaves its host.
    pub(crate) fn send(&mut self, packet: Packet) {
        let link = self.route(packet.flow, packet.way)[0];
        if let Some(log) = &mut self.log {
            log.extend(Entry::sent(self.now, &packet));
        }
        self.passages[usize::from(packet.flow)].way(packet.way).sent = Some(self.now);
        self.enter(link, packet);
    }

    /// A FOBS receiver stores a packet's data.
    pub(crate) fn on_stored(&mut self, flow: FlowId, chunk: ChunkId, packet_index: u16) {
        if let Some(log) = &mut self.log {
            let event = Event::Stored { chunk, packet_index };
            log.push(Entry { at: self.now, flow: usize::from(flow), event });
        }
    }

    /// The packet in service on a link leaves its queue.
    pub(crate) fn on_departure(&mut self, link: LinkId) {
        self.links[link].on_departure(self.now);
        self.reschedule(link);
    }

    /// Packets arrive at a link's end. The first that has come to its host; call again until there is none.
    pub(crate) fn pop_arrival(&mut self, link: LinkId) -> Option<Packet> {
        while let Some(mut packet) = self.links[link].pop_arrival(self.now) {
            packet.hop += 1;
            match self.route(packet.flow, packet.way).get(usize::from(packet.hop)) {
                Some(&next) => self.enter(next, packet),
                None => {
                    self.delivered += 1;
                    if !packet.damaged {
                        self.passages[usize::from(packet.flow)].way(packet.way).arrived = Some(self.now);
                    }
                    return Some(packet);
                }
            }
        }
        self.reschedule(link);
        None
    }

    /// When a flow's first link will have room for another burst, so that a socket with `buffer` bytes need
    /// not push back.
    pub(crate) fn room_at(&self, flow: FlowId, way: Way, buffer: u64) -> Option<Nanos> {
        let link = &self.links[self.route(flow, way)[0]];
        let rate = link.config().rate;
        let limit = buffer.min(link.config().queue / 2).max(1);
        let excess = link.backlog().saturating_sub(limit);
        (rate > 0 && excess > 0).then(|| self.now + crate::time::time_for(excess, rate).max(1))
    }

    /// Whether a flow's first link has room for a packet.
    pub(crate) fn fits(&self, flow: FlowId, way: Way, len: u32) -> bool {
        let link = &self.links[self.route(flow, way)[0]];
        link.config().rate == 0 || link.backlog() + u64::from(len) <= link.config().queue
    }

    /// Bytes of a flow's data that wait in the queues of its route.
    pub(crate) fn queued(&self, flow: FlowId) -> u64 {
        self.route(flow, Way::Data).iter().map(|link| self.links[*link].backlog_of(flow)).sum()
    }

    /// Propagation delay of a flow's route.
    pub(crate) fn delay(&self, flow: FlowId, way: Way) -> Nanos {
        self.route(flow, way).iter().map(|link| self.links[*link].config().delay).sum()
    }

    /// The link changed: its next moments may have.
    pub(crate) fn reschedule(&mut self, link: LinkId) {
        let (departure, arrival) = self.slots[link];
        self.agenda.set(departure, self.links[link].departs_at());
        self.agenda.set(arrival, self.links[link].arrives_at());
    }

    /// The lanes of a session look for something to do.
    pub(crate) fn wake_lanes(&mut self, session: usize) {
        for slot in self.sessions.get(session).into_iter().flat_map(Session::senders) {
            self.agenda.hasten(slot, self.now);
        }
    }

    /// A rule is broken; the first breach ends the run.
    pub(crate) fn breach(&mut self, rule: &'static str, detail: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, rule, detail });
    }

    fn enter(&mut self, link: LinkId, packet: Packet) {
        self.links[link].enqueue(self.now, packet);
        self.reschedule(link);
    }

    fn route(&self, flow: FlowId, way: Way) -> &[LinkId] {
        let routes = &self.routes[usize::from(flow)];
        match way {
            Way::Data => &routes.data,
            Way::Acks => &routes.acks,
        }
    }
}
