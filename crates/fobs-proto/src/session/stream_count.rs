//! How many streams carry frames (protocol 9.7): found while the transfer runs, by what one more or one less
//! is worth. A pure function of observations.

use crate::Timestamp;
use std::time::Duration;

/// Streams open at once, at most (`seeds/003` tries up to as many).
pub const STREAMS_MAX: u32 = 64;
/// Time over which a number of streams is measured: at least this, and this many round trips, so that each
/// stream's window has gone through its ups and downs.
const EPOCH_MIN: Duration = Duration::from_secs(1);
const EPOCH_ROUND_TRIPS: u32 = 8;
/// Likewise where windows or buffers hold the streams: their rate is steady at once.
const STEADY_EPOCH_MIN: Duration = Duration::from_millis(100);
const STEADY_EPOCH_ROUND_TRIPS: u32 = 2;
/// Round trips in which slow start fills a window of 64 KB.
const SLOW_START_ROUND_TRIPS: u32 = 3;
/// More streams are kept where the gain is at least this part of what the added streams would bring if each
/// carried as much as those before.
const GAIN_KEPT: f64 = 0.25;
/// From this part on the next step doubles the number instead of adding half: the best one is far.
const GAIN_FULL: f64 = 0.75;
/// Fewer streams are kept where at most this part of the rate is lost.
const LOSS_KEPT: f64 = 0.02;
/// Part of the streams that is kept when fewer are tried.
const FEWER: f64 = 0.75;
/// Epochs that a number is held before another is tried: at first, and at most. It doubles with every trial
/// that changed nothing.
const PATIENCE: (u32, u32) = (4, 64);
/// A rate this far from the one held shows another path: trials begin anew.
const CHANGED: f64 = 0.3;
/// Streams that are not open after this many epochs will not be.
const OPENING_EPOCHS: u32 = 5;
/// Weight of the newest epoch in the rate held.
const NEWEST: f64 = 0.5;
/// Streams that deliver less than this part of what the path has carried, while no queue stands, leave room:
/// random loss holds them. (Trials show little there: the slow start of fresh streams fills any path.)
const ROOM: f64 = 0.8;
/// Time over which what the path carries is measured: at least this, and the round trips of an epoch.
const CARRIED_SPAN: Duration = Duration::from_millis(400);
/// Where there is room, the number of streams is multiplied by what is missing: least and most factor.
const ROOM_STEP: (f64, f64) = (2.0, 4.0);

/// Who decides about the number of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTarget {
    /// This many, whatever they bring: the user's wish, or one for `scavenger`.
    Fixed(u32),
    /// As many as pay, beginning with what an earlier transfer to this peer found.
    Found {
        /// The number it found.
        remembered: Option<u32>,
    },
}

/// The streams at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsSeen {
    /// When.
    pub now: Timestamp,
    /// Bytes delivered in frames so far.
    pub delivered: u64,
    /// Streams that are open.
    pub open: u32,
    /// A stream's round trip.
    pub round_trip: Duration,
    /// What holds them back.
    pub brake: StreamBrake,
    /// Nothing waits to be sent: the rate says nothing about the streams.
    pub idle: bool,
}

/// Share of the streams' busy time from which on full windows or buffers, as the kernel counts them, are what
/// held the streams: in the rest of the time it was the congestion window.
pub const STREAMS_HELD: f64 = 0.5;
/// Round trip from which on a queue stands, in smallest ones: then windows are full because the path is.
/// Measured: 1.01 with one clamped window of 64 KB on a path of 100 Mbit/s and 65 ms, 1.4 with 16 of them,
/// which fill it.
pub const STREAMS_QUEUED: f64 = 1.2;

/// What holds streams back, as far as their kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamBrake {
    /// It is not known.
    #[default]
    Path,
    /// Their congestion windows, while a queue stands: the path is full.
    Queue,
    /// Their congestion windows, while no queue stands.
    Losses,
    /// The receiver's windows or the send buffers, while no queue stands.
    Windows,
}

impl StreamBrake {
    /// From `TCP_INFO` of all streams: for how long they had something to send, and for how long of that a
    /// window or buffer was full; their round trips.
    pub fn of(busy: Duration, held: Duration, round_trip: Duration, smallest: Duration) -> StreamBrake {
        let queued = round_trip.as_secs_f64() > STREAMS_QUEUED * smallest.as_secs_f64();
        match () {
            () if busy.is_zero() || smallest.is_zero() => StreamBrake::Path,
            () if queued => StreamBrake::Queue,
            () if held >= busy.mul_f64(STREAMS_HELD) => StreamBrake::Windows,
            () => StreamBrake::Losses,
        }
    }
}

/// What the present number is there for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trial {
    /// It is the best one known.
    Hold { epochs: u32 },
    /// Whether more bring more than `rate`, that of `from`.
    More { from: u32, rate: f64 },
    /// Whether fewer bring as much.
    Fewer { from: u32, rate: f64 },
}

