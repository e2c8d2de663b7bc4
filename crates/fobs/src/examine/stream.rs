//! Data for a session without files: made in memory, and thrown away there.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Longest probe of a path.
pub const PROBE_MAX: Duration = Duration::from_secs(60);
/// Most bytes of a probe: 60 s at 100 Gbit/s.
const BYTES_MAX: u64 = 750_000_000_000;

/// Zeros for a time. Nothing on the way compresses or skips them.
pub(crate) struct Zeros {
    time: Duration,
    ends: Option<Instant>,
}

impl Zeros {
    /// The time begins with the first read.
    pub(crate) fn new(time: Duration) -> Zeros {
        Zeros { time: time.min(PROBE_MAX), ends: None }
    }
}

impl Read for Zeros {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let now = Instant::now();
        if now >= *self.ends.get_or_insert(now + self.time) {
            return Ok(0);
        }
        buffer.fill(0);
        Ok(buffer.len())
    }
}

/// Takes what a probe sends.
pub(crate) struct Nowhere {
    left: u64,
}

impl Nowhere {
    pub(crate) fn new() -> Nowhere {
        Nowhere { left: BYTES_MAX }
    }
}

impl Write for Nowhere {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(data.len() as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "a probe sends no more than 750 GB")
        })?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_end_and_nowhere_takes_only_so_many() {
        let mut buffer = [7; 64];
        let mut zeros = Zeros::new(Duration::from_secs(30));
        assert_eq!(zeros.read(&mut buffer).unwrap(), 64);
        assert_eq!(buffer, [0; 64]);
        assert_eq!(Zeros::new(Duration::ZERO).read(&mut buffer).unwrap(), 0);
        let mut nowhere = Nowhere { left: 100 };
        assert_eq!(nowhere.write(&buffer).unwrap(), 64);
        nowhere.write(&buffer).unwrap_err();
    }
}
