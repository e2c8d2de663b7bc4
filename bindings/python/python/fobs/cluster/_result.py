"""What a cluster transfer returns, and its report as a page of HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._errors import DestinationError, Error, FileError, SourceError
from . import _report


class ClusterError(Error):
    """A cluster transfer that could not be completed; what is verified stays, and the same call goes on.

    ``node`` and ``shard`` say where, ``result`` has the figures so far.
    """

    def __init__(self, message: str, cause: BaseException, node: str = "", shard: str = "") -> None:
        # Of each the cause is known: it decides the code.
        super().__init__(message)
        self.node, self.shard = node, shard
        self.result: ClusterResult | None = None
        if isinstance(cause, Error):
            self.code, self.exit_code = cause.code, cause.exit_code
        elif isinstance(cause, (FileNotFoundError, NotADirectoryError, PermissionError)):
            self.code, self.exit_code = SourceError.code, SourceError.exit_code
        elif isinstance(cause, OSError):
            self.code, self.exit_code = FileError.code, FileError.exit_code


def of_side(error: OSError, what: str) -> Error:
    """An error at a side as a sentence: the system's own has numbers, and says nothing of which side it is."""
    if isinstance(error, Error):
        return error
    kind = DestinationError if what == "destination" else SourceError
    name = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
    return kind(f"cannot use {name}{error.strerror or error}; mend that, or choose another place")


# Names that were not moved, of which the reasons are kept.
_FAILURES_MAX = 100_000


@dataclass
class Failures:
    """Names that were not moved, and why; beyond a number of them only how many."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def add(self, name: str, why: str) -> None:
        self.count += 1
        if len(self.lines) < _FAILURES_MAX:
            self.lines.append((name, why))

    def add_all(self, lines: Iterable[tuple[str, str]]) -> None:
        for name, why in lines:
            self.add(name, why)

    def take(self, name: str) -> list[str]:
        """Takes out what is said of a name."""
        taken = [why for one, why in self.lines if one == name]
        self.lines = [line for line in self.lines if line[0] != name]
        self.count -= len(taken)
        return taken

    def summary(self) -> str:
        (name, why), more = self.lines[0], self.count - 1
        return f"{name}: {why}" + (f" (and {more} more)" if more else "")


@dataclass(frozen=True)
class NodeRate:
    """What one node moved."""

    name: str
    side: str
    bytes: int
    shards: int
    #: Bits per second over the whole transfer.
    rate_bps: float
    failures: int
    #: Why it was left out; empty for one that was not.
    dropped: str
    #: What happened to it last, of what counts as a failure.
    last: str = ""


@dataclass(frozen=True)
class ShardLine:
    """One shard that was moved: between which nodes, from when to when, in seconds from the beginning."""

    shard: str
    source: str
    destination: str
    way: str
    bytes: int
    files: int
    began: float
    ended: float


@dataclass(frozen=True)
class Planned:
    """What a transfer would do."""

    #: Of each shard its kind, its text, bytes and names.
    shards: tuple[tuple[str, str, int, int], ...]
    bytes: int
    #: Names that would be deleted.
    deletions: tuple[str, ...]
    #: Of each node its side, its bytes, and the seconds that it would be busy; without a rate none are known.
    nodes: tuple[tuple[str, str, int, float | None], ...]
    seconds: float | None


@dataclass(frozen=True)
class ClusterResult:
    """The figures of a cluster transfer. ``root`` is one hash over all files (docs/cluster.md)."""

    bytes: int
    resumed_bytes: int
    files: int
    seconds: float
    rate_bps: float
    root: str
    nodes: tuple[NodeRate, ...]
    #: The slowest shard: between which nodes, how fast in bits per second, and why.
    slowest: str
    slowest_bps: float
    slowest_why: str
    shards: int
    #: Shards that went to another node after a failure, and why, newest last.
    moved_elsewhere: tuple[str, ...]
    notices: tuple[str, ...]
    #: Files that were not moved, and why.
    errors: tuple[tuple[str, str], ...]
    lines: tuple[ShardLine, ...] = ()
    #: What was moved where, when it began (ISO 8601), and by which call.
    source: tuple[str, ...] = ()
    destination: tuple[str, ...] = ()
    date: str = ""
    command: str = ""
    #: Names that were deleted at the destination.
    deleted: int = 0
    #: Files whose hash is the one of an earlier call, because size and time are as that one left them.
    remembered: int = 0
    #: What a dry run would do.
    planned: Planned | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        whole = asdict(self)
        del whole["lines"]
        return whole

    def __str__(self) -> str:
        return (
            f"{self.files:,} files, {size(self.bytes)} ({size(self.resumed_bytes)} of them were there) in "
            f"{self.seconds:.1f} s, {rate(self.rate_bps)}"
        )

    def _repr_html_(self) -> str:
        return _report.body(self)

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: nodes, a chart of the shards, what was slow and what failed."""
        Path(path).write_text(_report.page(self))


def size(count: float) -> str:
    """Bytes for a person."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    raise AssertionError


def rate(bps: float) -> str:
    """Bits per second for a person."""
    return f"{bps / 1e9:.2f} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:.1f} Mbit/s"
