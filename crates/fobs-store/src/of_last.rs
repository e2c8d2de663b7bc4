//! What is found out once for each directory, and not once for each file in it.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

/// What was found out of the directory that was asked about last: files come a directory at a time.
#[derive(Debug)]
pub(crate) struct OfLast<T>(RefCell<Option<(Weak<OwnedFd>, T)>>);

impl<T> Default for OfLast<T> {
    fn default() -> OfLast<T> {
        OfLast(RefCell::default())
    }
}

impl<T: Copy> OfLast<T> {
    pub(crate) fn get(&self, directory: &Arc<OwnedFd>, find: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        let mut last = self.0.borrow_mut();
        match &*last {
            Some((known, found)) if Weak::ptr_eq(known, &Arc::downgrade(directory)) => *found,
            _ => {
                let found = find(directory.as_fd());
                *last = Some((Arc::downgrade(directory), found));
                found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_directory_is_looked_at_again_after_another_one() {
        let top = tempfile::tempdir().expect("a directory");
        let open = || Arc::new(OwnedFd::from(File::open(top.path()).expect("own directory")));
        let (one, other, of_last) = (open(), open(), OfLast::default());
        let found = [(&one, 1), (&one, 2), (&other, 3), (&one, 4)];
        assert_eq!(found.map(|(directory, looked)| of_last.get(directory, |_| looked)), [1, 1, 3, 4]);
    }
}
