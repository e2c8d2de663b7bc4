//! Answers about files by name (protocol 2.12).

mod hashes;

use super::{Host, Policy, Wanted, fetch};
use crate::cancel::CancelToken;
use crate::control::ControlChannel;
use crate::control::files::{ENTRIES_MAX, FileRequest, WireEntry};
use crate::control::message::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Sight, SignedTicket};
use crate::rights::{Action, Needs};
use crate::secure::ticket::Ticket;
use crate::storage::names::{self, Extent};
use std::time::{Duration, Instant, SystemTime};

/// How long a request may be worked on without a sign to the client: far below its `--timeout`.
const SIGN_EVERY: Duration = Duration::from_secs(1);

/// What a request did, for the server's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Names that are gone.
    pub(crate) removed: u64,
}

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
    match request {
        FileRequest::List { path } => names::list(&policy.base, &path.0, &mut |entry| {
            cancel.check()?;
            entries.push(WireEntry::from(entry));
            match entries.len() < ENTRIES_MAX {
                true => Ok(()),
                false => answer(std::mem::take(&mut entries), false),
            }
        })?,
        FileRequest::Stat { path } => entries.push(names::stat(&policy.base, &path.0)?.into()),
        FileRequest::Remove { path, tree } => {
            let extent = if *tree { Extent::Tree } else { Extent::One };
            // It is called before each.
            let mut one_more = || go_on().inspect(|()| answered.removed += 1);
            names::remove(&policy.base, &path.0, extent, &policy.budget, &mut one_more)?;
        }
        FileRequest::MakeDirectory { path, parents } => make_directory(&policy, &path.0, *parents)?,
        FileRequest::Ticket { paths, size, life_s, holder } => {
            let holder = holder.as_ref().map(fetch::key_of).transpose()?;
            let life = Duration::from_secs(*life_s);
            let ticket = Ticket::new(paths, *size, life, holder, SystemTime::now())?;
            entries.push(fetch::as_entry(host.sign(&ticket)?.into_bytes()));
        }
        FileRequest::Fetch { path, ticket, host: name, port, key } => {
            let (text, key) = (ticket.as_str().to_owned(), fetch::key_of(key)?);
            let ticket = SignedTicket { text, host: name.clone(), port: *port, key };
            let identity = host.own_identity()?;
            let peer = channel.peer.key.as_ref();
            let fetched = fetch::run(&path.0, &ticket, &policy, identity, peer, cancel, &mut go_on)?;
            for part in fetched.chunks(ENTRIES_MAX) {
                answer(part.to_vec(), false)?;
            }
        }
        FileRequest::Hash { paths, piece } => {
            hashes::serve(&policy.base, paths, *piece, &mut go_on, &mut |entry| answer(vec![entry], false))?;
        }
        FileRequest::Unknown => {
            let message = "this server has an older fobs, which does not know the request; install the same \
                version on both sides";
            return Err(Error::new(ErrorKind::Usage, message));
        }
    }
    answer(entries, true).map(|()| answered)
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
