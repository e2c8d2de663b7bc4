//! `fobs-lab trees`: copies and syncs of trees over an emulated path, beside rsync or another `fobs`.

mod forest;
pub mod path;
mod table;
pub mod trial;

use std::fs;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueHint;

use crate::failure::{EXIT_FILE_IO, EXIT_NO_ROOT, EXIT_USAGE, Failure};
use crate::run::data::Data;
use crate::tool::{Amount, Launch, Options, Programs, Task, by_name};
use crate::units::{Rate, Size, Time};
use forest::Forest;
use path::TreePath;
use trial::Trial;

/// The act that is compared with rsync's.
const AGAIN: &str = "sync again";
/// A run that the emulator does not vouch for is made again this often.
const AGAIN_MAX: u32 = 2;

/// Measure copies and syncs of a tree over an emulated path, beside rsync or another fobs (root).
///
/// The tree lies in memory, and a run is timed from the command's start to its end: `copy` is fobs cp -r into
/// an empty directory, `sync` a sync -a into an empty directory, and `sync again` one in which nothing
/// changed. The contestants take turns, in the opposite order every other time. Runs that the emulator does
/// not vouch for are repeated, and left out. The exit code is 1 if a requirement is not met.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The fobs program to measure [default: beside this program, then in PATH]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    fobs: Option<PathBuf>,
    /// Another fobs program to measure in the same runs, as `baseline`
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    baseline: Option<PathBuf>,
    /// Files of the tree
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    files: u64,
    /// Their sizes: one, or a range as 1kB-10kB
    #[arg(long, value_name = "SIZE[-SIZE]", default_value = "0B-100B", value_parser = sizes)]
    sizes: RangeInclusive<u64>,
    /// Files in each directory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    per_directory: u64,
    /// What is measured
    #[arg(
        long,
        value_name = "ACT,...",
        value_enum,
        value_delimiter = ',',
        default_value = "copy,sync,again"
    )]
    acts: Vec<Act>,
    /// What carries fobs's control channel
    #[arg(long, value_name = "CARRIER,...", value_delimiter = ',', default_value = "ssh", value_parser = ["ssh", "daemon"])]
    carriers: Vec<String>,
    /// Leave rsync out
    #[arg(long)]
    without_rsync: bool,
    /// Round-trip time of the path; 0ms: a pair of devices without an emulator
    #[arg(long, value_name = "TIME", default_value = "65ms")]
    rtt: Time,
    /// Rate of the emulated path
    #[arg(long, value_name = "RATE", default_value = "500Mbit")]
    rate: Rate,
    /// Run everything N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    reps: u32,
    /// Append each run to FILE, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// What a contestant does with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Act {
    /// fobs cp -r into an empty directory
    Copy,
    /// sync -a into an empty directory
    #[value(name = "sync")]
    First,
    /// sync -a of what is there
    Again,
}

impl Act {
    const ALL: [Act; 3] = [Act::Copy, Act::First, Act::Again];

    fn name(self) -> &'static str {
        match self {
            Act::Copy => "copy",
            Act::First => "sync",
            Act::Again => AGAIN,
        }
    }
}

fn sizes(text: &str) -> Result<RangeInclusive<u64>, String> {
    let size = |text: &str| text.parse::<Size>().map(Size::bytes).map_err(|error| error.to_string());
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let range = size(least)?..=size(most)?;
    if range.is_empty() { Err("the first size is larger than the second".to_owned()) } else { Ok(range) }
}

/// Runs `fobs-lab trees`.
pub fn main(args: &Args) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: trees needs root (it makes network namespaces)");
        return ExitCode::from(EXIT_NO_ROOT);
    }
    match measure(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_USAGE),
        Err(failure) => failure.report(),
    }
}

/// A command that does an act.
struct Contestant {
    name: String,
    tool: &'static str,
    programs: Programs,
    options: Options,
}

impl Contestant {
    fn fobs((label, programs): (&str, &Programs), carrier: &str, act: Act) -> Contestant {
        let (verb, arguments) = match act {
            Act::Copy => ("cp", "-r"),
            Act::First | Act::Again => ("sync", "-a"),
        };
        let mut options = Options::new();
        options.insert("verb".to_owned(), verb.into());
        options.insert("carrier".to_owned(), carrier.into());
        options.insert("args".to_owned(), vec![arguments].into());
        let name = format!("{label}, {carrier}");
        Contestant { name, tool: "fobs", programs: programs.clone(), options }
    }

    fn rsync(programs: &Programs) -> Contestant {
        let (name, programs) = ("rsync, ssh".to_owned(), programs.clone());
        Contestant { name, tool: "rsync", programs, options: Options::new() }
    }
}

