//! The subcommands that read, score and write windows.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use fobs_diagnose::window::{self, Windows};
use fobs_diagnose::{Cause, Window, splice};
use fobs_sim::signatures;
use serde::Serialize;

use super::args::{ClassifyArgs, EvalArgs, GenerateArgs, TrainArgs};
use super::classify::{Classifier, Finding};
use super::score::{Bar, Bound, Length, Scores, Tally};
use super::train::TrainError;
use super::validate::{Validation, validate};
use super::{classifier, train as training, unreadable};
use crate::failure::{EXIT_FILE_IO, EXIT_NO_SOURCE, Failure};
use crate::output::{Stdout, unwritable};

/// Packets that `eval` and `train --validate` cut windows to, besides scoring them uncut.
const SHORT: u32 = 10_000;

/// The output for a window.
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

/// The members that `--evidence` adds.
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

/// `classify`: prints a verdict for each window.
pub fn classify(args: &ClassifyArgs) -> Result<(), Failure> {
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

/// `eval`: prints tables of verdicts against labels, and the bars.
pub fn eval(args: &EvalArgs) -> Result<(), Failure> {
    let mut classifier = classifier(&args.method)?;
    let files = window::files_in(&args.directory).map_err(unreadable)?;
    let windows = window::read_all(&files).map_err(unreadable)?;
    if windows.is_empty() {
        let message = format!(
            "there are no windows in {}: give a directory of *.jsonl or *.jsonl.gz files",
            args.directory.display()
        );
        return Err(Failure::with_code(EXIT_NO_SOURCE, message));
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
    let tally = |t: Tally| [t.receiver, t.network, t.inconclusive];
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

/// `train`: writes a model, and with `--validate` prints how training does on windows that it did not see.
pub fn train(args: &TrainArgs) -> Result<(), Failure> {
    let windows = window::read_all(&args.files).map_err(unreadable)?;
    let too_few = |error: TrainError| Failure::new(error.to_string());
    if args.validate {
        let validations = validate(&windows, &[0, SHORT], args.seed).map_err(too_few)?;
        print_validations(&validations).map_err(unwritable)?;
    }
    let model = training::train(&windows, args.seed, &args.note).map_err(too_few)?;
    model.save(&args.out).map_err(|error| Failure::with_code(EXIT_FILE_IO, error.to_string()))
}

fn print_validations(validations: &[(u32, Validation)]) -> io::Result<()> {
    let mut out = BufWriter::new(Stdout::Open);
    for (length, validation) in validations {
        let packets = if *length == 0 { u32::MAX } else { *length };
        let title = if *length == 0 { "uncut".to_owned() } else { format!("cut to {length}") };
        for (kind, scores) in
            [("left out by recording", &validation.folds), ("scenario left out", &validation.scenarios)]
        {
            writeln!(out, "{title}, {kind}: called receiver/network/inconclusive\n{scores}")?;
            for bar in scores.bars(Length::of(packets)) {
                writeln!(out, "{bar}")?;
            }
            writeln!(out)?;
        }
    }
    out.flush()
}

/// `generate`: writes simulated windows of network loss.
pub fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::with_code(
            EXIT_FILE_IO,
            format!("cannot write {}: {error}; check the path", args.out.display()),
        )
    };
    let mut out = BufWriter::new(File::create(&args.out).map_err(failed)?);
    for (kind, scenario) in signatures::SCENARIOS.iter().enumerate() {
        for index in 0..args.count {
            let seed = args.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(index) * 64 + kind as u64);
            if let Some(made) = signatures::generate(scenario, args.packets, seed) {
                writeln!(out, "{}", window::line(&made)).map_err(failed)?;
            }
        }
    }
    out.flush().map_err(failed)
}