/// The epoch that is being measured.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// When the number was changed.
    began: Timestamp,
    /// When they were all open: they settle from then on, and are measured afterwards.
    opened: Timestamp,
    measured: Option<(Timestamp, u64)>,
    /// Observations, those without anything to send, and those without a queue where losses held the streams.
    seen: u32,
    idle: u32,
    roomy: u32,
}

/// What an epoch says.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Bytes per second.
    rate: f64,
    open: u32,
    /// No queue stood, and neither windows nor buffers were full.
    has_room: bool,
}

impl Epoch {
    fn new(now: Timestamp) -> Epoch {
        Epoch { began: now, opened: now, measured: None, seen: 0, idle: 0, roomy: 0 }
    }
}

/// Finds the number of streams.
#[derive(Debug)]
pub struct StreamCount {
    target: StreamTarget,
    wanted: u32,
    trial: Trial,
    epoch: Option<Epoch>,
    /// Rate of the number held, bytes per second.
    rate: Option<f64>,
    /// The highest rate over a span, as long as more streams do not disprove it.
    carried: f64,
    /// The span that is being measured: since when, and what was delivered by then.
    span: Option<(Timestamp, u64)>,
    /// The rate before there were more streams because there was room.
    had_room: Option<f64>,
    patience: u32,
    /// The next trial after holding is of more; else of fewer.
    more_next: bool,
    /// A number was measured and held.
    found: bool,
}

impl StreamCount {
    /// Before the first stream.
    pub fn new(target: StreamTarget) -> StreamCount {
        let wanted = match target {
            StreamTarget::Fixed(n) => n,
            StreamTarget::Found { remembered } => remembered.unwrap_or(1),
        };
        StreamCount {
            target,
            wanted: wanted.clamp(1, STREAMS_MAX),
            trial: Trial::Hold { epochs: 0 },
            epoch: None,
            rate: None,
            carried: 0.0,
            span: None,
            had_room: None,
            patience: 0,
            more_next: true,
            found: false,
        }
    }

    /// Streams to be open at once.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// The best number known, if one was measured: for a later transfer to this peer.
    pub fn found(&self) -> Option<u32> {
        self.found.then_some(match self.trial {
            Trial::Hold { .. } => self.wanted,
            Trial::More { from, .. } | Trial::Fewer { from, .. } => from,
        })
    }

    /// What is observed from now on does not follow what was observed before.
    pub fn pause(&mut self) {
        (self.epoch, self.span, self.had_room) = (None, None, None);
        if let Trial::More { from, .. } | Trial::Fewer { from, .. } = self.trial {
            self.hold(from, self.patience);
        }
    }

    /// Takes an observation; a few in each round trip or second are enough. Streams to be open at once.
    pub fn observe(&mut self, seen: &StreamsSeen) -> u32 {
        self.watch(seen);
        if let StreamTarget::Found { .. } = self.target
            && let Some(measured) = self.measure(seen)
        {
            self.decide(&measured);
            self.epoch = Some(Epoch::new(seen.now));
        }
        self.wanted
    }

    /// What the path carries at least is what it has carried.
    fn watch(&mut self, seen: &StreamsSeen) {
        if seen.idle {
            self.span = None;
            return;
        }
        let (since, before) = *self.span.get_or_insert((seen.now, seen.delivered));
        let span = seen.now - since;
        if span >= CARRIED_SPAN.max(EPOCH_ROUND_TRIPS * seen.round_trip) {
            let rate = seen.delivered.saturating_sub(before) as f64 / span.as_secs_f64();
            self.carried = self.carried.max(rate);
            self.span = Some((seen.now, seen.delivered));
        }
    }

    /// An epoch that ends.
    fn measure(&mut self, seen: &StreamsSeen) -> Option<Measured> {
        let changed = !matches!(self.trial, Trial::Hold { epochs: 1.. });
        // How long it takes to notice a difference is a matter of what made the rate.
        let (len, settles) = match seen.brake {
            StreamBrake::Path | StreamBrake::Queue | StreamBrake::Losses => {
                let len = EPOCH_MIN.max(EPOCH_ROUND_TRIPS * seen.round_trip);
                (len, len / 2)
            }
            StreamBrake::Windows => {
                let len = STEADY_EPOCH_MIN.max(STEADY_EPOCH_ROUND_TRIPS * seen.round_trip);
                (len, SLOW_START_ROUND_TRIPS * seen.round_trip)
            }
        };
        let epoch = self.epoch.get_or_insert(Epoch::new(seen.now));
        let waited = seen.now - epoch.began;
        if seen.open < self.wanted && waited < len * OPENING_EPOCHS {
            // They are not all there; what is measured would be of fewer.
            *epoch = Epoch { began: epoch.began, ..Epoch::new(seen.now) };
            return None;
        }
        let Some((since, before)) = epoch.measured else {
            if !changed || seen.now - epoch.opened >= settles {
                epoch.measured = Some((seen.now, seen.delivered));
            }
            return None;
        };
        epoch.seen += 1;
        epoch.idle += u32::from(seen.idle);
        epoch.roomy += u32::from(seen.brake == StreamBrake::Losses && !seen.idle);
        if seen.now - since < len {
            return None;
        }
        if 2 * epoch.idle > epoch.seen {
            *epoch = Epoch::new(seen.now);
            return None;
        }
        let bytes = seen.delivered.saturating_sub(before);
        let rate = bytes as f64 / (seen.now - since).as_secs_f64();
        Some(Measured { rate, open: seen.open, has_room: epoch.roomy == epoch.seen })
    }

