//! What a job does when it ends (`--notify`): it runs a command, or posts itself to a URL.

mod post;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::JobView;
use super::launch::{self, Order};
use crate::dial::Url;
use crate::job::{Owner, Word};

/// How long a command may take: it sends a message.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most that run at once: a thousand jobs may fail together, and what is beyond is not run.
const AT_ONCE_MAX: u32 = 16;

static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Whether a job may have this to do.
///
/// # Errors
/// A sentence where it begins as a URL and is none.
pub(super) fn check(notify: &[Word]) -> Result<(), String> {
    url_of(notify).map_or(Ok(()), |url| url.map(|_| ()))
}

/// Whether it begins as a URL.
pub(super) fn is_url(notify: &[Word]) -> bool {
    url_of(notify).is_some()
}

/// The URL, where it is one and no command.
fn url_of(notify: &[Word]) -> Option<Result<Url, String>> {
    let [word] = notify else { return None };
    let text = word.shown();
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    is_url.then(|| Url::parse(&text))
}

/// Notifies of a job's end, if it wants that, in a thread of its own. At most once: a keeper that is killed
/// in this moment does not do it again. `say` is given what its log should have: why nobody was told.
pub(super) fn run(view: JobView, phase: &'static str, by: By, say: impl FnOnce(String) + Send + 'static) {
    if view.spec.notify.is_empty() {
        return;
    }
    if RUNNING.fetch_add(1, Ordering::AcqRel) >= AT_ONCE_MAX {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        // Called from where the caller's lock is held: said by a thread.
        thread::spawn(move || say(format!("no notification: {AT_ONCE_MAX} others are being sent")));
        return;
    }
    let run = move || {
        let failed = match url_of(&view.spec.notify) {
            Some(Ok(url)) => post::post(&url, &view, phase).err(),
            Some(Err(why)) => Some(why),
            None => command(&view, phase, &by).err(),
        };
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        if let Some(why) = failed {
            say(format!("no notification: {why}"));
        }
    };
    if thread::Builder::new().name("notify".to_owned()).spawn(run).is_err() {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Who runs a command.
#[derive(Debug)]
pub(super) struct By {
    pub own_program: PathBuf,
    pub owner: Option<Owner>,
    pub boot: String,
}

/// Runs the command of a job with the job in its environment.
fn command(view: &JobView, phase: &str, by: &By) -> Result<(), String> {
    let spec = &view.spec;
    let Some(program) = spec.notify.first() else { return Ok(()) };
    let standing = &view.standing;
    let code = standing.exit_code.map(|code| code.to_string()).unwrap_or_default();
    let message = standing.message.as_deref().unwrap_or_default().replace('\0', " ");
    let told = [
        ("FOBS_JOB_ID", view.id.to_string()),
        ("FOBS_JOB_NAME", spec.name.clone()),
        ("FOBS_JOB_COMMAND", spec.command()),
        ("FOBS_JOB_PHASE", phase.to_owned()),
        ("FOBS_JOB_EXIT_CODE", code),
        ("FOBS_JOB_MESSAGE", message),
    ];
    let order = Order {
        own_program: &by.own_program,
        owner: by.owner,
        spec,
        words: spec.notify.iter().map(|word| word.as_os_str().to_owned()).collect(),
        added: told.map(|(name, value)| (name.to_owned(), value.into())).to_vec(),
    };
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", program.shown());
    let command = order.command().map_err(|error| failed(&error))?;
    launch::ask(command, &by.boot, PATIENCE, || true).map(drop).map_err(|why| failed(&why))
}
