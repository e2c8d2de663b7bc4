//! All streams of one end: admitted from the door, waited for together, and let go when they end.

use super::door::{Door, DoorEvent, STREAMS_MAX, StreamSetup};
use super::record::{RecordOpener, RecordSealer};
use super::stream::Stream;
use super::totals::StreamTotals;
use super::wire::{End, Wire};
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::stream_keys::StreamKeys;
use fobs_model::options::TcpTuning;
use fobs_model::sample::StreamsSample;
use fobs_proto::wire::FrameReport;
use fobs_sys::{Waker, Watched, wait_for_any};
use std::io;
use std::time::Duration;

/// The streams of one end.
pub(super) struct Pool<Role> {
    pub(super) streams: Vec<Stream<Role>>,
    door: Box<dyn Door>,
    wanted: u32,
    keys: StreamKeys,
    ours: Direction,
    waker: Waker,
    totals: StreamTotals,
    tuning: TcpTuning,
}

impl<Role: Default> Pool<Role> {
    /// No stream yet. `ours` is the direction of what this end writes; `waker` wakes the calling thread.
    pub(super) fn new(setup: StreamSetup, ours: Direction, waker: Waker) -> Pool<Role> {
        let mut door = setup.door;
        door.attach(waker.clone());
        Pool {
            streams: Vec::new(),
            door,
            wanted: 0,
            keys: setup.keys,
            ours,
            waker,
            totals: StreamTotals::default(),
            tuning: setup.tuning,
        }
    }

    /// Takes what the door has made; why it could not make others. Each stream begins with an empty report,
    /// so that the peer hears an authentic record even where nothing is sent.
    pub(super) fn admit(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        // More than are open at once do not come between two looks.
        for _ in 0..2 * STREAMS_MAX {
            match self.door.poll() {
                None => break,
                Some(DoorEvent::Failed(error)) => failures.push(error.message),
                Some(DoorEvent::Opened(new)) => {
                    let index = new.index;
                    let has_room = self.streams.len() <= STREAMS_MAX as usize;
                    let Some((sealer, opener)) = has_room.then(|| self.keys.take(index, self.ours)).flatten()
                    else {
                        // One too many beside the control channel, or the repetition of an index: dropped,
                        // and so closed.
                        self.door.closed(index);
                        continue;
                    };
                    match Wire::new(new.io, &self.waker, &self.tuning) {
                        Ok(wire) => {
                            let (sealer, opener) = (RecordSealer::new(sealer), RecordOpener::new(opener));
                            let mut stream = Stream::new(index, wire, sealer, opener);
                            stream.report(&FrameReport::default());
                            self.streams.push(stream);
                        }
                        Err(error) => {
                            self.door.closed(index);
                            failures.push(unusable(&error));
                        }
                    }
                }
            }
        }
        failures
    }

    /// Sets how many connections are to be open at once.
    pub(super) fn want(&mut self, streams: u32) {
        let streams = streams.min(STREAMS_MAX);
        if self.wanted != streams {
            self.wanted = streams;
            self.door.want(streams);
        }
    }

    /// Takes out the streams that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<(Stream<Role>, End)> {
        let mut ended = Vec::new();
        let mut place = 0;
        while place < self.streams.len() {
            match self.streams[place].end.take() {
                None => place += 1,
                Some(end) => {
                    let stream = self.streams.remove(place);
                    self.totals.close(stream.index);
                    self.door.closed(stream.index);
                    ended.push((stream, end));
                }
            }
        }
        ended
    }

    /// Connections that are open, without the stream in the control channel.
    pub(super) fn connections(&self) -> u32 {
        self.streams.iter().filter(|stream| stream.is_open() && !stream.wire.is_channel()).count() as u32
    }

    /// Asks the kernel about each connection.
    pub(super) fn sample(&mut self) -> StreamsSample {
        for stream in &self.streams {
            if let Some(info) = stream.wire.info() {
                self.totals.update(stream.index, info);
            }
        }
        self.totals.sample(self.streams.len() as u32)
    }

    /// Waits until a stream is ready, the waker is woken, or the timeout is over. `interest` says of each
    /// stream whether to wait for something to read, and for room to write.
    pub(super) fn wait(
        &mut self,
        timeout: Duration,
        interest: impl Fn(&Stream<Role>) -> (bool, bool),
    ) -> io::Result<()> {
        let mut places = Vec::with_capacity(self.streams.len());
        let mut watched = Vec::with_capacity(self.streams.len());
        for (place, stream) in self.streams.iter().enumerate() {
            let (read, write) = interest(stream);
            // The channel's descriptor shows only room: its records come with the waker.
            let read = read && !stream.wire.is_channel();
            if read || write {
                places.push(place);
                watched.push(Watched::new(stream.wire.descriptor(), read, write));
            }
        }
        wait_for_any(&mut watched, &self.waker, Some(timeout))?;
        let ready: Vec<_> = watched.iter().map(|one| (one.read && one.readable, one.writable)).collect();
        self.streams.iter_mut().for_each(|stream| stream.writable = false);
        for (place, (readable, writable)) in places.into_iter().zip(ready) {
            let stream = &mut self.streams[place];
            stream.readable |= readable;
            stream.writable = writable;
        }
        Ok(())
    }
}

fn unusable(error: &io::Error) -> String {
    format!("a TCP connection for data cannot be used: {error}; it is made anew")
}
