//! `fobs sync`: runs a sync and prints what changes, as rsync does.

mod braces;
mod charset;
pub mod exit;
mod figures;
mod format;
mod log;
mod made;
mod name_list;
mod names;
mod names_there;
mod old_args;
mod one_source;
mod options;
mod order;
mod output;
mod patterns_there;
mod progress;
mod relative;
mod stop;
mod there;
mod wording;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fobs::options::flag::CommandName;
use fobs::options::sync::{Delta, RunAs, SyncOptions};
use fobs::options::{Carrier, Location, Remote, ShellGrammar, TransferOptions, Transport};
use fobs::{CancelToken, Error, ErrorKind, Result, Steering, Summary, SyncEnd, Transfer};

use crate::args::sync::SyncArgs;
use crate::explain::{Meanwhile, Recording, TraceFile};
use crate::flags::words::remote_shell;
use crate::output::Reporter;
use crate::{ctl, explain, here, live, location, push, resolve, signals};
use output::Lines;
use stop::Stop;

/// Runs a sync; returns its exit code.
pub fn run(args: &SyncArgs) -> u8 {
    fobs::named::follow_links_of(args.chosen.sync.link_owners);
    if let Some(help) = args.chosen.program.told.help() {
        return show(&help);
    }
    let reporter: Arc<dyn Reporter> = if args.chosen.program.json {
        crate::output::of_json(|error| error.sync_end().code())
    } else {
        Arc::new(Lines::new(args))
    };
    let explains = args.chosen.program.explain;
    let meanwhile = if explains { Meanwhile::Explain } else { Meanwhile::Silent };
    let recording = Arc::new(Recording::new(reporter.clone(), meanwhile));
    if let [sources @ .., destination] = args.paths.as_slice() {
        recording.describe(sources, destination);
    }
    let mut trace = None;
    let outcome = resolved(args).and_then(|sync| {
        trace = args.chosen.program.trace.as_deref().map(TraceFile::create).transpose()?;
        let cancel = CancelToken::new();
        signals::install(&cancel)?;
        let asked = recording.clone();
        signals::show_status(move || asked.show_status())?;
        let stop = Stop::at(args.chosen.sync.stop_at, &cancel);
        let steering = Steering::new();
        let _seat = live::Seat::take(ctl::answer(&recording, &steering, &sync.options, &cancel));
        let remotes = sync.remotes();
        let done = push::with_consent(args, &remotes, sync.options.clone(), |options| {
            sync.run(&options, &recording, &steering, &cancel)
        });
        stop.map_or(done.clone(), |stop| stop.explained(done))
    });
    let traced = trace.map_or(Ok(()), |file| recording.write_trace(file, &outcome));
    explain::keep_for_keeper(&recording, &outcome);
    // `--json` always contains it.
    let why = (explains || args.chosen.program.json).then(|| recording.explanation(&outcome));
    let reported = reporter.finish(&outcome, why.as_ref()).and(traced);
    if let Some(error) = outcome.as_ref().err().or(reported.as_ref().err()) {
        crate::output::complain(error);
    }
    match (exit::end_of(&outcome), reported) {
        (SyncEnd::Done, Err(_)) => SyncEnd::Diagnostics.code(),
        (end, _) => end.code(),
    }
}

/// Prints a text that was asked for; returns the exit code.
fn show(text: &str) -> u8 {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let error = Error::new(ErrorKind::FileIo, format!("cannot write to standard output: {error}"));
            crate::output::complain(&error);
            SyncEnd::Diagnostics.code()
        }
    }
}

/// One sync, ready to run.
struct Sync {
    sources: Vec<Location>,
    destination: Location,
    options: TransferOptions,
    sync: SyncOptions,
}

impl Sync {
    /// The locations on other hosts.
    fn remotes(&self) -> Vec<Remote> {
        let all = self.sources.iter().chain([&self.destination]);
        all.filter_map(|location| match location {
            Location::Remote(remote) => Some(remote.clone()),
            Location::Local(_) | Location::Stdio => None,
        })
        .collect()
    }

    fn run(
        &self,
        options: &TransferOptions,
        recording: &Arc<Recording>,
        steering: &Steering,
        cancel: &CancelToken,
    ) -> Result<Summary> {
        Transfer::builder(self.sources.clone(), self.destination.clone())
            .options(TransferOptions { sync: Some(Arc::new(self.sync.clone())), ..options.clone() })
            .events(recording.clone())
            .cancel_token(cancel.clone())
            .steering(steering.clone())
            .start()?
            .wait()
    }
}

