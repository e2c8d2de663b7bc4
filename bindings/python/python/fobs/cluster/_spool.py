"""What the caller has to remember of each entry, in a database on its disk: memory does not grow with the tree."""

from __future__ import annotations

import contextlib
import marshal
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from .. import _fobs
from .._errors import FileError
from .._job import Job
from ._access import Found
from ._result import ClusterError
from ._shards import PIECE, File, Shard
from ._state import Record

# Pages of the database that stay in memory, kB.
_CACHE_KB = 32 << 10

Unit = tuple[Found, ...]

_TABLES = """
    CREATE TABLE units (stage TEXT, unit BLOB);
    CREATE TABLE linked (inode INTEGER, pair BLOB);
    CREATE TABLE directories (name BLOB, row BLOB, is_due INTEGER);
    CREATE TABLE changed (name BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE later (depth INTEGER, name BLOB, unit BLOB);
    CREATE TABLE gone (place TEXT, name BLOB);
    CREATE TABLE verified (name BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, root BLOB) WITHOUT ROWID;
    CREATE TABLE records (name BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, root BLOB) WITHOUT ROWID;
    CREATE TABLE shards (number INTEGER PRIMARY KEY, shard BLOB);
"""


def directory() -> str:
    """Where it lies, as SQLite chooses."""
    for place in (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"), "/var/tmp"):
        if place and os.access(place, os.W_OK | os.X_OK) and os.path.isdir(place):
            return place
    return tempfile.gettempdir()


class Spool:
    """Rows, shards and records of one transfer. It is gone with the process."""

    def __init__(self) -> None:
        # The empty name is a file without one.
        self._data = sqlite3.connect("", isolation_level=None)
        self._data.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{_CACHE_KB};")
        self._data.executescript(_TABLES)
        self._run("BEGIN")
        #: Files that are in place, and their bytes.
        self.files = self.bytes = 0
        self.known_verified = 0
        self._last_changed: bytes | None = None

    def close(self) -> None:
        self._data.close()

    def size(self) -> int:
        """Bytes of its file, at most: some of it may still be in memory."""
        (pages,), (each,) = (self._run(f"PRAGMA {word}").fetchone() for word in ("page_count", "page_size"))
        return int(pages * each)

    def _run(self, words: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        # Without `_room`, which takes as long as the call: there are several for each entry.
        try:
            return self._data.execute(words, values)
        except sqlite3.Error as error:
            raise _no_room(error) from error

    def _all(self, words: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        with _room():
            yield from self._data.execute(words, values)

    # The plan.

    def add_unit(self, stage: str, unit: Unit) -> None:
        self._run("INSERT INTO units VALUES (?, ?)", (stage, _packed(unit)))

    def units(self, stage: str) -> Iterator[Unit]:
        for (unit,) in self._all("SELECT unit FROM units WHERE stage = ? ORDER BY rowid", (stage,)):
            yield _unpacked(unit)

    def add_linked(self, row: Found, other: Found | None) -> None:
        # A signed number of 64 bits.
        inode = row.inode - (1 << 64) if row.inode >> 63 else row.inode
        pair = marshal.dumps((_values(row), None if other is None else _values(other)))
        self._run("INSERT INTO linked VALUES (?, ?)", (inode, pair))

    def linked(self) -> Iterator[list[tuple[Found, Found | None]]]:
        """Names of one file together, with what stands there, in the order of the first ones."""
        words = (
            "SELECT of.first, pair FROM linked JOIN (SELECT inode, MIN(rowid) AS first FROM linked GROUP BY inode) AS of "
            "ON of.inode = linked.inode ORDER BY of.first, linked.rowid"
        )
        unit: list[tuple[Found, Found | None]] = []
        last = None
        for first, pair in self._all(words):
            if unit and first != last:
                yield unit
                unit = []
            last = first
            row, other = marshal.loads(pair)
            unit.append((Found(*row), None if other is None else Found(*other)))
        if unit:
            yield unit

    def add_directory(self, row: Found, is_due: bool) -> None:
        self._run("INSERT INTO directories VALUES (?, ?, ?)", (os.fsencode(row.name), _packed((row,)), int(is_due)))

    def note_change(self, name: str) -> None:
        """Something is made or removed in a directory."""
        encoded = os.fsencode(name)
        if encoded != self._last_changed:
            self._last_changed = encoded
            self._run("INSERT OR IGNORE INTO changed VALUES (?)", (encoded,))

    def add_later(self, unit: Unit) -> None:
        name = unit[0].name
        self._run("INSERT INTO later VALUES (?, ?, ?)", (name.count("/"), os.fsencode(name), _packed(unit)))

    def settle_directories(self) -> None:
        """Those that differ, or in which something changes, are settled at the end."""
        words = (
            "SELECT row FROM directories WHERE is_due OR EXISTS "
            "(SELECT 1 FROM changed WHERE changed.name = directories.name) ORDER BY rowid"
        )
        for (row,) in self._all(words):
            self.add_later(_unpacked(row))

    def later(self) -> Iterator[Unit]:
        """What is settled at the end, deepest first."""
        for (unit,) in self._all("SELECT unit FROM later ORDER BY depth DESC, name"):
            yield _unpacked(unit)

    # Names that the destination loses.

    def add_gone(self, place: str, name: str) -> None:
        self._run("INSERT INTO gone VALUES (?, ?)", (place, os.fsencode(name)))

    def mark_gone(self) -> int:
        """A place in the list of those names."""
        (found,) = self._run("SELECT COALESCE(MAX(rowid), 0) FROM gone").fetchone()
        return int(found)

    def drop_gone(self, mark: int = 0) -> None:
        """Takes back those that came after a place."""
        self._run("DELETE FROM gone WHERE rowid > ?", (mark,))

    def gone(self, place: str) -> Iterator[str]:
        for (name,) in self._all("SELECT name FROM gone WHERE place = ? ORDER BY rowid", (place,)):
            yield os.fsdecode(name)

    # Shards.

    def add_shards(self, shards: Iterable[Shard]) -> range:
        """Keeps shards; returns their numbers."""
        (first,) = self._run("SELECT COALESCE(MAX(number), 0) + 1 FROM shards").fetchone()
        end = first
        for shard in shards:
            files = [tuple(file) for file in shard.files]
            values: Any = (shard.kind, files, shard.others, shard.start, shard.end)
            packed = marshal.dumps(values)
            self._run("INSERT INTO shards VALUES (?, ?)", (end, packed))
            end += 1
        return range(first, end)

    def shards(self, numbers: range) -> Iterator[Shard]:
        return map(self.shard, numbers)

    def shard(self, number: int) -> Shard:
        (packed,) = self._run("SELECT shard FROM shards WHERE number = ?", (number,)).fetchone()
        kind, files, others, start, end = marshal.loads(packed)
        return Shard(kind, tuple(File(*file) for file in files), others, start, end)

    # Files that are in place.

    def add_verified(self, records: Iterable[Record]) -> None:
        """What an earlier call has verified; the last record of a name counts."""
        for name, size, mtime_ns, root in records:
            values = (os.fsencode(name), size, mtime_ns, bytes.fromhex(root))
            self._run("INSERT OR REPLACE INTO verified VALUES (?, ?, ?, ?)", values)
            self.known_verified += 1

    def verified(self, name: str) -> Record | None:
        if not self.known_verified:
            return None
        words = "SELECT size, mtime_ns, root FROM verified WHERE name = ?"
        found = self._run(words, (os.fsencode(name),)).fetchone()
        return None if found is None else (name, found[0], found[1], found[2].hex())

    def note(self, records: Iterable[Record]) -> None:
        """Files that are in place."""
        values = [(os.fsencode(name), size, mtime_ns, bytes.fromhex(root)) for name, size, mtime_ns, root in records]
        if not values:
            return
        words = "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?)"
        with _room():
            fresh = self._data.executemany(words, values).rowcount
            if fresh == len(values):
                self.files += fresh
                self.bytes += sum(size for _, size, *_ in values)
            elif fresh:
                # A shard that came twice.
                words = "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM records"
                self.files, self.bytes = self._data.execute(words).fetchone()

    def records(self) -> Iterator[tuple[bytes, int, int, bytes]]:
        """All of them: name, size, time and hash."""
        return self._all("SELECT name, size, mtime_ns, root FROM records ORDER BY name")

    def has(self, name: str) -> bool:
        return self._run("SELECT 1 FROM records WHERE name = ?", (os.fsencode(name),)).fetchone() is not None

    def root(self) -> str:
        """One hash over all files: BLAKE3 of ``f``, path length, path, hash of each, by path (protocol 7.6)."""
        with _room(), tempfile.NamedTemporaryFile(dir=directory(), prefix="fobs-cluster-") as entries:
            for name, root in self._all("SELECT name, root FROM records ORDER BY name"):
                entries.write(b"f" + len(name).to_bytes(4, "little") + name + root)
            entries.flush()
            size = entries.tell()
            if size <= PIECE:
                entries.seek(0)
                return _fobs.root_of(entries.read())
            values: list[bytes] = Job(_fobs.hash_pieces(entries.name, 0, size, PIECE), list).wait()
            return _fobs.join_pieces(values)


def _values(row: Found) -> tuple[Any, ...]:
    return tuple(row)


def _packed(unit: Unit) -> bytes:
    return marshal.dumps(tuple(map(tuple, unit)))


def _unpacked(packed: bytes) -> Unit:
    return tuple(Found(*values) for values in marshal.loads(packed))


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _no_room(error) from error


def _no_room(error: Exception) -> ClusterError:
    return ClusterError(
        f"cannot keep the plan of the transfer in {directory()}: {error}; make room there, or set TMPDIR to another "
        "directory",
        FileError(str(error)),
    )
