//! `fobs-lab delta`: files that changed, brought up to date over an emulated path beside rsync.

mod bytes;
mod cases;
mod trees;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::ValueHint;

use crate::failure::{EXIT_FILE_IO, EXIT_NO_ROOT, Failure};
use crate::run::data::Data;
use crate::tool::{Amount, Launch, Options, Programs, Task, by_name};
use crate::trees::path::TreePath;
use crate::trees::trial::{self, Trial};
use crate::units::{Rate, Size, Time};
use cases::Case;

/// A run that the emulator does not vouch for is made again this often.
const AGAIN_MAX: u32 = 2;
/// What changed of the source is younger than what the destination has.
const AGE: Duration = Duration::from_secs(1000);

/// Measure syncs of files that changed over an emulated path, beside rsync with its delta (root).
///
/// The files lie in memory, and a run is timed from the command's start to its end. Before each run the
/// destination has the old file, and afterwards it must have the new one. The contestants take turns, in the
/// opposite order every other time.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fobs program to measure [default: beside this program, then in PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    fobs: Option<PathBuf>,
    /// What changed
    #[arg(
        long,
        value_name = "CASE,...",
        value_enum,
        value_delimiter = ',',
        default_value = "image,vm,dump,log,tar,pack,modules,postgres,moved,weights,fast"
    )]
    cases: Vec<Case>,
    /// Size of the old file
    #[arg(long, value_name = "SIZE", default_value = "300MB")]
    size: Size,
    /// What carries fobs's control channel
    #[arg(long, value_name = "CARRIER,...", value_delimiter = ',', default_value = "ssh,daemon", value_parser = CARRIERS)]
    carriers: Vec<String>,
    /// fobs's --delta
    #[arg(long, value_name = "WHEN,...", value_delimiter = ',', default_value = "auto,never", value_parser = ["auto", "always", "never"])]
    when: Vec<String>,
    /// Leave rsync out
    #[arg(long)]
    without_rsync: bool,
    /// Round-trip time of the path; 0ms: a pair of devices without an emulator
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    rtt: Time,
    /// Rate of the emulated path
    #[arg(long, value_name = "RATE", default_value = "100Mbit")]
    rate: Rate,
    /// Run everything N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    reps: u32,
    /// Append each run to FILE, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Runs `fobs-lab delta`.
pub fn main(args: &Args) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: delta needs root (it makes network namespaces)");
        return ExitCode::from(EXIT_NO_ROOT);
    }
    match measure(args) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => failure.report(),
    }
}

/// What carries fobs's control channel.
const CARRIERS: [&str; 2] = ["ssh", "daemon"];

fn fobs_name(carrier: &str, when: &str) -> String {
    format!("fobs {when}, {carrier}")
}

/// A command that brings the destination up to date.
struct Contestant {
    name: String,
    tool: &'static str,
    options: Options,
}

impl Contestant {
    fn fobs(carrier: &str, when: &str) -> Contestant {
        let mut options = Options::new();
        options.insert("verb".to_owned(), "sync".into());
        options.insert("carrier".to_owned(), carrier.into());
        let words = ["-a", "--delete", &format!("--delta={when}")].map(str::to_owned);
        options.insert("args".to_owned(), words.to_vec().into());
        Contestant { name: fobs_name(carrier, when), tool: "fobs", options }
    }

    /// Its options, with more words where it is fobs.
    fn told(&self, more: Vec<String>) -> Options {
        let mut options = self.options.clone();
        if self.tool == "fobs"
            && let Some(toml::Value::Array(words)) = options.get_mut("args")
        {
            words.extend(more.into_iter().map(toml::Value::String));
        }
        options
    }

    fn rsync() -> Contestant {
        let mut options = Options::new();
        // The tool's own arguments, which come before, are those for whole files.
        options.insert("args".to_owned(), vec!["--delete", "--no-whole-file", "--no-inplace"].into());
        Contestant { name: "rsync, ssh".to_owned(), tool: "rsync", options }
    }
}

