//! Names of `--files-from` and `-R`, each below the place where it begins.

use fobs::RelPath;
use fobs::options::sync::SyncOptions;

/// Places that come again are places of their own up to this many, so that of equal paths the first counts;
/// further names go to the one before.
const PLACES_APART_MAX: usize = 64;

/// What the end of a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It stands for the directory itself.
    Name,
    /// Its contents are meant too: `dir/`, `dir/.`, `dir/..`.
    Contents,
}

impl Ending {
    /// Of a path as it was written.
    pub fn of(path: &[u8]) -> Ending {
        match path.rsplit(|&byte| byte == b'/').next() {
            Some(b"" | b"." | b"..") => Ending::Contents,
            _ => Ending::Name,
        }
    }
}

/// The names, by their places.
#[derive(Debug, PartialEq, Eq)]
pub struct NameList<P> {
    places: Vec<(P, Vec<(RelPath, Ending)>)>,
}

impl<P: PartialEq> NameList<P> {
    pub fn new() -> NameList<P> {
        NameList { places: Vec::new() }
    }

    /// Adds a name below a place.
    pub fn push(&mut self, place: P, name: RelPath, ending: Ending) {
        let is_far = self.places.len() >= PLACES_APART_MAX;
        let known = match self.places.last() {
            Some((last, _)) if *last == place => self.places.len().checked_sub(1),
            _ if is_far => self.places.iter().position(|(known, _)| *known == place),
            _ => None,
        };
        match known.and_then(|at| self.places.get_mut(at)) {
            Some((_, names)) => names.push((name, ending)),
            None => self.places.push((place, vec![(name, ending)])),
        }
    }

    /// The one place, if its name alone is in the list: it is a source like any other.
    pub fn whole(&self) -> Option<&P> {
        match &self.places[..] {
            [(place, names)] if names.iter().all(|(name, _)| name.is_empty()) => Some(place),
            _ => None,
        }
    }

    /// Writes the names into the options of a sync; returns the places, which are its sources.
    pub fn into_options(self, options: &mut SyncOptions) -> Vec<P> {
        let is_one = self.places.len() == 1;
        let (mut names, mut places) = (Vec::new(), Vec::new());
        let count = |names: usize| u32::try_from(names).unwrap_or(u32::MAX);
        for (place, of_place) in self.places {
            options.names_of_each.extend((!is_one).then(|| count(of_place.len())));
            for (name, ending) in of_place {
                options.names_with_slash.extend((ending == Ending::Contents).then(|| count(names.len())));
                names.push(name);
            }
            places.push(place);
        }
        options.names = Some(names);
        places
    }
}

impl NameList<Vec<u8>> {
    /// The names as whole paths, those with a slash with one.
    pub fn into_paths(self) -> Vec<Vec<u8>> {
        let whole = |place: &[u8], name: RelPath, ending: Ending| {
            let parts = [place, name.as_bytes()].into_iter().filter(|part| !part.is_empty());
            let mut path = parts.collect::<Vec<_>>().join(&b'/');
            if ending == Ending::Contents && !path.is_empty() {
                path.push(b'/');
            }
            path
        };
        let of_place = |(place, names): (Vec<u8>, Vec<(RelPath, Ending)>)| {
            names.into_iter().map(move |(name, ending)| whole(&place, name, ending)).collect::<Vec<_>>()
        };
        self.places.into_iter().flat_map(of_place).collect()
    }
}
