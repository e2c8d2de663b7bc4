//! The hosts of a path: one network namespace each, with a TUN device whose other end belongs to the
//! emulator.
//!
//! Names contain the process id, so that the next process can find and remove what a killed one left behind.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::process::{Pid, geteuid, test_kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;

use super::kernel::open_tun;
use super::packet::train::Merging;
use super::spec::{HostSpec, LinkSpec, MTU_MIN_IPV6};

/// Directory of `ip netns`'s namespaces.
const NAMESPACES: &str = "/run/netns";
const PREFIX: &str = "fobs-lab-";
/// The device in each namespace.
const DEVICE: &str = "link0";
/// Queue length of a device, packets. During the longest valid stall of the emulator (4 ms), 3300 full
/// packets arrive at 10 Gbit/s; the kernel's default of 500 is full after 0.6 ms.
const DEVICE_QUEUE: u32 = 8192;
/// Maximum size of a namespace's device table, bytes: two lines of about 120 bytes, and a head.
const TABLE_BYTES: u64 = 16 << 10;

/// Why hosts could not be created.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("a path needs network namespaces and TUN devices: run as root")]
    NoRoot,
    #[error("{0}")]
    Failed(String),
}

/// Public description of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostInfo {
    pub name: String,
    /// Name for `ip netns exec`.
    pub namespace: String,
    pub address: String,
    /// Empty if the MTU is too small for IPv6 (below 1280 bytes).
    pub address6: String,
    pub device: &'static str,
}

/// The hosts, west first; their namespaces are removed on drop.
#[derive(Debug)]
pub struct Hosts {
    pub infos: Vec<HostInfo>,
}

/// The emulator's end of one host.
#[derive(Debug)]
pub struct Port {
    pub device: File,
    pub merging: Merging,
    /// 0: west, 1: east.
    pub side: u8,
    /// Delay of the host's access line, ns.
    pub access_delay_ns: u64,
    pub drops: DropCounter,
}

/// Reads the drops of a host's device from its namespace's table.
#[derive(Debug)]
pub struct DropCounter {
    table: File,
    base: u64,
}

impl Hosts {
    /// Creates the hosts of a path, and removes those of processes that no longer exist.
    ///
    /// # Errors
    ///
    /// [`HostError::NoRoot`] without root; otherwise the error of the kernel or `ip`. Partial results are
    /// removed.
    pub fn make(spec: &LinkSpec) -> Result<(Hosts, Vec<Port>), HostError> {
        if !geteuid().is_root() {
            return Err(HostError::NoRoot);
        }
        remove_leftovers();
        // One process may have several paths.
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = match SERIAL.fetch_add(1, Ordering::Relaxed) {
            0 => String::new(),
            more => format!("{more}-"),
        };
        let mut hosts = Hosts { infos: Vec::new() };
        let mut ports = Vec::new();
        for (side, specs) in [(0u8, &spec.hosts.west), (1, &spec.hosts.east)] {
            for (number, host) in (1u8..).zip(specs) {
                let namespace = format!("{PREFIX}{}-{serial}{}", std::process::id(), host.name);
                let address6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, u16::from(side), u16::from(number));
                hosts.infos.push(HostInfo {
                    name: host.name.clone(),
                    namespace: namespace.clone(),
                    address: Ipv4Addr::new(10, 77, side, number).to_string(),
                    address6: if spec.mtu < MTU_MIN_IPV6 { String::new() } else { address6.to_string() },
                    device: DEVICE,
                });
                let info = &hosts.infos[hosts.infos.len() - 1];
                ports.push(make_host(info, spec.mtu, host, side)?);
            }
        }
        Ok((hosts, ports))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &self.infos {
            remove(&host.namespace);
        }
    }
}

impl DropCounter {
    /// Packets that the device dropped since the last [`DropCounter::reset`].
    pub fn count(&mut self) -> u64 {
        // Unreadable counts as 0: file and device exist for the same time.
        self.read().map_or(0, |drops| drops.saturating_sub(self.base))
    }

    pub fn reset(&mut self) {
        self.base = self.read().unwrap_or(self.base);
    }

    fn read(&mut self) -> io::Result<u64> {
        let mut table = String::new();
        self.table.seek(SeekFrom::Start(0))?;
        (&mut self.table).take(TABLE_BYTES).read_to_string(&mut table)?;
        Ok(device_drops(&table).unwrap_or(0))
    }
}

