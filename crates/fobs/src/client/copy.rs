//! A copy from its beginning to its end: attempts over one connection after the other, and the two parts of a
//! sync that deletes first.

use super::busy::outlast;
use super::direct::small_object;
use super::ends::{LocalSources, distinct, local_sources, open_source, remote_sources};
use super::line::Caller;
use super::manner::Manner;
use super::persist::{Course, Interlude, Remedy, persist};
use super::resume::{directory_to_make, open_sink, transfer_id};
use super::{Client, Done};
use fobs_engine::{Steering, tell_abort};
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Outcome, Summary};
use fobs_model::message::{PathRole, REUSE};
use fobs_model::options::sync::{DeleteWhen, RunAs, SyncOptions};
use fobs_model::options::{Carrier, Location, Remote, TransferOptions};
use fobs_store::{NameCharsets, convert_names, needs_expansion, run_as, top_names};
use std::sync::Arc;
use std::time::SystemTime;

/// Copies `sources` to `destination`, which were [`check`]ed, in the calling thread. Returns the figures even
/// where some files failed ([`Summary::errors`]).
pub(crate) fn copy(
    sources: &[Location],
    destination: &Location,
    options: &TransferOptions,
    events: Arc<dyn EventSink>,
    cancel: &CancelToken,
    steering: Steering,
) -> Outcome {
    let manner = Manner { options, events: &events, cancel, steering: &steering };
    let _as_before = convert_names(charsets(options)?);
    let Some(deletion) = deletion_before(options) else {
        return persistently(sources, destination, manner, None);
    };
    // What is extraneous goes before anything is stored, over one connection.
    let mut caller = Caller::new(remote_of(sources, destination)?.clone());
    let deleted =
        persistently(sources, destination, Manner { options: &deletion, ..manner }, Some(&mut caller))?;
    let mut done = persistently(sources, destination, manner, Some(&mut caller))?;
    done.errors.splice(0..0, deleted.errors);
    done.deletions_left += deleted.deletions_left;
    Ok(done)
}

/// The options of the first part of a sync that deletes before it stores.
fn deletion_before(options: &TransferOptions) -> Option<TransferOptions> {
    let sync = options.sync.as_ref()?;
    let when = sync.delete.as_ref()?.when;
    (when == DeleteWhen::Before && !sync.only_delete).then(|| {
        let only = SyncOptions { only_delete: true, ..SyncOptions::clone(sync) };
        TransferOptions { sync: Some(Arc::new(only)), ..options.clone() }
    })
}

/// One copy, over new connections as long as it makes sense; the first is that of `caller`, if there is one.
fn persistently(
    sources: &[Location],
    destination: &Location,
    manner: Manner<'_>,
    mut caller: Option<&mut Caller>,
) -> Outcome {
    let Manner { options, events, cancel, steering } = manner;
    let repeatable = match options.ssh.inherited {
        // There is one such channel.
        Some(_) => Remedy::None,
        None => repeatable(sources, destination),
    };
    let mut course = Course::new(transfer_id(), repeatable);
    course.steering = steering.clone();
    let made = directory_to_make(destination);
    let tell = |interlude: Interlude<'_>| events.event(Event::Notice(interlude.to_string()));
    let done = persist(options.timeout, cancel, tell, || {
        let left = course.left(options);
        let manner = Manner { options: &left, ..manner };
        let outcome = outlast(manner, || {
            let options = course.after_a_wait(manner.options, direction_to(destination));
            let mut once = |course: &mut Course| {
                let manner = Manner { options: &options, ..manner };
                copy_once(sources, destination, Reach { manner, caller: caller.as_deref_mut() }, course)
            };
            let mut outcome = once(&mut course);
            if course.unchosen.gives_way(&outcome) {
                outcome = once(&mut course);
            }
            course.note_taken(&outcome);
            outcome
        });
        course.attempt(outcome)
    });
    if let (Err(_), Some(directory)) = (&done, made) {
        // Only an empty one goes: what an attempt stored stays.
        let _ = std::fs::remove_dir(directory);
    }
    done.map_err(|error| course.advise(error, options)).map(|(done, complete_at)| {
        course.add_up(Summary { deadline_margin_s: margin(options, complete_at), ..done })
    })
}

/// How an attempt reaches the server.
struct Reach<'r> {
    manner: Manner<'r>,
    /// Has a connection that is kept.
    caller: Option<&'r mut Caller>,
}

impl Reach<'_> {
    fn client<T>(self, remote: &Remote, work: impl FnOnce(Client<'_>) -> Result<T>) -> Result<T> {
        let Manner { options, events, cancel, .. } = self.manner;
        match self.caller {
            Some(caller) => caller.with_client(self.manner, work),
            None => work(Client::call(remote, options, events.clone(), cancel)?),
        }
    }
}

