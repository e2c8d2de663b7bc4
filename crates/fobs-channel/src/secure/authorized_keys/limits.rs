//! What one key may use of a daemon at once.

use fobs_model::options::{STREAMS_MAX, unitless_rate};

/// Most file descriptors that one session holds at once: 64 for connection, sockets, wakers, the walk, the
/// current file and the meters of threads, and 384 of the journal, which keeps 64 complete files and their
/// directories open in each of three stages. An end-to-end test counts them. Streams come in addition.
pub const DESCRIPTORS_PER_SESSION: usize = 64 + 384;
/// Lowest rate of a key, bits per second: a chunk of 4 MiB then passes within half a minute.
const RATE_BPS_MIN: u64 = 1_000_000;

/// The limits of a key, over all its sessions together; `None` is no limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Most sessions at once, at least 1.
    pub sessions: Option<usize>,
    /// Most bits of chunk data per second, sent and received, at least `RATE_BPS_MIN`.
    pub rate_bps: Option<u64>,
    /// Most file descriptors at once, at least [`DESCRIPTORS_PER_SESSION`].
    pub open_files: Option<usize>,
}

impl KeyLimits {
    /// Most sessions at once: each may need [`DESCRIPTORS_PER_SESSION`] descriptors.
    pub fn sessions_max(&self) -> usize {
        let by_files = self.open_files.map_or(usize::MAX, |files| files / DESCRIPTORS_PER_SESSION);
        self.sessions.unwrap_or(usize::MAX).min(by_files)
    }

    /// Most streams of one session: each is a descriptor beside [`DESCRIPTORS_PER_SESSION`].
    pub fn streams_max(&self) -> u32 {
        let Some(files) = self.open_files else { return STREAMS_MAX };
        let left = (files / self.sessions_max().max(1)).saturating_sub(DESCRIPTORS_PER_SESSION);
        u32::try_from(left).unwrap_or(STREAMS_MAX).min(STREAMS_MAX)
    }

    /// Refuses limits under which no session could run.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.sessions == Some(0) {
            return Err("sessions=0 would refuse every session; remove the line instead".to_owned());
        }
        if self.open_files.is_some_and(|files| files < DESCRIPTORS_PER_SESSION) {
            return Err(format!(
                "open-files must be at least {DESCRIPTORS_PER_SESSION}, which one session may need"
            ));
        }
        if self.rate_bps.is_some_and(|rate| rate < RATE_BPS_MIN) {
            return Err("rate must be at least 1M (bits per second)".to_owned());
        }
        Ok(())
    }
}

/// A whole number.
pub(super) fn parse_count(text: &[u8]) -> Result<usize, String> {
    let number = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("{:?} is no number", String::from_utf8_lossy(text)))
}

/// A rate in bits per second: whole, with `k M G T` (powers of 1000), alone or before `bit` or `bit/s`.
pub(super) fn parse_rate(text: &[u8]) -> Result<u64, String> {
    let bad = || {
        let text = String::from_utf8_lossy(text);
        format!("{text:?} is no rate; write it like 100M, 500Mbit or 10Gbit (bits per second)")
    };
    let text = std::str::from_utf8(text).map_err(|_| bad())?;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let scale: u64 = match unit.strip_suffix("bit").unwrap_or(unit) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return Err(bad()),
    };
    let rate = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(bad)?;
    if unit.is_empty() { unitless_rate(rate) } else { Ok(rate) }
}