fn measure(args: &Args) -> Result<bool, Failure> {
    let mut out = args.out.as_deref().map(appended).transpose()?;
    let programs = Programs::new(args.fobs.as_deref());
    let fobs = programs.find("fobs", "build it with `cargo build --release`").map_err(Failure::new)?;
    let programs = Programs::new(Some(&fobs));
    let baseline = args.baseline.as_deref().map(|path| Programs::new(Some(path)));
    let ours =
        [("fobs", &programs)].into_iter().chain(baseline.as_ref().map(|programs| ("baseline", programs)));
    let ours: Vec<(&str, &Programs)> = ours.collect();
    crate::run::group::remove_leftovers();
    crate::run::data::remove_leftovers();
    let mut place = Place::new(args).map_err(Failure::new)?;
    let mut trials = Vec::new();
    for rep in 0..args.reps {
        for act in Act::ALL.into_iter().filter(|act| args.acts.contains(act)) {
            let mut contestants: Vec<Contestant> = args
                .carriers
                .iter()
                .flat_map(|carrier| ours.iter().map(|one| Contestant::fobs(*one, carrier, act)))
                .collect();
            if !args.without_rsync && act != Act::Copy {
                contestants.push(Contestant::rsync(&programs));
            }
            if rep % 2 == 1 {
                contestants.reverse();
            }
            for contestant in &contestants {
                for trial in place.run(contestant, act).map_err(Failure::new)? {
                    let Trial { contestant, seconds, doubts, .. } = &trial;
                    eprintln!(
                        "{} {}/{} {contestant}: {seconds:.2} s {}",
                        act.name(),
                        rep + 1,
                        args.reps,
                        doubts.join("; ")
                    );
                    if let Some(file) = &mut out {
                        record(file, &trial)?;
                    }
                    trials.push(trial);
                }
            }
        }
    }
    let (text, passed) = table::tables(&trials);
    println!("{text}");
    Ok(passed)
}

fn appended(path: &Path) -> Result<fs::File, Failure> {
    let opened = fs::File::options().create(true).append(true).open(path);
    opened.map_err(|error| {
        Failure::with_code(EXIT_FILE_IO, format!("cannot write {}: {error}", path.display()))
    })
}

fn record(file: &mut fs::File, trial: &Trial) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::with_code(EXIT_FILE_IO, format!("cannot write records: {error}"));
    let mut line = serde_json::to_string(trial).map_err(|error| failed(error.into()))?;
    line.push('\n');
    file.write_all(line.as_bytes()).map_err(failed)
}

/// Where the runs happen: the tree, the path and the destination.
struct Place {
    data: Data,
    path: TreePath,
    files: u64,
    bytes: u64,
}

impl Place {
    fn new(args: &Args) -> Result<Place, String> {
        let data = Data::new(0)?;
        let forest =
            Forest { files: args.files, sizes: args.sizes.clone(), per_directory: args.per_directory };
        let bytes = forest
            .make(&data.folder().join("tree"))
            .map_err(|error| format!("cannot make the tree in {}: {error}", data.folder().display()))?;
        eprintln!("{} files of {bytes} bytes", args.files);
        let path = TreePath::new(args.rtt, args.rate, data.folder())?;
        Ok(Place { data, path, files: args.files, bytes })
    }

    fn destination(&self) -> PathBuf {
        self.data.folder().join("target")
    }

    /// Runs it, and again while the emulator does not vouch for the run; the destination is complete
    /// afterwards.
    fn run(&mut self, contestant: &Contestant, act: Act) -> Result<Vec<Trial>, String> {
        let named = |error| format!("{}, {}: {error}", contestant.name, act.name());
        let mut trials: Vec<Trial> = Vec::new();
        for _ in 0..=AGAIN_MAX {
            if act != Act::Again || !self.destination().exists() {
                self.clear().map_err(|error| named(format!("cannot empty the destination: {error}")))?;
            }
            let launch = self.launch(contestant).map_err(named)?;
            if act == Act::Again && !self.is_complete() {
                trial::run(&self.path, &launch, ("made", &contestant.name), &self.destination())
                    .map_err(named)?;
            }
            let acted = (act.name(), contestant.name.as_str());
            let trial = trial::run(&self.path, &launch, acted, &self.destination()).map_err(named)?;
            if !self.is_complete() {
                return Err(named("not everything arrived".to_owned()));
            }
            let counts = trial.doubts.is_empty();
            trials.push(trial);
            if counts {
                break;
            }
        }
        Ok(trials)
    }

    fn is_complete(&self) -> bool {
        forest::count(&self.destination().join("tree")).is_ok_and(|found| found == (self.files, self.bytes))
    }

    fn clear(&self) -> std::io::Result<()> {
        let destination = self.destination();
        if destination.exists() {
            fs::remove_dir_all(&destination)?;
        }
        fs::create_dir(destination)
    }

    fn launch(&self, contestant: &Contestant) -> Result<Launch, String> {
        let directory = self.data.folder().join("keys");
        let failed = |error: std::io::Error| format!("cannot make {}: {error}", directory.display());
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(failed)?;
        }
        fs::create_dir(&directory).map_err(failed)?;
        let [sender, receiver] = self.path.hosts.clone();
        let task = Task {
            options: &contestant.options,
            programs: &contestant.programs,
            path: self.path.facts,
            sender,
            receiver,
            amount: Amount::Bytes(self.bytes),
            source: self.data.folder().join("tree"),
            destination: self.destination(),
            directory,
            index: 0,
        };
        by_name(contestant.tool).ok_or_else(|| format!("there is no tool {}", contestant.tool))?.launch(&task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_one_or_a_range() {
        assert_eq!(sizes("1kB-10kB"), Ok(1000..=10_000));
        assert_eq!(sizes("2GB"), Ok(2_000_000_000..=2_000_000_000));
        for bad in ["10kB-1kB", "", "x", "1kB-"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sync_is_called_with_words_that_it_has() {
        let programs = Programs::new(None);
        let contestant = Contestant::fobs(("fobs", &programs), "daemon", Act::Again);
        assert_eq!(contestant.name, "fobs, daemon");
        assert_eq!(by_name("fobs").unwrap().check(&contestant.options), Ok(()));
    }
}
