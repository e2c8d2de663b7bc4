//! The command line of `fobs diagnose`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use fobs_diagnose::Method;

/// Say why packets were lost, from recorded loss signatures.
///
/// A file holds one JSON object a line, gzipped or not: n (packets of the window), rle (pairs of packets received and
/// packets lost after them), burst (packets sent back to back), and for training and scoring cause (cpu, net or
/// hybrid), scenario and run.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: DiagnoseCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum DiagnoseCommand {
    Classify(ClassifyArgs),
    Eval(EvalArgs),
    Train(TrainArgs),
    Generate(GenerateArgs),
}

/// How to tell causes apart.
#[derive(Debug, Args)]
pub struct MethodArgs {
    /// How to tell the causes apart
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = MethodName::Signature)]
    pub method: MethodName,

    /// The model to use instead of the shipped one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub model: Option<PathBuf>,
}

/// Names of the methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// That of the paper: complexity and success proportion, exponential models
    Paper,
    /// Run lengths and gaps, a mixture of sub-causes
    Signature,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Method {
        match name {
            MethodName::Paper => Method::Paper,
            MethodName::Signature => Method::Signature,
        }
    }
}

/// Say for each window where its packets were lost.
#[derive(Debug, Args)]
pub struct ClassifyArgs {
    /// Files of windows
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub method: MethodArgs,

    /// Cut each window into whole ones of N packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slice: Option<u32>,

    /// Print one JSON object a window: file, line, slice, n, lost, p_receiver, verdict
    #[arg(long)]
    pub json: bool,

    /// Also print what the verdict rests on: features, complexity, the likeliest sub-cause, the labels of the file
    #[arg(long)]
    pub evidence: bool,
}

/// Score verdicts against the labels, by cause, scenario and loss, and say which bars are met.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Directory of files of windows (*.jsonl, *.jsonl.gz)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,

    #[command(flatten)]
    pub method: MethodArgs,

    /// Cut windows into whole ones of N packets; without it, they are scored uncut and cut to 10,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slice: Option<u32>,

    /// Windows to make of one of the receiver and one of the network each, and score
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub splices: u32,

    /// Which windows are put together
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Print the table and the bars as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Make a model of the method signature from labelled windows.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Files of labelled windows
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Where to write the model
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Which windows of receiver and network are put together for the mixed ones
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// A note to keep in the model
    #[arg(long, value_name = "TEXT", default_value = "by `fobs diagnose train`")]
    pub note: String,

    /// Print how models do on the fifth of the windows, and on the congestion scenario, that they were not trained on
    #[arg(long)]
    pub validate: bool,
}

/// Simulate windows of network loss, twenty scenarios, with parameters drawn from the seed.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Where to write them, one JSON object a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Windows of each scenario
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,

    /// Packets of a window
    #[arg(long, value_name = "N", default_value_t = 70_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub packets: u32,

    /// The same seed makes the same windows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}
