//! Options by name, as text: for callers that have no types of ours. The names are those of the table in
//! [`flag`](super::flag).

use super::flag::{self, Flag, Takes};
use super::{MinRate, TIMEOUT_RANGE, TransferOptions, unitless_rate};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The rows that have a name here.
fn rows() -> impl Iterator<Item = (&'static str, &'static Flag<TransferOptions>)> {
    flag::of_transfers().filter_map(|row| Some((row.about.library?, row)))
}

impl TransferOptions {
    /// The names that [`TransferOptions::set`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        rows().map(|(name, _)| name)
    }

    /// Sets an option by its name on the command line, with `_` for `-`: `rate` in bits per second (below
    /// 100,000 with `bit` behind it), `timeout`
    /// in seconds, `min_rate` as `BITS/SECONDS`, `udp_ports` as `FIRST-LAST`, `address_family` as `any`, `4`
    /// or `6`, switches as `true` or `false`. `ssh_option` may be set several times.
    ///
    /// # Errors
    /// `Usage` for an unknown name, with those that are known, or a value that is not possible.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let Some((_, row)) = rows().find(|(known, _)| *known == name) else {
            let all = TransferOptions::names().collect::<Vec<_>>().join(", ");
            let message = format!("there is no option {name:?}; there are {all}");
            return Err(Error::new(ErrorKind::Usage, message));
        };
        let whole = |form: &str| value.parse::<u64>().map_err(|_| bad(name, value, form));
        match &row.takes {
            Takes::Switch(set) => set(self, truth(name, value)?),
            Takes::Count(set) => {
                let count = whole("give how often")?;
                set(self, u8::try_from(count).map_err(|_| bad(name, value, "it is too large"))?);
            }
            Takes::Rate(set) => set(self, within(name, rate(name, value, value)?, 1, u64::MAX)?),
            Takes::Size(sizes, set) => {
                let size = whole("give a number of bytes")?;
                let fits = (sizes.least..=sizes.most).contains(&size);
                set(self, fits.then_some(size).ok_or_else(|| bad(name, value, sizes.wrong))?);
            }
            Takes::Number(least, most, set) => {
                set(self, within(name, whole("give a whole number")?, *least, *most)?);
            }
            Takes::Time(set) => set(self, timeout(name, value)?),
            Takes::MinRate(set) => set(self, min_rate(name, value)?),
            Takes::Ports(set) => set(self, ports(name, value)?),
            Takes::Path(_, set) => set(self, PathBuf::from(value)),
            Takes::Words(_, set) => set(self, OsString::from(value)),
            Takes::Text(_, set) | Takes::Texts(set) => set(self, value.to_owned()),
            Takes::OneOf(_, read) | Takes::Form(read) | Takes::Forms(read) => {
                read(self, value).map_err(|form| bad(name, value, &form))?;
            }
            // No row has both: a text would not say of which day and zone it is.
            Takes::Moment(_) => return Err(bad(name, value, "it cannot be given as text")),
        }
        Ok(())
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<u64> {
    let form = if value < least { format!("give at least {least}") } else { "it is too large".to_owned() };
    (least..=most).contains(&value).then_some(value).ok_or_else(|| bad(name, &value.to_string(), &form))
}

/// Bits per second: a number alone, or with `bit` behind it, which says that so few are meant.
fn rate(name: &str, value: &str, text: &str) -> Result<u64> {
    let (number, has_unit) = text.strip_suffix("bit").map_or((text, false), |number| (number, true));
    let bits = number.parse::<u64>().map_err(|_| bad(name, value, "give bits per second"))?;
    if has_unit { Ok(bits) } else { unitless_rate(bits).map_err(|why| bad(name, value, &why)) }
}

/// Bits per second and the time over which their mean counts.
fn min_rate(name: &str, value: &str) -> Result<MinRate> {
    let numbers = value
        .split_once('/')
        .and_then(|(least, over)| Some((least, Duration::try_from_secs_f64(over.parse().ok()?).ok()?)));
    let form = "give bits per second and seconds, as in 1000000/30";
    let (least, over) = numbers.ok_or_else(|| bad(name, value, form))?;
    Ok(MinRate { bits_per_second: rate(name, value, least)?, over })
}

fn truth(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(name, value, "give true or false")),
    }
}

fn bad(name: &str, value: &str, form: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("{value:?} is no value of the option {name}: {form}"))
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
        let switches = rows().filter(|(_, row)| matches!(row.takes, Takes::Switch(_)));
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
            ("via", "eth1"),
            ("lanes", "2"),
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
            ("resume_window", "0"),
        ];
        let given: Vec<_> = switches.map(|(name, _)| (name, "true")).chain(valued).collect();
        for (name, value) in &given {
            let before = options.clone();
            options.set(name, value).unwrap();
            assert_ne!(options, before, "{name}");
        }
        for name in TransferOptions::names() {
            assert_eq!(given.iter().filter(|(other, _)| *other == name).count(), 1, "{name}");
        }
        assert_eq!(options.timeout, Duration::from_millis(2500));
        assert_eq!(options.opening, Some(options.timeout));
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
    fn python_knows_the_names_and_which_are_switches() {
        let file = "/../../bindings/python/python/fobs/_options.py";
        let text =
            std::fs::read_to_string(format!("{}{file}", env!("CARGO_MANIFEST_DIR"))).expect("a checkout");
        let (_, class) = text.split_once("class Options(").expect("its options");
        let (class, rest) = class.split_once("_SWITCHES").expect("its switches");
        let typed = class.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        let mut typed: Vec<&str> = typed.map(|(name, _)| name).filter(|name| !name.contains(' ')).collect();
        let mut known: Vec<&str> = TransferOptions::names().collect();
        typed.sort_unstable();
        known.sort_unstable();
        assert_eq!(typed, known);
        let (switches, _) = rest.split_once('}').expect("the end of a set");
        for (name, row) in rows() {
            let is_switch = matches!(row.takes, Takes::Switch(_));
            assert_eq!(switches.contains(&format!("\"{name}\"")), is_switch, "{name}");
        }
    }

    #[test]
    fn a_new_choice_needs_a_row_or_a_reason() {
        // A new one does not compile until it is here: its row is in `flag`.
        let TransferOptions {
            recursive: _,
            preserve: _,
            compress: _,
            fsync: _,
            cache: _,
            no_partial: _,
            append_verify: _,
            checksum: _,
            delta: _,
            congestion_control: _,
            priority: _,
            rate_limit: _,
            timeout: _,
            // Set by the row of `timeout`.
            opening: _,
            min_rate: _,
            ack_every: _,
            burst: _,
            memory: _,
            resume_window: _,
            packet_size: _,
            transport: _,
            udp_ports: _,
            // Set by the rows of `via` and `lanes`.
            lanes: _,
            address_family: _,
            identity: _,
            port: _,
            fobs_path: _,
            ssh: _,
            known_hosts: _,
            new_keys: _,
            // Each program's own choice: a person is told, a program of many processes waits.
            taken: _,
            // A type of its own at every caller.
            ticket: _,
            sync: _,
            deadline: _,
            loss_cause: _,
            tcp: _,
            stream_allotment: _,
        } = TransferOptions::default();
    }
}
