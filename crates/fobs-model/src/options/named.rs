//! Options by name, as text: for callers that have no types of ours.

use super::{AddressFamily, MEMORY_RANGE, MinRate, NewKeys, PushBinary, TIMEOUT_RANGE, TransferOptions};
use crate::error::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::time::Duration;

/// What can be set by name.
const NAMES: &str = "recursive, preserve, compress, fsync, no_partial, append_verify, checksum, cc, priority, \
    rate, timeout, min_rate, ack_every, burst, packet_size, transport, udp_ports, address_family, identity, \
    port, fobs_path, known_hosts, ssh_config, ssh_jump, ssh_option, ssh_program, memory, push_binary, \
    strict_host_key";

impl TransferOptions {
    /// Sets an option by its name on the command line, with `_` for `-`: `rate` in bits per second, `timeout`
    /// in seconds, `min_rate` as `BITS/SECONDS`, `udp_ports` as `FIRST-LAST`, `address_family` as `any`, `4`
    /// or `6`, switches as `true` or `false`. `ssh_option` may be set several times.
    ///
    /// # Errors
    /// `Usage` for an unknown name, with those that are known, or a value that is not possible.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if let Some(switch) = self.switch(name) {
            *switch = truth(name, value)?;
            return Ok(());
        }
        let whole = |form: &str| value.parse::<u64>().map_err(|_| bad(name, value, form));
        match name {
            "cc" => {
                self.congestion_control =
                    value.parse().map_err(|_| bad(name, value, "give a controller that fobs knows"))?;
            }
            "priority" => {
                self.priority =
                    value.parse().map_err(|_| bad(name, value, "give scavenger, fair or greedy"))?;
            }
            "rate" => {
                self.rate_limit = Some(whole("give bits per second").and_then(|rate| positive(name, rate))?)
            }
            "timeout" => self.timeout = timeout(name, value)?,
            "min_rate" => self.min_rate = Some(min_rate(name, value)?),
            "ack_every" => {
                self.ack_every = Some(fits(name, positive(name, whole("give a number of packets")?)?)?)
            }
            "burst" => self.burst = Some(fits(name, positive(name, whole("give a number of packets")?)?)?),
            "packet_size" => self.packet_size = Some(fits(name, whole("give a number of bytes")?)?),
            "transport" => self.transport = value.parse().map_err(|form: String| bad(name, value, &form))?,
            "udp_ports" => self.udp_ports = Some(ports(name, value)?),
            "address_family" => {
                self.address_family = match value {
                    "any" => AddressFamily::Any,
                    "4" => AddressFamily::V4,
                    "6" => AddressFamily::V6,
                    _ => return Err(bad(name, value, "give any, 4 or 6")),
                };
            }
            "identity" => self.identity = Some(PathBuf::from(value)),
            "port" => self.port = Some(fits(name, positive(name, whole("give a port")?)?)?),
            "fobs_path" => value.clone_into(&mut self.fobs_path),
            "known_hosts" => self.known_hosts = Some(PathBuf::from(value)),
            "ssh_config" => self.ssh.config_file = Some(PathBuf::from(value)),
            "ssh_jump" => self.ssh.jump = Some(value.to_owned()),
            "ssh_option" => self.ssh.options.push(value.to_owned()),
            "ssh_program" => self.ssh.program = Some(PathBuf::from(value)),
            "memory" => self.memory = memory(name, whole("give bytes")?)?,
            "push_binary" => {
                let push = truth(name, value)?;
                self.ssh.push = if push { PushBinary::IfMissing } else { PushBinary::Never };
            }
            "strict_host_key" => {
                let strict = truth(name, value)?;
                self.new_keys = if strict { NewKeys::Refused } else { NewKeys::Pinned };
            }
            _ => {
                let message = format!("there is no option {name:?}; there are {NAMES}");
                return Err(Error::new(ErrorKind::Usage, message));
            }
        }
        Ok(())
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "recursive" => &mut self.recursive,
            "preserve" => &mut self.preserve,
            "compress" => &mut self.compress,
            "fsync" => &mut self.fsync,
            "no_partial" => &mut self.no_partial,
            "append_verify" => &mut self.append_verify,
            "checksum" => &mut self.checksum,
            _ => return None,
        })
    }
}

/// Bits per second and the time over which their mean counts.
fn min_rate(name: &str, value: &str) -> Result<MinRate> {
    let numbers = value.split_once('/').and_then(|(rate, over)| {
        let over = Duration::try_from_secs_f64(over.parse().ok()?).ok()?;
        Some(MinRate { bits_per_second: rate.parse().ok()?, over })
    });
    numbers.ok_or_else(|| bad(name, value, "give bits per second and seconds, as in 1000000/30"))
}