fn measure(args: &Args) -> Result<String, Failure> {
    let programs = Programs::new(args.fobs.as_deref());
    let fobs_path = programs.find("fobs", "build it with `cargo build --release`").map_err(Failure::new)?;
    crate::run::group::remove_leftovers();
    crate::run::data::remove_leftovers();
    let fobs = args.carriers.iter().flat_map(|carrier| args.when.iter().map(move |when| (carrier, when)));
    let mut contestants: Vec<Contestant> =
        fobs.map(|(carrier, when)| Contestant::fobs(carrier, when)).collect();
    if !args.without_rsync {
        contestants.push(Contestant::rsync());
    }
    let (mut text, mut beside) = (String::new(), String::new());
    let mut place: Option<(bool, Place)> = None;
    for case in &args.cases {
        if let Some(why) = case.lacks() {
            eprintln!("skipped: {}: {why}", case.name());
            continue;
        }
        if place.as_ref().is_none_or(|(is_local, _)| *is_local != case.is_local()) {
            // The one before goes first: both have the same names.
            drop(place.take());
            let rtt = if case.is_local() { Time::ZERO } else { args.rtt };
            let data = Data::new(0).map_err(Failure::new)?;
            let path = TreePath::new(rtt, args.rate, data.folder()).map_err(Failure::new)?;
            place = Some((case.is_local(), Place { data, path, programs: Programs::new(Some(&fobs_path)) }));
        }
        let Some((_, place)) = &place else { continue };
        place.prepare(*case, args.size.bytes()).map_err(Failure::new)?;
        let mut trials = Vec::new();
        for rep in 0..args.reps {
            for contestant in &contestants {
                trials.push(place.run(contestant, *case).map_err(Failure::new)?);
            }
            eprintln!("{} {}/{}", case.name(), rep + 1, args.reps);
            contestants.reverse();
        }
        if let Some(out) = &args.out {
            record(out, &trials)?;
        }
        text += &table(case.name(), &trials);
        beside.push_str(&row(case.name(), &contestants, &trials));
        if case.is_local() {
            beside.push_str(&auto_of_never(&trials));
        }
    }
    Ok(format!("{text}\n{BESIDE}{beside}"))
}

