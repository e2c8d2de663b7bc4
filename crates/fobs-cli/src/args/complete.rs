//! The arguments of `fobs complete`, which scripts of shells give.

use std::ffi::OsString;

use clap::Args;
use clap_complete::Shell;

/// Print what may stand next, one candidate a line.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The shell, whose quotes the candidates get
    #[arg(value_enum)]
    pub shell: Shell,

    /// Its line up to the cursor
    pub line: OsString,

    /// Letters at which it ends a word, beside blanks
    pub breaks: Option<String>,
}
