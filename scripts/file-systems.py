#!/usr/bin/env python3
"""Copies to and from each file system that this kernel can mount, and what becomes of a copy whose file system fails.

Usage: scripts/file-systems.py FOBS [--at DIRECTORY] [--only NAME ...] [--mb N] (root)

In a mount namespace of its own it makes ext4 (also with its data in the journal) and xfs, both also on sectors of 4096 bytes, btrfs,
tmpfs, overlayfs and FUSE (bindfs, mergerfs, gocryptfs) below --at, as far as their programs are installed, and plays there, against a
daemon on the loopback interface: copies there and back of a large file and one of an odd size, plain, with --fsync and with --cache; a
sparse one; one that is killed and goes on; one that finds no room; one whose file system is mounted read-only, and one whose file
system breaks while it is written. Every byte is compared, every program has a deadline, and a failure has to name the file and the
reason. The way that large files took is printed. It ends with 1 if anything was wrong, and with 77 where nothing could be mounted.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT = 45760
MB = 1_000_000
BLOCK = 4 << 20
# Longest any program may take, s: a copy that waits longer waits for ever.
DEADLINE = 180
CLONE_NEWNS = 0x00020000
# `_IOR('X', 125, __u32)` of ext4 and xfs: the file system answers nothing but errors from then on.
SHUTDOWN = 0x8004587D
# Seed of the places at which copies are killed, printed with each failure.
SEED = int(os.environ.get("FOBS_TEST_SEED", "1"))


@dataclass
class Kind:
    """A file system to be made."""

    name: str
    # The command that makes it on a device; none of those without a device.
    make: list[str]
    sector: int = 512
    # Of its mount.
    options: str = "rw"
    # Whether ioctl can break it.
    breaks: bool = False
    # The words that mount it over a directory, before the two; none of what lies on a device.
    over: list[str] | None = None


KINDS = [
    Kind("ext4", ["mkfs.ext4", "-q", "-F"], breaks=True),
    Kind("ext4-4096", ["mkfs.ext4", "-q", "-F"], sector=4096),
    # Does no direct I/O.
    Kind("ext4-journal", ["mkfs.ext4", "-q", "-F"], options="data=journal"),
    Kind("xfs", ["mkfs.xfs", "-q", "-f"], breaks=True),
    Kind("xfs-4096", ["mkfs.xfs", "-q", "-f"], sector=4096),
    Kind("btrfs", ["mkfs.btrfs", "-q", "-f"]),
    Kind("tmpfs", []),
    Kind("overlayfs", []),
    Kind("bindfs", [], over=["bindfs"]),
    # Opens files for direct I/O and refuses such writes, or takes all so, as `cache.files` says.
    Kind("mergerfs", [], over=["mergerfs", "-o", "cache.files=partial,minfreespace=0"]),
    Kind("mergerfs-direct", [], over=["mergerfs", "-o", "cache.files=off,minfreespace=0"]),
    # Keeps content in blocks of other sizes than the kernel's.
    Kind("gocryptfs", [], over=["gocryptfs", "-q", "-extpass", "echo secret"]),
]


def run(*command: str | Path, check: bool = True, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program within its deadline."""
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=DEADLINE, env=env)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done


class Failure(AssertionError):
    """Something went otherwise than it must."""


def expect(condition: object, what: str) -> None:
    """Fails with this sentence."""
    if not condition:
        raise Failure(what)


def fill(path: Path, size: int) -> None:
    """A file of bytes that no file system compresses."""
    with path.open("wb") as file:
        for left in range(size, 0, -BLOCK):
            file.write(os.urandom(min(left, BLOCK)))


def fill_sparse(path: Path, size: int) -> None:
    """A file of which every other 8 MB is a hole, and the end too."""
    with path.open("wb") as file:
        for at in range(0, size - 16 * MB, 16 * MB):
            file.seek(at)
            file.write(os.urandom(8 * MB))
        file.truncate(size)


