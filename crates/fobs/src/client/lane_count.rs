//! How many lanes a copy has where the user chose none: as many as the last one over the same path needed,
//! because the thread of its packets was the limit.

use super::Client;
use crate::late_lanes;
use fobs_engine::memory::history::RememberedPath;
use fobs_engine::{LanesSetup, LateLanes, Reporter};
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Summary};
use fobs_model::measured::Measured;
use fobs_model::message::{LANES, LateLanesOffer};
use fobs_model::options::{Lanes, TransferOptions, Transport};
use fobs_model::route::{Way, WayChange};
use fobs_model::sample::{Cpu, ReceiverSample, SenderSample};
use fobs_model::words::percent;
use fobs_proto::session::PacketThreads;
use std::sync::{Arc, Mutex, PoisonError};

/// Least time of a copy that says what threads do, microseconds: a shorter one is mostly its start.
const TIME_MIN_US: u64 = 3_000_000;

/// Lanes of a client.
#[derive(Default)]
pub(super) struct ClientLanes {
    /// Those beside the first, from the making of the link on.
    pub(super) setup: Option<LanesSetup>,
    /// What was asked for of lanes that may be added, and what is kept for them from the making of the link
    /// on.
    pub(super) asked_late: Option<LateLanesOffer>,
    pub(super) late: Option<LateLanes>,
    /// Those that the user chose, without the paths that are not there, if any is not.
    pub(super) present: Option<Lanes>,
    /// Lanes of which nobody chose the number.
    unchosen: Option<u8>,
}

/// What becomes of lanes that nobody chose, over the attempts of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unchosen {
    /// The next attempt may have some.
    Possible,
    /// The newest attempt has.
    Used,
    /// None: the source cannot be read twice.
    Without,
    /// None: an attempt with some found no way.
    Failed,
}

impl Unchosen {
    /// Whether an attempt that failed so is made again at once, without lanes: several are datagrams alone,
    /// and one may go over TCP.
    pub(super) fn gives_way<T>(&mut self, outcome: &Result<T>) -> bool {
        let gives_way = *self == Unchosen::Used
            && matches!(outcome, Err(Error { kind: ErrorKind::Connect | ErrorKind::Timeout, .. }));
        if gives_way {
            *self = Unchosen::Failed;
        }
        gives_way
    }
}

/// Whether the options leave the number to this program.
fn are_unchosen(options: &TransferOptions) -> bool {
    !options.lanes.are_chosen()
        && options.deadline.is_none()
        && matches!(options.transport, Transport::Auto | Transport::Udp)
}

impl Client<'_> {
    /// Looks up how many lanes a copy in this direction should have.
    pub(super) fn recall_lanes(&mut self, direction: TransferDirection, unchosen: &mut Unchosen) {
        let remembered = RememberedPath::of_the_user(&self.channel.peer);
        match unchosen {
            Unchosen::Without => return,
            Unchosen::Failed => return remembered.keep_lanes(direction, 1),
            Unchosen::Possible | Unchosen::Used => {}
        }
        if !are_unchosen(self.options) || !self.hello.has(LANES) {
            return;
        }
        self.lanes.unchosen = remembered.recall_lanes(direction).filter(|count| *count > 1);
        *unchosen = if self.lanes.unchosen.is_some() { Unchosen::Used } else { Unchosen::Possible };
    }

    /// The lanes that this client asks for.
    pub(super) fn wanted_lanes(&self) -> Lanes {
        match self.lanes.unchosen {
            Some(each) => Lanes { via: Vec::new(), each: Some(each) },
            None => self.lanes.present.as_ref().unwrap_or(&self.options.lanes).clone(),
        }
    }

    /// What is asked for of lanes that may be added: something where nobody chose any, and the session has
    /// one.
    pub(super) fn ask_for_late_lanes(&mut self) -> Option<LateLanesOffer> {
        let may_grow = are_unchosen(self.options) && self.lanes.unchosen.is_none();
        self.lanes.asked_late = if may_grow { late_lanes::offer(self.chunks_max) } else { None };
        self.lanes.asked_late
    }

    /// Whether it is the user who wants them.
    pub(super) fn has_chosen_lanes(&self) -> bool {
        self.lanes.unchosen.is_none()
    }

    /// The reporter of a copy, and what sees there what threads do.
    pub(super) fn watched(&self, direction: TransferDirection) -> (Arc<ThreadWatch>, Arc<Reporter>) {
        let lanes = self.lanes.setup.as_ref().map_or(1, LanesSetup::count);
        let watch = Arc::new(ThreadWatch {
            events: self.events.clone(),
            seen: Mutex::new(Seen::of(u8::try_from(lanes).unwrap_or(u8::MAX))),
            unchosen: are_unchosen(self.options).then_some(self.lanes.unchosen.is_some()),
            remembered: RememberedPath::of_the_user(&self.channel.peer),
            direction,
            via: Mutex::new(self.options.lanes.via.first().map(|via| format!("--via {via}"))),
        });
        (watch.clone(), Reporter::new(watch, self.channel.writer.clone()))
    }
}

