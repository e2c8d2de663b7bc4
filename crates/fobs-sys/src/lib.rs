//! What FOBS needs of the Linux kernel, and nothing of FOBS.
//!
//! | room | purpose |
//! |---|---|
//! | [`udp`] | bursts out (GSO), batches in (GRO, `recvmmsg`), ECN, arrival stamps, drop counters |
//! | [`wait`](mod@wait) | sleep until a socket is ready, another thread wakes us, or time is up |
//! | [`clock`] | monotonic nanoseconds, timer slack |
//! | [`host_drops`] | what this host drops before a socket has it |
//! | [`page_buffer`] | large buffers on huge pages |
//! | [`thread`] | where a thread runs, how soon, and what the scheduler should know of it |
//! | [`usage`] | what this process and its threads cost so far |
//!
//! Deliberately not here: packets, objects, pacing, retries, threads, files. A caller decides; this crate
//! only asks the kernel and says truthfully what it answered. It is the one crate with `unsafe` code, each
//! block with the reason why it is sound; what rustix offers safely is taken from there.

#[cfg(not(target_os = "linux"))]
compile_error!("fobs-sys speaks to the Linux kernel only");

pub mod clock;
pub mod host_drops;
pub mod page_buffer;
pub mod thread;
pub mod udp;
pub mod usage;
pub mod wait;

pub use clock::{monotonic_ns, set_timer_slack_ns};
pub use host_drops::{HostDropMeter, HostDrops};
pub use page_buffer::PageBuffer;
pub use thread::{ThreadDuty, hint_scheduler};
pub use udp::{Burst, Datagram, Ecn, RecvBatch, SendError, UdpOptions, UdpSocket};
pub use usage::{ThreadMeter, ThreadUsage, Usage, process_usage, thread_times};
pub use wait::{Interest, Ready, Waker, wait};
