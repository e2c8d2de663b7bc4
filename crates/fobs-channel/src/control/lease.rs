//! A channel that serves several transfers, one after the other (protocol 2.8). Each gets a lease: a channel
//! that begins where the one before is over, and ends where both sides have said `over`. To its holder that
//! looks like the end of a connection.

use super::frame::{DataFrames, Frame, FrameReader, encode};
use super::outlet::{Load, Mark, Outlet, drain_to_close, push_in_time};
use super::{ControlChannel, ControlReader, ControlWriter, Frames, Peer};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Message;
use fobs_model::options::Carrier;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

/// How long the peer may take to end a transfer that is over here: its own clean-up may take 10 s
/// (`CLEAN_UP_WAIT` of the engine), and the rest is the path.
const REST_WAIT: Duration = Duration::from_secs(15);
/// How long `over` may take to leave.
const OVER_WAIT: Duration = Duration::from_secs(1);

/// Which end of the channel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Its lease begins with its own `open`: without one there is nothing to end.
    Client,
    /// Its lease answers an `open`, or waits for one.
    Server,
}

/// The channel between transfers. Dropping it closes nothing.
pub struct Kept {
    side: Side,
    writer: ControlWriter,
    /// Where the last lease leaves the frames.
    home: Arc<Mutex<Receiver<Returned>>>,
    back: SyncSender<Returned>,
    carrier: Carrier,
    key_exchange: Option<&'static str>,
    peer: Peer,
    /// What the peer can do, once a hello has come that was foretold.
    late_features: Arc<OnceLock<Vec<String>>>,
}

struct Returned {
    frames: Frames,
    stands: Stands,
    /// Whether the transfer had a stream on the channel: records of it may still come, and are dropped.
    data: DataFrames,
}

/// Where the frames of a channel stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// After the peer's last message of a transfer.
    AtRest,
    /// Within a transfer that this side has left.
    Within,
    /// At the end of the channel, or in the middle of a frame.
    Ended,
}

impl Kept {
    /// Keeps a channel that is at rest.
    pub fn new(channel: ControlChannel, side: Side) -> Kept {
        let ControlChannel { mut reader, writer, carrier, key_exchange, peer, .. } = channel;
        // Of one lease at a time.
        let (back, home) = sync_channel(1);
        let frames = mem::replace(&mut reader.frames, nothing());
        let late_features = frames.late_features();
        // There is room for this one, and its receiver stands above.
        let _ = back.try_send(Returned { frames, stands: Stands::AtRest, data: DataFrames::Refused });
        Kept {
            side,
            writer,
            home: Arc::new(Mutex::new(home)),
            back,
            carrier,
            key_exchange,
            peer,
            late_features,
        }
    }

    /// Keeps a channel on which a transfer has begun, with the lease of that one.
    pub fn within(channel: ControlChannel, side: Side) -> (Kept, ControlChannel) {
        let mut kept = Kept::new(channel, side);
        let mut lease = kept.lease();
        let home = kept.home.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
        if let (Ok(Returned { frames, .. }), Some(state)) = (home, &mut lease.reader.lease) {
            lease.reader.frames = frames;
            state.stands = Some(Stands::Within);
        }
        (kept, lease)
    }

    /// The channel for the next transfer. Its first `recv` waits until the one before is over on the other
    /// side. What the channel itself yields as a secret is for a channel with one transfer: here each has its
    /// own, told by the server.
    pub fn lease(&mut self) -> ControlChannel {
        let used = Arc::new(AtomicBool::new(false));
        let outlet = Arc::new(Leased {
            outlet: self.writer.outlet.clone(),
            side: self.side,
            used: used.clone(),
            is_closed: Mutex::new(false),
        });
        let writer = ControlWriter { outlet, ..self.writer.clone() };
        let (home, back) = (self.home.clone(), self.back.clone());
        let lease = Lease { home, back, outlet: self.writer.outlet.clone(), used, stands: None };
        let (peer, unheard) = (self.writer.peer.clone(), self.writer.unheard.clone());
        let reader = ControlReader {
            frames: nothing(),
            peer,
            unheard,
            inlet: None,
            branches: None,
            lease: Some(lease),
        };
        let (carrier, key_exchange, peer) = (self.carrier, self.key_exchange, self.peer.clone());
        let foretold = None;
        ControlChannel { reader, writer, exporter: None, carrier, key_exchange, foretold, peer }
    }

    /// What the peer can do, where its hello was foretold and has come by now.
    pub fn late_features(&self) -> Option<&[String]> {
        self.late_features.get().map(Vec::as_slice)
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// An action that ends the channel at once, for another thread.
    pub fn breaker(&self) -> impl FnOnce() + Send + 'static {
        let outlet = self.writer.outlet.clone();
        move || outlet.abandon()
    }

    /// Ends the channel after what was sent.
    pub fn close(&self) {
        self.writer.close();
    }
}

fn nothing() -> Frames {
    FrameReader::new(Box::new(io::empty()))
}