/// One attempt of [`copy`].
fn copy_once(
    sources: &[Location],
    destination: &Location,
    reach: Reach<'_>,
    course: &mut Course,
) -> Result<Done> {
    let options = reach.manner.options;
    let account = options.sync.as_ref().and_then(|sync| sync.copy_as.clone());
    match destination {
        Location::Remote(remote) => {
            // Nothing is opened with other rights than those that count.
            let opened = match account {
                None => Some(open_source(local_sources(sources)?, &remote.path, options)?),
                Some(_) => None,
            };
            let names = match local_sources(sources)? {
                LocalSources::Paths(paths) => names_in_transfer(top_names(&paths), options)?,
                LocalSources::Stdin => Vec::new(),
            };
            reach.client(remote, |mut client| {
                let remote = client.destination(remote)?;
                let source = match (opened, &account) {
                    (Some(source), _) => source,
                    (None, account) => {
                        let source = become_one(account.as_ref())
                            .and_then(|()| open_source(local_sources(sources)?, &remote.path, options));
                        source.inspect_err(|error| tell_abort(&client.channel.writer, error))?
                    }
                };
                if client.hello.has(REUSE)
                    && let Some((object, shape)) = small_object(sources, options)?
                {
                    return client.push_direct(object, shape, names, remote.path, course);
                }
                client.push_version(source, names, &remote, course)
            })
        }
        Location::Local(_) | Location::Stdio => {
            let (remote, paths) = remote_sources(sources)?;
            let paths = course.expanded.clone().unwrap_or(paths);
            if account.is_none() && (course.expanded.is_some() || !expands(remote, &paths)) {
                let sink = open_sink(&paths, destination, remote, options, course.id)?;
                return reach.client(remote, |client| client.pull(paths, sink, course));
            }
            // What the destination is for depends on how many sources there are.
            reach.client(remote, |mut client| {
                let paths = if course.expanded.is_none() && expands(remote, &paths) {
                    client.expand(&paths, PathRole::Sources)?
                } else {
                    paths
                };
                distinct(&paths, options)?;
                course.expanded = Some(paths.clone());
                become_one(account.as_ref())
                    .inspect_err(|error| tell_abort(&client.channel.writer, error))?;
                let sink = open_sink(&paths, destination, remote, options, course.id)
                    .inspect_err(|error| tell_abort(&client.channel.writer, error))?;
                client.pull(paths, sink, course)
            })
        }
    }
}

/// Has this process the rights of an account from now on, where one counts.
fn become_one(account: Option<&RunAs>) -> Result<()> {
    account.map_or(Ok(()), run_as)
}

/// Encodings of names, where there are two.
fn charsets(options: &TransferOptions) -> Result<Option<NameCharsets>> {
    let Some(text) = options.sync.as_ref().and_then(|sync| sync.charsets.as_deref()) else { return Ok(None) };
    NameCharsets::read(text).map_err(|why| Error::new(ErrorKind::Usage, format!("--iconv: {why}")))
}

/// Names of sources of this host as the other has them.
fn names_in_transfer(names: Vec<Vec<u8>>, options: &TransferOptions) -> Result<Vec<Vec<u8>>> {
    let Some(charsets) = charsets(options)? else { return Ok(names) };
    let there = names.into_iter().map(|name| charsets.as_there(&name).map(|name| name.into_owned()));
    there.collect::<std::result::Result<_, _>>().map_err(|_| {
        let message = "--iconv: a source has a name that the other encoding cannot write; rename it";
        Error::new(ErrorKind::Usage, message.to_owned())
    })
}

/// Which way the data goes.
fn direction_to(destination: &Location) -> TransferDirection {
    match destination {
        Location::Remote(_) => TransferDirection::Push,
        Location::Local(_) | Location::Stdio => TransferDirection::Pull,
    }
}

/// The other host.
fn remote_of<'l>(sources: &'l [Location], destination: &'l Location) -> Result<&'l Remote> {
    match destination {
        Location::Remote(remote) => Ok(remote),
        Location::Local(_) | Location::Stdio => remote_sources(sources).map(|(remote, _)| remote),
    }
}

/// Whether the other host is to expand these paths. A daemon has neither homes nor patterns.
pub(super) fn expands(remote: &Remote, paths: &[Vec<u8>]) -> bool {
    remote.carrier == Carrier::Ssh && paths.iter().any(|path| needs_expansion(path))
}

/// Whether another attempt can read the sources and write the destination again.
fn repeatable(sources: &[Location], destination: &Location) -> Remedy {
    if sources.contains(&Location::Stdio) || *destination == Location::Stdio {
        Remedy::None
    } else {
        Remedy::Reconnect
    }
}

/// Seconds by which the deadline was met, below 0 if it was missed.
fn margin(options: &TransferOptions, complete_at: SystemTime) -> Option<f64> {
    options.deadline.map(|at| match at.duration_since(complete_at) {
        Ok(spare) => spare.as_secs_f64(),
        Err(late) => -late.duration().as_secs_f64(),
    })
}
