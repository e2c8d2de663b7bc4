"""Hashes of files that earlier calls of this user have verified: one that stands as it was left is not read again.

A hint. A file of it that is missing, damaged or cannot be written costs the reading of what stands at the destination.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ._nodes import Node
from ._ordered import Key, key
from ._shards import short_hash
from ._state import Record

# Files of one transfer that are remembered, bytes of all transfers together, and for how long, seconds: as of what the
# command remembers of paths.
FILES_MAX, BYTES_MAX, AGE_MAX = 2_000_000, 256 << 20, 90 * 24 * 3600
_TABLE = "CREATE TABLE files (name BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, root BLOB) WITHOUT ROWID"
# What the user's directory has of ours.
_END = ".hashes"


def directory() -> Path:
    """Where they lie, beside what the command remembers."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".local/state") / "fobs" / "cluster"


class Memory:
    """What is remembered of one source and one destination."""

    def __init__(self, source: Iterable[Node], destination: Iterable[Node]) -> None:
        sides = [sorted(f"{node.url}\0{node.path}" for node in side) for side in (source, destination)]
        self._name = short_hash(repr(sides)) + _END
        #: Files of which it was asked and said something that is true.
        self.used = 0
        self._data: sqlite3.Connection | None = None
        #: Files are asked for in order, all but a few: those that come next, and the last one that was read.
        self._rows: Iterator[tuple[bytes, int, int, bytes]] = iter(())
        self._last: tuple[bytes, int, int, bytes] | None = None
        with contextlib.suppress(OSError, RuntimeError, sqlite3.Error):
            path = directory() / self._name
            if path.exists():
                # Only this process opens it so: a new one takes its place whole.
                self._data = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
                self._find(b"")

    def close(self) -> None:
        if self._data is not None:
            self._data.close()
            self._data = None

    def of(self, name: str) -> Record | None:
        """The record of a file."""
        if self._data is None:
            return None
        own = key(name)
        try:
            if self._last is None or own < self._last[0]:
                self._find(own)
            while self._last is not None and self._last[0] < own:
                self._last = next(self._rows, None)
            if self._last is None or self._last[0] != own:
                return None
            _, size, mtime_ns, root = self._last
            return (name, int(size), int(mtime_ns), root.hex())
        except (sqlite3.Error, TypeError, ValueError, AttributeError):
            self.close()
            return None

    def _find(self, own: Key) -> None:
        assert self._data is not None
        self._rows = self._data.execute("SELECT name, size, mtime_ns, root FROM files WHERE name >= ? ORDER BY name", (own,))
        self._last = next(self._rows, None)

    def keep(self, files: int, records: Iterable[tuple[bytes, int, int, bytes]]) -> None:
        """Remembers the files of a transfer, by name, instead of those before."""
        self.close()
        with contextlib.suppress(OSError, RuntimeError, sqlite3.Error):
            place = directory()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            path, fresh = place / self._name, place / f"{self._name}.{os.getpid()}"
            if self.used == files and path.exists():
                os.utime(path)
            elif files <= FILES_MAX:
                try:
                    _write(fresh, records)
                    fresh.replace(path)
                finally:
                    fresh.unlink(missing_ok=True)
            _forget(place)


def _write(path: Path, records: Iterable[tuple[bytes, int, int, bytes]]) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as data:
        data.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")
        data.execute(_TABLE)
        data.execute("BEGIN")
        rows = ((name.replace(b"/", b"\0"), *more) for name, *more in records)
        data.executemany("INSERT INTO files VALUES (?, ?, ?, ?)", rows)
        data.execute("COMMIT")


def _forget(place: Path) -> None:
    """Removes those that are old, and the oldest of too many."""
    found = sorted(((one.stat(), one) for one in place.iterdir() if _END in one.name), key=lambda pair: -pair[0].st_mtime)
    total = 0
    for status, one in found:
        total += status.st_size
        if total > BYTES_MAX or time.time() - status.st_mtime > AGE_MAX:
            one.unlink(missing_ok=True)
