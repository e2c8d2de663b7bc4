//! Arguments of `fobs jobs`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use fobs_jobs::{Fingerprint, Scope, Url};

use crate::times::{parse_age, parse_every};

/// Examples of `fobs jobs`.
const JOBS_EXAMPLES: &str = "\
Examples:
  fobs jobs                  those that are not over, and the last ones that are
  fobs jobs show 12          one with its attempts, and why it waits
  fobs jobs wait 12 13       until both are over; ends with their exit code
  fobs jobs retry 12         begins one that failed again
  fobs jobs limits --total 8 how many run at once
  fobs jobs --url https://host:8443 --token-file token --fingerprint 1f2e...
                             those that another host's keeper has
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

    /// The keeper of this host, which an operator runs for all users, and not one of this user
    #[arg(long, conflicts_with = "url", global = true)]
    pub system: bool,

    /// Ask the keeper at this address, which runs with --listen
    #[arg(long, value_name = "URL", value_parser = parse_keeper, requires = "token_file", global = true)]
    pub url: Option<Url>,

    /// File with the token for --url
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    pub token_file: Option<PathBuf>,

    /// SHA-256 of the keeper's certificate, as it printed it [default: an authority must have signed it]
    #[arg(long, value_name = "HEX", requires = "url", global = true)]
    pub fingerprint: Option<Fingerprint>,
}

/// A token goes over TLS alone.
fn parse_keeper(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)?;
    if url.is_encrypted() {
        Ok(url)
    } else {
        Err("write https://: a token is not sent in the clear".to_owned())
    }
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
    /// Make, list and revoke tokens for clients over the network
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show the jobs on a page for a browser of this host, with a form to hand one in, until Ctrl-C
    Page(PageArgs),
    /// Keep the jobs of this user, or with --system those of all users: run them, in the foreground
    Serve(KeeperArgs),
    /// Ask where a job is to write how much room there is
    #[command(hide = true)]
    Room(RoomArgs),
    /// Say what a job's words are about
    #[command(hide = true)]
    Examine(WordsArgs),
    /// Become a user and run a job, as standard input says
    #[command(hide = true)]
    Launch,
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

/// What is done with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, once
    Create(NewToken),
    /// List tokens, without what their owners show
    List,
    /// Revoke a token: from now on it opens nothing
    Revoke(OneToken),
}

/// A token that is wanted.
#[derive(Debug, Args)]
pub struct NewToken {
    /// What it is good for: submit (anything that this user may copy or run), read, control
    #[arg(long, value_name = "SCOPES", value_parser = parse_scope, value_delimiter = ',', required = true)]
    pub scope: Vec<Scope>,

    /// For how long (30d, 12h); a year at most
    #[arg(long, value_name = "TIME", value_parser = parse_every, default_value = "30d")]
    pub expires: Duration,

    /// Name of the token, for lists
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub name: String,
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::from_name(text).ok_or_else(|| "a scope is submit, read or control".to_owned())
}

/// A token.
#[derive(Debug, Args)]
pub struct OneToken {
    /// Its number
    #[arg(value_name = "ID")]
    pub id: u64,
}

/// Where the page is.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Port of the loopback, any free one if 0
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}

/// The words of a job.
#[derive(Debug, Args)]
pub struct WordsArgs {
    /// cp or sync, with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}

/// A job that is to write somewhere.
#[derive(Debug, Args)]
pub struct RoomArgs {
    /// What it needs, bytes
    #[arg(long, value_name = "BYTES")]
    pub need: u64,

    /// cp or sync, with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}

/// How the keeper runs.
#[derive(Debug, Args)]
pub struct KeeperArgs {
    /// Serve its API over TLS, too, to clients with tokens
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["on_demand", "system"])]
    pub listen: Option<SocketAddr>,

    /// PEM file of a certificate with its chain [default: one is made once, and its fingerprint printed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["key", "listen"])]
    pub cert: Option<PathBuf>,

    /// PEM file of its key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    pub key: Option<PathBuf>,

    /// Apart from the terminal, until there is nothing to do
    #[arg(long, hide = true)]
    pub on_demand: bool,
}