/// The receiving half of a lease.
pub(super) struct Lease {
    home: Arc<Mutex<Receiver<Returned>>>,
    back: SyncSender<Returned>,
    outlet: Arc<dyn Outlet>,
    /// Whether the sending half has sent anything.
    used: Arc<AtomicBool>,
    /// `None` while the frames may still be with the lease before.
    stands: Option<Stands>,
}

impl Lease {
    /// The next frame of this transfer; `None` once the peer has said that it is over.
    pub(super) fn read(&mut self, frames: &mut Frames, data: DataFrames) -> Result<Option<Frame>> {
        if self.stands.is_none() {
            *frames = self.take_over()?;
            self.stands = Some(Stands::Within);
        }
        if self.stands != Some(Stands::Within) {
            return Ok(None);
        }
        loop {
            let read = frames.read_frame(data);
            match &read {
                Ok(Some(Frame::Message(Message::Unknown))) => continue,
                Ok(Some(Frame::Message(Message::Over))) => {
                    self.stands = Some(Stands::AtRest);
                    return Ok(None);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => self.stands = Some(Stands::Ended),
            }
            return read;
        }
    }

    /// The frames, once the transfer before is over on the other side. The reader's deadline holds here, too.
    fn take_over(&self) -> Result<Frames> {
        let home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        let Returned { mut frames, stands, data } = home.recv_timeout(REST_WAIT).map_err(|_| never_over())?;
        if stands == Stands::Within {
            loop {
                match frames.read_frame(data)? {
                    Some(Frame::Message(Message::Over)) => break,
                    Some(_) => {}
                    None => return Err(gone()),
                }
            }
        }
        match stands {
            Stands::Ended => Err(gone()),
            Stands::AtRest | Stands::Within => Ok(frames),
        }
    }
}

impl Drop for ControlReader {
    fn drop(&mut self) {
        let Some(Lease { back, outlet, used, stands, .. }) = self.lease.take() else { return };
        match stands {
            Some(stands) => {
                let frames = mem::replace(&mut self.frames, nothing());
                // Full or deserted: the channel is in use no more.
                let data = if self.inlet.is_some() { DataFrames::Allowed } else { DataFrames::Refused };
                let _ = back.try_send(Returned { frames, stands, data });
            }
            // It asked and did not listen: what comes now belongs to no transfer.
            None if used.load(Ordering::SeqCst) => outlet.abandon(),
            None => {}
        }
    }
}

fn never_over() -> Error {
    let why = format!("did not end the transfer before within {} s; connect again", REST_WAIT.as_secs());
    Error::new(ErrorKind::Timeout, why)
}

fn gone() -> Error {
    Error::new(ErrorKind::Connect, "ended the connection between two transfers; connect again")
}

/// The sending half of a lease.
struct Leased {
    outlet: Arc<dyn Outlet>,
    side: Side,
    /// Whether anything was sent.
    used: Arc<AtomicBool>,
    /// A writer that outlives its transfer must not speak in the next one.
    is_closed: Mutex<bool>,
}

impl Leased {
    fn open(&self) -> io::Result<MutexGuard<'_, bool>> {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_closed { Err(io::ErrorKind::NotConnected.into()) } else { Ok(is_closed) }
    }
}

impl Outlet for Leased {
    fn push(&self, frame: &[u8], load: Load) -> io::Result<Option<Mark>> {
        let _open = self.open()?;
        self.used.store(true, Ordering::SeqCst);
        self.outlet.push(frame, load)
    }

    fn drain(&self) -> io::Result<Mark> {
        let _open = self.open()?;
        self.outlet.drain()
    }

    fn is_empty(&self) -> bool {
        self.outlet.is_empty()
    }

    fn has_no_message(&self) -> bool {
        self.outlet.has_no_message()
    }

    fn poll_descriptor(&self) -> io::Result<OwnedFd> {
        self.outlet.poll_descriptor()
    }

    /// Says that the transfer is over.
    fn close(&self) {
        let Ok(mut is_closed) = self.open() else { return };
        *is_closed = true;
        if self.side == Side::Client && !self.used.load(Ordering::SeqCst) {
            return;
        }
        let said = encode(&Message::Over)
            .map_err(|error| io::Error::other(error.message))
            .and_then(|frame| push_in_time(&*self.outlet, &frame, Instant::now() + OVER_WAIT));
        match said {
            Ok(_) => drain_to_close(|| self.outlet.drain().map(|_| self.outlet.is_empty())),
            Err(_) => self.outlet.abandon(),
        }
    }

    /// Ends the channel. A writer whose transfer is over has no part in it.
    fn abandon(&self) {
        if let Ok(mut is_closed) = self.open() {
            *is_closed = true;
            self.outlet.abandon();
        }
    }

    fn set_read_deadline(&self, deadline: Option<Instant>) {
        self.outlet.set_read_deadline(deadline);
    }

    fn renew_keys(&self) -> io::Result<()> {
        let _open = self.open()?;
        self.outlet.renew_keys()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.outlet.set_timeout(timeout);
    }
}

#[cfg(test)]
mod tests;
