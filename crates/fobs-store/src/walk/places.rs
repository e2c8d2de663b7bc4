//! Where the sources lie, for a receiver that asks whether they have something at a path (protocol 7.8).

use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Walk;
use crate::at::{Links, open_beneath};
use crate::beneath::Base;
use fobs_filter::path;
use fobs_model::name::Component;

/// Looks at a name itself, whatever it leads to.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);
/// Longest path that is looked for, bytes: no file has a longer one.
const PATH_MAX: usize = 4096;

/// The sources, each with its path and its name in the transfer.
#[derive(Debug)]
pub struct SourcePlaces {
    base: Arc<Base>,
    named: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Walk {
    /// Where its sources lie, before it begins.
    pub(crate) fn places(&self) -> SourcePlaces {
        let named = self.named.as_slice().iter().map(|named| (named.path.clone(), named.name.clone()));
        SourcePlaces { base: self.base.clone(), named: named.collect() }
    }
}

impl SourcePlaces {
    /// Whether something is at a path within the transfer, left out by a rule or not; also where that cannot
    /// be known. None of a path that cannot be.
    pub fn has(&self, path: &[u8]) -> Option<bool> {
        if path.is_empty() || path.len() > PATH_MAX {
            return None;
        }
        path.split(|byte| *byte == b'/').try_for_each(|name| Component::new(name).map(drop)).ok()?;
        Some(self.named.iter().any(|(place, name)| self.may_be_in(place, name, path)))
    }

    fn may_be_in(&self, place: &[u8], name: &[u8], path: &[u8]) -> bool {
        if path == name || path::is_inside(name, path) {
            return true;
        }
        if !path::is_inside(path, name) {
            return false;
        }
        let below = if name.is_empty() { path } else { &path[name.len() + 1..] };
        // A link in a source may lead anywhere: what lies behind one is nobody's question.
        let source = self.base.open(place, OFlags::PATH | OFlags::DIRECTORY);
        let found = source.and_then(|it| open_beneath(it, below, LOOK, Mode::empty(), Links::Refuse));
        !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_in_a_source_is_followed_for_a_question() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("source/inner")).expect("a directory");
        fs::create_dir_all(at("other")).expect("a directory");
        fs::write(at("source/inner/file"), "").expect("a file");
        fs::write(at("other/secret"), "").expect("a file");
        symlink("../other", at("source/link")).expect("a link");
        symlink("inner", at("source/near")).expect("a link");
        symlink("source", at("way")).expect("a link");
        for (place, name) in [("source", ""), ("source", "source"), ("way", "")] {
            let place = at(place).into_os_string().into_encoded_bytes();
            let places = SourcePlaces { base: Arc::new(Base::Ambient), named: vec![(place, name.into())] };
            let has = |below: &str| {
                let path = if name.is_empty() { below.to_owned() } else { format!("{name}/{below}") };
                places.has(path.as_bytes())
            };
            assert_eq!((has("inner/file"), has("inner"), has("link")), (Some(true), Some(true), Some(true)));
            assert_eq!(
                (has("inner/none"), has("none"), has("inner/file/x")),
                (Some(false), Some(false), Some(false))
            );
            // Not to be known, whether it is there or not.
            assert_eq!((has("link/secret"), has("link/none")), (Some(true), Some(true)));
            assert_eq!((has("near/file"), has("near/none")), (Some(true), Some(true)));
            assert_eq!((has("../other/secret"), has("link/../x"), has("")), (None, None, None));
        }
    }
}
