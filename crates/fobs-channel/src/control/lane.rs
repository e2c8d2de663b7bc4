//! The stream inside a control channel (protocol 11): records as frames beside the messages, so that data
//! gets through wherever the channel does.
//!
//! A record leaves only when nothing else waits, so messages wait for one record at most. The reading thread
//! of the channel waits while the lane is full: with the channel's own back-pressure, no more is in memory
//! than a few records on each side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fobs_sys::Waker;

use super::frame::{DATA_FRAME_BYTES_MAX, broken, encode_data};
use super::named;
use super::outlet::{Load, Outlet};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Message;

/// Records that wait for the thread of the streams: 256 KiB, what arrives in 20 ms at 100 Mbit/s.
const RECORDS_WAITING_MAX: usize = 4;

/// The lane's parts: for the channel's reader, for the thread of the streams, and for the door.
pub(super) fn lane(outlet: Arc<dyn Outlet>, peer: Arc<str>) -> Result<(Inlet, ChannelLane, DoorMailbox)> {
    let descriptor = outlet.poll_descriptor().map_err(|error| named(&peer, broken(&error)))?;
    let (sender, records) = sync_channel(RECORDS_WAITING_MAX);
    let mailbox = DoorMailbox::default();
    let inlet = Inlet { records: sender, mailbox: mailbox.clone() };
    let lane = ChannelLane { outlet, descriptor, records, bell: mailbox.0.bell.clone(), peer };
    Ok((inlet, lane, mailbox))
}

/// Wakes the thread of the streams, once it is known.
#[derive(Clone, Default)]
struct Bell(Arc<OnceLock<Waker>>);

impl Bell {
    /// Whom to wake; what happened before wakes it now.
    fn attach(&self, waker: Waker) {
        waker.wake();
        // One thread has the lane and the door.
        let _ = self.0.set(waker);
    }

    fn ring(&self) {
        if let Some(waker) = self.0.get() {
            waker.wake();
        }
    }
}

/// What the other side asks of this side's door.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorMail {
    /// How many streams should be open at once.
    pub wanted: Option<u32>,
    /// A stream could not be made, because of this.
    pub failed: Option<String>,
}

/// Keeps the newest of each kind until the door looks.
#[derive(Clone, Default)]
pub struct DoorMailbox(Arc<Mail>);

#[derive(Default)]
struct Mail {
    newest: Mutex<DoorMail>,
    bell: Bell,
}

impl DoorMailbox {
    /// Whom to wake when something has come.
    pub fn attach(&self, waker: Waker) {
        self.0.bell.attach(waker);
    }

    /// What has come since the last call.
    pub fn take(&self) -> DoorMail {
        std::mem::take(&mut *self.newest())
    }

    fn newest(&self) -> MutexGuard<'_, DoorMail> {
        self.0.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the channel's reader puts what concerns the streams. Dropping it ends the lane.
pub(super) struct Inlet {
    records: SyncSender<Vec<u8>>,
    mailbox: DoorMailbox,
}

impl Inlet {
    /// Takes a record; waits while the lane is full. A lane that is gone takes nothing more.
    pub(super) fn take(&self, record: Vec<u8>) {
        let bell = &self.mailbox.0.bell;
        match self.records.try_send(record) {
            Ok(()) => bell.ring(),
            Err(TrySendError::Full(record)) => {
                bell.ring();
                // It fails once the lane's thread is gone, and then nobody wants records.
                let _ = self.records.send(record);
                bell.ring();
            }
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Keeps a message that is for the door, and returns any other.
    pub(super) fn sort(&self, message: Message) -> Option<Message> {
        match message {
            Message::WantStreams { count } => self.mailbox.newest().wanted = Some(count),
            Message::StreamsFailed { reason } => self.mailbox.newest().failed = Some(reason),
            message => return Some(message),
        }
        self.mailbox.0.bell.ring();
        None
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        // The lane's end is an event too; the sender goes first, so that the lane sees it.
        let (gone, _) = sync_channel(0);
        self.records = gone;
        self.mailbox.0.bell.ring();
    }
}

/// Whether the lane took a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It leaves at once or later.
    Taken,
    /// Something else waits to leave: again when the channel has room.
    Full,
}

/// The thread's end of the lane.
pub struct ChannelLane {
    outlet: Arc<dyn Outlet>,
    /// Shows when the channel has room. The channel does not end while it is open.
    descriptor: OwnedFd,
    records: Receiver<Vec<u8>>,
    bell: Bell,
    peer: Arc<str>,
}

impl ChannelLane {
    /// Wakes this waker when a record has come, or the channel has ended.
    pub fn attach(&self, waker: Waker) {
        self.bell.attach(waker);
    }

    /// Takes a record of 1 to 66,000 bytes, if nothing else waits to leave; never waits.
    ///
    /// # Errors
    /// `Connect` if the channel is over.
    pub fn try_send(&self, record: &[u8]) -> Result<Sent> {
        if record.is_empty() || record.len() > DATA_FRAME_BYTES_MAX {
            let message = format!("a record of {} bytes was to be sent; report this bug", record.len());
            return Err(Error::new(ErrorKind::Internal, message));
        }
        self.drain()?;
        if !self.outlet.is_empty() {
            return Ok(Sent::Full);
        }
        let taken =
            self.outlet.push(&encode_data(record), Load::Data).map_err(|error| self.broken(&error))?;
        match taken {
            Some(_) => self.drain().map(|()| Sent::Taken),
            None => Ok(Sent::Full),
        }
    }

    /// Whether something waits to leave: then the thread polls [`poll_fd`](Self::poll_fd) for room.
    pub fn has_unsent(&self) -> bool {
        !self.outlet.is_empty()
    }

    /// Writes what the channel takes now.
    ///
    /// # Errors
    /// `Connect` if the channel is over.
    pub fn drain(&self) -> Result<()> {
        self.outlet.drain().map(|_| ()).map_err(|error| self.broken(&error))
    }

    /// Polls as writable when the channel has room.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The next record that has come; `None` if there is none now.
    ///
    /// # Errors
    /// `Connect` if the channel is over.
    pub fn try_recv(&self) -> Result<Option<Vec<u8>>> {
        match self.records.try_recv() {
            Ok(record) => Ok(Some(record)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                let message = format!("{}: the control channel ended, and the stream inside it", self.peer);
                Err(Error::new(ErrorKind::Connect, message))
            }
        }
    }

    fn broken(&self, error: &std::io::Error) -> Error {
        named(&self.peer, broken(error))
    }
}

impl std::fmt::Debug for ChannelLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChannelLane({})", self.peer)
    }
}

#[cfg(test)]
mod tests;
