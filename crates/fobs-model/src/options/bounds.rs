//! Which choices are possible, from wherever they come: a program, the library, or a client's request.

use super::sync::{BASES_MAX, Enter, SyncOptions};
use super::{
    Follow, IdMapping, MEMORY_RANGE, MinRate, PACKET_SIZE_RANGE, RESUME_WINDOW_MAX, STREAMS_MAX,
    TCP_BUFFER_RANGE, TIMEOUT_RANGE, TransferOptions, Transport,
};
use crate::error::{Error, ErrorKind, Result};
use fobs_proto::session::LANES_MAX;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// From here on a number alone is rather one of kbit/s, as other programs take it, than of Mbit/s.
const PROBABLY_KBIT: u64 = 10_000;
/// Least number that is taken for a rate without a unit, bits per second. Below, people mean Mbit/s: at 100
/// bit/s, 60 MB take 55 days.
const UNITLESS_RATE_MIN: u64 = 100_000;

/// A rate that was given as a number alone.
///
/// # Errors
/// A sentence that says what it would mean, and how to write what was probably meant.
pub fn unitless_rate(bits_per_second: u64) -> std::result::Result<u64, String> {
    unitless_rate_as(bits_per_second, &bits_per_second.to_string())
}

/// The same for a number that was typed so.
///
/// # Errors
/// As [`unitless_rate`].
pub fn unitless_rate_as(bits_per_second: u64, typed: &str) -> std::result::Result<u64, String> {
    if bits_per_second == 0 || bits_per_second >= UNITLESS_RATE_MIN {
        return Ok(bits_per_second);
    }
    let bits = if bits_per_second == 1 { "bit" } else { "bits" };
    let unit = if bits_per_second < PROBABLY_KBIT { "Mbit" } else { "kbit" };
    Err(format!(
        "{typed} alone would be {bits_per_second} {bits} per second; write {typed}{unit}, or \
         {bits_per_second}bit if that is meant"
    ))
}

impl TransferOptions {
    /// Refuses what no transfer can have. `Transfer` and `Session` call
    /// it.
    ///
    /// # Errors
    /// `Usage`, with the option and what is possible.
    pub fn check(&self) -> Result<()> {
        let (shortest, longest) = TIMEOUT_RANGE;
        within("timeout", self.timeout.as_secs(), shortest.as_secs()..=longest.as_secs(), "seconds")?;
        let (least, most) = MEMORY_RANGE;
        self.memory.map_or(Ok(()), |memory| within("memory", memory, least..=most, "bytes"))?;
        within("resume-window", self.resume_window, 0..=RESUME_WINDOW_MAX, "bytes")?;
        packet_size(self.packet_size)?;
        udp_ports(self.udp_ports)?;
        tcp_buffer(self.tcp.buffer)?;
        above_zero("rate", self.rate_limit)?;
        above_zero("ack-every", self.ack_every)?;
        above_zero("burst", self.burst)?;
        above_zero("port", self.port)?;
        if let Transport::Tcp { count: Some(count) } = self.transport {
            within("transport", count, 1..=STREAMS_MAX, "connections")?;
        }
        if let Some(MinRate { bits_per_second, over }) = self.min_rate {
            above_zero("min-rate", Some(bits_per_second))?;
            within("min-rate", over.as_secs(), shortest.as_secs()..=longest.as_secs(), "seconds")?;
        }
        self.check_lanes()?;
        self.sync.as_ref().map_or(Ok(()), |sync| sync.check())
    }

    /// Lanes are of datagrams, and only the paths of several know when the whole will be there.
    fn check_lanes(&self) -> Result<()> {
        if !self.lanes.are_chosen() {
            return Ok(());
        }
        if self.lanes.each == Some(0) || self.lanes.are_too_many() {
            return Err(usage(format!(
                "--via and --lanes give a copy 1 to {LANES_MAX} lanes, not {}: name fewer paths, or fewer lanes of each",
                self.lanes.paths().len()
            )));
        }
        if !matches!(self.transport, Transport::Auto | Transport::Udp) {
            return Err(usage(format!(
                "--via and --lanes are about UDP, and --transport {} uses none: leave out one of them",
                self.transport
            )));
        }
        if self.deadline.is_some() && self.lanes.paths().len() > 1 {
            return Err(usage("--deadline is for one lane: leave out --via or --lanes".to_owned()));
        }
        Ok(())
    }
}

