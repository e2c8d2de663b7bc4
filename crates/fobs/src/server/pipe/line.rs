//! One connection of a pipe, at the server.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Policy, StreamEntrance};
use super::flow::{Flow, receive, send};
use super::told_of;
use crate::pipe::draw::{Drawn, Well};
use crate::pipe::hearken::{
    Bell, Cut, Happening, Happenings, Objects, OrCut, Part, Receipts, closed_early, next_of,
};
use crate::pipe::held::Held;
use crate::pipe::{BRANCHES, Party, Stop};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_engine::tell_abort;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::pipe::ERRORS_BYTES_MAX;
use fobs_model::message::{Bytes, Hello, Message, PipeEnd, PipeNews};
use fobs_store::{More, PipeInput};
use fobs_sys::confine;

/// How long the two objects of a pipe that has failed may take to end: the engine's own time for it.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(12);
/// How long a peer may leave what a command says unread: as long as its user likes.
const UNREAD_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);
/// How long a client may take to say that it has read the end: a round trip, and what is before it.
pub(super) const READ_WAIT: Duration = Duration::from_secs(10);
/// Parts of the window after which the client is told what has arrived, beside the times.
const RECEIPTS: u64 = 8;

/// The connection, once it is set up.
pub(super) struct Line {
    party: Arc<dyn Party>,
    writer: ControlWriter,
    /// End the reading of what comes from the party, and of what it says beside that.
    draw: Stop,
    beside: Stop,
    /// Ends the writing of what goes to it.
    pour: Stop,
    /// Ends both objects.
    flows: CancelToken,
    objects: Objects,
    /// The position at which what goes to the client begins.
    begin: u64,
}

impl Line {
    pub(super) fn start(
        held: &Held,
        [inward, outward, beside]: [ControlChannel; BRANCHES as usize],
        (policy, entrance): (Policy, StreamEntrance),
        (hello, around): (&Hello, &ControlWriter),
        (bell, (have, errors)): (Bell, (u64, u64)),
    ) -> Result<Line> {
        let (draw, pour, flows) = (Stop::new()?, Stop::new()?, CancelToken::new());
        let quiet = Stop::new()?;
        let drawn = held.well.draw(have, draw.clone())?;
        let unread = bell.clone();
        let every = held.keeping.as_ref().map_or(u64::MAX, |keeping| keeping.window / RECEIPTS);
        // Where the row is full there is one that reads it, and looks.
        held.valve.open(pour.clone(), every, move || drop(unread.try_send(Happening::Poured)));
        let [policy_in, policy_out] = [policy.of_flow(entrance)?, policy];
        let flow = |channel, policy, bell: &Bell| Flow {
            channel,
            around: around.clone(),
            policy,
            hello: hello.clone(),
            cancel: flows.clone(),
            bell: bell.clone(),
        };
        let said = held.errors.as_ref().map(|well: &Well| well.draw(errors, quiet.clone())).transpose()?;
        receive(flow(inward, policy_in, &bell), &held.valve)?;
        send(flow(outward, policy_out, &bell), drawn)?;
        pass_errors(said.zip(Some(quiet.clone())), beside, bell.clone())?;
        held.exit.tell(bell);
        let (party, writer) = (held.party.clone(), around.clone());
        Ok(Line { party, writer, draw, beside: quiet, pour, flows, objects: Objects::begin(), begin: have })
    }

