"""Shards: what one session moves at once. A tree is scanned and what is not at the destination is cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from .. import _fobs
from ._access import Access, Found

#: Where a transfer keeps its state at the destination; never copied.
STATE = ".fobs-cluster"
# Largest shard, bytes and files: seconds on a fast path, and what is begun again elsewhere after a failure.
SHARD_BYTES = 1 << 30
SHARD_FILES = 1000
# Smallest shard, bytes: with less, the round trips of a shard are longer than its data.
SHARD_BYTES_MIN = 8 << 20
# Shards that wait for each session when one is cut: the last ones are small, so that all nodes end together.
SHARDS_AHEAD = 2
# Parts of files begin at multiples of this, bytes, and are noted in such pieces; a power of two.
PIECE = 4 << 20
# Files smaller than this are not cut into ranges, bytes.
RANGED_MIN = 64 << 20
# Entries of a tree: the plan is held in memory, about 1 kB for each.
ENTRIES_MAX = 20_000_000

Kind = Literal["files", "range", "check"]


@dataclass(frozen=True, slots=True)
class File:
    """A file of the source: where, how long, from when."""

    name: str
    size: int
    mtime_ns: int

    @property
    def id(self) -> str:
        """What it is known by in the state at the destination."""
        return short_hash(f"{self.name}\0{self.size}\0{self.mtime_ns}")


@dataclass(frozen=True)
class Shard:
    """What one session moves: files and whole directories below some directories, or a range of one file."""

    kind: Kind
    files: tuple[File, ...]
    #: Directory, and the names in it that are moved, directories with all that is in them.
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    start: int = 0
    end: int = 0

    @property
    def bytes(self) -> int:
        return self.end - self.start if self.kind == "range" else sum(file.size for file in self.files)

    @property
    def id(self) -> str:
        names = "\0".join(file.id for file in self.files)
        groups = "\0".join(f"{directory}\0" + "\0".join(items) for directory, items in self.groups)
        return short_hash(f"{self.kind}\0{self.start}\0{self.end}\0{names}\0{groups}")

    def __str__(self) -> str:
        if self.kind == "range":
            return f"shard {self.id} (bytes {self.start} to {self.end} of {self.files[0].name!r})"
        first = self.files[0].name if self.files else self.groups[0][0] + "/" + self.groups[0][1][0]
        return f"shard {self.id} ({len(self.files)} files from {first!r} on)"


def short_hash(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a text."""
    return _fobs.root_of(text.encode("utf-8", "surrogateescape"))[:16]


@dataclass
class Tree:
    """What a side has: files and other entries below each directory."""

    files: dict[str, list[File]] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)
    directories: dict[str, list[str]] = field(default_factory=dict)
    #: Directories and entries that could not be read, and why.
    failed: list[tuple[str, str]] = field(default_factory=list)

    def all_files(self) -> Iterator[File]:
        for files in self.files.values():
            yield from files


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def scan(access: Access) -> Tree:
    """Lists a side. Raises what listing its root raises; a directory below that cannot be read is noted."""
    tree, count = Tree(), 0
    left = [""]
    while left:
        directory = left.pop()
        try:
            found = access.list(directory)
        except OSError as error:
            if not directory:
                raise
            tree.failed.append((directory, str(error)))
            tree.directories[directory] = []
            continue
        count += len(found)
        if count > ENTRIES_MAX:
            raise MemoryError(f"more than {ENTRIES_MAX} entries: transfer the directories below one by one")
        below = _sort(tree, directory, sorted(found, key=lambda entry: os.fsencode(entry.name)))
        left.extend(reversed([join(directory, name) for name in below]))
    return tree


def _sort(tree: Tree, directory: str, found: list[Found]) -> list[str]:
    files, others, below = [], [], []
    for entry in found:
        if not directory and entry.name == STATE:
            continue
        if entry.kind == "file":
            files.append(File(join(directory, entry.name), entry.size, entry.mtime_ns))
        elif entry.kind == "directory":
            below.append(entry.name)
        else:
            others.append(entry.name)
    tree.files[directory], tree.others[directory], tree.directories[directory] = files, others, below
    return below


