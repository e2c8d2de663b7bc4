//! TCP settings of the hosts of a run, and the congestion controls that namespaces may choose.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use super::namespace::Namespace;
use crate::tool::{Buffers, PathFacts, Tcp, Windows};

/// Buffers of tuned TCP, in units of what path and queue hold. A buffer is counted with the kernel's overhead
/// for each packet, and only a part of it becomes window (tcp_adv_win_scale: half); a sender keeps two
/// windows.
const TUNED_TIMES: u64 = 8;
/// Tuned TCP has at least this much: what careful administrators give to hosts on long paths.
const TUNED_MIN_BYTES: u64 = 64 << 20;
/// More would let a single stream fill the kernel's memory for TCP (`tcp_mem`).
const TUNED_MAX_BYTES: u64 = 1 << 30;
/// The middle value of `tcp_rmem` and `tcp_wmem` is where the kernel starts: left as it came.
const FIELDS: usize = 3;

/// The kernel's own settings of a namespace, from before the first run.
pub struct Tuning {
    rmem: String,
    wmem: String,
    congestion: String,
}

impl Tuning {
    /// Remembers what a namespace came with.
    pub fn remember(host: &Namespace) -> Result<Tuning, String> {
        Ok(Tuning {
            rmem: host.sysctl("net/ipv4/tcp_rmem")?,
            wmem: host.sysctl("net/ipv4/tcp_wmem")?,
            congestion: host.sysctl("net/ipv4/tcp_congestion_control")?,
        })
    }

    /// Sets a namespace up for a run, and forgets what its kernel learned in the last one.
    pub fn apply(&self, host: &Namespace, tcp: &Tcp, path: &PathFacts) -> Result<(), String> {
        let buffers = |kernel: &str| match tcp.buffers {
            Buffers::Default => kernel.to_owned(),
            Buffers::Tuned => tuned(kernel, path),
        };
        let scaling = match tcp.windows {
            Windows::Large => "1",
            Windows::Small => "0",
        };
        host.set_sysctls(&[
            // One run's ssthresh must not decide the next one's rate.
            ("net/ipv4/tcp_no_metrics_save", "1".to_owned()),
            ("net/ipv4/tcp_rmem", buffers(&self.rmem)),
            ("net/ipv4/tcp_wmem", buffers(&self.wmem)),
            ("net/ipv4/tcp_window_scaling", scaling.to_owned()),
            ("net/ipv4/tcp_congestion_control", tcp.congestion.clone().unwrap_or(self.congestion.clone())),
        ])?;
        let mut flush = Command::new("ip");
        flush.args(["tcp_metrics", "flush"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Nothing is saved any more: where `ip` is missing, nothing needs to be forgotten.
        let _ = host.within(|| flush.status())?;
        Ok(())
    }
}

/// `tcp_rmem` or `tcp_wmem` with a maximum that is enough for the path.
fn tuned(kernel: &str, path: &PathFacts) -> String {
    let back = PathFacts { rate_bps: path.return_rate_bps, ..*path };
    let enough = TUNED_TIMES * (path.bdp_bytes().max(back.bdp_bytes()) + path.queue_bytes);
    let mut fields: Vec<u64> = kernel.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    fields.resize(FIELDS, 4096);
    fields[FIELDS - 1] = fields[FIELDS - 1].max(enough).clamp(TUNED_MIN_BYTES, TUNED_MAX_BYTES);
    fields.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// One setting for each host out of what its flows want. A flow that wants none leaves the choice to the
/// others; two that ask for different ones are an error.
pub fn merged<'a>(
    asked: impl Iterator<Item = (&'a str, &'a Option<Tcp>)>,
) -> Result<BTreeMap<&'a str, Tcp>, String> {
    let mut settings: BTreeMap<&str, Tcp> = BTreeMap::new();
    for (host, tcp) in asked {
        let Some(tcp) = tcp else { continue };
        match settings.get(host) {
            Some(other) if other != tcp => {
                return Err(format!(
                    "two flows ask host {host} for different TCP settings: give them hosts of their own"
                ));
            }
            Some(_) => {}
            None => {
                settings.insert(host, tcp.clone());
            }
        }
    }
    Ok(settings)
}

/// The root namespace's list of the congestion controls that namespaces may choose, as long as it is ours:
/// every one that the kernel has. The old list comes back when this is dropped.
pub struct AllAllowed {
    before: Option<String>,
}

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

impl AllAllowed {
    /// Allows all.
    pub fn new() -> Result<AllAllowed, String> {
        let read =
            |path: &str| fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"));
        let (before, available) = (read(ALLOWED)?, read(AVAILABLE)?);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if words(&available).iter().all(|one| words(&before).contains(one)) {
            return Ok(AllAllowed { before: None });
        }
        fs::write(ALLOWED, available.trim()).map_err(|error| format!("cannot write {ALLOWED}: {error}"))?;
        Ok(AllAllowed { before: Some(before) })
    }
}

impl Drop for AllAllowed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(ALLOWED, before.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn path(rate_bps: f64, rtt_ms: u64, queue_bytes: u64) -> PathFacts {
        let rtt = Duration::from_millis(rtt_ms);
        PathFacts { rate_bps, return_rate_bps: rate_bps, rtt, queue_bytes, mtu: 1500 }
    }

    #[test]
    fn tuned_buffers_hold_the_path_several_times_within_bounds() {
        let kernel = "4096\t131072\t6291456";
        assert_eq!(tuned(kernel, &path(1e8, 65, 812_500)), format!("4096 131072 {}", 64 << 20));
        assert_eq!(tuned(kernel, &path(1e9, 65, 8_125_000)), format!("4096 131072 {}", 8 * 2 * 8_125_000));
        assert_eq!(tuned(kernel, &path(1e11, 500, 0)), format!("4096 131072 {}", 1 << 30));
        assert_eq!(tuned("4096 131072 134217728", &path(1e6, 1, 65_536)), "4096 131072 134217728");
    }

    #[test]
    fn a_host_has_one_setting() {
        let cubic = Some(Tcp { congestion: Some("cubic".to_owned()), ..Tcp::default() });
        let bbr = Some(Tcp { congestion: Some("bbr".to_owned()), ..Tcp::default() });
        let agreed = merged([("a", &cubic), ("a", &None), ("b", &cubic), ("c", &bbr)].into_iter()).unwrap();
        assert_eq!(agreed["a"].congestion.as_deref(), Some("cubic"));
        assert_eq!(agreed["c"].congestion.as_deref(), Some("bbr"));
        let error = merged([("a", &cubic), ("a", &bbr)].into_iter()).unwrap_err();
        assert!(error.contains("host a"), "{error}");
    }
}
