//! Two hosts joined by a pair of virtual devices: a wire that is faster than the hosts, without an emulator.

use super::namespace::Namespace;
use crate::link::host::{HostError, ip, remove, remove_leftovers};
use crate::tool::Host;

/// The device in each namespace.
pub const DEVICE: &str = "veth0";
/// Names of the hosts, and the last part of their addresses.
const ENDS: [(&str, u8); 2] = [("a", 1), ("b", 2)];

/// The two hosts; removed when it is dropped.
pub struct Pair {
    hosts: [Host; 2],
    namespaces: [Namespace; 2],
}

/// Names of namespaces that are removed when this is dropped.
struct Made(Vec<String>);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| remove(name));
    }
}

impl Pair {
    /// Makes the pair, after removing what killed processes left behind. `label` is part of the namespaces'
    /// names.
    ///
    /// # Errors
    /// [`HostError::NoRoot`] without root, otherwise the complaint of `ip` or the kernel.
    pub fn new(label: &str) -> Result<Pair, HostError> {
        if !rustix::process::geteuid().is_root() {
            return Err(HostError::NoRoot);
        }
        remove_leftovers();
        let mut made = Made(Vec::new());
        let hosts = ENDS.map(|(name, number)| Host {
            name: name.to_owned(),
            namespace: format!("fobs-lab-{}-{label}-{name}", std::process::id()),
            address: format!("10.98.0.{number}"),
            address6: format!("fd98::{number}"),
        });
        for host in &hosts {
            made.0.push(host.namespace.clone());
            ip(&["netns", "add", &host.namespace], "").map_err(HostError::Failed)?;
        }
        let [a, b] = [&hosts[0].namespace, &hosts[1].namespace];
        let veth = ["link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", b];
        ip(&[&["-n", a][..], &veth].concat(), "").map_err(HostError::Failed)?;
        for host in &hosts {
            let batch = format!(
                "link set lo up\nlink set {DEVICE} addrgenmode none\naddr add {}/24 dev {DEVICE}\n\
                 addr add {}/64 dev {DEVICE} nodad\nlink set {DEVICE} up\n",
                host.address, host.address6
            );
            ip(&["-n", &host.namespace, "-batch", "-"], &batch).map_err(HostError::Failed)?;
        }
        let open = |host: &Host| Namespace::open(&host.namespace).map_err(HostError::Failed);
        let namespaces = [open(&hosts[0])?, open(&hosts[1])?];
        made.0.clear();
        Ok(Pair { hosts, namespaces })
    }

    /// The hosts, the client's first.
    pub fn hosts(&self) -> &[Host; 2] {
        &self.hosts
    }

    /// Their namespaces, in the same order.
    pub fn namespaces(&self) -> &[Namespace; 2] {
        &self.namespaces
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.hosts.iter().for_each(|host| remove(&host.namespace));
    }
}
