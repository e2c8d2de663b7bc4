//! A copy from several hosts, or between two others, as parts that run one after the other.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use fobs::event::{OtherEntries, Summary};
use fobs::options::{Location, Remote};
use fobs::{Error, ErrorKind, Result};

use crate::location::same_host;

/// Sources that go to the destination together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// One end is here.
    Here {
        /// All here, or all on one other host.
        sources: Vec<Location>,
        /// Where they go.
        destination: Location,
    },
    /// Both ends are other hosts.
    Between {
        /// The host of the sources; its path does not matter.
        from: Remote,
        /// The sources there.
        paths: Vec<Vec<u8>>,
        /// Where they go.
        to: Remote,
    },
}

impl Part {
    /// The locations on other hosts, one for each host.
    pub fn remotes(&self) -> Vec<Remote> {
        match self {
            Part::Between { from, to, .. } => vec![from.clone(), to.clone()],
            Part::Here { sources, destination } => {
                let first = sources.iter().chain([destination]).find_map(|location| match location {
                    Location::Remote(remote) => Some(remote.clone()),
                    Location::Local(_) | Location::Stdio => None,
                });
                first.into_iter().collect()
            }
        }
    }
}

/// The parts of a copy, in the order of their first sources.
///
/// # Errors
/// `Destination` where several parts need a directory here and there is none.
pub fn of(sources: &[Location], destination: &Location) -> Result<Vec<Part>> {
    let mut groups: Vec<Vec<Location>> = Vec::new();
    for source in sources {
        match groups.iter_mut().find(|group| are_together(&group[0], source)) {
            Some(group) => group.push(source.clone()),
            None => groups.push(vec![source.clone()]),
        }
    }
    let destination = match groups.len() {
        0 | 1 => destination.clone(),
        _ => directory(destination)?,
    };
    Ok(groups.into_iter().map(|sources| part(sources, &destination)).collect())
}

fn part(sources: Vec<Location>, destination: &Location) -> Part {
    match (&sources[..], destination) {
        ([Location::Remote(from), ..], Location::Remote(to)) => Part::Between {
            from: from.clone(),
            paths: sources.iter().filter_map(path_there).collect(),
            to: to.clone(),
        },
        _ => Part::Here { destination: destination.clone(), sources },
    }
}

fn path_there(location: &Location) -> Option<Vec<u8>> {
    match location {
        // The home directory, where the far shell starts.
        Location::Remote(remote) if remote.path.is_empty() => Some(b".".to_vec()),
        Location::Remote(remote) => Some(remote.path.clone()),
        Location::Local(_) | Location::Stdio => None,
    }
}

fn are_together(a: &Location, b: &Location) -> bool {
    match (a, b) {
        (Location::Remote(a), Location::Remote(b)) => same_host(a, b),
        (Location::Remote(_), _) | (_, Location::Remote(_)) => false,
        _ => true,
    }
}

/// The destination as a directory: each part by itself might take it for the name of its one source.
fn directory(destination: &Location) -> Result<Location> {
    let with_slash = |path: &[u8]| if path.ends_with(b"/") { path.to_vec() } else { [path, b"/"].concat() };
    match destination {
        Location::Remote(remote) if remote.path.is_empty() => Ok(destination.clone()),
        Location::Remote(remote) => {
            Ok(Location::Remote(Remote { path: with_slash(&remote.path), ..remote.clone() }))
        }
        Location::Local(path) if path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/") => {
            let path = with_slash(path.as_os_str().as_bytes());
            Ok(Location::Local(PathBuf::from(OsString::from_vec(path))))
        }
        Location::Local(path) => {
            let path = path.display();
            let message = format!(
                "cannot copy several sources to '{path}': it is no directory; create it or end the path with '/'"
            );
            Err(Error::new(ErrorKind::Destination, message))
        }
        Location::Stdio => Ok(Location::Stdio),
    }
}

