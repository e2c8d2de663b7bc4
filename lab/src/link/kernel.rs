//! The kernel calls without a safe wrapper: TUN devices and real-time scheduling. All `unsafe` code of the
//! laboratory is here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use libc::sched_attr;
use rustix::ioctl::{IntegerSetter, Setter, ioctl, opcode};

use super::packet::train::Merging;

const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;
/// Each frame begins with a `virtio_net_hdr`.
const IFF_VNET_HDR: u16 = 0x4000;

const TUN_F_CSUM: usize = 0x01;
const TUN_F_TSO: usize = 0x02 | 0x04;
const TUN_F_TSO_ECN: usize = 0x08;
/// UDP super-packets, from Linux 6.2.
const TUN_F_USO: usize = 0x20 | 0x40;

const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<libc::c_int>(b'T', 202);
const TUNSETOFFLOAD: rustix::ioctl::Opcode = opcode::write::<libc::c_uint>(b'T', 208);

/// The call by which ext4, xfs and others are shut down (`linux/fs.h`: `_IOR('X', 125, __u32)`).
const GOING_DOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// Neither data nor the log is flushed before.
const WITHOUT_FLUSH: u32 = 2;

/// Runtime of the thread in each period, ns: by default the kernel reserves 5% of a core for others, and a
/// busier emulator is overloaded anyway.
const DEADLINE_RUNTIME: u64 = 900_000;
/// Period, ns; longer than any tick.
const DEADLINE_PERIOD: u64 = 1_000_000;
/// Priority for SCHED_FIFO: above ordinary threads, low among real-time threads.
const PRIORITY: libc::c_int = 10;

/// `struct ifreq` as TUNSETIFF reads it: 16 bytes of name, then a union of 24 bytes, of which the first two
/// are the flags.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    rest: [u8; 22],
}

/// Creates a TUN device in the calling thread's network namespace; it exists as long as the file is open. I/O
/// does not block. Also returns which super-packets it supports.
///
/// # Errors
///
/// The kernel's: no permission, no TUN driver, or the name is taken.
pub fn open_tun(name: &str) -> io::Result<(File, Merging)> {
    let device =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: IFF_TUN | IFF_NO_PI | IFF_VNET_HDR,
        rest: [0; 22],
    };
    // The last byte stays zero.
    for (place, byte) in request.name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *place = byte;
    }
    // SAFETY: the kernel copies a `struct ifreq` (40 bytes) from and to the memory behind the pointer;
    // `InterfaceRequest` has its size and layout and lives through the call.
    unsafe { ioctl(&device, Setter::<TUNSETIFF, InterfaceRequest>::new(request)) }?;
    let merging = take_offloads(&device)?;
    Ok((device, merging))
}

/// Enables all super-packets, fewer on older kernels.
fn take_offloads(device: &File) -> io::Result<Merging> {
    let tcp = TUN_F_CSUM | TUN_F_TSO | TUN_F_TSO_ECN;
    for (flags, merging) in [(tcp | TUN_F_USO, Merging::TcpAndUdp), (tcp, Merging::Tcp)] {
        // SAFETY: TUNSETOFFLOAD takes integer flags and accesses no memory of ours.
        if unsafe { ioctl(device, IntegerSetter::<TUNSETOFFLOAD>::new_usize(flags)) }.is_ok() {
            return Ok(merging);
        }
    }
    // SAFETY: as above.
    unsafe { ioctl(device, IntegerSetter::<TUNSETOFFLOAD>::new_usize(TUN_F_CSUM)) }?;
    Ok(Merging::Nothing)
}

/// Puts the calling thread under deadline scheduling: it preempts all others when it wakes.
///
/// # Errors
///
/// The kernel's: no permission, no real-time budget left, or a thread with restricted CPUs while the kernel
/// accounts for real time.
pub fn schedule_by_deadline() -> io::Result<()> {
    let nobody_else = sched_attr {
        size: size_of::<sched_attr>() as u32,
        sched_policy: libc::SCHED_DEADLINE as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: DEADLINE_RUNTIME,
        sched_deadline: DEADLINE_PERIOD,
        sched_period: DEADLINE_PERIOD,
    };
    // SAFETY: the kernel reads a `sched_attr` of the size that it states; 0 is the calling thread, and flags
    // are 0.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const nobody_else, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts the calling thread under first-in, first-out scheduling: before all ordinary threads.
///
/// # Errors
///
/// The kernel's: no permission, or a control group without a real-time share.
pub fn schedule_first() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the call reads one `sched_param`, which outlives it; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends a mounted file system: nothing that it holds is written any more (`EXT4_IOC_SHUTDOWN`,
/// `XFS_IOC_GOINGDOWN`).
///
/// # Errors
///
/// The kernel's: no permission, or a file system that knows no such call.
pub fn shut_down(mounted: &std::path::Path) -> io::Result<()> {
    let file = File::open(mounted)?;
    // SAFETY: the call reads one `u32`, which `Setter` holds, and changes no memory of this process.
    unsafe { ioctl(&file, Setter::<GOING_DOWN, u32>::new(WITHOUT_FLUSH)) }.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_size_of_the_kernels() {
        assert_eq!(size_of::<InterfaceRequest>(), size_of::<libc::ifreq>());
    }
}
