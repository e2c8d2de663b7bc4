//! What the one source of a pull is, where that decides about its name: a file gets the name of a destination
//! that does not exist, and so does an empty directory; another one comes to lie in it.

use fobs::EntryKind;
use fobs::options::sync::{Enter, SyncOptions};
use fobs::options::{Follow, Location};

use super::name_list::Ending;
use super::{patterns_there, there};
use crate::args::sync::SyncArgs;

/// Whether the one source is no directory with entries, as far as that is asked for and known. A failure is
/// that of the pull, which says it.
pub fn is_file(args: &SyncArgs, sources: &[Location], destination: &Location, sync: &SyncOptions) -> bool {
    let ([Location::Remote(source)], Location::Local(path)) = (sources, destination) else { return false };
    let is_open = path.metadata().is_err() && !path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let may_be_either =
        sync.directories == Enter::All && sync.names.is_none() && Ending::of(&source.path) == Ending::Name;
    if !is_open || !may_be_either || super::lists_only(args) {
        return false;
    }
    // A session begins at home.
    let path = source.path.strip_prefix(b"~/").unwrap_or(&source.path);
    if path.starts_with(b"~") {
        return false;
    }
    let follows = sync.preserve.follow == Follow::All;
    let is_bare = there::ask(args, source, |session| {
        let found = patterns_there::named(session, path)?;
        let [path] = found.as_slice() else { return Ok(false) };
        let entry = if follows { session.stat(path)? } else { session.stat_link(path)? };
        Ok(entry.kind != EntryKind::Directory || session.list_links(path)?.is_empty())
    });
    is_bare.is_ok_and(|is_bare| is_bare)
}
