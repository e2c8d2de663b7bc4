//! `--iconv`: what this host's user writes becomes what the other host has.

use std::borrow::Cow;

use fobs::options::Location;
use fobs::options::sync::SyncOptions;
use fobs::{Error, ErrorKind, NameCharsets, RelPath, Result};

/// Most characters of a word in a message.
const SHOWN_MAX: usize = 200;

/// A word as the other host has it; the same where there is one encoding.
pub fn there<'w>(charsets: Option<&NameCharsets>, word: &'w [u8]) -> Result<Cow<'w, [u8]>> {
    let Some(charsets) = charsets else { return Ok(Cow::Borrowed(word)) };
    charsets.as_there(word).map_err(|_| {
        let shown: String = String::from_utf8_lossy(word).chars().take(SHOWN_MAX).collect();
        let message = format!("--iconv: '{shown}' cannot be written in both encodings; give others");
        Error::new(ErrorKind::Usage, message)
    })
}

/// Names of `--files-from` and paths of the other host.
pub fn names_there<'l>(
    charsets: &NameCharsets,
    sync: &mut SyncOptions,
    locations: impl Iterator<Item = &'l mut Location>,
) -> Result<()> {
    for name in sync.names.iter_mut().flatten() {
        let bytes = there(Some(charsets), name.as_bytes())?.into_owned();
        *name = RelPath::new(bytes).map_err(|why| Error::new(ErrorKind::Usage, format!("--iconv: {why}")))?;
    }
    for location in locations {
        if let Location::Remote(remote) = location {
            remote.path = there(Some(charsets), &remote.path)?.into_owned();
        }
    }
    Ok(())
}
