//! `fobs top`: the running copies of this host and the jobs of this user, on the whole terminal, and keys
//! that change them.

mod row;
mod view;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fobs::{Error, ErrorKind, Result};
use fobs_jobs::JobView;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::args::TopArgs;
use crate::live::Snapshot;
use crate::output::printable;
use crate::{ctl, jobs, live};
use row::Row;
use view::{Action, View};

/// Time between two looks at the copies.
const EVERY: Duration = Duration::from_millis(500);
/// Time between two looks at the jobs, whose keeper reads its figures as often.
const JOBS_EVERY: Duration = Duration::from_secs(1);

/// Runs `fobs top`.
///
/// # Errors
/// `Usage` without a terminal, `FileIo` where it cannot be written.
pub fn run(args: &TopArgs) -> Result<()> {
    if args.once || args.json {
        let jobs = if args.json { Vec::new() } else { jobs::open() };
        return print(&live::all(), &jobs, args.json);
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
    let jobs = looked_at();
    loop {
        let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        view.show(Row::all(live::all(), jobs));
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
            Action::ChangeJob(id, change) => match jobs::change_one(id, change) {
                Ok(said) => view.say(said),
                Err(error) => view.say(error.message),
            },
        }
    }
}

/// The jobs, as a thread of its own sees them: a keeper whose disk is slow holds up no key.
fn looked_at() -> Arc<Mutex<Vec<JobView>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shared = seen.clone();
    // Ends with the process.
    let look = move || loop {
        let jobs = jobs::open();
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
        thread::sleep(JOBS_EVERY);
    };
    // Without the thread, copies are shown alone.
    let _ = thread::Builder::new().name("jobs".to_owned()).spawn(look);
    seen
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

/// The copies and jobs as lines, or the copies as one JSON object a line (jobs: `fobs jobs --json`).
fn print(copies: &[Snapshot], jobs: &[JobView], json: bool) -> Result<()> {
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
    for row in Row::all(Vec::new(), jobs.to_vec()) {
        let (title, figures) = (row.title_in(usize::MAX), row.figures_in(usize::MAX));
        text.push_str(&format!("{}  {title}\n    {figures}\n", row.number()));
    }
    if copies.is_empty() && jobs.is_empty() && !json {
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
