//! Finding the keeper of this user, and starting one where none answers.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fobs::{Error, ErrorKind, Result};
use fobs_jobs::{Client, ClientError, Store, Trust};

use super::place::{self, Choice};
use crate::args::jobs::JobsArgs;
use crate::output;

/// How long a keeper may take to begin: it looks through its state first.
const BEGIN_PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks whether it answers.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// HTTP status of a keeper that is about to end.
const ENDING: u16 = 503;
/// Largest file of a token that is read, bytes: one has 53.
const TOKEN_BYTES_MAX: u64 = 4096;
/// The unit of systemd's user manager.
const UNIT: &str = "fobs-jobs.service";

/// The keeper that is meant, started if need be and if it is this user's.
///
/// # Errors
/// Where none can be started.
pub fn client(choice: Choice) -> Result<Client> {
    let client = Client::new(&place::socket(choice)?);
    let client = client.map_err(|error| Error::internal(format!("cannot ask: {error}")))?;
    match client.about() {
        Err(ClientError::NotThere(_)) => start(&client)?,
        other => {
            asked(other)?;
        }
    }
    Ok(client)
}

/// The keeper that is meant, where there may be jobs: one that runs may keep them elsewhere than this shell
/// would.
///
/// # Errors
/// As [`client`].
pub fn client_if_any(choice: Choice) -> Result<Option<Client>> {
    let socket = place::socket(choice)?;
    let is_system = socket == place::system_socket();
    let running = Client::new(&socket).ok().filter(|client| client.about().is_ok());
    if running.is_some() || is_system || Store::exists(&place::directory()?) {
        client(choice).map(Some)
    } else {
        Ok(None)
    }
}

/// The keeper of another host, where one is named.
///
/// # Errors
/// Where the token cannot be read.
pub fn far(args: &JobsArgs) -> Result<Option<Client>> {
    let (Some(url), Some(file)) = (&args.url, &args.token_file) else { return Ok(None) };
    let unreadable = |why: String| {
        let message = format!("cannot read the token in {}: {why}", file.display());
        Error::new(ErrorKind::NoSource, message)
    };
    let mut text = String::new();
    let opened = fobs::named::open(file);
    let read = opened.and_then(|opened| opened.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| unreadable(error.to_string()))?;
    let token = text.trim();
    if token.is_empty() || token.contains(|c: char| !c.is_ascii_graphic()) {
        return Err(unreadable("it is not one word, as fobs jobs token create printed it".to_owned()));
    }
    let trust = args.fingerprint.map_or(Trust::Authorities, Trust::Certificate);
    let client = Client::at(url.clone(), trust, token.to_owned());
    client.map(Some).map_err(|error| Error::internal(format!("cannot ask: {error}")))
}

/// An answer as a result of this program.
///
/// # Errors
/// The keeper's, with a kind that fits.
pub fn asked<T>(answer: std::result::Result<T, ClientError>) -> Result<T> {
    answer.map_err(|error| {
        let kind = match &error {
            ClientError::Refused(problem) => match problem.status {
                401 | 403 => ErrorKind::Denied,
                ENDING => ErrorKind::Connect,
                404 => ErrorKind::NoSource,
                429 | 500..=599 => ErrorKind::Destination,
                _ => ErrorKind::Usage,
            },
            ClientError::NotThere(_) | ClientError::Broken(_) => ErrorKind::Connect,
        };
        let hint = match &error {
            ClientError::Broken(_) => "; fobs jobs shows whether it was followed",
            _ => "",
        };
        Error::new(kind, format!("{error}{hint}"))
    })
}

/// Asks the keeper that there is: the next one where it is gone or about to end. A call that broke off is not
/// made again, as it may have been followed.
///
/// # Errors
/// As [`asked`].
pub fn again<T>(client: &Client, ask: impl Fn(&Client) -> std::result::Result<T, ClientError>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match ask(client) {
            Err(ClientError::NotThere(_)) if client.is_here() && begin.elapsed() < BEGIN_PATIENCE => {
                start(client)?;
            }
            Err(ClientError::Refused(problem))
                if problem.status == ENDING && begin.elapsed() < BEGIN_PATIENCE =>
            {
                thread::sleep(LOOK_EVERY);
            }
            answer => return asked(answer),
        }
    }
}

/// Starts a keeper: systemd's where its unit is there, else one of our own in the background.
fn start(client: &Client) -> Result<()> {
    let system = place::system_socket();
    if client.socket() == Some(&system) {
        // Its operator may be starting it again.
        return answers(client, &mut || None).map_err(|_| {
            let message = format!(
                "the keeper of this host does not answer at {}: its operator starts it (systemctl start {UNIT}), or \
                 fobs jobs serve one of your own",
                system.display()
            );
            Error::new(ErrorKind::Connect, message)
        });
    }
    if start_unit() && answers(client, &mut || None).is_ok() {
        return Ok(());
    }
    let failed =
        |why: &str| Error::new(ErrorKind::Connect, format!("cannot start the keeper of jobs: {why}"));
    let program = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let mut keeper = Command::new(program);
    keeper.args(["jobs", "serve", "--on-demand"]).current_dir("/");
    keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = keeper.spawn().map_err(|error| failed(&error.to_string()))?;
    let mut said = || {
        if !matches!(child.try_wait(), Ok(Some(_))) {
            return None;
        }
        let mut text = String::new();
        // Without its words, that it has ended is said.
        let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
        Some(text.trim().trim_start_matches("fobs: ").to_owned())
    };
    answers(client, &mut said).map_err(|why| failed(&why))?;
    if let Some(sentence) = lingering() {
        output::note(&sentence);
    }
    Ok(())
}

/// Waits until the keeper answers. `said` has what one that ended has said: another one may have been faster.
fn answers(client: &Client, said: &mut dyn FnMut() -> Option<String>) -> std::result::Result<(), String> {
    let begin = Instant::now();
    let mut ended: Option<(Instant, String)> = None;
    while begin.elapsed() < BEGIN_PATIENCE {
        if client.about().is_ok() {
            return Ok(());
        }
        if ended.is_none() {
            ended = said().map(|said| (Instant::now(), said));
        }
        if let Some((since, said)) = &ended
            && since.elapsed() > Duration::from_secs(2)
        {
            return Err(said.clone());
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(ended.map_or("it does not answer".to_owned(), |(_, said)| said))
}

/// Whether systemd's user manager has the unit and has started it. Its state is the usual one: with another
/// `XDG_STATE_HOME` it is not asked.
fn start_unit() -> bool {
    let manager = std::env::var_os("XDG_RUNTIME_DIR").map(|run| Path::new(&run).join("systemd/private"));
    if std::env::var_os("XDG_STATE_HOME").is_some() || !manager.is_some_and(|socket| socket.exists()) {
        return false;
    }
    let mut systemctl = Command::new("systemctl");
    systemctl.args(["--user", "--quiet", "start", UNIT]);
    systemctl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    systemctl.status().is_ok_and(|status| status.success())
}

/// What a user should know where systemd ends all processes of one without a session.
fn lingering() -> Option<String> {
    if !Path::new("/run/systemd/system").exists() {
        return None;
    }
    let user = std::env::var("USER").ok()?;
    let lingers = Path::new("/var/lib/systemd/linger").join(&user).exists();
    (!lingers).then(|| {
        format!(
            "jobs may end with your last session on this host and go on with the next; loginctl enable-linger {user} \
             lets them run on"
        )
    })
}
