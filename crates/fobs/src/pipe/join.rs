//! Two clients of a daemon that meet by a name: what one sends is what the other one gets. An end that fails
//! is told to the other, so that no end of data is taken for one.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::PipeEnd;
use fobs_model::message::pipe::LISTEN_WAIT_MAX;
use fobs_model::public_key::PublicKey;

use super::{FarEnd, Party};

/// Clients that wait for others at a daemon at once, and those of one key.
const WAITING_MAX: usize = 64;
const WAITING_OF_KEY_MAX: usize = 16;
/// How often a client that waits is looked for.
const WAIT_POLL: Duration = Duration::from_millis(100);

/// The names under which clients of a daemon wait. Clones are the same.
#[derive(Clone, Default)]
pub struct Meeting(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<BTreeMap<String, Waiting>>,
    changed: Condvar,
}

struct Waiting {
    key: Option<PublicKey>,
    /// What the first one who asks for the name has put there.
    met: Option<FarEnd>,
}

impl Meeting {
    /// Waits under a name, `wait` at most, for one who asks for it.
    ///
    /// # Errors
    /// `Denied` where the name is taken or too many wait, `Timeout` where nobody came, that of `cancel`.
    pub fn listen(
        &self,
        name: &str,
        key: Option<PublicKey>,
        wait: Duration,
        cancel: &CancelToken,
        is_there: &dyn Fn() -> bool,
    ) -> Result<FarEnd> {
        self.enter(name, key)?;
        let until = Instant::now() + wait.min(LISTEN_WAIT_MAX);
        let mut waiting = self.waiting();
        loop {
            if waiting.get(name).is_some_and(|it| it.met.is_some()) {
                let met = waiting.remove(name).and_then(|it| it.met);
                return met.ok_or_else(|| nobody(name));
            }
            if let Err(error) = cancel.check() {
                waiting.remove(name);
                return Err(error);
            }
            if !is_there() {
                waiting.remove(name);
                return Err(Error::new(ErrorKind::Connect, "the client went away while it listened"));
            }
            if Instant::now() >= until {
                waiting.remove(name);
                let seconds = wait.as_secs();
                let message = format!(
                    "nobody asked for the pipe '{name}' within {seconds} s; start the other end, or give a longer --timeout"
                );
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            waiting =
                self.0.changed.wait_timeout(waiting, WAIT_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn enter(&self, name: &str, key: Option<PublicKey>) -> Result<()> {
        let mut waiting = self.waiting();
        let refused = |why: String| Err(Error::new(ErrorKind::Denied, why));
        if waiting.contains_key(name) {
            return refused(format!("a pipe listens as '{name}' already; choose another name"));
        }
        if waiting.len() >= WAITING_MAX {
            return refused(format!("{WAITING_MAX} pipes wait at this server already; try again later"));
        }
        if waiting.values().filter(|it| it.key == key).count() >= WAITING_OF_KEY_MAX {
            return refused(format!("{WAITING_OF_KEY_MAX} pipes of this key wait already; end one of them"));
        }
        waiting.insert(name.to_owned(), Waiting { key, met: None });
        Ok(())
    }

    /// Meets the one who waits under a name.
    ///
    /// # Errors
    /// `NoSource` where nobody does, `Socket` where the process may open no more files.
    pub fn call(&self, name: &str) -> Result<FarEnd> {
        let mut waiting = self.waiting();
        let met = waiting.get_mut(name).filter(|it| it.met.is_none()).ok_or_else(|| nobody(name))?;
        let (ours, theirs) = joined().map_err(|error| {
            let message = format!("cannot make a pipe: {error}; raise the limit of open files (ulimit -n)");
            Error::new(ErrorKind::Socket, message)
        })?;
        met.met = Some(theirs);
        drop(waiting);
        self.0.changed.notify_all();
        Ok(ours)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nobody(name: &str) -> Error {
    let message = format!(
        "no pipe listens as '{name}' at this server; start the other end first: fobs pipe --listen {name}"
    );
    Error::new(ErrorKind::NoSource, message)
}

/// Both ends of a pair of pipes.
fn joined() -> io::Result<(FarEnd, FarEnd)> {
    let (one, other) = (pipe()?, pipe()?);
    let halves = [Arc::<Half>::default(), Arc::default()];
    let end = |(output, _): &(PipeReader, PipeWriter), (_, input): &(PipeReader, PipeWriter), own: usize| {
        let party = Arc::new(Partner { own: halves[own].clone(), others: halves[1 - own].clone() });
        Ok::<_, io::Error>(FarEnd {
            input: input.try_clone()?.into(),
            output: output.try_clone()?.into(),
            errors: None,
            party,
        })
    };
    Ok((end(&one, &other, 0)?, end(&other, &one, 1)?))
}

/// What one client's bytes have come to.
#[derive(Default)]
struct Half {
    bytes: Mutex<Bytes>,
    changed: Condvar,
}

#[derive(Clone, Default)]
enum Bytes {
    #[default]
    Flow,
    /// All are with the server.
    All,
    /// The other client has them, or wants no more.
    Delivered,
    /// They are cut off, because of this.
    Cut(String),
}

/// The other client, for one of them.
struct Partner {
    own: Arc<Half>,
    others: Arc<Half>,
}

impl Half {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is decided stays.
    fn become_if(&self, may: impl FnOnce(&Bytes) -> bool, next: Bytes) {
        let mut bytes = self.bytes();
        if may(&bytes) {
            *bytes = next;
        }
        drop(bytes);
        self.changed.notify_all();
    }

    fn cut(&self, why: &str) {
        self.become_if(|bytes| matches!(bytes, Bytes::Flow | Bytes::All), Bytes::Cut(why.to_owned()));
    }
}

impl Party for Partner {
    fn spoke_to_end(&self) -> io::Result<()> {
        match &*self.others.bytes() {
            Bytes::All | Bytes::Delivered => Ok(()),
            Bytes::Flow => Err(io::Error::other(GONE)),
            Bytes::Cut(why) => Err(io::Error::other(format!("the other end of the pipe failed: {why}"))),
        }
    }

    fn has_all(&self) {
        self.own.become_if(|bytes| matches!(bytes, Bytes::Flow), Bytes::All);
    }

    fn is_delivered(&self) {
        self.others.become_if(|bytes| matches!(bytes, Bytes::Flow | Bytes::All), Bytes::Delivered);
    }

    fn give_up(&self, why: &Error) {
        self.own.cut(&why.message);
        self.others.cut(&why.message);
    }

    /// There is no command: it is over when the other client has everything.
    fn wait(&self) -> Result<PipeEnd> {
        let mut bytes = self.own.bytes();
        loop {
            match &*bytes {
                Bytes::Delivered => return Ok(PipeEnd::default()),
                Bytes::Cut(why) => {
                    let message = format!("the other end of the pipe failed: {why}");
                    return Err(Error::new(ErrorKind::Connect, message));
                }
                Bytes::Flow | Bytes::All => {
                    bytes = self.own.changed.wait(bytes).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Why nothing more comes, where the other end does not say it.
const GONE: &str = "the other end of the pipe is gone";

impl Drop for Partner {
    fn drop(&mut self) {
        self.own.cut(GONE);
        self.others.cut(GONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::thread;

    fn met() -> (FarEnd, FarEnd) {
        let (meeting, there) = (Meeting::default(), || true);
        let listening = meeting.clone();
        let listener = thread::spawn(move || {
            listening.listen("db", None, Duration::from_secs(60), &CancelToken::new(), &there).unwrap()
        });
        loop {
            match meeting.call("db") {
                Ok(caller) => return (listener.join().unwrap(), caller),
                Err(error) => assert_eq!(error.kind, ErrorKind::NoSource),
            }
        }
    }

    fn rest_of(end: FarEnd) -> (String, io::Result<()>) {
        let mut text = String::new();
        File::from(end.output).read_to_string(&mut text).unwrap();
        (text, end.party.spoke_to_end())
    }

    #[test]
    fn what_one_end_gives_the_other_one_gets() {
        let (listener, caller) = met();
        let FarEnd { input, party, .. } = &caller;
        File::from(input.try_clone().unwrap()).write_all(b"to the listener").unwrap();
        File::from(listener.input.try_clone().unwrap()).write_all(b"to the caller").unwrap();
        party.has_all();
        listener.party.has_all();
        listener.party.is_delivered();
        assert_eq!(party.wait(), Ok(PipeEnd::default()));
        party.is_delivered();
        assert_eq!(listener.party.wait(), Ok(PipeEnd::default()));
        let (from_listener, from_caller) = (listener.input, caller.input);
        drop((from_listener, from_caller));
        let end = |output, party| FarEnd {
            input: File::open("/dev/null").unwrap().into(),
            output,
            errors: None,
            party,
        };
        let (text, ended) = rest_of(end(listener.output, listener.party));
        assert!(text == "to the listener" && ended.is_ok(), "{text} {ended:?}");
        let (text, ended) = rest_of(end(caller.output, caller.party));
        assert!(text == "to the caller" && ended.is_ok(), "{text} {ended:?}");
    }

    #[test]
    fn an_end_that_fails_or_vanishes_is_no_end_of_data() {
        for why in [Some("its disk is full"), None] {
            let (listener, FarEnd { input, party, output, .. }) = met();
            File::from(input.try_clone().unwrap()).write_all(b"half").unwrap();
            if let Some(why) = why {
                party.give_up(&Error::new(ErrorKind::FileIo, why));
                party.has_all();
            }
            drop((input, output, party));
            let FarEnd { input, output, errors, party } = listener;
            drop(input);
            assert_eq!(party.wait().unwrap_err().kind, ErrorKind::Connect);
            let nothing = File::open("/dev/null").unwrap().into();
            let (text, ended) = rest_of(FarEnd { input: nothing, output, errors, party });
            let said = ended.unwrap_err().to_string();
            assert!(text == "half" && said.contains(why.unwrap_or("is gone")), "{text} {said}");
        }
    }

    #[test]
    fn waiting_is_bounded_in_number_and_time() {
        let (meeting, cancel) = (Meeting::default(), CancelToken::new());
        let listen =
            |name: &str, wait| meeting.listen(name, None, wait, &cancel, &|| true).err().unwrap().kind;
        assert_eq!(listen("late", Duration::from_millis(30)), ErrorKind::Timeout);
        assert_eq!(meeting.call("late").err().unwrap().kind, ErrorKind::NoSource, "nobody waits any more");
        for n in 0..WAITING_OF_KEY_MAX {
            meeting.enter(&format!("n{n}"), None).unwrap();
        }
        assert_eq!(listen("one-more", Duration::ZERO), ErrorKind::Denied);
        for n in WAITING_OF_KEY_MAX..WAITING_MAX {
            meeting.enter(&format!("n{n}"), Some(PublicKey::from_bytes([n as u8; 32]))).unwrap();
        }
        assert_eq!(listen("n3", Duration::ZERO), ErrorKind::Denied, "the name is taken");
        assert_eq!(listen("another", Duration::ZERO), ErrorKind::Denied);
    }

    #[test]
    fn a_listener_that_is_gone_or_cancelled_waits_no_more() {
        let (meeting, cancel) = (Meeting::default(), CancelToken::new());
        let minute = Duration::from_secs(60);
        assert_eq!(
            meeting.listen("a", None, minute, &cancel, &|| false).err().unwrap().kind,
            ErrorKind::Connect
        );
        cancel.cancel();
        assert_eq!(
            meeting.listen("a", None, minute, &cancel, &|| true).err().unwrap().kind,
            ErrorKind::Interrupted
        );
        assert!(meeting.waiting().is_empty());
    }
}
