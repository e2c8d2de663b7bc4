//! Subcommands that have moved to the laboratory's program.

use std::ffi::OsString;

use clap::Args;
use fobs::{Error, ErrorKind};

/// Takes any arguments, so that every old command line gets the same answer.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct MovedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// The usage error that says where `fobs NAME` is now.
pub fn error(name: &str) -> Error {
    let message = format!(
        "'fobs {name}' is now 'fobs-lab {name}', a separate program: build it with 'cargo build --release -p fobs-lab'"
    );
    Error::new(ErrorKind::Usage, message)
}
