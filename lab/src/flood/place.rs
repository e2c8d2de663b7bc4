//! Two hosts joined by a path of limited rate that forged datagrams go around: an attacker has a line of its
//! own, so what is measured is what its datagrams cost the ends.

use crate::flood::attack::forgery::TTL_MARK;
use crate::run::pair::{DEVICE, Pair};
use crate::units::{Rate, Time};

/// What the queue before the limit holds, ns of the rate: more than the round trips of a pair of virtual
/// devices need.
const QUEUE_NS: u64 = 20_000_000;
/// The smallest queue, bytes: some super-packets of 64 KiB.
const QUEUE_BYTES_MIN: u64 = 256 << 10;
/// Rate of what goes around the limit: far above anything that leaves.
const AROUND: &str = "100gbit";
/// Bytes that a class may send at a time (htb's quantum): one super-packet.
const QUANTUM: &str = "65536";
/// Bytes that may leave at once after a pause (htb's burst): 10 ms at 200 Mbit/s, so that a kernel whose
/// timers come late does not limit the rate.
const BURST: &str = "256k";

/// Makes the hosts. What the first one sends is limited to `rate`, but for packets with [`TTL_MARK`].
pub fn hosts(rate: Rate) -> Result<Pair, String> {
    let pair = Pair::new("flood").map_err(|error| error.to_string())?;
    for host in pair.namespaces() {
        // So that captures hold datagrams and no super-packets, which could not be sent again; and so that
        // the receiver pays for every forged datagram by itself.
        host.output(&["ethtool", "-K", DEVICE, "tx-udp-segmentation", "off", "gro", "off"])?;
    }
    let queue = Time::from_nanos(QUEUE_NS).map_or(0, |time| rate.bytes_in(time).bytes());
    let queue = queue.max(QUEUE_BYTES_MIN).to_string();
    let (rate, mark) = (format!("{}bit", rate.bits_per_second()), TTL_MARK.to_string());
    let class = |id: &'static str, rate: &'static str| {
        [
            "class", "add", "dev", DEVICE, "parent", "1:", "classid", id, "htb", "rate", rate, "quantum",
            QUANTUM, "burst", BURST, "cburst", BURST,
        ]
    };
    let limited = class("1:1", "1bit").map(|word| if word == "1bit" { rate.as_str() } else { word });
    let commands: [&[&str]; 5] = [
        &["qdisc", "add", "dev", DEVICE, "root", "handle", "1:", "htb", "default", "1"],
        &limited,
        &class("1:2", AROUND),
        &["qdisc", "add", "dev", DEVICE, "parent", "1:1", "bfifo", "limit", &queue],
        &[
            "filter", "add", "dev", DEVICE, "parent", "1:", "protocol", "ip", "u32", "match", "u8", &mark,
            "0xff", "at", "8", "flowid", "1:2",
        ],
    ];
    for words in commands {
        pair.namespaces()[0].output(&[&["tc"], words].concat())?;
    }
    Ok(pair)
}
