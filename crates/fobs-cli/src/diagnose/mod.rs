//! `fobs diagnose`: hands files to the `fobs-diagnose` crate and prints what it finds.

pub mod args;

use std::fs::File;
use std::io::{self, BufWriter, Write};

use args::{ClassifyArgs, DiagnoseCommand, EvalArgs, GenerateArgs, MethodArgs, TrainArgs};
use fobs::{Error, ErrorKind, Result};
use fobs_diagnose::classify::{Classifier, Finding};
use fobs_diagnose::model::{MixtureFile, ModelFileError, PaperFile};
use fobs_diagnose::score::{Bar, Bound, Length, Scores};
use fobs_diagnose::window::{self, Cause, ReadError, Window, Windows};
use fobs_diagnose::{Method, splice, train};
use fobs_sim::signatures;
use serde::Serialize;

/// Windows that eval scores are cut to, besides their own length.
const SHORT: u32 = 10_000;

/// Runs a subcommand.
///
/// # Errors
/// `NoSource` for windows or models that cannot be read, `Usage` for too few of them, `FileIo` for what cannot be
/// written.
pub fn run(command: &DiagnoseCommand) -> Result<()> {
    match command {
        DiagnoseCommand::Classify(args) => classify(args),
        DiagnoseCommand::Eval(args) => eval(args),
        DiagnoseCommand::Train(args) => train(args),
        DiagnoseCommand::Generate(args) => generate(args),
    }
}

/// What is printed for a window.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    line: usize,
    slice: usize,
    n: u32,
    lost: u32,
    p_receiver: f64,
    verdict: &'static str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceLine>,
}

/// What `--evidence` adds.
#[derive(Serialize)]
struct EvidenceLine {
    cause: Option<&'static str>,
    scenario: String,
    burst: u32,
    complexity: f64,
    success_proportion: Option<f64>,
    median_run: Option<u32>,
    longest_run: Option<u32>,
    runs: u32,
    stray: Option<u32>,
    sub_cause: Option<String>,
    p_mixed: Option<f64>,
    withheld: Option<&'static str>,
}

fn classify(args: &ClassifyArgs) -> Result<()> {
    let mut classifier = classifier(&args.method)?;
    let mut out = BufWriter::new(Stdout::Open);
    for path in &args.files {
        let file = path.display().to_string();
        for read in Windows::open(path).map_err(unreadable)? {
            let (line, window) = read.map_err(unreadable)?;
            for (slice, part) in window.slices(args.slice.unwrap_or(0)).iter().enumerate() {
                let found = classifier.classify(&part.signature);
                let evidence = args.evidence.then(|| evidence(part, &found, &mut classifier));
                let line = Line {
                    file: &file,
                    line,
                    slice,
                    n: part.signature.packets(),
                    lost: part.signature.lost(),
                    p_receiver: found.p_receiver,
                    verdict: found.verdict.name(),
                    evidence,
                };
                print_line(&mut out, &line, args.json).map_err(unwritable)?;
            }
        }
    }
    out.flush().map_err(unwritable)
}

fn print_line(out: &mut impl Write, line: &Line<'_>, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, line)?;
        return out.write_all(b"\n");
    }
    write!(
        out,
        "{}:{}.{}: {} of {} lost, {} (receiver {:.1}%)",
        line.file,
        line.line,
        line.slice,
        line.lost,
        line.n,
        line.verdict,
        100.0 * line.p_receiver
    )?;
    if let Some(evidence) = &line.evidence {
        let name = evidence.sub_cause.as_deref().unwrap_or("-");
        write!(out, "; complexity {:.3}; most like {name}", evidence.complexity)?;
        if let Some(withheld) = evidence.withheld {
            write!(out, "; {withheld}")?;
        }
    }
    out.write_all(b"\n")
}

fn evidence(window: &Window, found: &Finding, classifier: &mut Classifier) -> EvidenceLine {
    let features = found.features;
    let why = found.evidence.as_ref();
    EvidenceLine {
        cause: window.cause.map(Cause::name),
        scenario: window.scenario.clone(),
        burst: window.signature.burst(),
        complexity: classifier.complexity(&window.signature),
        success_proportion: features.map(|f| f.success_proportion),
        median_run: features.map(|f| f.median_run),
        longest_run: features.map(|f| f.longest_run),
        runs: features.map_or(0, |f| f.runs),
        stray: features.map(|f| f.stray),
        sub_cause: why.map(|why| why.sub_cause.clone()),
        p_mixed: why.map(|why| why.p_mixed),
        withheld: why.and_then(|why| why.withheld).map(|withheld| withheld.reason()),
    }
}

fn eval(args: &EvalArgs) -> Result<()> {
    let mut classifier = classifier(&args.method)?;
    let files = window::files_in(&args.directory).map_err(unreadable)?;
    let windows = window::read_all(&files).map_err(unreadable)?;
    if windows.is_empty() {
        let message = format!(
            "there are no windows in {}: give a directory of *.jsonl or *.jsonl.gz files",
            args.directory.display()
        );
        return Err(Error::new(ErrorKind::NoSource, message));
    }
    let lengths = args.slice.map_or(vec![0, SHORT], |slice| vec![slice]);
    let mut tables = Vec::new();
    for length in lengths {
        let cut: Vec<Window> = windows.iter().flat_map(|window| window.slices(length)).collect();
        let mut scores = Scores::default();
        let spliced = splice::splices(&cut.iter().collect::<Vec<_>>(), args.splices as usize, args.seed);
        for window in cut.iter().chain(&spliced) {
            scores.add(window, classifier.classify(&window.signature).verdict);
        }
        let longest = cut.iter().map(|window| window.signature.packets()).max().unwrap_or(0);
        tables.push((longest, scores));
    }
    let mut out = BufWriter::new(Stdout::Open);
    if args.json {
        let tables: Vec<_> = tables.iter().map(|(packets, scores)| table_json(*packets, scores)).collect();
        serde_json::to_writer(&mut out, &tables).map_err(io::Error::from).map_err(unwritable)?;
        out.write_all(b"\n").map_err(unwritable)?;
    } else {
        for (packets, scores) in &tables {
            print_table(&mut out, *packets, scores).map_err(unwritable)?;
        }
    }
    out.flush().map_err(unwritable)
}

