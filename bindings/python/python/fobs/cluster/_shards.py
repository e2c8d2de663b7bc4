"""Shards: what one session moves at once, cut from what the destination has not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from .. import _fobs
from ._access import Found

#: Where a transfer keeps its state at the destination; never copied.
STATE = ".fobs-cluster"
# Largest shard, bytes and names: seconds on a fast path, and what is begun again elsewhere after a failure.
SHARD_BYTES = 1 << 30
SHARD_FILES = 1000
# Bytes of the names of a shard: they travel in one message of at most 1 MiB, as base64 or escaped.
SHARD_NAMES = 256 << 10
# Bytes that are hashed where they are by one task: a second or less.
CHECK_BYTES = 256 << 20
# Smallest shard, bytes: with less, the round trips of a shard are longer than its data.
SHARD_BYTES_MIN = 8 << 20
# Shards that wait for each session when one is cut: the last ones are small, so that all nodes end together.
SHARDS_AHEAD = 2
# Parts of files begin at multiples of this, bytes, and are noted in such pieces; a power of two.
PIECE = 4 << 20
# Files smaller than this are not cut into ranges, bytes.
RANGED_MIN = 64 << 20

#: Names of the tree; a range of one file; files that are only hashed where they are; names whose attributes are set
#: when everything else is in place.
Kind = Literal["files", "range", "check", "settle"]


class File(NamedTuple):
    """A file of the source: where, how long, from when."""

    name: str
    size: int
    mtime_ns: int
    mode: int = 0o644

    @property
    def id(self) -> str:
        """What it is known by in the state at the destination."""
        return short_hash(f"{self.name}\0{self.size}\0{self.mtime_ns}")


@dataclass(frozen=True)
class Shard:
    """What one session moves: names of the tree, or a range of one file."""

    kind: Kind
    files: tuple[File, ...]
    #: Links, special files and directories, the latter without what is in them.
    others: tuple[str, ...] = ()
    start: int = 0
    end: int = 0

    @cached_property
    def bytes(self) -> int:
        return self.end - self.start if self.kind == "range" else sum(file.size for file in self.files)

    @property
    def names(self) -> list[str]:
        return [*(file.name for file in self.files), *self.others]

    @cached_property
    def id(self) -> str:
        """What it is known by: looked up for each pair of nodes that could move it."""
        names = "\0".join([*(f"{file.name}\0{file.size}\0{file.mtime_ns}" for file in self.files), *self.others])
        return short_hash(f"{self.kind}\0{self.start}\0{self.end}\0{names}")

    def __str__(self) -> str:
        if self.kind == "range":
            return f"shard {self.id} (bytes {self.start} to {self.end} of {self.files[0].name!r})"
        return f"shard {self.id} ({len(self.names)} names from {self.names[0]!r} on)"


def short_hash(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a text."""
    return _fobs.root_of(text.encode("utf-8", "surrogateescape"))[:16]


def file_of(row: Found) -> File:
    return File(row.name, row.size, row.mtime_ns, row.mode)


@dataclass
class Cutting:
    """Shards in the making: of a number of bytes at most, or smaller ones towards the end."""

    kind: Kind
    slots: int = 1
    left: int = 0
    largest: int | None = None
    shards: list[Shard] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    bytes: int = 0
    letters: int = 0

    def limit(self) -> int:
        if self.largest is not None:
            return self.largest
        return min(SHARD_BYTES, max(SHARD_BYTES_MIN, self.left // (SHARDS_AHEAD * self.slots)))

    def close(self) -> None:
        if self.files or self.others:
            self.shards.append(Shard(self.kind, tuple(self.files), tuple(self.others)))
            self.left -= self.bytes
        self.files, self.others, self.bytes, self.letters = [], [], 0, 0

    def taken(self) -> list[Shard]:
        """Those that are closed, once."""
        shards, self.shards = self.shards, []
        return shards

    def add(self, unit: tuple[Found, ...]) -> None:
        """Rows that stay together."""
        size = sum(row.size for row in unit if row.kind == "file")
        letters = sum(len(os.fsencode(row.name)) + 8 for row in unit)
        is_full = (
            self.bytes + size > self.limit()
            or len(self.files) + len(self.others) + len(unit) > SHARD_FILES
            or self.letters + letters > SHARD_NAMES
        )
        if is_full:
            self.close()
        self.files += [file_of(row) for row in unit if row.kind == "file"]
        self.others += [row.name for row in unit if row.kind != "file"]
        self.bytes += size
        self.letters += letters

    def cut_file(self, file: File) -> None:
        at = 0
        while at < file.size:
            step = max(PIECE, self.limit() // PIECE * PIECE)
            end = min(at + step, file.size)
            # No rest that is smaller than a piece.
            end = file.size if file.size - end < PIECE else end
            self.shards.append(Shard("range", (file,), start=at, end=end))
            self.left -= end - at
            at = end


def cut(
    units: Iterable[tuple[Found, ...]], total: int, kind: Kind, slots: int, ranged_min: int | None = None
) -> Iterator[Shard]:
    """Shards of rows of ``total`` bytes, for as many sessions at once; the same for the same rows. The rows of a unit stay
    together.

    A file alone of ``ranged_min`` bytes and more is cut, too. Shards become smaller towards the end, so that all nodes
    end together.
    """
    cutting = Cutting(kind, max(slots, 1), total)
    for unit in units:
        if ranged_min is not None and is_ranged(unit, ranged_min):
            cutting.cut_file(file_of(unit[0]))
        else:
            cutting.add(unit)
        yield from cutting.taken()
    cutting.close()
    yield from cutting.taken()


def is_ranged(unit: tuple[Found, ...], ranged_min: int) -> bool:
    """Whether it is one file that is cut into ranges."""
    return len(unit) == 1 and unit[0].kind == "file" and unit[0].size >= ranged_min
