//! What a walk leaves out because it is ours, and sources that are directories where none is entered: said,
//! so that nobody misses it in silence.

use std::sync::{Arc, Mutex, PoisonError};

use fobs_filter::path::show;

/// Most names that are told; the others are counted.
const NAMED_MAX: usize = 3;

/// The names, as the walk finds them. Clones share them: the walk may be in another thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOver(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    ours: Names,
    directories: Names,
}

/// Names of one kind.
#[derive(Debug, Default)]
struct Names {
    first: Vec<Vec<u8>>,
    count: u64,
}

impl Names {
    fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(path.to_vec());
        }
    }

    /// The names, for a sentence; `None` if there are none.
    fn named(&self) -> Option<String> {
        let names: Vec<String> = self.first.iter().map(|path| format!("'{}'", show(path))).collect();
        let more = match self.count - names.len() as u64 {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        (self.count > 0).then(|| format!("{}{more}", names.join(", ")))
    }
}

impl PassedOver {
    pub(super) fn add(&self, path: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ours.add(path);
    }

    /// A source is a directory, and none is entered.
    pub(crate) fn add_directory(&self, path: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).directories.add(path);
    }

    /// A sentence about all of them; `None` if there are none.
    pub(crate) fn sentence(&self) -> Option<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = found.ours.named().map(|names| {
            format!(
                "left out, because they are journals or unfinished files of fobs: {names}; remove old ones with fobs clean"
            )
        });
        let directories = found.directories.named();
        let directories = directories.map(|names| format!("skipping directory {names}: give -r to copy it"));
        let all: Vec<String> = directories.into_iter().chain(ours).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_and_the_number_of_all_are_told() {
        let passed_over = PassedOver::default();
        assert_eq!(passed_over.sentence(), None);
        let other = passed_over.clone();
        for name in ["a", "b\n", "c", "d", "e"] {
            other.add(name.as_bytes());
        }
        let told = passed_over.sentence().expect("a sentence");
        assert!(told.contains("'a', 'b\\n', 'c' and 2 more"), "{told}");
        passed_over.add_directory(b"src/");
        let told = passed_over.sentence().expect("a sentence");
        assert!(told.starts_with("skipping directory 'src/': give -r") && told.contains("2 more"), "{told}");
    }
}
