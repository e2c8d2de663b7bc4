//! The thread that writes frames to streams.

use super::deliveries::{Deliveries, NeverSent};
use super::{ACKS_MAX, Exchange, FAILURES_MAX, FrameJob, OutNews, QUEUE_MAX, QUEUE_TIME, Shared};
use crate::Clock;
use crate::streams::pool::Pool;
use crate::streams::stream::Stream;
use crate::streams::wire::End;
use crate::streams::{Allotment, SAMPLE_EVERY, TURN_MAX};
use crate::thread::be_punctual;
use fobs_proto::Timestamp;
use fobs_proto::wire::{FRAME_DATA_MAX, Frame};
use std::sync::Arc;
use std::time::Duration;

/// Weight of the newest span in the measured rate, as a divisor, and the spans themselves.
const RATE_SMOOTHING: u64 = 4;
const RATE_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Sending {
    pool: Pool<Deliveries>,
    shared: Arc<Shared>,
    clock: Clock,
    allotment: Allotment,
    /// What is new since it was last published.
    news: OutNews,
    sample_at: Timestamp,
    rate: Rate,
    /// Frames were taken out of the queue since the last look at it.
    took: bool,
}

/// Bytes per second that the receiver takes.
#[derive(Default)]
struct Rate {
    bytes_per_second: u64,
    since: Timestamp,
    bytes: u64,
}

impl Rate {
    fn look(&mut self, now: Timestamp, total: u64) {
        let span = now - self.since;
        if span < RATE_EVERY {
            return;
        }
        let newest = u128::from(total - self.bytes) * 1_000_000_000 / span.as_nanos().max(1);
        let newest = u64::try_from(newest).unwrap_or(u64::MAX);
        self.bytes_per_second =
            self.bytes_per_second / RATE_SMOOTHING * (RATE_SMOOTHING - 1) + newest / RATE_SMOOTHING;
        (self.since, self.bytes) = (now, total);
    }
}

impl Sending {
    pub(super) fn new(
        pool: Pool<Deliveries>,
        shared: Arc<Shared>,
        clock: Clock,
        allotment: Allotment,
    ) -> Sending {
        let (news, sample_at, rate) = (OutNews::default(), Timestamp::ZERO, Rate::default());
        Sending { pool, shared, clock, allotment, news, sample_at, rate, took: false }
    }

    /// Until the session ends.
    pub(super) fn run(mut self) {
        be_punctual();
        while !self.shared.lock().ending {
            let now = self.clock.now();
            self.admit();
            self.read(now);
            self.write(now);
            self.let_go();
            self.find_late(now);
            self.publish(now);
            if let Err(error) = self.wait(now) {
                // Without poll(2) no stream works: the session goes on without them.
                for stream in &mut self.pool.streams {
                    stream.end.get_or_insert(End::Broken(error.to_string()));
                }
                std::thread::sleep(TURN_MAX);
            }
        }
    }

    fn admit(&mut self) {
        let wanted = self.shared.lock().wanted;
        self.pool.want(wanted);
        for failure in self.pool.admit() {
            self.note(failure);
        }
        // Those that are too many take nothing more; they are needed again if more are wanted.
        let mut allowed = wanted;
        for stream in self.pool.streams.iter_mut().filter(|stream| !stream.wire.is_channel()) {
            stream.role.retiring = allowed == 0;
            allowed = allowed.saturating_sub(1);
        }
    }

    fn note(&mut self, failure: String) {
        if self.news.failures.len() < FAILURES_MAX {
            self.news.failures.push(failure);
        }
    }

    /// Takes the receiver's reports.
    fn read(&mut self, now: Timestamp) {
        let Sending { pool, news, shared, .. } = self;
        let (mut channel, mut connections, mut heard) = (0, 0, false);
        for stream in &mut pool.streams {
            let bytes = if stream.wire.is_channel() { &mut channel } else { &mut connections };
            heard |= stream.receive(Vec::new, |deliveries, plain| {
                let report = match Frame::decode(&plain) {
                    Ok(Frame::Report(report)) => report,
                    Ok(Frame::Data(..)) => return Err(End::Unexpected("data to the sender")),
                    Err(_) => return Err(End::Unexpected("a record that is no frame")),
                };
                if let Some(ack) = report.ack {
                    if news.acks.len() >= ACKS_MAX {
                        news.acks.pop_front();
                    }
                    news.acks.push_back(ack);
                }
                let taken = deliveries.on_report(now, report.delivered, |id, len| {
                    *bytes += u64::from(len);
                    news.delivered.push(id);
                });
                taken.map_err(|NeverSent| End::Unexpected("a report of frames that were not sent"))
            });
        }
        if heard {
            let figures = &mut shared.lock().figures;
            figures.heard = Some(now);
            figures.channel_bytes += channel;
            figures.connection_bytes += connections;
        }
    }

    /// Gives frames to the streams that are free.
    fn write(&mut self, now: Timestamp) {
        let Sending { pool, shared, allotment, took, .. } = self;
        let with_connections = has_connections(pool);
        let streams = pool.streams.iter().filter(|stream| may_write(stream, with_connections)).count();
        let mut place = 0;
        for stream in &mut pool.streams {
            stream.flush();
            if !may_write(stream, with_connections) {
                continue;
            }
            place += 1;
            if !stream.writable || !stream.is_idle() {
                continue;
            }
            let Some(job) = take_frame(&mut shared.lock(), *allotment, place - 1, streams) else { continue };
            *took = true;
            stream.role.on_sent(now, job.id, job.plain.len());
            stream.write(&job.plain);
            shared.lock().spare.push(job.plain);
        }
    }