/// See [`Client::watched`].
pub(super) struct ThreadWatch {
    events: Arc<dyn EventSink>,
    seen: Mutex<Seen>,
    /// Whether an earlier copy chose the lanes; `None` where the user's options do.
    unchosen: Option<bool>,
    remembered: RememberedPath,
    direction: TransferDirection,
    /// The path that the user chose, until the user knows that the data takes another.
    via: Mutex<Option<String>>,
}

/// The newest samples of both ends, the lanes that the session has, and the samples with which it got the
/// newest.
#[derive(Default)]
struct Seen {
    ends: (SenderSample, ReceiverSample),
    lanes: u8,
    since: Option<(SenderSample, ReceiverSample)>,
}

impl Seen {
    fn of(lanes: u8) -> Seen {
        Seen { lanes, ..Seen::default() }
    }

    /// What both ends have counted with as many lanes as there are now.
    fn with_these_lanes(&self) -> (SenderSample, ReceiverSample) {
        match &self.since {
            Some((sender, receiver)) => (self.ends.0.since(sender), self.ends.1.since(receiver)),
            None => self.ends.clone(),
        }
    }
}

impl EventSink for ThreadWatch {
    fn event(&self, event: Event) {
        if let Event::Measured(measured) = &event {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            match &**measured {
                Measured::Sender(sample) => seen.ends.0 = sample.clone(),
                Measured::Receiver(sample) => seen.ends.1 = sample.clone(),
                Measured::Way(WayChange { lanes: Some(lanes), .. }) => {
                    seen.lanes = *lanes;
                    seen.since = Some(seen.ends.clone());
                }
                Measured::Way(change) if change.way == Way::Streams => self.tell_of_streams(),
                _ => {}
            }
        }
        self.events.event(event);
    }
}

impl ThreadWatch {
    /// Streams carry the data, and they know no paths.
    fn tell_of_streams(&self) {
        let via = self.via.lock().unwrap_or_else(PoisonError::into_inner).take();
        let told = via.map(|via| {
            format!(
                "no datagram comes by {via}: the data goes over TCP, by the path that routes give; look at the \
                 firewalls of that path, which stop UDP"
            )
        });
        told.into_iter().for_each(|told| self.events.event(Event::Notice(told)));
    }

    /// The copy is complete: remembers how many lanes the next one should have, and says so.
    pub(super) fn conclude(&self, mut done: Summary) -> Summary {
        let Some(had) = self.unchosen else { return done };
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = seen.lanes;
        if lanes > 1 {
            let when = if had { "an earlier copy over this path" } else { "this copy with fewer" };
            done.lanes.insert(
                0,
                format!("{lanes} lanes, because a thread was the limit of {when} (--lanes 1 has one)"),
            );
        }
        let cores = u32::try_from(fobs_sys::cores()).unwrap_or(u32::MAX);
        let Some(threads) = threads_of(lanes, cores, &seen.with_these_lanes()) else {
            if !had && lanes > 1 {
                // Added too late to be judged: the next copy begins with them, and judges them.
                self.remembered.keep_lanes(self.direction, lanes);
            }
            return done;
        };
        let next = threads.lanes_next();
        if next != lanes || !had && lanes > 1 {
            done.lanes.push(format!(
                "the next copy over this path begins with {next} {}: the thread that seals or opens packets was busy \
                 for {} of the time",
                if next == 1 { "lane" } else { "lanes" },
                percent(threads.busy)
            ));
        }
        self.remembered.keep_lanes(self.direction, next);
        done
    }
}

