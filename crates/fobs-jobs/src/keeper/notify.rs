//! The command that a job runs when it ends (`--notify`).

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::job::{JobId, Spec};
use crate::store::Standing;

/// How long it may take: it sends a message.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most that run at once: a thousand jobs may fail together, and what is beyond is not run.
const AT_ONCE_MAX: u32 = 16;
/// How often its end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Runs the command of a job, if it has one, with the job in its environment. At most once: a keeper that is
/// killed in this moment does not run it again.
pub(super) fn run(id: JobId, spec: &Spec, standing: &Standing, succeeded: bool) {
    let Some((program, words)) = spec.notify.split_first() else { return };
    if RUNNING.fetch_add(1, Ordering::AcqRel) >= AT_ONCE_MAX {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let mut command = Command::new(program.as_os_str());
    command.args(words.iter().map(|word| word.as_os_str())).current_dir(spec.directory.as_os_str());
    command.env_clear().envs(spec.environment.iter().map(|(name, word)| (name, word.as_os_str())));
    command
        .env("FOBS_JOB_ID", id.to_string())
        .env("FOBS_JOB_NAME", &spec.name)
        .env("FOBS_JOB_COMMAND", spec.command())
        .env("FOBS_JOB_PHASE", if succeeded { "done" } else { standing.phase.name() })
        .env("FOBS_JOB_EXIT_CODE", standing.exit_code.map(|code| code.to_string()).unwrap_or_default())
        .env("FOBS_JOB_MESSAGE", standing.message.as_deref().unwrap_or_default().replace('\0', " "));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let run = move || {
        if let Ok(mut child) = command.spawn() {
            let since = Instant::now();
            while matches!(child.try_wait(), Ok(None)) {
                if since.elapsed() > PATIENCE {
                    // It may have ended in this moment.
                    let _ = child.kill();
                }
                thread::sleep(LOOK_EVERY);
            }
        }
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    };
    if thread::Builder::new().name("notify".to_owned()).spawn(run).is_err() {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}
