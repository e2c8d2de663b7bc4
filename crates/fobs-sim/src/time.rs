//! Virtual time, and the arithmetic between bytes, rates and time.

use fobs_proto::Timestamp;

/// Virtual nanoseconds since the world began.
pub type Nanos = u64;
/// A microsecond.
pub const US: Nanos = 1_000;
/// A millisecond.
pub const MS: Nanos = 1_000_000;
/// A second.
pub const SEC: Nanos = 1_000_000_000;

/// Time that `bytes` take at `rate` bits per second; none at rate 0, which stands for no limit.
pub fn time_for(bytes: u64, rate: u64) -> Nanos {
    if rate == 0 {
        return 0;
    }
    // Whatever one packet or one queue takes fits 64 bits: 2^31 bytes are 1.7 * 10^19 bit-nanoseconds.
    match bytes.checked_mul(8 * SEC) {
        Some(scaled) => scaled / rate,
        None => u64::try_from(u128::from(bytes) * u128::from(8 * SEC) / u128::from(rate)).unwrap_or(u64::MAX),
    }
}

/// Bytes that flow in `time` at `rate` bits per second.
pub fn bytes_in(time: Nanos, rate: u64) -> u64 {
    let bytes = u128::from(time) * u128::from(rate) / u128::from(8 * SEC);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The machines' form of a moment.
pub(crate) fn stamp(at: Nanos) -> Timestamp {
    Timestamp::from_nanos(at)
}

/// Seconds, as a float.
pub fn seconds(at: Nanos) -> f64 {
    at as f64 / SEC as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_time_agree() {
        assert_eq!(time_for(1500, 1_000_000_000), 12 * US);
        assert_eq!(time_for(1500, 0), 0);
        assert_eq!(bytes_in(SEC, 8_000), 1_000);
        assert_eq!(time_for(u64::MAX, 1_000), u64::MAX);
        assert_eq!(bytes_in(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(time_for(1 << 33, 8), (1 << 33) * SEC, "beyond 64 bits on the way");
    }
}
