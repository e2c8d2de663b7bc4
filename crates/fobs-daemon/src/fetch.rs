//! A daemon that pulls for a client: between two others, which the client need not be (protocol 2.13).

use fobs::client::line::{Caller, Task};
use fobs::client::manner::Manner;
use fobs::server::Fetch;
use fobs::session::{kept_xattrs, open_sink, preserved};
use fobs_channel::secure::ticket::Ticket;
use fobs_engine::Steering;
use fobs_explain::{Recorder, explain};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, FileError, Summary};
use fobs_model::message::Bytes;
use fobs_model::message::files::{WireEntry, WireKind};
use fobs_model::options::sync::Enter;
use fobs_model::options::{Carrier, PickedNames, Remote, SignedTicket, TransferOptions};
use fobs_model::public_key::PublicKey;
use fobs_store::{Above, Partial, SinkSpec, SpecialThere, client_id, means_contents, shape_of, top_names};
use fobs_sys::confine;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How often the client is looked after while its data comes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most files whose hashes are told: as many as one shard of a cluster transfer has, many times over.
const FILES_MAX: usize = 100_000;

/// Takes note of files that are in place.
struct Fetched {
    files: Mutex<(Vec<WireEntry>, Charge)>,
    recorder: Mutex<Recorder>,
}

impl Fetched {
    fn within(budget: &MemoryBudget) -> Fetched {
        let files = Mutex::new((Vec::new(), budget.charge(Keeps::Answers)));
        Fetched { files, recorder: Mutex::default() }
    }

    fn take(&self) -> Vec<WireEntry> {
        std::mem::take(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Of picked names also those that did not come, each with its reason, and why all took so long.
    fn take_all(&self, errors: Vec<FileError>) -> Vec<WireEntry> {
        let sentence = |name: Vec<u8>, text: String| WireEntry {
            kind: WireKind::Other,
            text: Some(Bytes(text.into_bytes())),
            ..WireEntry::named(name)
        };
        let trace = self.recorder.lock().unwrap_or_else(PoisonError::into_inner).so_far();
        let explanation = explain(&trace);
        let why = format!("{} {}", explanation.sentence, explanation.fix);
        let mut entries = self.take();
        entries.push(sentence(Vec::new(), why));
        entries
            .extend(errors.into_iter().take(FILES_MAX).map(|failed| sentence(failed.path, failed.message)));
        entries
    }
}

impl EventSink for Fetched {
    fn event(&self, event: Event) {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).record(&event);
        if let Event::FileDone(fobs_model::event::FileDone { path, bytes, root }) = event {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let (files, kept) = &mut *files;
            let memory = path.len() + root.len();
            if files.len() < FILES_MAX && kept.grow(memory).and_then(|()| kept.room_in_vec(files, 1)).is_ok()
            {
                files.push(WireEntry {
                    size: bytes,
                    root: Some(Bytes(root.to_vec())),
                    ..WireEntry::named(path)
                });
            }
        }
    }
}

/// Pulls what a ticket names with the server's own identity; returns the files that came.
pub(crate) fn run(asked: Fetch<'_>, identity: PathBuf) -> Result<Vec<WireEntry>> {
    let Fetch { directory, ticket, picked, policy, client, cancel, go_on } = asked;
    // Checked here too, so that an altered ticket is refused without a connection to its source.
    Ticket::verify(&ticket.text, &ticket.key, SystemTime::UNIX_EPOCH)?;
    let mut paths = Ticket::peek(&ticket.text)?.paths();
    let (remote, options) = reach(ticket, picked, identity);
    if picked.is_some() {
        match &mut paths[..] {
            [only] if means_contents(only) => {}
            [only] => only.push(b'/'),
            _ => {
                let message = "names are picked from one directory; have a ticket signed for that alone";
                return Err(Error::new(ErrorKind::Usage, message));
            }
        }
    }
    // Ends the transfer when the client is gone, too.
    let token = CancelToken::new();
    let below = token.clone();
    let _hook = cancel.on_cancel(move || below.cancel());
    let fetched = Arc::new(Fetched::within(&policy.budget));
    let events: Arc<dyn EventSink> = fetched.clone();
    let (base, privileges, terms) = (policy.base_again()?, policy.permit.privileges(), policy.permit.terms());
    let budget = policy.budget.clone();
    let client = Some(client_id(client.map(PublicKey::as_bytes), &policy.within));
    let mut sink = |id| {
        let base = base.try_clone().map_err(|error| cannot_open(&error))?;
        let spec = SinkSpec {
            base,
            destination: [directory, b"/"].concat(),
            shape: shape_of(&paths),
            above: Above::Required,
            preserve: preserved(options.sync.as_deref(), true),
            xattr_rules: kept_xattrs(options.sync.as_deref())?,
            privileges,
            terms,
            fsync: false,
            keep: Partial::Keep,
            link_dest: Vec::new(),
            backup_dir: None,
            temp_dir: None,
            partial_dir: None,
            special: SpecialThere::default(),
            transfer_id: id,
            client,
            names: top_names(&paths),
            holder: ticket.host.to_owned(),
            budget: budget.clone(),
        };
        let mut sink = open_sink(spec, options.sync.as_ref())?;
        sink.expect(&paths, if options.recursive { Enter::All } else { Enter::None });
        Ok(sink)
    };
    let steering = Steering::new();
    let manner = Manner { options: &options, events: &events, cancel: &token, steering: &steering };
    let (asked, sink) = (paths.clone(), &mut sink);
    let pull = move || {
        let task = Task::Pull { paths: asked, sink, range: None };
        Caller::new(remote).run(task, manner)
    };
    let outcome = watched(pull, &token, go_on)?;
    if picked.is_some() {
        return Ok(fetched.take_all(outcome.errors));
    }
    if let Some(failed) = outcome.errors.first() {
        let message = format!("{} (and {} more)", failed.message, outcome.errors.len() - 1);
        return Err(Error::new(ErrorKind::FileIo, message));
    }
    Ok(fetched.take())
}

/// Runs `pull` in a thread, and cancels it once `go_on` fails.
fn watched(
    pull: impl FnOnce() -> Result<Summary> + Send,
    token: &CancelToken,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Summary> {
    std::thread::scope(|scope| {
        let pulled = std::thread::Builder::new()
            .name("fobs-fetch".to_owned())
            .spawn_scoped(scope, confine::inherited(pull));
        let pulled = pulled.map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the server cannot start a thread: {error}"))
        })?;
        let mut lost = Ok(());
        while !pulled.is_finished() {
            std::thread::sleep(LOOK_EVERY);
            if lost.is_ok() {
                lost = go_on().inspect_err(|_| token.cancel());
            }
        }
        let outcome = pulled.join().unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal, "the thread that fetched failed; report this bug"))
        });
        lost.and(outcome)
    })
}

/// Where the source is, and how it is asked.
fn reach(
    ticket: &SignedTicket,
    picked: Option<&PickedNames>,
    identity: PathBuf,
) -> (Remote, TransferOptions) {
    let remote = Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: ticket.host.to_owned(),
        port: Some(ticket.port),
        path: Vec::new(),
    };
    let options = TransferOptions {
        recursive: true,
        preserve: true,
        identity: Some(identity),
        ticket: Some(ticket.clone()),
        sync: picked.cloned().map(PickedNames::sync),
        ..TransferOptions::default()
    };
    (remote, options)
}

fn cannot_open(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("the server cannot open its root: {error}"))
}