fn record(path: &Path, trials: &[Trial]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::with_code(EXIT_FILE_IO, format!("cannot write {}: {error}", path.display()))
    };
    let mut file = fs::File::options().create(true).append(true).open(path).map_err(failed)?;
    for trial in trials {
        let mut line = serde_json::to_string(trial).map_err(|error| failed(error.into()))?;
        line.push('\n');
        file.write_all(line.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

/// Heads the rows of [`row`].
const BESIDE: &str = "| | s | of rsync's | MB, both ways | of rsync's |\n|---|---:|---:|---:|---:|\n";

/// Each of fobs beside rsync: medians of time and of all bytes.
fn row(case: &str, contestants: &[Contestant], trials: &[Trial]) -> String {
    let of = |contestant: &Contestant| {
        let valid =
            trials.iter().filter(|trial| trial.contestant == contestant.name && trial.doubts.is_empty());
        let mut valid: Vec<&Trial> = valid.collect();
        valid.sort_unstable_by(|one, other| one.seconds.total_cmp(&other.seconds));
        let middle = valid.get(valid.len() / 2)?;
        Some((middle.seconds, (middle.wire_bytes.server + middle.wire_bytes.client) as f64 / 1e6))
    };
    let rsync = contestants.iter().find(|contestant| contestant.tool == "rsync").and_then(of);
    let mut rows = String::new();
    let mut fobs: Vec<&Contestant> =
        contestants.iter().filter(|contestant| contestant.tool == "fobs").collect();
    fobs.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    for contestant in fobs {
        let Some((seconds, megabytes)) = of(contestant) else { continue };
        let share = |ours: f64, theirs: fn((f64, f64)) -> f64| {
            rsync.map_or_else(|| "-".to_owned(), |rsync| format!("{:.2}", ours / theirs(rsync)))
        };
        rows += &format!(
            "| {case}: {} | {seconds:.2} | {} | {megabytes:.2} | {} |\n",
            contestant.name,
            share(seconds, |rsync| rsync.0),
            share(megabytes, |rsync| rsync.1),
        );
    }
    rows
}

/// Where both were run: the time with deltas where they pay as a share of that of whole files, by carrier.
fn auto_of_never(trials: &[Trial]) -> String {
    let median = |name: &str| {
        let valid = trials.iter().filter(|trial| trial.contestant == name && trial.doubts.is_empty());
        let mut seconds: Vec<f64> = valid.map(|trial| trial.seconds).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied()
    };
    let mut told = String::new();
    for carrier in CARRIERS {
        let [auto, never] = ["auto", "never"].map(|when| median(&fobs_name(carrier, when)));
        if let Some((auto, never)) = auto.zip(never) {
            told += &format!("| auto of never, {carrier} | {:.2} | - | - | - |\n", auto / never);
        }
    }
    told
}

/// Medians of what counts.
fn table(case: &str, trials: &[Trial]) -> String {
    let mut text = format!(
        "\n| {case} | seconds, median (min-max) of | CPU s, client + server | wire MB, there / back |\n\
         |---|---|---|---|\n"
    );
    let mut names: Vec<&str> = trials.iter().map(|trial| trial.contestant.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = |trial: &&Trial| trial.contestant == name && trial.doubts.is_empty();
        let trials: Vec<&Trial> = trials.iter().filter(of).collect();
        let median = |figure: &dyn Fn(&Trial) -> f64| {
            let mut all: Vec<f64> = trials.iter().map(|trial| figure(trial)).collect();
            all.sort_unstable_by(f64::total_cmp);
            (all.get(all.len() / 2).copied(), all.first().copied(), all.last().copied())
        };
        let (Some(seconds), Some(least), Some(most)) = median(&|trial| trial.seconds) else {
            text += &format!("| {name} | no valid run | | |\n");
            continue;
        };
        let middle = |figure: &dyn Fn(&Trial) -> f64| median(figure).0.unwrap_or(0.0);
        text += &format!(
            "| {name} | {seconds:.2} ({least:.2}-{most:.2}) of {} | {:.2} + {:.2} | {:.2} / {:.2} |\n",
            trials.len(),
            middle(&|trial| trial.cpu_s.client.unwrap_or(0.0)),
            middle(&|trial| trial.cpu_s.server.unwrap_or(0.0)),
            middle(&|trial| trial.wire_bytes.server as f64 / 1e6),
            middle(&|trial| trial.wire_bytes.client as f64 / 1e6),
        );
    }
    text
}

/// Where the runs happen: both files, the path and the destination.
struct Place {
    data: Data,
    path: TreePath,
    programs: Programs,
}

impl Place {
    fn old(&self) -> PathBuf {
        self.data.folder().join("old")
    }

    fn source(&self) -> PathBuf {
        self.data.folder().join("tree")
    }

    fn destination(&self) -> PathBuf {
        self.data.folder().join("target")
    }

    fn prepare(&self, case: Case, bytes: u64) -> Result<(), String> {
        let failed = |error| format!("cannot make the files in {}: {error}", self.data.folder().display());
        let scratch = self.data.folder().join("scratch");
        for directory in [&self.old(), &self.source(), &scratch] {
            if directory.exists() {
                fs::remove_dir_all(directory).map_err(failed)?;
            }
        }
        [self.old(), self.source()].iter().try_for_each(fs::create_dir_all).map_err(failed)?;
        case.make(bytes, &self.old(), &self.source(), &scratch)?;
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(failed)?;
        }
        settle(&self.old(), &self.source(), case).map_err(failed)
    }

    /// Runs it, and again while the emulator does not vouch for the run.
    fn run(&self, contestant: &Contestant, case: Case) -> Result<Trial, String> {
        let named = |error| format!("{}, {}: {error}", contestant.name, case.name());
        let mut left = AGAIN_MAX;
        loop {
            self.put_back().map_err(|error| named(format!("cannot put back what was: {error}")))?;
            let launch = self.launch(contestant, case).map_err(named)?;
            let acted = (case.name(), contestant.name.as_str());
            let trial = trial::run(&self.path, &launch, acted, &self.destination()).map_err(named)?;
            let (is, stored) = (self.source(), self.destination().join("tree"));
            let [is, stored] = [is, stored].map(|tree| digest(&tree));
            if is.map_err(|error| named(error.to_string()))?
                != stored.map_err(|error| named(error.to_string()))?
            {
                return Err(named("what is new did not arrive".to_owned()));
            }
            if trial.doubts.is_empty() || left == 0 {
                return Ok(trial);
            }
            left -= 1;
        }
    }

    fn put_back(&self) -> Result<(), String> {
        if self.destination().exists() {
            fs::remove_dir_all(self.destination()).map_err(|error| error.to_string())?;
        }
        fs::create_dir_all(self.destination()).map_err(|error| error.to_string())?;
        trees::copy(&self.old(), &self.destination().join("tree"))
    }

    fn launch(&self, contestant: &Contestant, case: Case) -> Result<Launch, String> {
        let directory = self.data.folder().join("keys");
        let failed = |error: std::io::Error| format!("cannot make {}: {error}", directory.display());
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(failed)?;
        }
        fs::create_dir(&directory).map_err(failed)?;
        let [sender, receiver] = self.path.hosts.clone();
        let options = contestant.told(case.words(&self.old()));
        let task = Task {
            options: &options,
            programs: &self.programs,
            path: self.path.facts,
            sender,
            receiver,
            amount: Amount::Bytes(0),
            source: self.source(),
            destination: self.destination(),
            directory,
            index: 0,
        };
        by_name(contestant.tool).ok_or_else(|| format!("there is no tool {}", contestant.tool))?.launch(&task)
    }
}

/// The files below a directory, in the order of their paths.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let into = if entry.file_type()?.is_dir() { &mut left } else { &mut found };
            into.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What is equal in both keeps one time, so that what changed has another, however fast it was made. What
/// moved keeps its own.
fn settle(old: &Path, new: &Path, case: Case) -> std::io::Result<()> {
    let before = SystemTime::now() - AGE;
    if case == Case::Moved {
        for file in files(new)? {
            fs::File::options().write(true).open(file)?.set_modified(before)?;
        }
    }
    for file in files(old)? {
        fs::File::options().write(true).open(&file)?.set_modified(before)?;
        let later = new.join(file.strip_prefix(old).unwrap_or(&file));
        if later.exists() && fs::read(&later)? == fs::read(&file)? {
            fs::File::options().write(true).open(later)?.set_modified(before)?;
        }
    }
    Ok(())
}

/// Names and contents below a directory.
fn digest(directory: &Path) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    for file in files(directory)? {
        let name = file.strip_prefix(directory).unwrap_or(&file).as_os_str().as_encoded_bytes();
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
        hasher.update(blake3::Hasher::new().update_reader(fs::File::open(&file)?)?.finalize().as_bytes());
    }
    Ok(hasher.finalize())
}
