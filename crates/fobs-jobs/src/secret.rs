//! Texts that nobody guesses.

use std::io;

/// Random bytes of one: 128 bits, as RFC 6749 section 10.10 has it for tokens.
const BYTES: usize = 16;
/// Its length, letters: two for each byte.
pub(crate) const LETTERS: usize = 2 * BYTES;

/// A new one, in hexadecimal digits.
///
/// # Errors
/// Where the kernel gives no random numbers.
pub(crate) fn new() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| io::Error::other(format!("the kernel gives no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two are the same, in a time that does not depend on where they differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        let one = new().expect("random numbers");
        assert_eq!(one.len(), LETTERS);
        assert!(is_same(&one, &one.clone()) && !is_same(&one, &new().expect("random numbers")));
        assert!(!is_same(&one, &one[1..]) && !is_same(&one, "") && is_same("", ""));
    }
}
