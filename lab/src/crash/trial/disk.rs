//! A file system of its own on a loop device, whose power is cut: from one moment on nothing reaches the
//! device, and what had not is gone. Then it is mounted again.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Size of the image, which is a file with a hole.
const IMAGE_BYTES: u64 = 512 << 20;

/// What had been handed to the device before the cut arrives within this time.
const SETTLE: Duration = Duration::from_millis(100);

/// Ends a mounted file system without writing back what it holds.
pub type ShutDown = fn(&Path) -> io::Result<()>;

/// The disk; unmounted when dropped.
pub struct Disk {
    kind: String,
    image: PathBuf,
    mount: PathBuf,
    shut_down: ShutDown,
    copies: u32,
}

impl Disk {
    /// Makes one below `directory`, mounted at `mount`. `Ok(None)`: this host has no loop device, or no
    /// program that makes such a file system (`ext4`, `xfs`).
    pub fn make(
        directory: &Path,
        mount: &Path,
        kind: &str,
        shut_down: ShutDown,
    ) -> Result<Option<Disk>, String> {
        let image = directory.join(format!("disk.{kind}"));
        let made = File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES));
        made.and_then(|()| fs::create_dir_all(mount)).map_err(|error| format!("no disk: {error}"))?;
        let (kind, mount) = (kind.to_owned(), mount.to_owned());
        let disk = Disk { kind, image, mount, shut_down, copies: 0 };
        let formatted = run(&format!("mkfs.{}", disk.kind), &[OsStr::new("-q"), disk.image.as_os_str()]);
        Ok((formatted.is_ok() && disk.mount_it().is_ok()).then_some(disk))
    }

    fn mount_it(&self) -> Result<(), String> {
        // The dead file system may still be there, with the same UUID.
        let options = if self.kind == "xfs" { "loop,nouuid" } else { "loop" };
        run("mount", &[OsStr::new("-o"), OsStr::new(options), self.image.as_os_str(), self.mount.as_os_str()])
    }

    /// Cuts the power.
    pub fn cut(&self) -> Result<(), String> {
        (self.shut_down)(&self.mount).map_err(|error| format!("the file system goes on: {error}"))
    }

    /// Mounts what reached it: a copy of it, for who still holds the dead file system keeps that alive.
    pub fn come_back(&mut self) -> Result<(), String> {
        run("umount", &[OsStr::new("-l"), self.mount.as_os_str()])?;
        sleep(SETTLE);
        self.copies += 1;
        let copy = self.image.with_file_name(format!("disk{}.{}", self.copies, self.kind));
        run("cp", &[OsStr::new("--sparse=always"), self.image.as_os_str(), copy.as_os_str()])?;
        fs::remove_file(&self.image).map_err(|error| format!("no disk: {error}"))?;
        self.image = copy;
        self.mount_it()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If it is in use, it goes with its last user.
        let _ = run("umount", &[OsStr::new("-l"), self.mount.as_os_str()]);
    }
}

fn run(program: &str, arguments: &[&OsStr]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
