//! `fobs-lab bench`: FOBS beside rsync, scp, tar over ssh and iperf3 on this machine, in one interleaved
//! bench.
//!
//! Two network namespaces are joined by a pair of virtual devices, files lie in memory, and every contestant
//! moves the same bytes: all of them once, then all of them again in the opposite order, so that a
//! disturbance of the machine hits all alike and no contestant always follows the same other. A second `fobs`
//! can run beside the first (`--baseline`): both are then measured within the same minutes of the same
//! machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::run::shaping;
use crate::tool::Programs;
use crate::units::Rate;

mod arena;
mod bars;
mod contestant;
mod facts;
mod memory;
pub mod peak;
pub mod record;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod trial;

use arena::{Arena, Offloads, SMALL_BYTES, SMALL_FILES};
use bars::Bars;
use contestant::{Contestant, Way};
use record::{CONNECT, Results};

/// Programs that the bench starts, beside FOBS.
const NEEDED: [&str; 9] = ["ip", "tc", "ethtool", "ssh", "sshd", "scp", "rsync", "iperf3", "tar"];
/// OpenSSH's common ciphers: the fastest on this machine is what all contestants over ssh use.
const CIPHERS: [&str; 3] =
    ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"];
/// The file that `greedy` sends, and the rate of its device.
const GREEDY_BYTES: u64 = 40_000_000;
const GREEDY_BITS_PER_SECOND: u64 = 100_000_000;
/// Largest file, GiB: it lies in memory twice.
const GIB_MAX: f64 = 16.0;

/// Options of `bench`.
#[derive(clap::Args)]
#[command(about = "Measure fobs beside rsync, scp, tar over ssh and iperf3 on this machine (root)")]
pub struct Args {
    /// The fobs program to measure [default: beside this program, then in PATH]
    #[arg(long, value_name = "PATH")]
    fobs: Option<PathBuf>,
    /// Another fobs program to measure in the same runs, as `baseline`
    #[arg(long, value_name = "PATH", conflicts_with = "peers_only")]
    baseline: Option<PathBuf>,
    /// The example `ceiling` of the crate fobs [default: examples/ceiling beside this program]
    #[arg(long, value_name = "PATH")]
    ceiling: Option<PathBuf>,
    /// Measure the other programs, without fobs
    #[arg(long)]
    peers_only: bool,
    /// Only say whether the bench can run here
    #[arg(long)]
    preflight: bool,
    /// Run every contestant N times
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    reps: u32,
    /// Size of the large file
    #[arg(long, value_name = "GIB", default_value_t = 2.0, value_parser = gib)]
    gib: f64,
    /// Which parts to run
    #[arg(
        long,
        value_name = "PART,...",
        value_enum,
        value_delimiter = ',',
        default_value = "wire,super,small,greedy"
    )]
    parts: Vec<Part>,
    /// Show what each thread of fobs costs, and what that predicts for hosts of more cores
    #[arg(long)]
    threads: bool,
    /// Write records to FILE [default: bench-TIME.jsonl in the current directory]
    #[arg(long, value_name = "FILE.jsonl")]
    out: Option<PathBuf>,
    /// Print the tables of this result file and run nothing
    #[arg(long, value_name = "FILE.jsonl")]
    report: Option<PathBuf>,
}

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One large file; packets of 1500 bytes cross the wire
    Wire,
    /// One large file; super-packets of 64 KiB cross the wire
    Super,
    /// 20,000 files of 4 KiB
    Small,
    /// `--cc greedy` into a device of 100 Mbit/s with back-pressure
    Greedy,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Wire => "wire",
            Part::Super => "super",
            Part::Small => "small",
            Part::Greedy => "greedy",
        }
    }
}

fn gib(text: &str) -> Result<f64, String> {
    let gib = text.parse::<f64>().ok().filter(|gib| *gib > 0.0 && *gib <= GIB_MAX);
    gib.ok_or_else(|| format!("more than 0 and at most {GIB_MAX} GiB are possible"))
}

/// Runs the bench; errors are one sentence on standard error.
pub fn main(args: &Args) -> ExitCode {
    match bench(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fobs-lab: {error}");
            ExitCode::from(crate::failure::EXIT_USAGE)
        }
    }
}

