//! What a host's own device does: sends at a rate, with back-pressure, as a network card does.
//!
//! A TUN device takes every packet at once, so a sender whose only brake is its full socket buffer (FOBS's `greedy`,
//! as the papers' senders) never slows down. An htb in front of the device holds packets back, and they stay charged
//! to their socket: its buffer fills, and writing waits.

use std::process::{Command, Stdio};

use super::namespace::Namespace;
use crate::units::Rate;

/// Packets that wait in front of the device. It is far more than socket buffers hold, so nothing is dropped there
/// and the socket's buffer is what fills; what waits is bounded by those buffers.
const WAITING: &str = "1000000";
/// Bytes that a class may send in one go (htb's quantum): one super-packet.
const QUANTUM: &str = "65536";

/// Makes the host's device send at `rate` at most.
pub fn limit(host: &Namespace, rate: Rate) -> Result<(), String> {
    let device = host.device()?;
    let rate = format!("{}bit", rate.bits_per_second());
    let dev = ["dev", device.as_str()];
    let root = ["root", "handle", "1:", "htb", "default", "1"];
    let class = ["parent", "1:", "classid", "1:1", "htb", "rate", rate.as_str(), "quantum", QUANTUM];
    let wait = ["parent", "1:1", "pfifo", "limit", WAITING];
    let commands: [(&str, &[&str]); 3] = [("qdisc", &root), ("class", &class), ("qdisc", &wait)];
    for (kind, words) in commands {
        let mut tc = Command::new("tc");
        tc.args([kind, "add"]).args(dev).args(words).stdin(Stdio::null());
        let done =
            host.within(|| tc.output())?.map_err(|error| format!("cannot start tc (iproute2): {error}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let why = said.lines().next().unwrap_or("it did not say why");
            return Err(format!("tc cannot limit {device} to {rate}: {why}"));
        }
    }
    Ok(())
}
