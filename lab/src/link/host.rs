//! The hosts of a path: one network namespace each, with a TUN device for each path between them, whose other
//! end belongs to the emulator.
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
/// The devices in each namespace: `link0`, and `link1` and so on where there are several paths.
const DEVICE: &str = "link";
/// Most paths between the same hosts: more than any table has, and few enough for one thread.
pub const PATHS_MAX: usize = 8;
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
    pub device: String,
}

/// The hosts; their namespaces are removed on drop.
#[derive(Debug)]
pub struct Hosts {
    /// For each path its hosts, west first: the same ones, by their addresses and devices on it.
    pub paths: Vec<Vec<HostInfo>>,
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
    device: String,
    base: u64,
}

impl Hosts {
    /// Creates the hosts of one path, or of several between the same hosts, and removes those of processes
    /// that no longer exist. The ports of each path, west first.
    ///
    /// # Errors
    ///
    /// [`HostError::NoRoot`] without root; otherwise the error of the kernel or `ip`, or that the paths do
    /// not join the same hosts. Partial results are removed.
    pub fn make(specs: &[LinkSpec]) -> Result<(Hosts, Vec<Vec<Port>>), HostError> {
        if !geteuid().is_root() {
            return Err(HostError::NoRoot);
        }
        check_alike(specs)?;
        remove_leftovers();
        // One process may have several emulators.
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = match SERIAL.fetch_add(1, Ordering::Relaxed) {
            0 => String::new(),
            more => format!("{more}-"),
        };
        let mut hosts = Hosts { paths: Vec::new() };
        let mut ports = Vec::new();
        for (place, spec) in specs.iter().enumerate() {
            hosts.paths.push(Vec::new());
            let mut of_path = Vec::new();
            for (side, written) in [(0u8, &spec.hosts.west), (1, &spec.hosts.east)] {
                for (number, host) in (1u8..).zip(written) {
                    let info = host_info(place, spec, (side, number), (&serial, &host.name));
                    // Before the namespace, so that it is removed if the rest fails.
                    hosts.paths[place].push(info.clone());
                    if place == 0 {
                        let why = |why| {
                            HostError::Failed(format!(
                                "cannot make the namespace of host {}: {why}",
                                host.name
                            ))
                        };
                        ip(&["netns", "add", &info.namespace], "").map_err(why)?;
                    }
                    of_path.push(make_device(&info, place, spec.mtu, (host, side))?);
                }
            }
            ports.push(of_path);
        }
        Ok((hosts, ports))
    }
}

/// What addresses call the west side of the `place`-th path; its east side is the next one.
pub fn west_side(place: usize) -> u8 {
    u8::try_from(2 * place.min(PATHS_MAX)).unwrap_or(0)
}

/// Several paths join the same hosts.
fn check_alike(specs: &[LinkSpec]) -> Result<(), HostError> {
    if specs.is_empty() || specs.len() > PATHS_MAX {
        let message = format!("{} paths are not possible: give 1 to {PATHS_MAX}", specs.len());
        return Err(HostError::Failed(message));
    }
    let names = |spec: &LinkSpec| {
        [&spec.hosts.west, &spec.hosts.east]
            .map(|side| side.iter().map(|host| host.name.clone()).collect::<Vec<_>>())
    };
    for (place, spec) in specs.iter().enumerate().skip(1) {
        if names(spec) != names(&specs[0]) {
            let message = format!(
                "path {place} ({}) has other hosts than the first: paths of one emulator join the same ones",
                spec.name
            );
            return Err(HostError::Failed(message));
        }
    }
    Ok(())
}

fn host_info(
    place: usize,
    spec: &LinkSpec,
    (side, number): (u8, u8),
    (serial, name): (&str, &str),
) -> HostInfo {
    let side = west_side(place) + side;
    let address6 = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, u16::from(side), u16::from(number));
    HostInfo {
        name: name.to_owned(),
        namespace: format!("{PREFIX}{}-{serial}{name}", std::process::id()),
        address: Ipv4Addr::new(10, 77, side, number).to_string(),
        address6: if spec.mtu < MTU_MIN_IPV6 { String::new() } else { address6.to_string() },
        device: format!("{DEVICE}{place}"),
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in self.paths.first().into_iter().flatten() {
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
        Ok(device_drops(&table, &self.device).unwrap_or(0))
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

/// A host's device on a path, in its namespace.
fn make_device(
    info: &HostInfo,
    place: usize,
    mtu: u16,
    (host, side): (&HostSpec, u8),
) -> Result<Port, HostError> {
    let failed =
        |what: &str, why: String| HostError::Failed(format!("cannot {what} of host {}: {why}", host.name));
    let device = info.device.as_str();
    let made = within(&info.namespace, || {
        set_sysctls()?;
        let (tun, merging) = open_tun(device)?;
        let table = File::open("/proc/thread-self/net/dev")?;
        io::Result::Ok((tun, merging, table))
    });
    let (tun, merging, table) =
        made.and_then(|made| made).map_err(|error| failed("make the TUN device", error.to_string()))?;
    // Further paths are networks of their two sides within the first one's.
    let (bits, bits6) = if place == 0 { (16, 64) } else { (23, 111) };
    let mut batch = format!(
        "link set lo up\nlink set {device} mtu {mtu} txqueuelen {DEVICE_QUEUE}\n\
         link set {device} addrgenmode none\nlink set {device} up\naddr add {}/{bits} dev {device}\n",
        info.address
    );
    if !info.address6.is_empty() {
        batch += &format!("addr add {}/{bits6} dev {device} nodad\n", info.address6);
    }
    ip(&["-n", &info.namespace, "-batch", "-"], &batch).map_err(|why| failed("set up the device", why))?;
    let mut drops = DropCounter { table, device: info.device.clone(), base: 0 };
    drops.reset();
    Ok(Port { device: tun, merging, side, access_delay_ns: host.delay.nanos(), drops })
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

/// Transmit drops of a device in the text of `/proc/net/dev`.
fn device_drops(table: &str, device: &str) -> Option<u64> {
    let (_, columns) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == device)?;
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
        assert_eq!(device_drops(table, "link0"), Some(32));
        assert_eq!(device_drops("link0: 1 2", "link0"), None);
        assert_eq!(device_drops("", "link0"), None);
    }
}
