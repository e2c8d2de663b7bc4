"""Trees with everything that a file system has, and what is compared of two of them."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

#: What one entry is: kind, mode, time, and text, content or names that are the same file.
Snapshot = dict[str, tuple[Any, ...]]


def make_any(root: Path, seed: int = 1, files: int = 40) -> None:
    """Links of every kind, empty and closed directories, modes, times, hard links, names of any bytes."""
    draw = random.Random(seed)
    for number in range(files):
        path = root / f"d{number % 5}" / f"e{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(draw.randrange(20_000)))
        path.chmod(draw.choice((0o600, 0o644, 0o755, 0o440)))
    for name, target in (
        ("to-directory", "d0"), ("d1/to-directory", "../d2"), ("to-file", "d0/e0/f0"), ("to-nowhere", "no/where"),
        ("d2/loop", "loop"), ("d3/e0/out", "/etc"), ("only-links/one", "two"),
    ):  # fmt: skip
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    for name in ("empty", "d0/empty", "d4/deep/er/empty"):
        (root / name).mkdir(parents=True)
    (root / os.fsdecode(b"name \xff")).write_bytes(b"raw")
    (root / "d0" / os.fsdecode(b"\xfe dir")).mkdir()
    os.link(root / "d0/e0/f0", root / "d4/same")
    os.link(root / "d0/e0/f0", root / "other")
    at = 1_500_000_000
    for directory, _, names in os.walk(root, topdown=False):
        for name in names:
            os.utime(os.path.join(directory, name), ns=(0, draw.randrange(at) * 10**9 + 7), follow_symlinks=False)
        os.chmod(directory, draw.choice((0o755, 0o700, 0o555, 0o711)))
        os.utime(directory, ns=(0, draw.randrange(at) * 10**9 + 9))


def snapshot(root: Path, links: bool = False, xattrs: bool = False) -> Snapshot:
    """All of a tree; with ``links``, which names are one file; with ``xattrs``, theirs."""
    found: Snapshot = {}
    first: dict[int, str] = {}
    for directory, below, names in os.walk(root):
        below.sort()
        for name in sorted([*below, *names]):
            path = os.path.join(directory, name)
            inner, status = os.path.relpath(path, root), os.lstat(path)
            kind = status.st_mode & 0o170000
            row: tuple[Any, ...] = (oct(kind), status.st_mode & 0o7777, status.st_mtime_ns)
            if os.path.islink(path):
                row = (oct(kind), os.readlink(path))
            elif os.path.isfile(path):
                row += (Path(path).read_bytes(),)
                row += (first.setdefault(status.st_ino, inner),) if links else ()
            if xattrs and not os.path.islink(path):
                row += (tuple((one, os.getxattr(path, one)) for one in sorted(os.listxattr(path))),)
            found[inner] = row
    top = os.stat(root)
    found["."] = (top.st_mode & 0o7777, top.st_mtime_ns)
    return found


def differences(one: Path, other: Path, **what: bool) -> list[str]:
    """What is not the same, by name."""
    here, there = snapshot(one, **what), snapshot(other, **what)
    names = sorted({*here, *there})
    return [f"{name}: {here.get(name)} and {there.get(name)}"[:300] for name in names if here.get(name) != there.get(name)]
