//! What is known of the room that a job needs on this host.

use std::path::PathBuf;

use super::reading::Figures;

/// A place and a number of bytes.
#[derive(Debug)]
pub(super) struct Needs {
    pub path: PathBuf,
    /// All that it is to write, bytes, where that is known.
    whole: Option<u64>,
    /// What of it is written.
    moved: u64,
}

impl Needs {
    pub(super) fn new(path: PathBuf, whole: Option<u64>) -> Needs {
        Needs { path, whole, moved: 0 }
    }

    /// Of its next run nothing is known.
    pub(super) fn begin_anew(&mut self) {
        (self.whole, self.moved) = (None, 0);
    }

    pub(super) fn left(&self) -> Option<u64> {
        self.whole.map(|whole| whole.saturating_sub(self.moved))
    }

    /// With what an attempt says; before it knows of anything, what was known before counts.
    pub(super) fn take(&mut self, figures: &Figures) {
        if figures.bytes_known > 0 {
            self.whole = Some(self.whole.unwrap_or(0).max(figures.bytes_known));
            self.moved = figures.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_less_than_what_is_known_of() {
        let mut needs = Needs { path: "/".into(), whole: Some(100), moved: 0 };
        assert_eq!(needs.left(), Some(100));
        // It lists still; then it knows of more than was known before.
        needs.take(&Figures { bytes: 10, bytes_known: 20, ..Figures::default() });
        assert_eq!(needs.left(), Some(90));
        needs.take(&Figures { bytes: 50, bytes_known: 400, ..Figures::default() });
        assert_eq!(needs.left(), Some(350));
        needs.take(&Figures::default());
        assert_eq!(needs.left(), Some(350));
    }
}
