//! What every sending thread does with its socket beside bursts: acks into the machine, challenges of the
//! path.

use crate::Link;
use crate::link::{Incoming, IncomingBody, PATH_DATAGRAM_LEN};
use fobs_model::error::Result;
use fobs_proto::Timestamp;
use fobs_proto::sender::Sender;
use fobs_proto::wire::{Ack, Header};

/// Hands the machine the acks that the socket has.
pub(super) fn take_acks(link: &mut Link, machine: &mut Sender) -> Result<()> {
    link.receive(&mut |now, packet: Incoming<'_>| {
        if packet.header == Header::Ack
            && let IncomingBody::Here(body) = packet.body
            && let Ok(ack) = Ack::decode(body)
        {
            machine.handle_ack(now, &ack);
        }
    })?;
    Ok(())
}

/// Sends challenges and responses, and goes on at once where the peer has moved; `moves` of it the machine
/// knows.
pub(super) fn validate_path(now: Timestamp, link: &mut Link, machine: &mut Sender, moves: &mut u64) {
    while let Some(packet) = link.poll_path_packet(now) {
        let Some(number) = machine.take_number(now, PATH_DATAGRAM_LEN as u16) else { break };
        link.send_path_packet(number, &packet);
    }
    if link.moves() != *moves {
        *moves = link.moves();
        machine.handle_moved(now);
    }
}
