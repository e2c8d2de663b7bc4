//! What the one source of a pull is, where that decides about its name: a file gets the name of a destination
//! that does not exist, a directory comes to lie in it.

use fobs::options::sync::{Enter, SyncOptions};
use fobs::options::{Carrier, Follow, Location};
use fobs::{EntryKind, Session};

use super::name_list::Ending;
use super::with_shell;
use crate::args::sync::SyncArgs;
use crate::push;

/// Whether the one source is no directory, as far as that is asked for and known. A failure is that of the
/// pull, which says it.
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
    // What a pattern stands for is known later, and may be several.
    if path.starts_with(b"~") || path.iter().any(|byte| b"*?[".contains(byte)) {
        return false;
    }
    let Ok(mut options) = crate::resolve::transfer(&args.chosen) else { return false };
    if source.carrier == Carrier::Ssh && with_shell(args, &mut options).is_err() {
        return false;
    }
    let found = push::with_consent(args, std::slice::from_ref(source), options, |options| {
        let session = Session::builder(source.clone()).options(options).open()?;
        let follows = sync.preserve.follow == Follow::All;
        if follows { session.stat(path) } else { session.stat_link(path) }
    });
    found.is_ok_and(|entry| entry.kind != EntryKind::Directory)
}