/// Runs `work` on a thread inside the namespace: its sockets belong to the namespace.
///
/// # Errors
///
/// If the namespace cannot be entered, or `work` panicked.
pub fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(Path::new(NAMESPACES).join(namespace))?;
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        });
        inside.join().unwrap_or_else(|_| Err(io::Error::other("work inside a namespace panicked")))
    })
}

fn make_host(info: &HostInfo, mtu: u16, host: &HostSpec, side: u8) -> Result<Port, HostError> {
    let failed =
        |what: &str, why: String| HostError::Failed(format!("cannot {what} of host {}: {why}", host.name));
    ip(&["netns", "add", &info.namespace], "").map_err(|why| failed("make the namespace", why))?;
    let made = within(&info.namespace, || {
        set_sysctls()?;
        let (device, merging) = open_tun(DEVICE)?;
        let table = File::open("/proc/thread-self/net/dev")?;
        io::Result::Ok((device, merging, table))
    });
    let (device, merging, table) =
        made.and_then(|made| made).map_err(|error| failed("make the TUN device", error.to_string()))?;
    let mut batch = format!(
        "link set lo up\nlink set {DEVICE} mtu {mtu} txqueuelen {DEVICE_QUEUE}\n\
         link set {DEVICE} addrgenmode none\nlink set {DEVICE} up\naddr add {}/16 dev {DEVICE}\n",
        info.address
    );
    if !info.address6.is_empty() {
        batch += &format!("addr add {}/64 dev {DEVICE} nodad\n", info.address6);
    }
    ip(&["-n", &info.namespace, "-batch", "-"], &batch).map_err(|why| failed("set up the device", why))?;
    let mut drops = DropCounter { table, base: 0 };
    drops.reset();
    Ok(Port { device, merging, side, access_delay_ns: host.delay.nanos(), drops })
}

/// Settings of the calling thread's namespace that make runs repeatable.
fn set_sysctls() -> io::Result<()> {
    // Otherwise one connection starts with the slow-start threshold of the previous one.
    fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")?;
    // No packets of the hosts themselves on the path. Kernels without IPv6 have no such file.
    let _ = fs::write("/proc/sys/net/ipv6/conf/default/router_solicitations", "0");
    // All users may ping.
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")
}

/// Runs `ip` with these arguments and this standard input; the error is its standard error.
pub fn ip(arguments: &[&str], input: &str) -> Result<(), String> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run ip (iproute2): {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ends without reading, its exit status shows the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("ip (iproute2) was lost: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))
    }
}

/// Removes a namespace, if it exists.
pub fn remove(namespace: &str) {
    let _ = ip(&["netns", "del", namespace], "");
}

/// Removes the namespaces of processes that were killed before they could remove them.
pub fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(NAMESPACES) else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if owner(&name).is_some_and(|pid| test_kill_process(pid).is_err()) {
            remove(&name);
        }
    }
}

/// The process id in a namespace's name.
fn owner(namespace: &str) -> Option<Pid> {
    let (pid, _) = namespace.strip_prefix(PREFIX)?.split_once('-')?;
    Pid::from_raw(pid.parse().ok()?)
}

/// Transmit drops of [`DEVICE`] in the text of `/proc/net/dev`.
fn device_drops(table: &str) -> Option<u64> {
    let (_, columns) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == DEVICE)?;
    // Eight columns of reception, then bytes, packets, errs, drop.
    columns.split_whitespace().nth(11)?.parse().ok()
}

/// Default path of the control socket.
pub fn default_control_path() -> PathBuf {
    PathBuf::from(format!("/run/{PREFIX}{}.sock", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_recognised_by_name() {
        let pid = |name| owner(name).map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(pid("fobs-lab-1234-a"), Some(1234));
        assert_eq!(pid("fobs-lab-1234-2-a"), Some(1234));
        for other in [
            "fobs-lab-a",
            "fobs-lab-x-a",
            "fobs-lab--a",
            "other-1234-a",
            "fobs-lab-0-a",
            "fobs-lab-99999999999-a",
        ] {
            assert_eq!(pid(other), None, "{other}");
        }
    }

    #[test]
    fn drops_are_read_from_the_right_column() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|\
                     bytes packets errs drop fifo colls carrier compressed\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n \
                     link0: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        assert_eq!(device_drops(table), Some(32));
        assert_eq!(device_drops("link0: 1 2"), None);
        assert_eq!(device_drops(""), None);
    }
}