    /// Takes leave of streams that have ended or are not needed any more.
    fn let_go(&mut self) {
        for stream in &mut self.pool.streams {
            let done = stream.role.retiring && stream.role.is_empty() && stream.is_idle();
            if done {
                stream.end = Some(End::Closed);
            }
        }
        for (stream, end) in self.pool.take_ended() {
            let retired = stream.role.retiring && stream.role.is_empty();
            self.news.lost.extend(stream.role.lost());
            if !retired {
                self.note(end.to_string());
            }
        }
        let with_connections = has_connections(&self.pool);
        if !self.pool.streams.iter().any(|stream| may_write(stream, with_connections)) {
            // No stream takes what waits: those that are left only wait for reports.
            let mut exchange = self.shared.lock();
            let waiting: Vec<_> = exchange.queue.drain(..).collect();
            for job in waiting {
                self.news.lost.push(job.id);
                exchange.spare.push(job.plain);
            }
        }
    }

    /// Where others have nothing to do, slow streams are not waited for.
    fn find_late(&mut self, now: Timestamp) {
        if !self.others_are_idle() {
            return;
        }
        let late = &mut self.news.late;
        for stream in &mut self.pool.streams {
            stream.role.late(now, |id| late.push(id));
        }
    }

    fn others_are_idle(&self) -> bool {
        let with_connections = has_connections(&self.pool);
        let exchange = self.shared.lock();
        let idle = |stream: &Stream<Deliveries>| {
            may_write(stream, with_connections) && stream.is_idle() && stream.role.is_empty()
        };
        exchange.queue.is_empty() && (exchange.datagrams_idle || self.pool.streams.iter().any(idle))
    }

    /// Hands the news to the session's thread.
    fn publish(&mut self, now: Timestamp) {
        let sample = (now >= self.sample_at).then(|| {
            self.sample_at = now + SAMPLE_EVERY;
            self.pool.sample()
        });
        let news = std::mem::take(&mut self.news);
        let (open, connections) = (self.pool.streams.len() as u32, self.pool.connections());
        let with_connections = has_connections(&self.pool);
        let writing = self.pool.streams.iter().filter(|stream| may_write(stream, with_connections)).count();
        let mut exchange = self.shared.lock();
        let fresh = !news.is_empty();
        exchange.news.append(news);
        let figures = &mut exchange.figures;
        (figures.open, figures.connections) = (open, connections);
        figures.connections_max = figures.connections_max.max(connections);
        if let Some(sample) = sample {
            figures.sample = sample;
        }
        self.rate.look(now, figures.channel_bytes + figures.connection_bytes);
        let within =
            u128::from(self.rate.bytes_per_second) * QUEUE_TIME.as_millis() / 1000 / FRAME_DATA_MAX as u128;
        let had = exchange.target;
        exchange.target = match writing {
            0 => 0,
            writing => (writing + within as usize).min(QUEUE_MAX),
        };
        let room = exchange.queue.len() * 2 <= exchange.target && exchange.target > 0;
        let more = std::mem::take(&mut self.took) || had < exchange.target;
        let wake = fresh || room && more;
        if wake {
            self.shared.owner.wake();
        }
    }

    fn wait(&mut self, now: Timestamp) -> std::io::Result<()> {
        let hungry = self.offer();
        let mut until = now + TURN_MAX;
        if hungry && self.others_are_idle() {
            let late = self.pool.streams.iter().filter_map(|stream| stream.role.late_at());
            until = late.fold(until, Timestamp::min);
        }
        let timeout = until - self.clock.now();
        self.pool.wait(timeout, |stream| (true, stream.role.offered || !stream.is_idle()))
    }

    /// Marks the streams for which a frame waits; whether none waits for anyone.
    fn offer(&mut self) -> bool {
        let with_connections = has_connections(&self.pool);
        let writing = |stream: &Stream<Deliveries>| may_write(stream, with_connections);
        let streams = self.pool.streams.iter().filter(|stream| writing(stream)).count();
        let mut exchange = self.shared.lock();
        let mut place = 0;
        for stream in &mut self.pool.streams {
            let parts = exchange.queue.iter().map(|job| job.part);
            stream.role.offered = writing(stream) && self.allotment.pick(parts, place, streams).is_some();
            place += usize::from(writing(stream));
        }
        exchange.hungry = !self.pool.streams.iter().any(|stream| stream.role.offered);
        exchange.hungry
    }
}

/// Whether there is a connection that takes frames.
fn has_connections(pool: &Pool<Deliveries>) -> bool {
    pool.streams.iter().any(|stream| stream.is_open() && !stream.role.retiring && !stream.wire.is_channel())
}

/// Whether a stream takes frames: the one in the control channel does only where there is no connection,
/// because messages wait behind them.
fn may_write(stream: &Stream<Deliveries>, with_connections: bool) -> bool {
    stream.is_open() && !stream.role.retiring && !(with_connections && stream.wire.is_channel())
}

/// The next frame for the stream at `place` of `streams`.
fn take_frame(
    exchange: &mut Exchange,
    allotment: Allotment,
    place: usize,
    streams: usize,
) -> Option<FrameJob> {
    let at = allotment.pick(exchange.queue.iter().map(|job| job.part), place, streams)?;
    exchange.queue.remove(at)
}