/// What the threads did by the last samples of both ends; `None` where that says little.
fn threads_of(
    lanes: u8,
    cores: u32,
    (sender, receiver): &(SenderSample, ReceiverSample),
) -> Option<PacketThreads> {
    // Where streams carried the data the threads of packets had little to do.
    let framed = sender.bytes_frames_delivered > sender.bytes_acked / 8;
    if sender.time_us < TIME_MIN_US || receiver.time_us < TIME_MIN_US || framed {
        return None;
    }
    let part = |us: u64, time_us: u64| us as f64 / time_us as f64;
    let most = |of: fn(&Cpu) -> u64| {
        part(of(&sender.cpu), sender.time_us).max(part(of(&receiver.cpu), receiver.time_us))
    };
    Some(PacketThreads { lanes, busy: most(|cpu| cpu.run_us), short: most(|cpu| cpu.delay_us), cores })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sender_us: u64, receiver_us: u64, framed: u64) -> (SenderSample, ReceiverSample) {
        let cpu = |run_us| Cpu { run_us, delay_us: run_us / 100 };
        let sender = SenderSample {
            time_us: 10_000_000,
            cpu: cpu(sender_us),
            bytes_acked: 1000,
            bytes_frames_delivered: framed,
            ..SenderSample::default()
        };
        (sender, ReceiverSample { time_us: 10_000_000, cpu: cpu(receiver_us), ..ReceiverSample::default() })
    }

    #[test]
    fn the_busier_end_counts() {
        for (sender_us, receiver_us, next) in
            [(9_500_000, 3_000_000, 2), (3_000_000, 9_500_000, 2), (3_000_000, 3_000_000, 1)]
        {
            let threads = threads_of(1, 16, &seen(sender_us, receiver_us, 0)).expect("it says enough");
            assert_eq!(threads.lanes_next(), next, "{threads:?}");
        }
    }

    #[test]
    fn only_what_was_measured_with_the_present_lanes_counts() {
        let busy = seen(9_500_000, 3_000_000, 0);
        let later = |of: SenderSample, receiver: ReceiverSample| {
            let sender = SenderSample {
                time_us: of.time_us + 10_000_000,
                cpu: Cpu { run_us: of.cpu.run_us + 4_000_000, ..of.cpu },
                ..of
            };
            (sender, ReceiverSample { time_us: receiver.time_us + 10_000_000, ..receiver })
        };
        let ends = later(busy.0.clone(), busy.1.clone());
        let seen = Seen { ends, lanes: 2, since: Some(busy) };
        let threads = threads_of(seen.lanes, 16, &seen.with_these_lanes()).expect("it says enough");
        assert!((threads.busy - 0.4).abs() < 0.01, "{threads:?}");
    }

    #[test]
    fn short_copies_and_streams_say_nothing() {
        assert_eq!(threads_of(1, 16, &seen(9_500_000, 0, 1000)), None);
        let (sender, receiver) = seen(9_500_000, 0, 0);
        let short = SenderSample { time_us: TIME_MIN_US - 1, ..sender };
        assert_eq!(threads_of(1, 16, &(short, receiver)), None);
        assert_eq!(threads_of(1, 16, &Default::default()), None);
    }

    #[test]
    fn data_that_leaves_its_path_is_told_of_once() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        let events = move |event: Event| {
            if let Event::Notice(text) = event {
                told.lock().expect("not poisoned").push(text);
            }
        };
        let watch = |via: Option<&str>| ThreadWatch {
            events: Arc::new(events.clone()),
            seen: Mutex::new(Seen::of(1)),
            unchosen: None,
            remembered: RememberedPath::nowhere(),
            direction: TransferDirection::Push,
            via: Mutex::new(via.map(str::to_owned)),
        };
        let change = |way| {
            let reason = "no answer".to_owned();
            let change = WayChange { seconds: 1.0, way, streams: 1, lanes: None, reason };
            Event::Measured(Box::new(Measured::Way(change)))
        };
        let chosen = watch(Some("--via wlan0"));
        for way in [Way::Both, Way::Streams, Way::Udp, Way::Streams] {
            chosen.event(change(way));
        }
        watch(None).event(change(Way::Streams));
        let heard = heard.lock().expect("not poisoned");
        assert!(heard.len() == 1 && heard[0].contains("--via wlan0: the data goes over TCP"), "{heard:?}");
    }

    #[test]
    fn only_an_attempt_with_lanes_gives_way_and_once() {
        let failed = |kind| Err::<(), _>(Error::new(kind, "x"));
        let mut unchosen = Unchosen::Possible;
        assert!(!unchosen.gives_way(&failed(ErrorKind::Connect)));
        unchosen = Unchosen::Used;
        assert!(!unchosen.gives_way(&Ok(())) && !unchosen.gives_way(&failed(ErrorKind::FileIo)));
        assert!(unchosen.gives_way(&failed(ErrorKind::Connect)));
        assert!(!unchosen.gives_way(&failed(ErrorKind::Connect)), "{unchosen:?}");
    }
}
