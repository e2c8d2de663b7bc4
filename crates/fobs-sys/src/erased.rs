//! Values that leave nothing of themselves in memory.

use std::fmt;
use std::mem::{ManuallyDrop, needs_drop};
use std::ops::Deref;

/// A secret whose memory is overwritten when it is dropped, for types of libraries that do not do it. It does
/// not move; what was on the stack before it came here is not followed.
pub struct Erased<T>(Box<ManuallyDrop<T>>);

impl<T> Erased<T> {
    /// Takes a value that needs no dropping, which the compiler checks.
    pub fn new(value: T) -> Erased<T> {
        const { assert!(!needs_drop::<T>(), "what it holds elsewhere would neither be overwritten nor freed") }
        Erased(Box::new(ManuallyDrop::new(value)))
    }
}

impl<T> Deref for Erased<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Erased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Erased")
    }
}

impl<T> Drop for Erased<T> {
    fn drop(&mut self) {
        let value: *mut T = &raw mut **self.0;
        // SAFETY: the pointer is to the box's own value, which nothing reads after this, nor a destructor.
        unsafe { zeroize::zeroize_flat_type(value) };
        #[cfg(test)]
        tests::look(value.cast(), size_of::<T>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        /// What the last value of this thread left behind.
        static LEFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn look(value: *const u8, len: usize) {
        // SAFETY: `len` bytes are there, and have just been written.
        let left = unsafe { std::slice::from_raw_parts(value, len) };
        LEFT.with(|seen| *seen.borrow_mut() = left.to_vec());
    }

    #[test]
    fn what_it_held_is_overwritten() {
        let secret = Erased::new([0xa5_u8; 64]);
        assert_eq!(*secret, [0xa5; 64]);
        drop(secret);
        LEFT.with(|left| assert_eq!(*left.borrow(), [0; 64]));
    }
}