fn truth(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(name, value, "give true or false")),
    }
}

fn memory(name: &str, value: u64) -> Result<u64> {
    let (least, most) = MEMORY_RANGE;
    let form = format!("give {} MiB to {} GiB in bytes", least >> 20, most >> 30);
    (least..=most).contains(&value).then_some(value).ok_or_else(|| bad(name, &value.to_string(), &form))
}

fn bad(name: &str, value: &str, form: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("{value:?} is no value of the option {name}: {form}"))
}

fn positive(name: &str, value: u64) -> Result<u64> {
    match value {
        0 => Err(bad(name, "0", "give at least 1")),
        value => Ok(value),
    }
}

fn fits<T: TryFrom<u64>>(name: &str, value: u64) -> Result<T> {
    T::try_from(value).map_err(|_| bad(name, &value.to_string(), "it is too large"))
}

fn timeout(name: &str, value: &str) -> Result<Duration> {
    let (low, high) = TIMEOUT_RANGE;
    let given = value.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    given
        .filter(|given| (low..=high).contains(given))
        .ok_or_else(|| bad(name, value, &format!("give {} to {} seconds", low.as_secs(), high.as_secs())))
}

fn ports(name: &str, value: &str) -> Result<(u16, u16)> {
    let range =
        value.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    range
        .filter(|&(first, last): &(u16, u16)| first > 0 && first <= last)
        .ok_or_else(|| bad(name, value, "give FIRST-LAST"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_sets_its_option() {
        let mut options = TransferOptions::default();
        let switches = NAMES.split(", ").take(7);
        let valued = [
            ("cc", "cubic"),
            ("priority", "greedy"),
            ("rate", "1000000"),
            ("timeout", "2.5"),
            ("ack_every", "4"),
            ("burst", "8"),
            ("packet_size", "1200"),
            ("transport", "tcp:4"),
            ("udp_ports", "50000-50010"),
            ("address_family", "6"),
            ("identity", "/key"),
            ("port", "2222"),
            ("fobs_path", "/opt/fobs"),
            ("min_rate", "1000000/30"),
            ("known_hosts", "/hosts"),
            ("ssh_config", "/config"),
            ("ssh_jump", "gate"),
            ("ssh_option", "Compression=no"),
            ("ssh_program", "/bin/ssh"),
            ("memory", "134217728"),
            ("push_binary", "true"),
            ("strict_host_key", "true"),
        ];
        assert_eq!(NAMES.split(", ").count(), 7 + valued.len());
        for (name, value) in switches.map(|name| (name, "true")).chain(valued) {
            let before = options.clone();
            options.set(name, value).unwrap();
            assert_ne!(options, before, "{name}");
            assert!(NAMES.split(", ").any(|other| other == name), "{name} is not in the list");
        }
        assert_eq!(options.timeout, Duration::from_millis(2500));
    }

    #[test]
    fn what_is_not_possible_is_refused_by_name() {
        for (name, value) in [
            ("colour", "red"),
            ("recursive", "yes"),
            ("rate", "0"),
            ("rate", "fast"),
            ("timeout", "0.5"),
            ("timeout", "nan"),
            ("packet_size", "70000"),
            ("udp_ports", "9-8"),
            ("udp_ports", "0-8"),
            ("transport", "pigeon"),
            ("address_family", "5"),
            ("memory", "1"),
            ("push_binary", "1"),
        ] {
            let error = TransferOptions::default().set(name, value).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage, "{name}={value}");
            assert!(error.message.contains(name), "{error}");
        }
    }

    #[test]
    fn every_choice_has_a_name_or_a_reason() {
        // A new one does not compile until it is here.
        let TransferOptions {
            recursive: _,
            preserve: _,
            compress: _,
            fsync: _,
            no_partial: _,
            append_verify: _,
            checksum: _,
            congestion_control: _,
            priority: _,
            rate_limit: _,
            timeout: _,
            min_rate: _,
            ack_every: _,
            burst: _,
            memory: _,
            packet_size: _,
            transport: _,
            udp_ports: _,
            address_family: _,
            identity: _,
            port: _,
            fobs_path: _,
            ssh: _,
            known_hosts: _,
            new_keys: _,
            // A type of its own at every caller.
            ticket: _,
            sync: _,
            // A time of this host's clock, which text would make of a day and a zone.
            deadline: _,
            // For experiments: what is named is what people need.
            loss_cause: _,
            tcp: _,
            // For callers that divide a file themselves.
            stream_allotment: _,
        } = TransferOptions::default();
        for name in NAMES.split(", ") {
            let error = TransferOptions::default().set(name, "?!").err();
            assert!(error.is_none_or(|error| !error.message.contains("there is no option")), "{name}");
        }
    }
}
