//! How a copy goes on after one that was interrupted.

use clap::Args;

/// Options of `fobs cp`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Keep nothing of a copy that is interrupted, so that the next one starts from the beginning
    ///
    /// Without it, files that are complete stay as they are, and the same command goes on in the middle of
    /// the file it was interrupted in. What that needs lies beside the destination as .NAME.fobs-journal and
    /// .NAME.fobs-XXXXXX until a copy is complete.
    #[arg(long)]
    pub no_partial: bool,

    /// Go on with files that another program (scp, rsync) has left shorter than their source
    ///
    /// What is there is hashed by both sides; a file that is not the beginning of its source is copied whole.
    #[arg(long, conflicts_with = "no_partial")]
    pub append_verify: bool,

    /// Go on after an interrupted copy only with files whose content is still that of the source
    ///
    /// Without it, a file counts as unchanged if its size, modification time and inode are.
    #[arg(long)]
    pub checksum: bool,
}