fn print_table(out: &mut impl Write, packets: u32, scores: &Scores) -> io::Result<()> {
    writeln!(out, "windows of up to {packets} packets: called receiver/network/inconclusive\n{scores}")?;
    for bar in scores.bars(Length::of(packets)) {
        writeln!(out, "{bar}")?;
    }
    writeln!(out)
}

fn table_json(packets: u32, scores: &Scores) -> serde_json::Value {
    let tally = |t: fobs_diagnose::score::Tally| [t.receiver, t.network, t.inconclusive];
    let rows: Vec<_> = scores
        .rows()
        .map(|(cause, scenario, row)| {
            serde_json::json!({
                "cause": cause.name(), "scenario": scenario,
                "bands": row.bands.map(tally), "scored": tally(row.scored),
            })
        })
        .collect();
    let bars: Vec<_> = scores.bars(Length::of(packets)).iter().map(bar_json).collect();
    serde_json::json!({ "packets": packets, "rows": rows, "bars": bars })
}

fn bar_json(bar: &Bar) -> serde_json::Value {
    let (bound, side) = match bar.bound {
        Bound::AtLeast(bound) => (bound, "at_least"),
        Bound::AtMost(bound) => (bound, "at_most"),
    };
    serde_json::json!({ "name": bar.name, "value": bar.value, side: bound, "passed": bar.passed() })
}

fn train(args: &TrainArgs) -> Result<()> {
    let windows = window::read_all(&args.files).map_err(unreadable)?;
    let too_few = |error: train::TrainError| Error::new(ErrorKind::Usage, error.to_string());
    if args.validate {
        let mut out = BufWriter::new(Stdout::Open);
        let validations = train::validate(&windows, &[0, SHORT], args.seed).map_err(too_few)?;
        for (length, validation) in validations {
            let packets = if length == 0 { u32::MAX } else { length };
            let title = if length == 0 { "uncut".to_owned() } else { format!("cut to {length}") };
            for (kind, scores) in
                [("left out by recording", &validation.folds), ("scenario left out", &validation.scenarios)]
            {
                writeln!(out, "{title}, {kind}: called receiver/network/inconclusive\n{scores}")
                    .map_err(unwritable)?;
                for bar in scores.bars(Length::of(packets)) {
                    writeln!(out, "{bar}").map_err(unwritable)?;
                }
                writeln!(out).map_err(unwritable)?;
            }
        }
        out.flush().map_err(unwritable)?;
    }
    let model = train::train(&windows, args.seed, &args.note).map_err(too_few)?;
    model.save(&args.out).map_err(|error| Error::new(ErrorKind::FileIo, error.to_string()))
}

fn generate(args: &GenerateArgs) -> Result<()> {
    let failed = |error: io::Error| {
        let message = format!("cannot write {}: {error}; check the path", args.out.display());
        Error::new(ErrorKind::FileIo, message)
    };
    let mut out = BufWriter::new(File::create(&args.out).map_err(failed)?);
    for (kind, scenario) in signatures::SCENARIOS.into_iter().enumerate() {
        for index in 0..args.count {
            let seed = args.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(index) * 64 + kind as u64);
            if let Some(made) = signatures::generate(scenario, args.packets, seed) {
                writeln!(out, "{}", window::line(&made)).map_err(failed)?;
            }
        }
    }
    out.flush().map_err(failed)
}

pub(crate) fn classifier(args: &MethodArgs) -> Result<Classifier> {
    let method = Method::from(args.method);
    let unusable = |error: ModelFileError| Error::new(ErrorKind::NoSource, error.to_string());
    let built = match (&args.model, method) {
        (None, method) => return Ok(Classifier::shipped(method)),
        (Some(path), Method::Paper) => Classifier::paper(&PaperFile::load(path).map_err(unusable)?),
        (Some(path), Method::Signature) => Classifier::signature(&MixtureFile::load(path).map_err(unusable)?),
    };
    built.map_err(|reason| {
        Error::new(ErrorKind::Internal, format!("a model that was checked is bad: {reason}"))
    })
}

/// Standard output; once its reader has left, which is no error, everything is written to nobody.
enum Stdout {
    Open,
    Left,
}

impl Stdout {
    fn left<T>(&mut self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                *self = Stdout::Left;
                Ok(otherwise)
            }
            done => done,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stdout::Open => {
                let done = io::stdout().write(bytes);
                self.left(done, bytes.len())
            }
            Stdout::Left => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = io::stdout().flush();
        self.left(done, ())
    }
}

pub(crate) fn unreadable(error: ReadError) -> Error {
    Error::new(ErrorKind::NoSource, error.to_string())
}

fn unwritable(error: io::Error) -> Error {
    let message = format!("cannot write to standard output: {error}; check where it goes");
    Error::new(ErrorKind::FileIo, message)
}