fn bench(args: &Args) -> Result<ExitCode, String> {
    if let Some(file) = &args.report {
        let results = Results::read(file)?;
        show_threads(args, &results);
        return Ok(show(&results, results.records.iter().any(|record| record.name.starts_with("fobs"))));
    }
    if !rustix::process::geteuid().is_root() {
        println!(
            "skipped: the bench needs root (it makes network namespaces and sets their devices' offloads)"
        );
        return Ok(ExitCode::from(crate::failure::EXIT_NO_ROOT));
    }
    let programs = Programs::new(args.fobs.as_deref());
    let missing: Vec<&str> = NEEDED.into_iter().filter(|name| programs.find(name, "").is_err()).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        println!(
            "skipped: the bench needs {missing} (as root, `scripts/install-needs.sh bench` installs them)"
        );
        return Ok(ExitCode::from(crate::failure::EXIT_NO_ROOT));
    }
    if args.preflight {
        return Ok(ExitCode::SUCCESS);
    }
    let ours = if args.peers_only { None } else { Some(Ours::find(args, &programs)?) };
    let out = args.out.clone().unwrap_or_else(default_out);
    let mut results = Results::create(&out)?;
    measure(args, programs, ours.as_ref(), &mut results)?;
    show_threads(args, &results);
    let code = show(&results, ours.is_some());
    eprintln!("raw results: {}", out.display());
    Ok(code)
}

/// `bench-20260102T030405Z.jsonl`.
fn default_out() -> PathBuf {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    PathBuf::from(format!("bench-{}.jsonl", time.replace(['-', ':'], "")))
}

/// Prints what threads cost, where that is wanted.
fn show_threads(args: &Args, results: &Results) {
    if args.threads {
        let hash = threads::hash_cost();
        for part in [Part::Wire, Part::Super] {
            print!("{}", threads::tables(results, part.name(), hash));
        }
    }
}

/// Prints the tables; the exit code says whether the bars are cleared, where there are any.
fn show(results: &Results, judged: bool) -> ExitCode {
    print!("{}", table::tables(results));
    if !judged {
        return ExitCode::SUCCESS;
    }
    let bars = Bars::of(results);
    print!("{}", bars.table());
    if bars.passed() { ExitCode::SUCCESS } else { ExitCode::from(crate::failure::EXIT_USAGE) }
}

/// The programs of this repository.
struct Ours {
    fobs: Programs,
    baseline: Option<Programs>,
    ceiling: PathBuf,
}

impl Ours {
    fn find(args: &Args, programs: &Programs) -> Result<Ours, String> {
        let how = "build it with `cargo build --release` (or measure the others with --peers-only)";
        let fobs = Programs::new(Some(&programs.find("fobs", how)?));
        let baseline = args.baseline.as_deref().map(|path| Programs::new(Some(path)));
        if let Some(baseline) = &baseline {
            baseline.find("fobs", "").map_err(|error| error.replace("--fobs", "--baseline"))?;
        }
        let beside =
            std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("examples/ceiling")));
        let ceiling = args.ceiling.clone().or(beside).unwrap_or_default();
        let found = std::path::absolute(&ceiling).ok().filter(|path| path.is_file());
        let ceiling = found.ok_or_else(|| {
            let path = ceiling.display();
            format!(
                "there is no {path}: build it with `cargo build --release -p fobs-daemon --example ceiling`"
            )
        })?;
        Ok(Ours { fobs, baseline, ceiling })
    }

    /// Every fobs, by the name that it has in the tables.
    fn each(&self) -> impl Iterator<Item = (&'static str, &Programs)> {
        [("fobs", &self.fobs)]
            .into_iter()
            .chain(self.baseline.as_ref().map(|programs| ("baseline", programs)))
    }
}

/// Makes the hosts, chooses the cipher and runs all parts.
fn measure(
    args: &Args,
    programs: Programs,
    ours: Option<&Ours>,
    results: &mut Results,
) -> Result<(), String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    let bytes = (args.gib * f64::from(1 << 30)) as u64;
    let mut facts = facts::facts(&programs, BTreeMap::new(), bytes);
    let mut arena = Arena::new(programs, interrupted)?;
    let source = arena.data.source(bytes, 1)?.path;
    arena.set_offloads(Offloads::Wire)?;
    facts.ciphers = ciphers(&mut arena, &source, bytes)?;
    let fastest = facts.ciphers.iter().max_by(|one, other| one.1.total_cmp(other.1));
    arena.cipher = fastest.map(|(cipher, _)| cipher.clone()).unwrap_or(arena.cipher);
    results.add_facts(facts)?;
    for part in &args.parts {
        match part {
            Part::Wire => large(&mut arena, results, (*part, Offloads::Wire), bytes, ours, args.reps)?,
            Part::Super => large(&mut arena, results, (*part, Offloads::Super), bytes, ours, args.reps)?,
            Part::Small => small(&mut arena, results, ours, args.reps)?,
            Part::Greedy => greedy(&mut arena, results, ours)?,
        }
    }
    Ok(())
}