fn resolved(args: &SyncArgs) -> Result<Sync> {
    resolve::refuse_mistyped(&args.paths)?;
    let (mut sync, places) = options::resolve(args)?;
    let (words, mut destination) = ends(args)?;
    let words = &*old_args::divided(args, words)?;
    let (mut sources, words) = patterns_there::expanded(args, sources_of(words)?, words)?;
    let mut options = resolve::transfer(&args.chosen)?;
    options.opening = args.chosen.sync.connect_within.or(options.opening);
    let is_here = sources.iter().chain([&destination]).all(|place| matches!(place, Location::Local(_)));
    if !is_here {
        location::check_pair(&sources, &destination)?;
    }
    if sources.iter().chain([&destination]).any(|place| *place == Location::Stdio) {
        return Err(usage("'-' cannot be brought up to date: name files or directories"));
    }
    if args.chosen.sync.relative == Some(true) && sync.names.is_none() {
        relative::names(&mut sources, &words, &mut sync)?;
    }
    if args.chosen.sync.relative == Some(false) && args.chosen.sync.files_from.is_some() {
        sources = sources.iter().flat_map(|source| places.iter().map(|path| below(source, path))).collect();
    } else if sync.names.is_some() {
        sources = sources_with_names(sources, &places);
    }
    if let Some(charsets) = &args.chosen.sync.charsets {
        charset::names_there(charsets, &mut sync, sources.iter_mut().chain([&mut destination]))?;
    }
    sync.there.fake_super = there_is_fake(args, &sync, is_here);
    if is_here {
        if let Some(account) = sync.copy_as.take() {
            // Nothing else needs this process's own rights.
            fobs::run_as(&account)?;
        }
        // Who asks for deltas wants those of what is there.
        let told: &[Location] = if sync.delta == Delta::Auto { &sources } else { &[] };
        here::served(told, &mut destination, &mut options, args.chosen.sync.link_owners)?;
        return Ok(Sync { sources, destination, options, sync });
    }
    let carrier = sources.iter().chain([&destination]).find_map(|place| match place {
        Location::Remote(remote) => Some(remote.carrier),
        Location::Local(_) | Location::Stdio => None,
    });
    if let Some(carrier) = carrier {
        args.check(CommandName::Sync, carrier)?;
        if carrier == Carrier::Ssh {
            with_shell(args, &mut options)?;
        }
    }
    sync.source_is_file = one_source::is_file(args, &sources, &destination, &sync);
    Ok(Sync { sources, destination, options, sync })
}

/// The sources and the destination; where sources are listed only, one that does not exist.
fn ends(args: &SyncArgs) -> Result<(&[OsString], Location)> {
    let is_alone = args.paths.len() == 1;
    match args.paths.as_slice() {
        [sources @ .., last] if lists_only(args) => {
            let sources = if is_alone { std::slice::from_ref(last) } else { sources };
            let nowhere = std::env::temp_dir().join(format!("fobs-lists-{}-only", std::process::id()));
            Ok((sources, Location::Local(nowhere)))
        }
        [sources @ .., destination] if !is_alone => {
            Ok((sources, location::parse(&old_args::unquoted(args, destination)?)?))
        }
        _ => Err(usage("a sync needs a source and a destination, as in fobs sync -a data/ host:data")),
    }
}

/// The sources; one that begins with a colon is on the host of the first, as in `rsync host:a :b here/`.
fn sources_of(words: &[OsString]) -> Result<Vec<Location>> {
    let mut sources: Vec<Location> = Vec::new();
    for word in words {
        let source = match (sources.first(), word.as_bytes().strip_prefix(b":")) {
            (Some(Location::Remote(first)), Some(path)) => {
                Location::Remote(Remote { path: path.to_vec(), ..first.clone() })
            }
            _ => location::parse(word)?,
        };
        sources.push(source);
    }
    Ok(sources)
}

/// Whether entries are listed and nothing else: as asked for, or because no destination is given.
fn lists_only(args: &SyncArgs) -> bool {
    args.chosen.sync.list_only || args.paths.len() == 1
}

/// The remote shell of the environment, where none is named, and what rsync would be run with.
fn with_shell(args: &SyncArgs, options: &mut TransferOptions) -> Result<()> {
    let named = std::env::var("RSYNC_RSH").ok().filter(|text| !text.is_empty());
    if let Some(text) = named.filter(|_| !args.has("rsh") && !args.has("ssh")) {
        let shell = remote_shell(&text).map_err(|why| usage(format!("RSYNC_RSH: {why}")))?;
        options.ssh = shell.of(&options.ssh);
    }
    options.fobs_path.insert_str(0, &args.chosen.sync.before_program);
    if let Some(RunAs { user, group }) = &args.chosen.sync.there.copy_as {
        let group = group.as_ref().map(|group| format!(" -g {group}")).unwrap_or_default();
        options.fobs_path.insert_str(0, &format!("runuser -u {user}{group} -- "));
    }
    if options.ssh.grammar == ShellGrammar::HostAndCommand && !args.has("transport") {
        options.transport = Transport::Channel;
    }
    Ok(())
}

/// Whether the other side notes owners and modes: as asked for, and from here to here as this one.
fn there_is_fake(args: &SyncArgs, sync: &SyncOptions, is_here: bool) -> bool {
    args.chosen.sync.there.fake_super.unwrap_or(is_here && sync.preserve.fake_super)
}

/// Names are those below a source, or below these directories of it.
fn sources_with_names(sources: Vec<Location>, places: &[Vec<u8>]) -> Vec<Location> {
    let itself = [Vec::new()];
    let places = if places.is_empty() { &itself } else { places };
    let directory = |place: &Vec<u8>| if place.is_empty() { Vec::new() } else { [place, &b"/"[..]].concat() };
    sources.iter().flat_map(|source| places.iter().map(|place| below(source, &directory(place)))).collect()
}

/// What lies below a source, by its path there; its contents, where that is empty.
fn below(source: &Location, path: &[u8]) -> Location {
    use std::os::unix::ffi::OsStringExt;
    let joined = |source: &[u8]| match source {
        b"" => [&b"./"[..], path].concat(),
        [.., b'/'] => [source, path].concat(),
        _ => [source, b"/", path].concat(),
    };
    match source {
        Location::Local(top) => {
            Location::Local(OsString::from_vec(joined(top.as_os_str().as_bytes())).into())
        }
        Location::Remote(remote) => Location::Remote(Remote { path: joined(&remote.path), ..remote.clone() }),
        Location::Stdio => Location::Stdio,
    }
}

/// This process's umask, which `--chmod` without a letter for whom respects.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}
