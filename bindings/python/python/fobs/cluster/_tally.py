"""The figures of one transfer while it runs, and what it returns of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime

from ._move import Moved
from ._nodes import Node
from ._pairs import Pair, Pairs
from ._result import ClusterError, ClusterResult, Failures, NodeRate, ShardLine
from ._shards import Shard
from ._spool import Spool

# Lines of the chart and of what went elsewhere that are kept.
_LINES_MAX = 5000


@dataclass(frozen=True)
class ClusterProgress:
    """Where a cluster transfer stands."""

    bytes: int
    bytes_known: int
    files: int
    files_known: int
    shards: int
    shards_known: int
    rate_bps: float
    seconds: float


@dataclass
class Tally:
    """What has been moved, and what went wrong."""

    spool: Spool
    command: str = ""
    began: float = field(default_factory=time.monotonic)
    date: str = field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))
    errors: Failures = field(default_factory=Failures)
    given_up: list[ClusterError] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    lines: list[ShardLine] = field(default_factory=list)
    moved_bytes: int = 0
    resumed_bytes: int = 0
    shards: int = 0
    known_shards: int = 0
    bytes_known: int = 0
    files_known: int = 0
    deleted: int = 0
    remembered: int = 0
    #: Rate, between which nodes, and why.
    slowest: tuple[float, str, str] | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def note_elsewhere(self, why: str) -> None:
        if len(self.elsewhere) < _LINES_MAX:
            self.elsewhere.append(why)

    def add(self, shard: Shard, pair: Pair, moved: Moved, began: float, kept: int) -> None:
        """A shard that has ended; ``kept`` of its bytes came by another node before."""
        self.shards += 1
        sent = moved.bytes - moved.resumed_bytes
        self.spool.note(moved.records)
        self.moved_bytes += moved.bytes
        self.resumed_bytes += moved.resumed_bytes - kept
        where = f"shard {shard.id}, nodes {pair}"
        self.errors.add_all((name, f"{why} ({where})") for name, why in moved.failed)
        if len(self.lines) < _LINES_MAX and shard.kind in ("files", "range"):
            names = (pair.source.node.name, pair.destination.node.name)
            self.lines.append(ShardLine(shard.id, *names, pair.way, sent, len(shard.files), began, self.seconds))
        if sent and (self.slowest is None or sent * 8 / moved.seconds < self.slowest[0]):
            self.slowest = (sent * 8 / moved.seconds, f"{shard}, {pair}", moved.explanation)

    def progress(self, under_way: int) -> ClusterProgress:
        """Where it stands, with the bytes of the shards that are being moved."""
        seconds, done = self.seconds, self.moved_bytes + under_way
        rate = max(done - self.resumed_bytes, 0) * 8 / max(seconds, 1e-9)
        return ClusterProgress(
            min(done, self.bytes_known),
            self.bytes_known,
            self.spool.files,
            self.files_known,
            self.shards,
            self.known_shards,
            rate,
            seconds,
        )

    def result(
        self, pairs: Pairs, sides: tuple[tuple[Node, ...], tuple[Node, ...]], notices: list[str]
    ) -> ClusterResult:
        """All figures."""
        seconds = self.seconds
        nodes = tuple(
            NodeRate(s.node.name, s.side, s.bytes, s.shards, s.bytes * 8 / seconds, s.failures, s.dropped, s.last)
            for s in pairs.all()
        )
        slow = self.slowest or (0.0, "", "")
        return ClusterResult(
            bytes=self.spool.bytes,
            resumed_bytes=self.resumed_bytes,
            files=self.spool.files,
            seconds=seconds,
            rate_bps=sum(n.bytes for n in nodes if n.side == "source") * 8 / seconds,
            root=self.spool.root(),
            nodes=nodes,
            slowest=slow[1],
            slowest_bps=slow[0],
            slowest_why=slow[2],
            shards=self.shards,
            moved_elsewhere=tuple(self.elsewhere),
            notices=tuple(notices),
            errors=tuple(self.errors.lines),
            lines=tuple(self.lines),
            source=tuple(map(str, sides[0])),
            destination=tuple(map(str, sides[1])),
            date=self.date,
            command=self.command,
            deleted=self.deleted,
            remembered=self.remembered,
        )
