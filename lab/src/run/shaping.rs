//! Rate limits on a host's own device, with back-pressure as a network card has it.
//!
//! A TUN device accepts every packet at once, so a sender whose only brake is a full socket buffer (FOBS's
//! `greedy`, the papers' senders) never slows down. An htb before the device holds packets back while they
//! stay charged to their socket: the socket buffer fills, and writes block.

use super::namespace::Namespace;
use crate::units::Rate;

/// Packets that the queue before the device holds: far more than socket buffers hold, so that it never drops
/// and the socket buffer is what fills.
const WAITING: &str = "1000000";
/// Bytes that a class may send at a time (htb's quantum): one super-packet.
const QUANTUM: &str = "65536";

/// Limits the host's device to `rate`.
pub fn limit(host: &Namespace, rate: Rate) -> Result<(), String> {
    let device = host.device()?;
    let rate = format!("{}bit", rate.bits_per_second());
    let root = ["root", "handle", "1:", "htb", "default", "1"];
    let class = ["parent", "1:", "classid", "1:1", "htb", "rate", rate.as_str(), "quantum", QUANTUM];
    let wait = ["parent", "1:1", "pfifo", "limit", WAITING];
    let commands: [(&str, &[&str]); 3] = [("qdisc", &root), ("class", &class), ("qdisc", &wait)];
    for (kind, words) in commands {
        host.output(&[&["tc", kind, "add", "dev", device.as_str()], words].concat())?;
    }
    Ok(())
}

/// Removes the limit of [`limit`].
pub fn unlimit(host: &Namespace) -> Result<(), String> {
    let device = host.device()?;
    host.output(&["tc", "qdisc", "del", "dev", &device, "root"]).map(drop)
}