impl SyncOptions {
    /// Refuses what no sync can do.
    ///
    /// # Errors
    /// `Usage`, with the option and what is possible.
    pub fn check(&self) -> Result<()> {
        if self.link_dest.len() > BASES_MAX {
            let option = self.basis_use.option();
            return Err(usage(format!("{option} names more than {BASES_MAX} directories: give fewer")));
        }
        if self.delete.is_some() && self.directories == Enter::None {
            return Err(usage(
                "--delete needs -r (or -a) or -d: without, no directory's contents are known".to_owned(),
            ));
        }
        if self.remove_source_files && self.preserve.follow != Follow::None {
            return Err(usage(
                "--remove-source-files would remove what links lead to: leave out -L, -k and --copy-unsafe-links"
                    .to_owned(),
            ));
        }
        let kept = &self.preserve;
        if kept.ids == IdMapping::Numbers && (kept.users.has_names() || kept.groups.has_names()) {
            return Err(usage(
                "--numeric-ids has no names: give numbers to --chown and --usermap".to_owned(),
            ));
        }
        if self.only_delete && self.delete.is_none() {
            return Err(usage("a sync that only deletes was asked for without --delete".to_owned()));
        }
        Ok(())
    }
}

pub(crate) fn packet_size(size: Option<u16>) -> Result<()> {
    let (smallest, largest) = PACKET_SIZE_RANGE;
    size.map_or(Ok(()), |size| within("packet-size", size, smallest..=largest, "bytes"))
}

pub(crate) fn udp_ports(ports: Option<(u16, u16)>) -> Result<()> {
    match ports {
        Some((first, last)) if first == 0 || first > last => Err(usage(format!(
            "UDP ports {first} to {last} are no range; give two from 1 on, the smaller one first (--udp-ports)"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn tcp_buffer(bytes: Option<u32>) -> Result<()> {
    let (smallest, largest) = TCP_BUFFER_RANGE;
    bytes.map_or(Ok(()), |bytes| within("tcp-buffer", bytes, smallest..=largest, "bytes"))
}

fn within<T: PartialOrd + Display>(
    option: &str,
    value: T,
    possible: RangeInclusive<T>,
    unit: &str,
) -> Result<()> {
    if possible.contains(&value) {
        Ok(())
    } else {
        Err(usage(format!(
            "--{option} {value} is not possible; give {} to {} {unit}",
            possible.start(),
            possible.end()
        )))
    }
}

fn above_zero<T: Default + PartialEq>(option: &str, value: Option<T>) -> Result<()> {
    if value == Some(T::default()) {
        Err(usage(format!("--{option} 0 is not possible; give at least 1, or leave it out")))
    } else {
        Ok(())
    }
}

fn usage(message: String) -> Error {
    Error::new(ErrorKind::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::super::TcpTuning;
    use super::*;
    use crate::options::sync::Delete;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn the_library_has_the_bounds_of_the_program() {
        let with = |change: &dyn Fn(&mut TransferOptions)| {
            let mut options = TransferOptions::default();
            change(&mut options);
            options.check()
        };
        assert_eq!(with(&|_| ()), Ok(()));
        let min_rate =
            |bits_per_second, seconds| Some(MinRate { bits_per_second, over: Duration::from_secs(seconds) });
        let sync = |sync: SyncOptions| Some(Arc::new(sync));
        type Change<'a> = &'a dyn Fn(&mut TransferOptions);
        let bad: [(&str, Change<'_>); 17] = [
            ("timeout", &|it| it.timeout = Duration::ZERO),
            ("timeout", &|it| it.timeout = Duration::MAX),
            ("memory", &|it| it.memory = Some(1)),
            ("resume-window", &|it| it.resume_window = u64::MAX),
            ("packet-size", &|it| it.packet_size = Some(511)),
            ("packet-size", &|it| it.packet_size = Some(u16::MAX)),
            ("UDP ports", &|it| it.udp_ports = Some((9, 8))),
            ("UDP ports", &|it| it.udp_ports = Some((0, 8))),
            ("tcp-buffer", &|it| it.tcp = TcpTuning { buffer: Some(1), ..TcpTuning::default() }),
            ("rate", &|it| it.rate_limit = Some(0)),
            ("ack-every", &|it| it.ack_every = Some(0)),
            ("burst", &|it| it.burst = Some(0)),
            ("port", &|it| it.port = Some(0)),
            ("transport", &|it| it.transport = Transport::Tcp { count: Some(STREAMS_MAX + 1) }),
            ("min-rate", &|it| it.min_rate = min_rate(0, 30)),
            ("min-rate", &|it| it.min_rate = min_rate(1, 0)),
            ("--delete", &|it| {
                it.sync = sync(SyncOptions { delete: Some(Delete::default()), ..SyncOptions::default() });
            }),
        ];
        for (option, change) in bad {
            let error = with(change).expect_err(option);
            assert!(error.kind == ErrorKind::Usage && error.message.contains(option), "{error}");
        }
        let bases = SyncOptions { link_dest: vec![b"..".to_vec(); BASES_MAX + 1], ..SyncOptions::default() };
        assert!(bases.check().is_err());
    }
}