    /// Waits until everything has ended well.
    pub(super) fn watch(
        &mut self,
        held: &Held,
        row: &Happenings,
        is_kept: bool,
        cancel: &CancelToken,
    ) -> OrCut<PipeEnd> {
        let (mut errors, mut told) = (Part::Open, Part::Open);
        let (mut came, mut exited) = (None, None);
        let mut receipts = is_kept.then(|| Receipts::new(self.writer.clone()));
        loop {
            if let (Part::Over, Part::Over, Some(came), Some(end)) =
                (self.objects.received, errors, came, exited)
            {
                return Ok(PipeEnd { given: held.valve.given(), came, ..end });
            }
            if held.valve.has_no_reader() && told == Part::Open {
                told = Part::Over;
                self.say(PipeNews::Unread)?;
            }
            if let Some(receipts) = &mut receipts {
                receipts.say(held.valve.position(), 0)?;
            }
            match row.next(cancel).map_err(Cut::Failed)? {
                Some(Happening::Received(done)) => {
                    self.objects.received = Part::Over;
                    done.map_err(|error| row.cut_by(error, &mut self.objects))?;
                    self.party.has_all();
                    held.valve.close();
                }
                Some(Happening::Sent(done)) => {
                    self.objects.sent = Part::Over;
                    came = Some(self.begin + done.map_err(|error| row.cut_by(error, &mut self.objects))?);
                    self.party.is_delivered();
                }
                Some(Happening::Exited(end)) => {
                    exited = Some(end.map_err(Cut::Failed)?);
                    // What the client still sends is for nobody.
                    held.valve.is_unread();
                }
                Some(Happening::ErrorsEnded) => errors = Part::Over,
                Some(Happening::Heard(PipeNews::Unread)) => self.draw.enough(),
                Some(Happening::Heard(PipeNews::Has { bytes, errors })) if is_kept => {
                    held.is_confirmed(bytes, errors);
                }
                Some(Happening::Closed(why)) => return Err(Cut::Broken(closed_early(why))),
                Some(Happening::Superseded) => return Err(Cut::Broken(superseded())),
                Some(Happening::GaveUp(why)) => return Err(Cut::Failed(why)),
                Some(Happening::Poured | Happening::Heard(_) | Happening::Told(_)) | None => {}
            }
        }
    }

    fn say(&self, news: PipeNews) -> OrCut<()> {
        self.writer.post(&Message::PipeNews(news)).map_err(Cut::Broken)
    }

    /// Ends this connection's part because of a cut, which is returned: one that the client has explained
    /// meanwhile is none that another connection mends.
    pub(super) fn leave(self, cut: Cut, held: &Held, row: &Happenings) -> Cut {
        if let Cut::Failed(why) = &cut {
            // Before its objects end, whose own words would come first and say less, and before its input
            // ends.
            self.party.give_up(why);
            tell_abort(&self.writer, &told_of(why.clone(), held));
        }
        self.flows.cancel_because(cut.error().clone());
        for stop in [&self.pour, &self.draw, &self.beside] {
            stop.fail();
        }
        match self.objects.end(row, CLEAN_UP_WAIT) {
            Some(said) => Cut::Failed(said),
            None => cut,
        }
    }
}

fn superseded() -> Error {
    Error::new(ErrorKind::Connect, "the client is back over another connection")
}

/// Sends what a command says beside its output to the client, in a thread of its own, until the client has it
/// all.
fn pass_errors(said: Option<(Drawn, Stop)>, mut beside: ControlChannel, bell: Bell) -> Result<()> {
    let writer = beside.writer.clone();
    writer.set_timeout(UNREAD_WAIT);
    let pass = move || {
        if let Some((drawn, stop)) = said
            && send_errors(drawn, &stop, &writer) == Part::Open
        {
            return;
        }
        writer.close();
        // The client ends its side of the branch behind the last of it; this channel is not closed before.
        loop {
            match next_of(&mut beside) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // It is over with its connection, and so is what was not read.
                Err(error) if error.kind == ErrorKind::Connect => return,
                Err(_) => break,
            }
        }
        // The pipe may have been given up.
        let _ = bell.send(Happening::ErrorsEnded);
    };
    confine::spawn("fobs-errors", pass).map(drop).map_err(Error::internal)
}

/// Sends what a command says until its end; `Open` where the connection ended before.
fn send_errors(mut drawn: Drawn, stop: &Stop, writer: &ControlWriter) -> Part {
    let mut bytes = vec![0; ERRORS_BYTES_MAX];
    loop {
        let read = match drawn.wait() {
            Ok(More::End) => return Part::Over,
            Ok(More::Bytes) => drawn.read(&mut bytes),
            Err(error) => Err(error),
        };
        let Ok(count) = read else {
            // Without a reason of this side it is the end of what can be read.
            return if stop.has_failed() { Part::Open } else { Part::Over };
        };
        let news = PipeNews::Errors { bytes: Bytes(bytes[..count].to_vec()) };
        if count > 0 && writer.send(&Message::PipeNews(news)).is_err() {
            return Part::Open;
        }
    }
}
