//! How fast one core of this host puts packets on the network and takes them off it: sealed and sent in
//! bursts over the loopback interface, received and opened, by one thread.

use crate::session::udp_options;
use fobs_channel::secure::datagram::{Cipher, Direction, TAG_LEN};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_model::host_facts::PacketSpeed;
use fobs_sys::{Burst, Ecn, Interest, RecvBatch, UdpSocket, Waker, wait};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Bursts that are timed, after one that is not, and the time after which no further one begins. The fastest
/// counts in each direction: in the others something else ran.
const BURSTS: usize = 200;
const TIME_MAX: Duration = Duration::from_millis(100);
/// Packets of a burst: 64 KiB with headers.
const PACKETS: usize = 40;
/// Data bytes of a packet on a path of 1500 bytes, header bytes beside them.
const PACKET_LEN: usize = 1444;
const HEADER_LEN: usize = 12;
const SEALED_LEN: usize = HEADER_LEN + PACKET_LEN + TAG_LEN;
/// Bytes of a chunk.
const CHUNK: usize = 4 << 20;
/// How long a burst may take over the loopback interface of a busy host. One that takes longer is the last.
const BURST_WAIT: Duration = Duration::from_millis(250);

/// The speeds; `None` where no packets pass over the loopback interface.
pub(super) fn speed() -> Option<PacketSpeed> {
    let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let bind = || UdpSocket::bind(here, &udp_options(None)).ok();
    let (from, to, waker) = (bind()?, bind()?, Waker::new().ok()?);
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).ok()?;
    let keys = || {
        let secret = SessionSecret::told(&secret)?;
        Some(SessionKeys::derive(secret, KeySchedule::Second, Cipher::Aes128Gcm).datagrams)
    };
    let (mut sealer, _) = keys()?.of_end(Direction::Sender);
    let (_, mut opener) = keys()?.of_end(Direction::Receiver);
    // As much memory as a chunk has: data comes from beyond the nearest caches. Not zero, or it is one page.
    let (chunk, mut stored) = (vec![1; CHUNK], vec![1; CHUNK]);
    let place = |number: u64| (number as usize % (CHUNK / PACKET_LEN)) * PACKET_LEN;
    let (mut burst, mut batch) = (vec![0; PACKETS * SEALED_LEN], RecvBatch::default());
    let (mut number, mut best) = (0_u64, (Duration::MAX, Duration::MAX));
    let began = Instant::now();
    'bursts: for round in 0..=BURSTS {
        if began.elapsed() > TIME_MAX {
            break;
        }
        let sending = Instant::now();
        let first = number;
        for packet in burst.chunks_exact_mut(SEALED_LEN) {
            let (header, sealed) = packet.split_at_mut(HEADER_LEN);
            header[..8].copy_from_slice(&number.to_le_bytes());
            sealer.seal(number, header, &chunk[place(number)..][..PACKET_LEN], sealed);
            number += 1;
        }
        let sent = from.send(&Burst {
            to: to.local_addr(),
            data: &burst,
            segment_len: SEALED_LEN,
            ecn: Ecn::NotEct,
        });
        let sent_for = sending.elapsed();
        if sent.ok()? < PACKETS {
            return None;
        }
        let (mut arrived, mut received_for) = (0, Duration::ZERO);
        while arrived < PACKETS {
            // The wait is not work of this core.
            if !wait(&to, &waker, Some(BURST_WAIT), Interest::Readable).ok()?.readable {
                break 'bursts;
            }
            let receiving = Instant::now();
            if to.recv(&mut batch).ok()? == 0 {
                return None;
            }
            for datagram in batch.datagrams() {
                let (header, sealed) = datagram.data.split_at_checked(HEADER_LEN)?;
                // Another program may send to the port, too.
                let number = first + arrived as u64;
                let body = &mut stored[place(number)..][..PACKET_LEN];
                arrived += usize::from(opener.open(number, header, sealed, body));
            }
            received_for += receiving.elapsed();
        }
        if round > 0 {
            best = (best.0.min(sent_for), best.1.min(received_for));
        }
    }
    let bps = |time: Duration| {
        let bits = (PACKETS * PACKET_LEN * 8) as f64;
        (time < Duration::MAX && !time.is_zero()).then(|| bits / time.as_secs_f64())
    };
    Some(PacketSpeed { send_bps: bps(best.0)?, receive_bps: bps(best.1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_sealed_sent_received_and_opened() {
        let speed = speed().expect("the loopback interface carries packets");
        assert!(speed.send_bps > 1e6 && speed.receive_bps > 1e6, "{speed:?}");
    }
}
