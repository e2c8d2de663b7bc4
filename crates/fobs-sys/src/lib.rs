//! What FOBS needs from the Linux kernel. This crate knows nothing of the protocol.
//!
//! | room | purpose |
//! |---|---|
//! | [`allocator`] | how the allocator divides the address space |
//! | [`udp`] | send bursts (GSO), receive batches (GRO, `recvmmsg`), ECN, arrival timestamps, drop counters |
//! | [`wait`](mod@wait) | sleep until a socket is ready, another thread wakes us, or a timeout |
//! | [`clock`] | monotonic nanoseconds, timer slack |
//! | [`close`](mod@close) | what closing a file would say |
//! | [`confine`] | the walls that the kernel keeps around a session: Landlock, seccomp |
//! | [`erased`] | secrets whose memory is overwritten |
//! | [`host_drops`] | packets that this host drops before they reach a socket |
//! | [`interface`] | frame size, line rate and offloads of the interface towards a peer |
//! | [`memory`] | what this process may use of it: host, control groups, its own limits |
//! | [`named`] | paths that this process's own user names, through no third user's link |
//! | [`page_buffer`] | large buffers on huge pages |
//! | [`pipe`] | how much a pipe between programs holds |
//! | [`signal`] | writes that raise no SIGPIPE |
//! | [`sock_diag`] | TCP connections of other processes |
//! | [`tcp`] | a connection that is not waited for, what limits it, and how little waits unsent in it |
//! | [`thread`] | CPU, priority and scheduler hints of a thread |
//! | [`usage`] | CPU time and memory of this process and its threads |
//!
//! Deliberately absent: packets, objects, pacing, retries, what is in files, and threads but those that enter
//! a domain. The caller decides; this crate makes the system calls and reports their results. It is the only
//! crate with `unsafe` code; each block states why it is sound. Where rustix has a safe wrapper, we use it.

#[cfg(not(target_os = "linux"))]
compile_error!("fobs-sys speaks to the Linux kernel only");

pub mod allocator;
pub mod clock;
pub mod close;
pub mod confine;
pub mod erased;
pub mod host_drops;
pub mod interface;
pub mod memory;
pub mod named;
pub mod page_buffer;
pub mod pipe;
pub mod signal;
pub mod sock_diag;
pub mod tcp;
pub mod thread;
pub mod udp;
pub mod usage;
pub mod wait;

pub use allocator::limit_arenas;
pub use clock::{monotonic_ns, set_timer_slack_ns};
pub use close::try_close;
pub use erased::Erased;
pub use host_drops::{HostDropMeter, HostDrops, local_addresses};
pub use interface::Interface;
pub use page_buffer::PageBuffer;
pub use pipe::widen_pipe;
pub use signal::without_sigpipe;
pub use sock_diag::{Connection, SocketDiag};
pub use tcp::{TcpInfo, begin_connect, set_unsent_max, set_window_max, tcp_info};
pub use thread::{ThreadDuty, hint_scheduler};
pub use udp::{Burst, Datagram, Ecn, RecvBatch, SendError, UdpOptions, UdpSocket};
pub use usage::{ThreadMeter, ThreadUsage, Usage, cores, process_usage, thread_id, thread_times};
pub use wait::{Interest, Ready, Waker, Watched, wait, wait_for_any};