@contextlib.contextmanager
def mounted(kind: Kind, work: Path, size: int) -> Iterator[Path]:
    """A file system of this kind and size; its directory."""
    at, image = work / f"at-{kind.name}", work / f"{kind.name}.img"
    at.mkdir()
    undo: list[list[str | Path]] = []
    try:
        if kind.name == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", at)
            undo.append(["umount", "-l", at])
        elif kind.name == "overlayfs" or kind.over:
            below = work / f"{kind.name}-below"
            below.mkdir()
            run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", below)
            undo.append(["umount", "-l", below])
            parts = [below / part for part in ("lower", "upper", "work")]
            for part in parts:
                part.mkdir()
            if kind.over:
                if kind.name == "gocryptfs":
                    run(*kind.over, "-init", "-scryptn", "10", parts[1])
                run(*kind.over, parts[1], at)
            else:
                options = f"lowerdir={parts[0]},upperdir={parts[1]},workdir={parts[2]}"
                run("mount", "-t", "overlay", "-o", options, "overlay", at)
            undo.append(["umount", "-l", at])
        else:
            with image.open("wb") as file:
                file.truncate(size)
            device = run("losetup", "--find", "--show", "--sector-size", str(kind.sector), image).stdout.strip()
            undo.append(["losetup", "-d", device])
            run(*kind.make, device)
            run("mount", "-o", kind.options, device, at)
            undo.append(["umount", "-l", at])
        yield at
    finally:
        for command in reversed(undo):
            run(*command, check=False)
        image.unlink(missing_ok=True)
        shutil.rmtree(work / f"{kind.name}-below", ignore_errors=True)
        at.rmdir()


class Daemon:
    """A daemon that serves all that is below a directory, and its client."""

    def __init__(self, fobs: Path, work: Path) -> None:
        self.fobs, self.work = fobs, work
        key, keys = work / "client-key", work / "keys"
        public = run(fobs, "keygen", "--out", key).stdout.strip()
        keys.touch(mode=0o600)
        keys.write_text(f"read-write {public} bench\n")
        command = [fobs, "serve", "--listen", f"127.0.0.1:{PORT}", "--root", work, "--authorized-keys", keys]
        log = work / "daemon.log"
        with log.open("w") as to:
            self.process = subprocess.Popen([*command, "--identity", work / "server-key"], stdout=to, stderr=to)
        end = time.monotonic() + 20
        while "fobs://" not in log.read_text() and "listen" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the daemon does not listen: {log.read_text()}")
            time.sleep(0.05)

    def close(self) -> None:
        """Ends it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def there(self, path: Path) -> str:
        """A path as the daemon's clients name it."""
        return f"fobs://127.0.0.1:{PORT}/{path.relative_to(self.work)}"

    def command(self, verb: str, *words: str | Path) -> list[str]:
        """A command line of a client."""
        line = [self.fobs, verb, "--identity", self.work / "client-key", "--known-hosts", self.work / "known", *words]
        return [str(word) for word in line]

    def env(self) -> dict[str, str]:
        """The client's environment: what it remembers is not the user's."""
        return {**os.environ, "XDG_STATE_HOME": str(self.work / "state")}

    def copy(self, *words: str | Path) -> dict[str, Any]:
        """The `done` of a copy that succeeds."""
        done = run(*self.command("cp", "--json", *words), check=False, env=self.env())
        last = json.loads((done.stdout.splitlines() or ["{}"])[-1])
        why = {key: last[key] for key in ("errors", "message") if last.get(key)}
        expect(done.returncode == 0, f"cp {' '.join(map(str, words))}: exit code {done.returncode}, {why} {done.stderr}")
        return last

    def fails(self, verb: str, words: list[str | Path], names: list[str]) -> None:
        """A copy fails, and its message has each of these."""
        done = run(*self.command(verb, *words), check=False, env=self.env())
        expect(done.returncode not in (0, 101, 134, 139), f"exit code {done.returncode}: {done.stderr}")
        for name in names:
            expect(name in done.stderr, f"no {name!r} in {done.stderr!r}")


def rows(done: dict[str, Any], end: str) -> str:
    """How an end of a copy handled its large file."""
    told = done.get("storage", {}).get(end, [])
    return ", ".join(f"{row['file_system']} {row['way']}" + (f" ({row['why']})" if "why" in row else "") for row in told)


