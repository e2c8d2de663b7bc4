//! Arguments of `fobs clean`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Examples of `fobs clean`.
const CLEAN_EXAMPLES: &str = "\
Examples:
  fobs clean -n /data        what interrupted copies into /data have left
  fobs clean -r /data        remove that, in the directories below /data too";

/// Remove what interrupted copies have left.
///
/// That is the journal of each (.NAME.fobs-journal), from which the same command would go on, and incomplete
/// files (.NAME.fobs-XXXXXX). Complete files stay. What a running copy uses stays too, and so does an
/// incomplete file without a journal that changed less than an hour ago. Prints a line for each.
#[derive(Debug, Args)]
#[command(after_help = CLEAN_EXAMPLES, args_override_self = true)]
pub struct CleanArgs {
    /// The directory that was copied into
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,

    /// Look into the directories below it too
    #[arg(short = 'r', long)]
    pub recursive: bool,

    /// Remove nothing, only say what would be removed
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}
