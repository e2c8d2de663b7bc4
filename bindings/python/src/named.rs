//! What Python gives as text and bytes: options by name, and paths.

use fobs::{Result, SshWords, Taken, TransferOptions};

/// Options by name, as text.
pub(crate) type Named = Vec<(String, String)>;
/// Paths of any bytes.
pub(crate) type Paths = Vec<Vec<u8>>;

/// The options with those that are named set.
pub(crate) fn with(mut options: TransferOptions, named: &Named) -> Result<TransferOptions> {
    named.iter().try_for_each(|(name, value)| options.set(name, value))?;
    // Who reads the exception does not see the terminal.
    options.ssh.words = SshWords::ShownAndKept;
    // Workers of one program fetch the same file into one cache.
    options.taken = Taken::Awaited;
    Ok(options)
}