def same(one: Path, other: Path) -> None:
    """Fails unless both files have the same bytes."""
    expect(other.exists() and one.stat().st_size == other.stat().st_size, f"{other} is missing, or of another size")
    expect(filecmp.cmp(one, other, shallow=False), f"{other} has other bytes than {one}")


class Play:
    """What is played on one file system."""

    def __init__(self, daemon: Daemon, source: Path, at: Path, kind: Kind) -> None:
        self.daemon, self.source, self.at, self.kind = daemon, source, at, kind

    def rate(self, seconds: float) -> str:
        """A limit at which the large file takes this long."""
        return f"{int((self.source / 'large').stat().st_size * 8 / seconds / 1e6)}Mbit"

    def there_and_back(self) -> str:
        """Copies of two files in each direction, in each way."""
        ways: dict[str, str] = {}
        back = self.daemon.work / "back"
        for flags in ([], ["--fsync"], ["--cache"]):
            for name in ("large", "odd"):
                to = self.at / name
                done = self.daemon.copy(*flags, self.source / name, self.daemon.there(to))
                same(self.source / name, to)
                again = self.daemon.copy(*flags, self.daemon.there(to), back)
                same(self.source / name, back)
                if name == "large":
                    ways[" ".join(flags) or "plain"] = f"written {rows(done, 'written')}; read {rows(again, 'read')}"
                back.unlink()
                to.unlink()
        return "; ".join(f"{flags}: {way}" for flags, way in ways.items())

    def holes(self) -> str:
        """A sparse file stays one, and has its bytes."""
        to = self.at / "sparse"
        command = self.daemon.command("sync", "-S", str(self.source / "sparse"), self.daemon.there(self.at) + "/")
        run(*command, env=self.daemon.env())
        same(self.source / "sparse", to)
        size, stored = to.stat().st_size, to.stat().st_blocks * 512
        expect(stored < size * 0.7, f"{stored} of {size} bytes are stored of a sparse file")
        to.unlink()
        return f"{stored / size:.0%} stored"

    def killed(self) -> str:
        """A client that is killed goes on."""
        to, draw = self.at / "killed", random.Random(SEED)
        words = self.daemon.command("cp", "--json", "--rate", self.rate(2.5), self.source / "large", self.daemon.there(to))
        client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.daemon.env())
        # In the middle of its 2.5 s; the journal claims what it has after each chunk.
        time.sleep(draw.uniform(1.0, 1.6))
        client.kill()
        client.wait(DEADLINE)
        done = self.daemon.copy(self.source / "large", self.daemon.there(to))
        same(self.source / "large", to)
        to.unlink()
        expect(done["resumed_bytes"] > 0, f"nothing was resumed, with seed {SEED}")
        return f"{done['resumed_bytes'] / MB:.0f} MB resumed"

    def read_only(self) -> str:
        """A file system that is mounted read-only is named."""
        run("mount", "-o", "remount,ro", self.at)
        try:
            to = self.at / "refused"
            self.daemon.fails("cp", [self.source / "odd", self.daemon.there(to)], ["Read-only file system"])
        finally:
            run("mount", "-o", "remount,rw", self.at)
        return "named"

    def breaks(self) -> str:
        """A file system that breaks while it is written ends the copy, with a name and a reason."""
        words = self.daemon.command("cp", "--rate", self.rate(4), self.source / "large", self.daemon.there(self.at / "broken"))
        client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.daemon.env())
        time.sleep(1.5)
        held = os.open(self.at, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # 2: what is in the log is dropped, too.
            fcntl.ioctl(held, SHUTDOWN, b"\2\0\0\0")
        finally:
            os.close(held)
        _, told = client.communicate(timeout=DEADLINE)
        expect(client.returncode not in (0, 101, 134, 139), f"exit code {client.returncode}: {told}")
        expect("broken" in told and "Input/output error" in told, f"no name or reason in {told!r}")
        return "named"


def no_room(daemon: Daemon, source: Path, at: Path) -> str:
    """Where there is no room a copy fails, leaves the room that it took, and a smaller one succeeds."""
    free = shutil.disk_usage(at).free
    for flags, verb in ([], "cp"), (["-S"], "sync"):
        to = daemon.there(at / "large") if verb == "cp" else daemon.there(at) + "/"
        daemon.fails(verb, [*flags, source / "large", to], ["large", "No space left on device"])
        expect(not (at / "large").exists(), "what did not fit has its name")
        for left in list(at.iterdir()):
            # What came is kept for the next run.
            if left.name != "lost+found":
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        # The daemon's end of the session may end after its client, and has the file open until then.
        end = time.monotonic() + DEADLINE
        while (now := shutil.disk_usage(at).free) <= free * 0.8 and time.monotonic() < end:
            time.sleep(0.05)
        expect(now > free * 0.8, f"{free - now} of {free} bytes stay in use")
    small = source / "small"
    daemon.copy(small, daemon.there(at / "small"))
    same(small, at / "small")
    return "named"


def play(given: argparse.Namespace, daemon: Daemon, source: Path, kind: Kind) -> list[str]:
    """Plays all of it on one kind; sentences of what went wrong."""
    wrong = []

    def try_it(name: str, act: Any) -> None:
        began = time.monotonic()
        try:
            told = act()
            print(f"{kind.name}: {name}: {told} ({time.monotonic() - began:.1f} s)", flush=True)
        except (Failure, RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            wrong.append(f"{kind.name}: {name}: {error}")
            print(f"WRONG {wrong[-1]}", flush=True)

    with mounted(kind, daemon.work, 4 * given.mb * MB + 400 * MB) as at:
        one = Play(daemon, source, at, kind)
        try_it("there and back", one.there_and_back)
        try_it("holes", one.holes)
        try_it("killed", one.killed)
        if not kind.over:
            try_it("read-only", one.read_only)
        if kind.breaks:
            try_it("breaks", one.breaks)
    # Smaller than the large file, which is the least that xfs can be.
    with mounted(kind, daemon.work, max(given.mb * MB * 3 // 4, 130 * MB) if kind.name != "xfs" else 320 * MB) as at:
        if shutil.disk_usage(at).free < given.mb * MB:
            try_it("no room", lambda: no_room(daemon, source, at))
    return wrong


def main() -> None:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fobs", type=Path)
    parser.add_argument("--at", type=Path, default=Path.cwd(), help="where images and sources are made")
    parser.add_argument("--mb", type=int, default=200, help="length of the large file, MB")
    parser.add_argument("--only", nargs="+", help="these file systems alone")
    given = parser.parse_args()
    # What is mounted here is seen by this process and its programs alone, and goes with them.
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        print(f"skipped: no mount namespace: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        raise SystemExit(77)
    run("mount", "--make-rprivate", "/")
    wanted = [kind for kind in KINDS if not given.only or kind.name in given.only]
    wrong: list[str] = []
    played = 0
    with tempfile.TemporaryDirectory(prefix="fobs-file-systems-", dir=given.at) as directory:
        work = Path(directory)
        source = work / "source"
        source.mkdir()
        fill(source / "large", given.mb * MB)
        fill(source / "odd", given.mb * MB // 2 + 4097 + 3)
        fill(source / "small", 5 * MB + 1)
        fill_sparse(source / "sparse", given.mb * MB + 12345)
        daemon = Daemon(given.fobs.resolve(), work)
        try:
            for kind in wanted:
                missing = [word for word in (kind.over or kind.make)[:1] if not shutil.which(word)]
                if missing:
                    print(f"{kind.name}: skipped: {missing[0]} is not installed")
                    continue
                try:
                    wrong += play(given, daemon, source, kind)
                    played += 1
                except RuntimeError as error:
                    print(f"{kind.name}: skipped: {error}")
        finally:
            daemon.close()
    if not played:
        raise SystemExit(77)
    if wrong:
        print("\n".join(["", "What went wrong:", *wrong]))
        raise SystemExit(1)


if __name__ == "__main__":
    main()
