//! `fobs cluster`: handed over to `fobs-cluster`, which the Python package installs, as git does it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use fobs::{Error, ErrorKind};

/// The program of the Python package.
const PROGRAM: &str = "fobs-cluster";

/// Examples of `fobs cluster`.
const CLUSTER_EXAMPLES: &str = "\
Examples:
  fobs cluster /data/run7 fobs://archive/run7                     with workers of this process
  fobs cluster run7 in/run7 --nodes nodes.toml --scheduler ADDR   many nodes, on a Dask cluster";

/// Move a tree over many nodes of both sides, on Dask distributed.
///
/// It is part of the Python package: pip install 'fobs[cluster]'. fobs cluster --help lists its options.
#[derive(Debug, Args)]
#[command(
    after_help = CLUSTER_EXAMPLES,
    disable_help_flag = true,
    override_usage = "fobs cluster SRC... DST [--nodes FILE] [--scheduler ADDR]"
)]
pub struct ClusterArgs {
    /// Arguments of fobs-cluster
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
    words: Vec<OsString>,
}

/// Becomes `fobs-cluster`; returns only what kept it from that.
pub fn run(args: &ClusterArgs) -> Error {
    let error = Command::new(PROGRAM).args(&args.words).exec();
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "'{PROGRAM}' is not on the PATH: it comes with the Python package, install it with pip install 'fobs[cluster]'"
        ),
        _ => format!("cannot run '{PROGRAM}': {error}"),
    };
    Error::new(ErrorKind::Usage, message)
}
