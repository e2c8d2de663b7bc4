//! What a walk leaves out because it is ours: said, so that nobody misses it in silence.

use std::sync::{Arc, Mutex, PoisonError};

use fobs_filter::path::show;

/// Most names that are told; the others are counted.
const NAMED_MAX: usize = 3;

/// The names, as the walk finds them. Clones share them: the walk may be in another thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOver(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    first: Vec<Vec<u8>>,
    count: u64,
}

impl PassedOver {
    pub(super) fn add(&self, path: &[u8]) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.count += 1;
        if found.first.len() < NAMED_MAX {
            found.first.push(path.to_vec());
        }
    }

    /// A sentence about all of them; `None` if there are none.
    pub(crate) fn sentence(&self) -> Option<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<String> = found.first.iter().map(|path| format!("'{}'", show(path))).collect();
        let more = match found.count - names.len() as u64 {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        (found.count > 0).then(|| {
            format!(
                "left out, because they are journals or unfinished files of fobs: {}{more}; remove old ones with fobs clean",
                names.join(", ")
            )
        })
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
    }
}
