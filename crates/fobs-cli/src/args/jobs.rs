//! Arguments of `fobs jobs`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::times::parse_age;

/// Examples of `fobs jobs`.
const JOBS_EXAMPLES: &str = "\
Examples:
  fobs jobs                  those that are not over, and the last ones that are
  fobs jobs show 12          one with its attempts, and why it waits
  fobs jobs wait 12 13       until both are over; ends with their exit code
  fobs jobs retry 12         begins one that failed again
  fobs jobs limits --total 8 how many run at once
  fobs jobs page             the same for a browser of this host";

/// Show and change the jobs of fobs submit.
#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES)]
pub struct JobsArgs {
    /// What to do [default: list them]
    #[command(subcommand)]
    pub command: Option<JobsCommand>,

    /// Print JSON objects, one a line
    #[arg(long, global = true)]
    pub json: bool,

    /// All jobs that are kept, not only the last ones
    #[arg(long)]
    pub all: bool,
}

/// What is done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// Show a job with its attempts, and why it does not run
    Show(OneJob),
    /// Wait until jobs are over, of repeated ones a run; exits with the first code that is not 0
    Wait(SomeJobs),
    /// End jobs; what they have copied stays
    Cancel(SomeJobs),
    /// Let jobs rest, also over a restart of the host
    Pause(SomeJobs),
    /// Let paused jobs go on
    Resume(SomeJobs),
    /// Begin jobs that are over again, or at once those that wait for their next attempt
    Retry(SomeJobs),
    /// Print what a job's attempts have said
    Log(OneJob),
    /// Forget jobs that are over, with their keys
    Clean(CleanJobs),
    /// Show or set how many jobs run at once
    Limits(LimitsArgs),
    /// Show the jobs on a page for a browser of this host, with a form to hand one in, until Ctrl-C
    Page(PageArgs),
    /// Keep the jobs of this user: run them, in the foreground
    Serve(KeeperArgs),
}

/// A job.
#[derive(Debug, Args)]
pub struct OneJob {
    /// Its number
    #[arg(value_name = "ID")]
    pub id: u64,
}

/// Some jobs.
#[derive(Debug, Args)]
pub struct SomeJobs {
    /// Their numbers
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<u64>,
}

/// Which jobs are forgotten.
#[derive(Debug, Args)]
pub struct CleanJobs {
    /// Those that were over this long ago (7d, 12h)
    #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "0s", hide_default_value = true)]
    pub older_than: Duration,
}

/// How many jobs run at once.
#[derive(Debug, Args)]
pub struct LimitsArgs {
    /// Together, 1 to 64
    #[arg(long, value_name = "N")]
    pub total: Option<u32>,

    /// To one destination
    #[arg(long, value_name = "N")]
    pub per_host: Option<u32>,

    /// From one source: a host, or a disk of this one
    #[arg(long, value_name = "N")]
    pub per_source: Option<u32>,
}

/// Where the page is.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Port of the loopback, any free one if 0
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}

/// How the keeper runs.
#[derive(Debug, Args)]
pub struct KeeperArgs {
    /// Apart from the terminal, until there is nothing to do
    #[arg(long, hide = true)]
    pub on_demand: bool,
}
