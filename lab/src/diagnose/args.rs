//! The command line of `fobs-lab diagnose`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::classify::Method;
use super::fit::FitArgs;
use super::record::RecordArgs;

/// Determine why packets were lost, from recorded windows of losses.
///
/// A file has one JSON object per line, gzipped or not: n (packets in the window), rle (pairs: packets
/// received, then packets lost), burst (packets sent back to back), and for training and scoring cause (cpu,
/// net or hybrid), scenario and run.
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
    Fit(FitArgs),
    Generate(GenerateArgs),
    Record(RecordArgs),
}

/// The method and its model.
#[derive(Debug, Args)]
pub struct MethodArgs {
    /// Classification method
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = MethodName::Signature)]
    pub method: MethodName,

    /// Model file to use instead of the shipped one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub model: Option<PathBuf>,
}

/// Names of the methods, as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The paper's: complexity and success proportion, exponential models
    Paper,
    /// Run lengths and gaps, mixture of sub-causes
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

/// Classify each window: receiver, network or inconclusive.
#[derive(Debug, Args)]
pub struct ClassifyArgs {
    /// Window files
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub method: MethodArgs,

    /// Cut each window into whole windows of N packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slice: Option<u32>,

    /// Print one JSON object per window: file, line, slice, n, lost, p_receiver, verdict
    #[arg(long)]
    pub json: bool,

    /// Also print the basis of each verdict: features, complexity, likeliest sub-cause, labels from the file
    #[arg(long)]
    pub evidence: bool,
}

/// Score verdicts against labels, by cause, scenario and loss rate, and check the acceptance bars.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Directory with window files (*.jsonl, *.jsonl.gz)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,

    #[command(flatten)]
    pub method: MethodArgs,

    /// Cut windows into whole windows of N packets [default: score them uncut and cut to 10,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub slice: Option<u32>,

    /// Number of mixed windows to score, each made of a receiver's and a network's window
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub splices: u32,

    /// Seed that selects the pairs of windows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Print tables and bars as JSON
    #[arg(long)]
    pub json: bool,
}

/// Train a model of the method signature on labelled windows.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Files of labelled windows
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Model file to write
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Seed that selects the pairs of windows for mixed ones
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Note to store in the model
    #[arg(long, value_name = "TEXT", default_value = "by `fobs-lab diagnose train`")]
    pub note: String,

    /// Also print scores on windows that were left out of training: a fifth, and a congestion scenario, at a
    /// time
    #[arg(long)]
    pub validate: bool,
}

/// Generate simulated windows of network loss: twenty scenarios, parameters drawn from the seed.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// File to write, one JSON object per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Number of windows of each scenario
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,

    /// Packets in a window
    #[arg(long, value_name = "N", default_value_t = 70_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub packets: u32,

    /// Seed of the generator; the same seed gives the same windows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}
