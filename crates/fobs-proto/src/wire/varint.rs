//! LEB128 numbers (protocol 6.1).

use super::WireError;

/// Appends `n`, 7 bits a byte, lowest first.
pub(super) fn write(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes one number from the front of `input`.
pub(super) fn read(input: &mut &[u8]) -> Result<u64, WireError> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(WireError::Truncated)?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(WireError::OutOfBounds);
        }
        n |= bits << shift;
        if byte < 0x80 {
            return Ok(n);
        }
    }
    Err(WireError::OutOfBounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(n in any::<u64>(), shift in 0u32..64) {
            let n = n >> shift;
            let mut bytes = Vec::new();
            write(n, &mut bytes);
            let mut input = &bytes[..];
            prop_assert_eq!(read(&mut input), Ok(n));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
            let _ = read(&mut &bytes[..]);
        }
    }
}
