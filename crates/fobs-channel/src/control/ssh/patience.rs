//! A remote side that says nothing: a hint after some seconds, and an end of the wait where nobody is asked.

use super::{SshProcess, end, locked};
use fobs_model::event::{Event, EventSink};
use fobs_model::options::TransferOptions;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// Silence after which the user is told what is being waited for: most logins take less.
const HINT_AFTER: Duration = Duration::from_secs(10);
/// Silence after which an unattended run gives up: more than the 127 s for which the kernel tries to connect
/// (tcp(7), `tcp_syn_retries`), after which ssh says itself what is wrong.
const LIMIT: Duration = Duration::from_secs(180);
/// How often is looked; silence is counted in these steps.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// With one of these set, ssh may ask in a window.
const WINDOW_VARIABLES: &[&str] = &["SSH_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY"];

/// How long to wait for the other side.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub(super) hint: Duration,
    pub(super) limit: SilenceLimit,
}

/// What ends the wait for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SilenceLimit {
    /// A person.
    None,
    /// So long without a first byte.
    FirstByte(Duration),
    /// So long without the end of what is watched, whatever has come: the user's choice.
    Whole(Duration),
}

impl SilenceLimit {
    fn duration(self) -> Option<Duration> {
        match self {
            SilenceLimit::None => None,
            SilenceLimit::FirstByte(limit) | SilenceLimit::Whole(limit) => Some(limit),
        }
    }
}

impl Patience {
    /// The user's limit, or one only where nobody can be asked. A person may take any time over a password, a
    /// code or a touch of a key, and ssh shows only some of these waits.
    pub fn of(options: &TransferOptions) -> Patience {
        let attended = || {
            File::open("/dev/tty").is_ok()
                || WINDOW_VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
        };
        let limit = match options.opening {
            Some(limit) => SilenceLimit::Whole(limit),
            None if attended() => SilenceLimit::None,
            None => SilenceLimit::FirstByte(LIMIT),
        };
        Patience { hint: HINT_AFTER, limit }
    }
}

/// A thread that watches for silence until this is dropped.
#[derive(Debug)]
pub struct Watch(#[expect(dead_code, reason = "its end is the signal")] mpsc::Sender<()>);

impl SshProcess {
    /// Watches for silence until the watch is dropped, or the first byte has come and the limit is about that
    /// alone.
    pub fn watch(&self, patience: Patience, events: Arc<dyn EventSink>) -> Watch {
        let (sender, over) = mpsc::channel();
        let (child, head, gave_up) = (self.child.clone(), self.head.clone(), self.gave_up.clone());
        let hint = self.hint(patience);
        let limit = patience.limit.duration();
        let look = move || {
            let (mut silent, mut hint) = (Duration::ZERO, Some(hint));
            while over.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if !head.lock().unwrap_or_else(PoisonError::into_inner).is_nothing() {
                    hint = None;
                    if !matches!(patience.limit, SilenceLimit::Whole(_)) {
                        return;
                    }
                }
                if asks_on_the_terminal(locked(&child).id()) {
                    silent = Duration::ZERO;
                    continue;
                }
                silent += LOOK_EVERY;
                if silent >= patience.hint
                    && let Some(hint) = hint.take()
                {
                    events.event(Event::Notice(hint));
                }
                if limit.is_some_and(|limit| silent >= limit) {
                    *gave_up.lock().unwrap_or_else(PoisonError::into_inner) = limit;
                    drop(end(&child));
                    return;
                }
            }
        };
        // Without the thread there is no hint, and all else works.
        drop(thread::Builder::new().name("fobs-ssh-watch".to_owned()).spawn(look));
        Watch(sender)
    }

    fn hint(&self, patience: Patience) -> String {
        let (host, program, seconds) = (&self.host, &self.fobs_path, patience.hint.as_secs());
        let end = match patience.limit.duration() {
            None => "Ctrl-C ends the wait".to_owned(),
            Some(limit) => format!("the wait ends after {} s", limit.as_secs()),
        };
        format!(
            "{host} has said nothing for {seconds} s: ssh still connects or waits for something (an agent, a \
             security key), or {program:?} hangs there; try: ssh {host} {program} --version; {end}"
        )
    }
}

/// Whether a program has opened the terminal by its name, as ssh does for as long as it asks something.
fn asks_on_the_terminal(id: u32) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return false };
    open.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file == Path::new("/dev/tty")))
}
