#!/usr/bin/env python3
"""One file from this host's disk to its disk, beside dd; and what of another program's file a copy leaves in the page cache.

Usage: scripts/disk-to-disk.py FOBS [--at DIRECTORY] [--gb N] [--reps N] [--old FOBS] [--cached [--within GB]]

Interleaved repetitions of `dd oflag=direct conv=fsync` and of `fobs cp --fsync` to a daemon on the loopback interface, from files that
are not in the page cache. The bound is the smaller of dd's rate and of what this host's cores allow: cores over the CPU seconds that
both ends use for a GB. --old has a second program be measured in the same turns. --cached instead fills the cache with another file
of 1 GB, copies twice the free memory, and counts what of that file is still there: at both ends, which are this host. --within has
all of that in a control group of this memory (root), whose page cache is its own.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PORT = 45700
BLOCK = 4 << 20
# Another program's file.
WITNESS = 1 << 30
PAGE = mmap.PAGESIZE


def fill(path: Path, size: int) -> None:
    """Makes a file of bytes that no disk compresses, and has the device keep it."""
    with path.open("wb") as file:
        for left in range(size, 0, -BLOCK):
            file.write(os.urandom(min(left, BLOCK)))
        file.flush()
        os.fsync(file.fileno())


def forget(path: Path) -> None:
    """Takes a file out of the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached(path: Path) -> float:
    """The part of a file that is in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE) as view:
        pages = (size + PAGE - 1) // PAGE
        there = (ctypes.c_ubyte * pages)()
        window = (ctypes.c_char * size).from_buffer(view)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(window)), ctypes.c_size_t(size), there)
        del window
    if failed:
        raise SystemExit(f"mincore: {os.strerror(ctypes.get_errno())}")
    return sum(byte & 1 for byte in there) / pages


def free_memory() -> int:
    """Bytes that programs could have."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10


class Group:
    """A control group with this memory, which this process is in."""

    def __init__(self, gigabytes: float) -> None:
        top, limit = Path("/sys/fs/cgroup"), "memory.max"
        controllers = [line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines()]
        within = next((path for names, path in controllers if names == ""), "/")
        if (top / "memory").is_dir():
            top, limit = top / "memory", "memory.limit_in_bytes"
            within = next(path for names, path in controllers if "memory" in names.split(","))
        self.path, self.before = top / f"fobs-disk-{os.getpid()}", top / within[1:]
        try:
            self.path.mkdir()
            (self.path / limit).write_text(str(int(gigabytes * 1e9)))
            (self.path / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            print(f"skipped: there is no control group for memory here: {error}", file=sys.stderr)
            raise SystemExit(77) from error

    def close(self) -> None:
        """Leaves it."""
        (self.before / "cgroup.procs").write_text(str(os.getpid()))
        self.path.rmdir()


class Place:
    """A directory with a source, and a daemon of one program that stores beside it."""

    def __init__(self, fobs: Path, work: Path, port: int) -> None:
        self.fobs, self.work, self.port = fobs, work, port
        work.mkdir()
        key, keys, served = work / "client-key", work / "keys", work / "served"
        public = subprocess.run([fobs, "keygen", "--out", key], check=True, capture_output=True, text=True)
        keys.touch(mode=0o600)
        keys.write_text(f"read-write {public.stdout.strip()} bench\n")
        served.mkdir()
        command = [fobs, "serve", "--listen", f"127.0.0.1:{port}", "--root", served, "--authorized-keys", keys]
        log = work / "daemon.log"
        with log.open("w") as to:
            self.daemon = subprocess.Popen([*command, "--identity", work / "server-key"], stdout=to, stderr=to)
        for _ in range(200):
            if "fobs://" in log.read_text() or "listen" in log.read_text():
                return
            if self.daemon.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"the daemon does not listen: {log.read_text()}")

    def close(self) -> None:
        """Ends the daemon."""
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait(30)

    def cpu_seconds(self) -> float:
        """What the daemon and the programs that have ended took so far."""
        fields = Path(f"/proc/{self.daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + ended.ru_utime + ended.ru_stime

    def copy(self, source: Path, *flags: str) -> tuple[float, float]:
        """Seconds from the program's start to its end, and CPU seconds of both ends."""
        command = [self.fobs, "cp", "--quiet", "-i", self.work / "client-key", "--known-hosts", self.work / "known", *flags]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.work / "state")}
        before, began = self.cpu_seconds(), time.monotonic()
        done = subprocess.run(
            [*command, source, f"fobs://127.0.0.1:{self.port}/copy"], check=False, capture_output=True, text=True, env=environment
        )
        took, cpu = time.monotonic() - began, self.cpu_seconds() - before
        if done.returncode != 0:
            raise SystemExit(f"{done.stdout[-2000:]}\n{done.stderr}")
        (self.work / "served" / "copy").unlink()
        return took, cpu