    fn decide(&mut self, measured: &Measured) {
        let Measured { rate, open, has_room } = *measured;
        if open < self.wanted {
            return self.settle_for(open.max(1), rate);
        }
        if let Some(before) = self.had_room.take()
            && rate < before * (1.0 + GAIN_KEPT)
        {
            // At least twice as many bring no more: the path carries no longer what it did.
            self.carried = rate;
        }
        if has_room
            && rate < ROOM * self.carried
            && self.wanted < STREAMS_MAX
            && !matches!(self.trial, Trial::Fewer { .. })
        {
            return self.fill_room(rate);
        }
        match self.trial {
            Trial::Hold { epochs } => self.held(epochs + 1, rate),
            Trial::More { from, rate: before } => {
                let proportional = f64::from(self.wanted) / f64::from(from) - 1.0;
                let gain = (rate / before.max(1.0) - 1.0) / proportional;
                if gain >= GAIN_KEPT {
                    self.rate = Some(rate);
                    self.found = true;
                    self.patience = PATIENCE.0;
                    self.try_more(if gain >= GAIN_FULL { 2.0 } else { 1.5 });
                } else {
                    self.go_back(from, before);
                }
            }
            Trial::Fewer { from, rate: before } => {
                if rate >= before * (1.0 - LOSS_KEPT) {
                    self.rate = Some(rate.max(before));
                    self.patience = PATIENCE.0;
                    self.try_fewer();
                } else {
                    self.go_back(from, before);
                }
            }
        }
    }

    /// An epoch at the number held is over.
    fn held(&mut self, epochs: u32, rate: f64) {
        let before = self.rate.unwrap_or(rate);
        if (rate / before.max(1.0) - 1.0).abs() > CHANGED {
            self.patience = self.patience.min(PATIENCE.0);
            self.rate = Some(rate);
        } else {
            self.rate = Some(before + NEWEST * (rate - before));
        }
        self.found = true;
        if epochs <= self.patience {
            self.trial = Trial::Hold { epochs };
        } else if self.more_next && self.wanted < STREAMS_MAX || self.wanted == 1 {
            self.try_more(2.0);
        } else {
            self.try_fewer();
        }
    }

    /// The path has carried more than this rate, and its streams are too few for that: no trial is needed.
    fn fill_room(&mut self, rate: f64) {
        let missing = self.carried / rate.max(1.0);
        let more = f64::from(self.wanted) * missing.clamp(ROOM_STEP.0, ROOM_STEP.1);
        (self.rate, self.found, self.had_room) = (None, true, Some(rate));
        self.hold((more as u32).min(STREAMS_MAX), PATIENCE.0);
    }

    fn try_more(&mut self, factor: f64) {
        let from = self.wanted;
        let more = ((f64::from(from) * factor) as u32).max(from + 1).min(STREAMS_MAX);
        match self.rate {
            Some(rate) if more > from => {
                self.trial = Trial::More { from, rate };
                self.wanted = more;
            }
            _ => self.hold(from, self.patience),
        }
    }

    fn try_fewer(&mut self) {
        let from = self.wanted;
        let fewer = ((f64::from(from) * FEWER) as u32).max(1);
        match self.rate {
            Some(rate) if fewer < from => {
                self.trial = Trial::Fewer { from, rate };
                self.wanted = fewer;
            }
            _ => self.hold(from, self.patience),
        }
    }

    /// A trial changed nothing.
    fn go_back(&mut self, from: u32, rate: f64) {
        self.rate = Some(rate);
        self.more_next = matches!(self.trial, Trial::Fewer { .. });
        self.hold(from, (self.patience * 2).clamp(PATIENCE.0, PATIENCE.1));
    }

    /// No more streams than these can be had.
    fn settle_for(&mut self, open: u32, rate: f64) {
        self.rate = Some(rate);
        self.more_next = false;
        self.hold(open, PATIENCE.1);
    }

    fn hold(&mut self, count: u32, patience: u32) {
        self.wanted = count;
        self.patience = patience;
        self.trial = Trial::Hold { epochs: 0 };
    }
}

#[cfg(test)]
mod tests;
