//! What a job does when it ends (`--notify`): it runs a command, or posts itself to a URL.

mod post;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::JobView;
use crate::dial::Url;
use crate::job::{Spec, Word};

/// How long a command may take: it sends a message.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most that run at once: a thousand jobs may fail together, and what is beyond is not run.
const AT_ONCE_MAX: u32 = 16;
/// How often its end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Whether a job may have this to do.
///
/// # Errors
/// A sentence where it begins as a URL and is none.
pub(super) fn check(notify: &[Word]) -> Result<(), String> {
    url_of(notify).map_or(Ok(()), |url| url.map(|_| ()))
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
pub(super) fn run(view: JobView, phase: &'static str, say: impl FnOnce(String) + Send + 'static) {
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
            None => command(&view.spec, &view, phase).err(),
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

/// Runs the command of a job with the job in its environment.
fn command(spec: &Spec, view: &JobView, phase: &str) -> Result<(), String> {
    let Some((program, words)) = spec.notify.split_first() else { return Ok(()) };
    let standing = &view.standing;
    let mut command = Command::new(program.as_os_str());
    command.args(words.iter().map(|word| word.as_os_str())).current_dir(spec.directory.as_os_str());
    command.env_clear().envs(spec.environment.iter().map(|(name, word)| (name, word.as_os_str())));
    command
        .env("FOBS_JOB_ID", view.id.to_string())
        .env("FOBS_JOB_NAME", &spec.name)
        .env("FOBS_JOB_COMMAND", spec.command())
        .env("FOBS_JOB_PHASE", phase)
        .env("FOBS_JOB_EXIT_CODE", standing.exit_code.map(|code| code.to_string()).unwrap_or_default())
        .env("FOBS_JOB_MESSAGE", standing.message.as_deref().unwrap_or_default().replace('\0', " "));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.shown()))?;
    let since = Instant::now();
    let mut is_killed = false;
    loop {
        match child.try_wait() {
            Ok(Some(_)) if is_killed => {
                return Err(format!(
                    "{} took longer than {} s, and was killed",
                    program.shown(),
                    PATIENCE.as_secs()
                ));
            }
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{} ended with {status}", program.shown())),
            Ok(None) => {}
            Err(error) => return Err(format!("cannot wait for {}: {error}", program.shown())),
        }
        if !is_killed && since.elapsed() > PATIENCE {
            is_killed = true;
            // It may have ended in this moment.
            let _ = child.kill();
        }
        thread::sleep(LOOK_EVERY);
    }
}