def dd(source: Path, to: Path) -> tuple[float, float]:
    """Seconds, and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = ["dd", f"if={source}", f"of={to}", f"bs={BLOCK}", "oflag=direct", "iflag=direct", "conv=fsync", "status=none"]
    subprocess.run(command, check=True)
    took = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    to.unlink()
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def race(given: argparse.Namespace, work: Path) -> None:
    """The table of rates."""
    source, gigabytes = work / "source", given.gb
    fill(source, int(gigabytes * 1e9))
    programs = {"fobs": given.fobs} | ({"old": given.old} if given.old else {})
    places = {name: Place(program.resolve(), work / name, PORT + at) for at, (name, program) in enumerate(programs.items())}
    rates: dict[str, list[float]] = {name: [] for name in ["dd", *places]}
    costs: dict[str, list[float]] = {name: [] for name in rates}
    try:
        for rep in range(given.reps):
            turn = list(rates) if rep % 2 == 0 else list(reversed(rates))
            for name in turn:
                forget(source)
                if name == "dd":
                    took, cpu = dd(source, work / "dd")
                else:
                    took, cpu = places[name].copy(source, "--fsync")
                rates[name].append(gigabytes / took)
                costs[name].append(cpu / gigabytes)
                print(f"  {name}: {gigabytes / took:.2f} GB/s, {cpu / gigabytes:.2f} CPU s/GB", file=sys.stderr)
    finally:
        for place in places.values():
            place.close()
    cores = os.cpu_count() or 1
    print("| | GB/s (median) | least to most | CPU s/GB, both ends | of the bound |\n|---|---|---|---|---|")
    disk = statistics.median(rates["dd"])
    for name, found in rates.items():
        rate, cost = statistics.median(found), statistics.median(costs[name])
        bound = min(disk, cores / cost) if cost else disk
        share = "" if name == "dd" else f"{100 * rate / bound:.0f}% of {bound:.2f} GB/s"
        print(f"| {name} | {rate:.2f} | {min(found):.2f} to {max(found):.2f} | {cost:.2f} | {share} |")


def keep_cached(given: argparse.Namespace, work: Path) -> None:
    """What a copy of twice the free memory leaves of another program's file."""
    witness, source = work / "witness", work / "source"
    room = os.statvfs(work)
    all_memory = int(given.within * 1e9) if given.within else free_memory()
    size = min(2 * all_memory, room.f_bavail * room.f_frsize // 3)
    fill(witness, WITNESS)
    fill(source, size)
    forget(source)
    forget(witness)
    place = Place(given.fobs.resolve(), work / "fobs", PORT)
    try:
        for flags in ([], ["--fsync"], ["--cache"]):
            forget(source)
            with witness.open("rb") as file:
                while file.read(BLOCK):
                    pass
            before = cached(witness)
            place.copy(source, *flags)
            share = size / all_memory
            print(f"{' '.join(flags) or 'no option'}: {size / 1e9:.1f} GB are {share:.1f} times the free memory; of another file of 1 GB "
                  f"{100 * before:.0f}% were cached before, and {100 * cached(witness):.0f}% after", flush=True)
    finally:
        place.close()


def main() -> None:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fobs", type=Path)
    parser.add_argument("--at", type=Path, default=Path.cwd(), help="a directory of the disk")
    parser.add_argument("--gb", type=float, default=4, help="length of the file, GB")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--old", type=Path, help="another fobs to measure in the same turns")
    parser.add_argument("--cached", action="store_true", help="count what of another file stays cached")
    parser.add_argument("--within", type=float, help="with --cached: memory of all programs together, GB")
    given = parser.parse_args()
    group = Group(given.within) if given.cached and given.within else None
    with tempfile.TemporaryDirectory(prefix="fobs-disk-", dir=given.at) as work:
        try:
            (keep_cached if given.cached else race)(given, Path(work))
        finally:
            if group:
                group.close()


if __name__ == "__main__":
    main()