/// The figures of two parts, of which `later` ran after `sum`.
pub fn add_up(sum: Summary, later: Summary) -> Summary {
    let seconds = sum.seconds + later.seconds;
    let moved = |it: &Summary| it.bytes.saturating_sub(it.resumed_bytes);
    let goodput_bps = if seconds > 0.0 { (moved(&sum) + moved(&later)) as f64 * 8.0 / seconds } else { 0.0 };
    let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
    let packets_needed = sum.packets_needed + later.packets_needed;
    let packets_sent = sum.packets_sent + later.packets_sent;
    let lost = sum.loss_rate * sum.packets_sent as f64 + later.loss_rate * later.packets_sent as f64;
    Summary {
        bytes: sum.bytes + later.bytes,
        resumed_bytes: sum.resumed_bytes + later.resumed_bytes,
        matched_bytes: sum.matched_bytes + later.matched_bytes,
        deltas: sum.deltas.and(&later.deltas),
        storage: sum.storage.and(later.storage),
        files: sum.files + later.files,
        others: OtherEntries {
            directories: sum.others.directories + later.others.directories,
            links: sum.others.links + later.others.links,
            devices: sum.others.devices + later.others.devices,
        },
        seconds,
        seconds_total: sum.seconds_total + later.seconds_total,
        goodput_bps,
        packets_needed,
        packets_sent,
        waste: share(packets_sent.saturating_sub(packets_needed) as f64, packets_needed),
        loss_rate: share(lost, packets_sent),
        rtt_ms_min: sum.rtt_ms_min.into_iter().chain(later.rtt_ms_min).reduce(f64::min),
        socket_drops: sum.socket_drops + later.socket_drops,
        datagrams_rejected: sum.datagrams_rejected + later.datagrams_rejected,
        streams: sum.streams.max(later.streams),
        max_rss_bytes: sum.max_rss_bytes.max(later.max_rss_bytes),
        cpu_seconds: sum.cpu_seconds.max(later.cpu_seconds),
        cpu_seconds_peer: sum.cpu_seconds_peer + later.cpu_seconds_peer,
        max_rss_bytes_peer: sum.max_rss_bytes_peer.max(later.max_rss_bytes_peer),
        // Each part has its own.
        root: String::new(),
        errors: sum.errors.into_iter().chain(later.errors).collect(),
        ..later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location;
    use std::ffi::OsStr;

    fn parts(sources: &[&str], destination: &str) -> Vec<Part> {
        let read = |text: &str| location::parse(OsStr::new(text)).expect("a valid location");
        let sources: Vec<Location> = sources.iter().map(|source| read(source)).collect();
        of(&sources, &read(destination)).expect("a directory or one part")
    }

    #[test]
    fn sources_of_one_host_go_together() {
        let home = tempfile::tempdir().expect("a directory");
        let here = home.path().to_str().expect("UTF-8");
        let shape = |parts: Vec<Part>| -> Vec<usize> {
            parts
                .iter()
                .map(|part| match part {
                    Part::Here { sources, .. } => sources.len(),
                    Part::Between { paths, .. } => 10 * paths.len(),
                })
                .collect()
        };
        assert_eq!(shape(parts(&["a:x", "a:y"], here)), [2]);
        assert_eq!(shape(parts(&["a:x", "b:y", "a:z"], here)), [2, 1]);
        assert_eq!(shape(parts(&["x", "a:y", "z"], "b:")), [2, 10]);
        assert_eq!(shape(parts(&["a:x", "a:y"], "b:dir")), [20]);
        let several = parts(&["a:x", "b:y"], "c:dir");
        assert!(several.iter().all(|part| matches!(part, Part::Between { to, .. } if to.path == b"dir/")));
        let [Part::Between { paths, to, .. }] = &parts(&["a:"], "b:new")[..] else { panic!("one part") };
        assert_eq!((&paths[..], &to.path[..]), (&[b".".to_vec()][..], &b"new"[..]));
        let locations = ["a:x", "b:y"].map(|text| location::parse(OsStr::new(text)).expect("valid"));
        let error = of(&locations, &Location::Local(home.path().join("none"))).expect_err("no directory");
        assert_eq!(error.kind, ErrorKind::Destination);
    }

    #[test]
    fn figures_of_parts_add_up() {
        let part = |bytes, seconds, sent, loss_rate| Summary {
            bytes,
            seconds,
            files: 1,
            packets_needed: 100,
            packets_sent: sent,
            loss_rate,
            rtt_ms_min: Some(seconds),
            root: "ab".to_owned(),
            ..Summary::default()
        };
        let sum = add_up(part(1_000_000, 1.0, 110, 0.1), part(3_000_000, 1.0, 90, 0.0));
        assert_eq!((sum.bytes, sum.files, sum.packets_sent, sum.rtt_ms_min), (4_000_000, 2, 200, Some(1.0)));
        assert!((sum.goodput_bps - 16e6).abs() < 1.0 && (sum.loss_rate - 0.055).abs() < 1e-9, "{sum:?}");
        assert_eq!(sum.root, "");
    }
}
