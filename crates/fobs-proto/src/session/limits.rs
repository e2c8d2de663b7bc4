//! Limits of a session. Each constant stands here once; the engine and the simulator import it.

use crate::object::CHUNK_LEN_MAX;
use std::time::Duration;

/// Unless the user says otherwise, a side may use one part in this many of what is available to it: seven
/// other copies beside it find as much.
const MEMORY_SHARE: u64 = 8;
/// Most of that, bytes: 7 bandwidth-delay products of 10 Gbit/s at 100 ms.
pub const MEMORY_DEFAULT_MAX: u64 = 1 << 30;
/// What is taken to be available where the host does not say it, and in simulated hosts, bytes.
pub const AVAILABLE_UNKNOWN: u64 = 2 << 30;
/// Least and most memory, bytes: 13 chunks keep reader, network and writer busy at once; more than a
/// hundred bandwidth-delay products of 100 Gbit/s at 40 ms are never in flight.
pub const MEMORY_RANGE: (u64, u64) = (64 << 20, 64 << 30);
/// One part in this many is left for what is not chunks: sockets, streams, the lane's store, the program.
const MEMORY_REST: u64 = 8;
/// Chunks that a side holds at once to which [`AVAILABLE_UNKNOWN`] bytes are available.
pub const CHUNKS_MAX: u32 = chunks_within(memory_within(AVAILABLE_UNKNOWN));

/// What a side may use to which this many bytes are available, unless the user says otherwise.
pub const fn memory_within(available: u64) -> u64 {
    let (least, _) = MEMORY_RANGE;
    let share = available / MEMORY_SHARE;
    if share < least {
        least
    } else if share > MEMORY_DEFAULT_MAX {
        MEMORY_DEFAULT_MAX
    } else {
        share
    }
}

/// Chunks that a side holds at once within `memory` bytes, which is brought into [`MEMORY_RANGE`].
pub const fn chunks_within(memory: u64) -> u32 {
    let (least, most) = MEMORY_RANGE;
    let memory = if memory < least {
        least
    } else if memory > most {
        most
    } else {
        memory
    };
    ((memory - memory / MEMORY_REST) / CHUNK_LEN_MAX as u64) as u32
}
/// Empty buffers at a reader of one thread: one to fill while the one before is handed over.
pub const GRANTS_MAX: u32 = 2;
/// Tries of a chunk: one that does not verify is sent again twice (protocol 7.5).
pub const MISMATCHES_MAX: u8 = 3;
/// Without an authenticated datagram for this long at the start, UDP is blocked (protocol 5.2).
pub const UDP_SILENCE_MAX: Duration = Duration::from_secs(4);
/// What the server waits beyond [`UDP_SILENCE_MAX`]: the client's error names the server as its user
/// knows it, so the client gives up first.
pub(super) const SERVER_EXTRA_WAIT: Duration = Duration::from_secs(2);
/// Without any answer for this long after the first one, the path is dead, unless the user says otherwise:
/// routers restart and laptops move within that time.
pub const ANSWER_WAIT: Duration = Duration::from_secs(600);
/// How often a client that receives sends its greeting until the first datagram comes (protocol 5.1).
pub(super) const GREETING_EVERY: Duration = Duration::from_millis(100);
/// How long a receiver hears nothing before it repeats its newest ack; later intervals double.
pub(super) const REMINDER_FIRST: Duration = Duration::from_secs(1);
/// Longest interval between repetitions: NATs keep a UDP mapping for 30 s at least (RFC 4787, REQ-5: 120 s),
/// and a receiver that has moved is found within this time.
pub(super) const REMINDER_MAX: Duration = Duration::from_secs(5);
/// How often a side checks for silence and cancellation, counts drops and reports progress.
pub const HEARTBEAT: Duration = Duration::from_millis(200);
/// Silence after which a client counts as gone, if its own command comes again and asks: fifteen of its
/// heartbeats, so that what TCP repeats once or twice on a path that works has arrived.
pub const ABSENT_AFTER: Duration = Duration::from_secs(3);
/// How long a side waits for the peer's last message before it ends the session.
pub const FAREWELL_WAIT: Duration = Duration::from_secs(5);
/// Shortest sleep between bursts. The pacer keeps its schedule, so bursts that become due meanwhile leave
/// together: above 2 Gbit/s a wake-up for each would cost more than sending it.
pub const PACE_GRAIN: Duration = Duration::from_micros(250);
/// Part of a round trip that may be spent in the hosts. Few bytes wait there, and
/// [`Holding`](super::Holding)'s spare chunks cover them. Between two busy hosts 30 us apart the smoothed
/// round trip rises to 5 ms; at 12 Gbit/s the sender would hold 36 buffers for it instead of 20.
pub(super) const HOST_DELAY: Duration = Duration::from_millis(4);
