//! `fobs top`: the running copies of this host, on the whole terminal, and keys that change them.

mod view;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use fobs::{Error, ErrorKind, Result};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::args::TopArgs;
use crate::live::Snapshot;
use crate::output::printable;
use crate::{ctl, live};
use view::{Action, View};

/// Time between two looks at the copies.
const EVERY: Duration = Duration::from_millis(500);

/// Runs `fobs top`.
///
/// # Errors
/// `Usage` without a terminal, `FileIo` where it cannot be written.
pub fn run(args: &TopArgs) -> Result<()> {
    if args.once || args.json {
        return print(&live::all(), args.json);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let message = "fobs top needs a terminal; fobs top --once prints the copies as lines";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let watched = watch(&mut terminal);
    ratatui::restore();
    watched.map_err(failed)
}

fn watch(terminal: &mut ratatui::DefaultTerminal) -> io::Result<()> {
    let mut view = View::default();
    loop {
        view.show(live::all());
        terminal.draw(|frame| view.draw(frame))?;
        // Keys are answered at once; without any, the copies are looked at again.
        if !event::poll(Duration::ZERO)? && (!terminal_waits(EVERY)? || !event::poll(Duration::ZERO)?) {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match view.press(key) {
            Action::Stay => {}
            Action::Leave => return Ok(()),
            Action::Change(id, change) => match ctl::request(id, change) {
                Ok(()) => view.say(format!("{id}: {change}")),
                Err(error) => view.say(error.message),
            },
        }
    }
}

/// Waits for a key, `limit` at most; whether there is one. The event reader alone would read the end of a
/// terminal that is gone again and again.
///
/// # Errors
/// `UnexpectedEof` where the terminal is gone.
fn terminal_waits(limit: Duration) -> io::Result<bool> {
    let input = rustix::stdio::stdin();
    let mut waiting = [PollFd::new(&input, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
    match rustix::event::poll(&mut waiting, Some(&timeout)) {
        Ok(_) => {}
        // A signal: the size may have changed.
        Err(Errno::INTR) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    let seen = waiting[0].revents();
    if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is gone"));
    }
    if !seen.contains(PollFlags::IN) {
        return Ok(false);
    }
    match rustix::io::ioctl_fionread(input) {
        Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is at its end")),
        Ok(_) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// The copies as lines, or as one JSON object a line.
fn print(copies: &[Snapshot], json: bool) -> Result<()> {
    let mut text = String::new();
    for copy in copies {
        if json {
            let line = serde_json::to_string(copy);
            text.push_str(&line.map_err(|error| failed(io::Error::from(error)))?);
        } else {
            text.push_str(&format!(
                "{}  {}\n    {}",
                copy.id,
                printable(&copy.title()),
                copy.figures_in(usize::MAX)
            ));
            if !copy.limit.is_empty() {
                text.push_str(&format!("\n    {}", printable(&copy.limit)));
            }
        }
        text.push('\n');
    }
    if copies.is_empty() && !json {
        text.push_str("no copy that you may see runs here\n");
    }
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(error)),
        _ => Ok(()),
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("cannot use the terminal: {error}"))
}