@dataclass
class _Cut:
    """Shards in the making."""

    tree: Tree
    skipped: set[str]
    slots: int
    #: Size in bytes from which on files are cut into ranges; none is with ``None``.
    ranged_min: int | None
    left: int = 0
    shards: list[Shard] = field(default_factory=list)
    open_files: list[File] = field(default_factory=list)
    open_groups: dict[str, list[str]] = field(default_factory=dict)
    open_bytes: int = 0
    weight: dict[str, tuple[int, int, bool]] = field(default_factory=dict)

    def limit(self) -> int:
        return min(SHARD_BYTES, max(SHARD_BYTES_MIN, self.left // (SHARDS_AHEAD * self.slots)))

    def close(self) -> None:
        if self.open_groups:
            groups = tuple((where, tuple(names)) for where, names in self.open_groups.items())
            self.shards.append(Shard("files", tuple(self.open_files), groups))
            self.left -= self.open_bytes
        self.open_files, self.open_groups, self.open_bytes = [], {}, 0

    def add(self, directory: str, name: str, files: list[File]) -> None:
        size = sum(file.size for file in files)
        full = self.open_bytes + size > self.limit() or len(self.open_files) + len(files) > SHARD_FILES
        if full and self.open_groups:
            self.close()
        self.open_groups.setdefault(directory, []).append(name)
        self.open_files += files
        self.open_bytes += size

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

    def weigh(self) -> None:
        """Bytes, files, and whether all of it is to be moved whole, of each directory with what is below it."""
        for directory in sorted(
            self.tree.directories, key=lambda name: name.count("/") if name else -1, reverse=True
        ):
            files = self.tree.files.get(directory, [])
            bytes_, count = sum(file.size for file in files), len(files)
            whole = not any(file.name in self.skipped for file in files) and bool(directory)
            whole = whole and not any(self.is_ranged(file) for file in files)
            for name in self.tree.directories[directory]:
                more_bytes, more, is_whole = self.weight[join(directory, name)]
                bytes_, count, whole = bytes_ + more_bytes, count + more, whole and is_whole
            self.weight[directory] = (bytes_, count, whole)

    def is_ranged(self, file: File) -> bool:
        return self.ranged_min is not None and file.size >= self.ranged_min

    def below(self, directory: str) -> list[File]:
        files, left = [], [directory]
        while left:
            one = left.pop()
            files += self.tree.files.get(one, [])
            left += [join(one, name) for name in self.tree.directories[one]]
        return files

    def visit(self, directory: str) -> None:
        for file in self.tree.files.get(directory, []):
            if file.name in self.skipped:
                continue
            if self.is_ranged(file):
                self.cut_file(file)
            else:
                self.add(directory, os.path.basename(file.name), [file])
        for name in self.tree.others.get(directory, []):
            self.add(directory, name, [])
        for name in self.tree.directories[directory]:
            inner = join(directory, name)
            bytes_, count, whole = self.weight[inner]
            if whole and bytes_ <= self.limit() and count <= SHARD_FILES:
                self.add(directory, name, self.below(inner))
            else:
                self.visit(inner)


def cut(tree: Tree, skipped: set[str], slots: int, ranged_min: int | None) -> list[Shard]:
    """Shards of what is in ``tree`` but not in ``skipped``, for as many sessions at once; the same for the same tree.

    Files of ``ranged_min`` bytes and more are cut, too. Shards become smaller towards the end, so that all nodes end together.
    """
    cutting = _Cut(tree, skipped, slots, ranged_min)
    cutting.left = sum(file.size for file in tree.all_files() if file.name not in skipped)
    cutting.weigh()
    cutting.visit("")
    cutting.close()
    return cutting.shards


def cut_checks(files: list[File], slots: int) -> list[Shard]:
    """Shards of files that are only hashed where they are."""
    cutting = _Cut(Tree(), set(), slots, None, left=sum(file.size for file in files))
    for file in files:
        cutting.add(os.path.dirname(file.name), os.path.basename(file.name), [file])
    cutting.close()
    return [Shard("check", shard.files, shard.groups) for shard in cutting.shards]


def root_over(roots: dict[str, str]) -> str:
    """One hash over all files: BLAKE3 of ``f``, path length, path, hash of each, by path (protocol 7.6)."""
    entries = bytearray()
    for name in sorted(roots, key=os.fsencode):
        path = os.fsencode(name)
        entries += b"f" + len(path).to_bytes(4, "little") + path + bytes.fromhex(roots[name])
    return _fobs.root_of(bytes(entries))
