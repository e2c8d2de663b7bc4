//! Answers about files by name (protocol 2.12).

mod hashes;

use super::{Answered, Fetch, Host, Policy, Wanted};
use fobs_channel::control::ControlChannel;
use fobs_channel::secure::ticket::Ticket;
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::Entry;
use fobs_model::message::files::{ENTRIES_MAX, FileRequest, WireEntry};
use fobs_model::message::{Bytes, Message};
use fobs_model::options::{Sight, SignedTicket};
use fobs_model::permit::Needs;
use fobs_model::public_key::PublicKey;
use fobs_model::rights::Action;
use fobs_store::names::{Extent, Leads, Taken};
use fobs_store::{Base, names};
use std::time::{Duration, Instant, SystemTime};

/// How long a request may be worked on without a sign to the client: far below its `--timeout`.
const SIGN_EVERY: Duration = Duration::from_secs(1);

/// Answers one request.
pub(super) fn serve(
    channel: ControlChannel,
    request: &FileRequest,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Result<Answered> {
    cancel.check()?;
    let policy = host.judge(Wanted::Files(request))?;
    policy.permit.check(&Needs::of_files(request))?;
    let answer = |entries: Vec<WireEntry>, last| channel.writer.send(&Message::Answer { entries, last });
    let mut signed = Instant::now();
    let mut go_on = || {
        cancel.check()?;
        if signed.elapsed() < SIGN_EVERY {
            return Ok(());
        }
        signed = Instant::now();
        answer(Vec::new(), false)
    };
    let (mut entries, mut answered) = (Vec::new(), Answered::default());
    let mut take = |entry| {
        cancel.check()?;
        entries.push(WireEntry::from(entry));
        if entries.len() < ENTRIES_MAX { Ok(()) } else { answer(std::mem::take(&mut entries), false) }
    };
    match request {
        FileRequest::List { .. }
        | FileRequest::Stat { .. }
        | FileRequest::Walk { .. }
        | FileRequest::Room { .. } => {
            look(&policy.base, request, &policy.budget, &mut take)?;
        }
        FileRequest::Rename { .. } | FileRequest::Copy { .. } | FileRequest::Touch { .. } => {
            give_name(&policy.base, request, &mut go_on, &mut take)?;
        }
        FileRequest::Remove { path, tree } => {
            let extent = if *tree { Extent::Tree } else { Extent::One };
            // It is called before each.
            let mut one_more = || go_on().inspect(|()| answered.removed += 1);
            names::remove(&policy.base, &path.0, extent, &policy.budget, &mut one_more)?;
        }
        FileRequest::MakeDirectory { path, parents } => make_directory(&policy, &path.0, *parents)?,
        FileRequest::Ticket { paths, size, life_s, holder } => {
            let holder = holder.as_ref().map(key_of).transpose()?;
            let life = Duration::from_secs(*life_s);
            let ticket = Ticket::new(paths, *size, life, holder, SystemTime::now())?;
            entries.push(WireEntry::named(host.sign(&ticket)?.into_bytes()));
        }
        FileRequest::Fetch { path, ticket, host: name, port, key, picked } => {
            let (text, key) = (ticket.as_str().to_owned(), key_of(key)?);
            let ticket = SignedTicket { text, host: name.clone(), port: *port, key };
            let client = channel.peer.key.as_ref();
            let (directory, ticket, policy) = (&path.0[..], &ticket, &policy);
            let picked = picked.as_deref();
            let asked = Fetch { directory, ticket, picked, policy, client, cancel, go_on: &mut go_on };
            let fetched = host.fetch(asked)?;
            for part in fetched.chunks(ENTRIES_MAX) {
                answer(part.to_vec(), false)?;
            }
        }
        FileRequest::Hash { paths, piece } => {
            hashes::serve(&policy.base, paths, *piece, &mut go_on, &mut |some| answer(some, false))?;
        }
        FileRequest::Unknown => return Err(unknown()),
    }
    answer(entries, true).map(|()| answered)
}

/// A key as a message carries it.
fn key_of(bytes: &Bytes) -> Result<PublicKey> {
    <[u8; 32]>::try_from(bytes.0.as_slice()).map(PublicKey::from_bytes).map_err(|_| {
        Error::new(ErrorKind::Usage, "a key is of 32 bytes; install the same version on both sides")
    })
}

fn unknown() -> Error {
    let message = "this server has an older fobs, which does not know the request; install the same version on \
        both sides";
    Error::new(ErrorKind::Usage, message)
}

/// Answers what only looks.
fn look(
    base: &Base,
    request: &FileRequest,
    budget: &MemoryBudget,
    take: &mut dyn FnMut(Entry) -> Result<()>,
) -> Result<()> {
    match request {
        FileRequest::List { path, links } => {
            let leads = if *links { Leads::Told } else { Leads::Untold };
            names::list(base, &path.0, leads, take)
        }
        FileRequest::Walk { path, depth } => names::walk(base, &path.0, *depth, budget, take),
        FileRequest::Stat { path, links: false } => take(names::stat(base, &path.0)?),
        FileRequest::Stat { path, links: true } => take(names::stat_link(base, &path.0)?),
        FileRequest::Room { path } => take(names::room(base, &path.0)?),
        _ => Ok(()),
    }
}

/// Answers what gives a name to something that has one.
fn give_name(
    base: &Base,
    request: &FileRequest,
    go_on: &mut dyn FnMut() -> Result<()>,
    take: &mut dyn FnMut(Entry) -> Result<()>,
) -> Result<()> {
    match request {
        FileRequest::Rename { path, to, replace } => names::rename(base, &path.0, &to.0, taken(*replace)),
        FileRequest::Copy { path, to, replace } => {
            take(names::copy(base, &path.0, &to.0, taken(*replace), go_on)?)
        }
        FileRequest::Touch { path } => names::touch(base, &path.0),
        _ => Ok(()),
    }
}

fn taken(replace: bool) -> Taken {
    if replace { Taken::Replaced } else { Taken::Refused }
}

/// Makes a directory, or with `parents` those above it too.
fn make_directory(policy: &Policy, path: &[u8], parents: bool) -> Result<()> {
    let may = |part: &[u8]| policy.permit.check(&Needs::at(part, &[Action::Create]));
    match (parents, policy.permit.terms().sight) {
        (true, _) => names::make_directories(&policy.base, path, &may),
        (false, Sight::Whole) => names::make_directory(&policy.base, path),
        // Whether it existed is not for this client.
        (false, Sight::Own) => names::have_directory(&policy.base, path),
    }
}