/// What ssh reaches into /dev/null with each cipher, Gbit/s.
fn ciphers(arena: &mut Arena, source: &Path, bytes: u64) -> Result<BTreeMap<String, f64>, String> {
    let mut reached = BTreeMap::new();
    let folder = arena.data.folder().join("ciphers");
    for cipher in CIPHERS {
        arena.clean(bytes)?;
        let contestant = Contestant::other(cipher, Way::Discard(cipher), arena);
        let task = contestant.task(arena, &folder, source, bytes)?;
        let launch = contestant.launch(&task, cipher)?;
        reached.insert(cipher.to_owned(), trial::run(arena, &launch)?.gbps(bytes));
    }
    Ok(reached)
}

/// One large file.
fn large(
    arena: &mut Arena,
    results: &mut Results,
    (part, offloads): (Part, Offloads),
    bytes: u64,
    ours: Option<&Ours>,
    reps: u32,
) -> Result<(), String> {
    arena.set_offloads(offloads)?;
    let source = arena.data.source(bytes, 1)?.path;
    let mut contestants = Vec::new();
    if let Some(ours) = ours {
        contestants.extend(ours.each().flat_map(|(label, programs)| Contestant::fobs(label, programs)));
        contestants.push(Contestant::other("ceiling", Way::Ceiling(ours.ceiling.clone()), arena));
    }
    contestants.extend([
        Contestant::rsync(arena),
        Contestant::scp(arena),
        Contestant::other(CONNECT, Way::Connect, arena),
        Contestant::iperf3(arena)?,
    ]);
    contest(arena, results, part, &contestants, (&source, bytes), reps)
}

/// Many small files.
fn small(arena: &mut Arena, results: &mut Results, ours: Option<&Ours>, reps: u32) -> Result<(), String> {
    arena.set_offloads(Offloads::Wire)?;
    let tree = arena.small_files()?;
    let source = (tree.as_path(), SMALL_FILES * SMALL_BYTES as u64);
    let fobs = ours.iter().flat_map(|ours| ours.each());
    let mut contestants: Vec<_> =
        fobs.flat_map(|(label, programs)| Contestant::fobs(label, programs)).collect();
    contestants.extend([Contestant::other("tar, ssh", Way::TarOverSsh, arena), Contestant::rsync(arena)]);
    contest(arena, results, Part::Small, &contestants, source, reps)?;
    // scp asks several questions for each file: one repetition shows enough.
    contest(arena, results, Part::Small, &[Contestant::scp(arena)], source, 1)
}

/// A controller without any other brake than a full socket buffer, into a slow device with back-pressure.
fn greedy(arena: &mut Arena, results: &mut Results, ours: Option<&Ours>) -> Result<(), String> {
    let Some(ours) = ours else { return Ok(()) };
    arena.set_offloads(Offloads::Super)?;
    let source = arena.data.source(GREEDY_BYTES, 1)?.path;
    let rate = Rate::from_bits_per_second(GREEDY_BITS_PER_SECOND).ok_or("the rate is out of range")?;
    shaping::limit(&arena.pair.namespaces()[0], rate)?;
    let contestants: Vec<_> =
        ours.each().map(|(label, programs)| Contestant::greedy(label, programs)).collect();
    let done = contest(arena, results, Part::Greedy, &contestants, (&source, GREEDY_BYTES), 1);
    done.and(shaping::unlimit(&arena.pair.namespaces()[0]))
}

/// Every contestant once, then every contestant again in the opposite order, and so on.
fn contest(
    arena: &mut Arena,
    results: &mut Results,
    part: Part,
    contestants: &[Contestant],
    (source, bytes): (&Path, u64),
    reps: u32,
) -> Result<(), String> {
    let (part, folder) = (part.name(), arena.data.folder().join(part.name()));
    let mut launches = Vec::new();
    for contestant in contestants {
        let task = contestant.task(arena, &folder, source, bytes)?;
        launches.push(contestant.launch(&task, &arena.cipher)?);
    }
    for rep in 0..reps {
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        if rep % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (contestant, launch) = (&contestants[index], &launches[index]);
            let named = |error| format!("{part}: {}: {error}", contestant.name);
            arena.clean(bytes)?;
            let ran = trial::run(arena, launch).map_err(named)?;
            let task = contestant.task(arena, &folder, source, bytes)?;
            let record = ran.record(part, contestant, &task, (rep, bytes)).map_err(named)?;
            let rate = record.gbps.map_or_else(String::new, |rate| format!("{rate:.2} Gbit/s, "));
            eprintln!("{part} {}/{reps} {}: {rate}{:.2} s", rep + 1, contestant.name, record.seconds);
            results.add(record)?;
        }
    }
    Ok(())
}
