"""Chooses the nodes that move the next shard, by free places, workers and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .._errors import (
    AccessDeniedError,
    ConnectError,
    DestinationError,
    Error,
    FileError,
    IntegrityError,
    ProtocolError,
    RemoteMissingError,
    SocketError,
    SourceError,
    SshError,
    TransferTimeoutError,
)
from ._move import Way
from ._nodes import ANYWHERE, Node
from ._shards import Shard

# Failures in a row after which a node is left out: one may be chance, such as a restart.
FAILURES_MAX = 3

# Errors that say something of the other end, of the destination, and of the source.
_OF_THE_OTHER = (
    ConnectError,
    SshError,
    RemoteMissingError,
    ProtocolError,
    AccessDeniedError,
    SocketError,
    TransferTimeoutError,
)


@dataclass
class NodeState:
    """A node, and how it does."""

    node: Node
    side: str
    busy: int = 0
    moving: int = 0
    shards: int = 0
    bytes: int = 0
    #: Of all shards that it moved, summed up.
    seconds: float = 0.0
    failures: int = 0
    in_a_row: int = 0
    dropped: str = ""
    last_error: BaseException | None = None
    #: What happened to it last.
    last: str = ""

    @property
    def free(self) -> int:
        return 0 if self.dropped else self.node.sessions - self.busy

    @property
    def session_rate(self) -> float:
        """Bytes per second that one session with it moves."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Pair:
    """Between which nodes a shard goes, and which one's worker moves it."""

    source: NodeState
    destination: NodeState
    way: Way

    @property
    def at(self) -> NodeState:
        return self.source if self.way == "push" else self.destination

    @property
    def place(self) -> Node:
        """At which node the worker stands."""
        return ANYWHERE if self.way == "ticket" else self.at.node

    @property
    def other(self) -> NodeState:
        return self.destination if self.way == "push" else self.source

    def __str__(self) -> str:
        return f"{self.source.node.name} to {self.destination.node.name}"


@dataclass
class Pairs:
    """All nodes."""

    sources: list[NodeState]
    destinations: list[NodeState]
    #: Whether a node has a worker now.
    has_worker: Callable[[Node], bool]
    #: Whether any node has had a worker: then workers are waited for. Tickets are for nodes without any.
    worked: bool = False
    #: Whether only workers of the destination move shards, because they verify what a source announced.
    verified: bool = False
    #: Shards that failed between two nodes: not there again.
    tried: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    @staticmethod
    def of(
        sources: Iterable[Node], destinations: Iterable[Node], has_worker: Callable[[Node], bool]
    ) -> Pairs:
        return Pairs(
            [NodeState(node, "source") for node in sources],
            [NodeState(node, "destination") for node in destinations],
            has_worker,
        )

    def all(self) -> list[NodeState]:
        return [*self.sources, *self.destinations]

    def ways(self, source: NodeState, destination: NodeState, shard: Shard) -> list[Way]:
        """How a shard could go between two nodes."""
        ways: list[Way] = []
        if source.dropped or destination.dropped:
            return ways
        a, b = source.node, destination.node
        self.worked = self.worked or any(self.has_worker(state.node) for state in self.all())
        is_check = shard.kind == "check"
        if b.path is not None and (a.url is not None or is_check) and self.has_worker(b):
            ways.append("pull")
        if self.verified:
            return ways
        if shard.kind != "range" and (a.path is not None or is_check) and b.url is not None and self.has_worker(a):
            ways.append("push")
        among_daemons = a.is_daemon and b.is_daemon and not self.worked
        if not ways and shard.kind != "range" and among_daemons and self.has_worker(ANYWHERE):
            ways.append("ticket")
        return ways

    def choose(self, shard: Shard, but: NodeState | None = None) -> Pair | None:
        """The pair with the most free places, without the source ``but``; none now. Nodes that failed with this
        shard come last."""
        tried = self.tried.get(shard.id, set())
        best: tuple[tuple[int, int, int, int], Pair] | None = None
        for source in self.sources:
            for destination in self.destinations:
                if source is but or source.free < 1 or destination.free < 1:
                    continue
                fresh = (source.node.name, destination.node.name) not in tried
                for way in self.ways(source, destination, shard):
                    pair = Pair(source, destination, way)
                    spread = min(source.free, destination.free)
                    rank = (int(fresh), spread, -pair.at.moving, source.free + destination.free)
                    if best is None or rank > best[0]:
                        best = (rank, pair)
        return best[1] if best else None

    def can_ever(self, shard: Shard) -> bool:
        """Whether any two nodes that are left could move it."""
        return any(
            self.ways(source, destination, shard)
            for source in self.sources
            for destination in self.destinations
        )

    def take(self, pair: Pair) -> None:
        for state in (pair.source, pair.destination):
            state.busy += 1
        pair.at.moving += 1

    def give_back(self, pair: Pair) -> None:
        for state in (pair.source, pair.destination):
            state.busy -= 1
        pair.at.moving -= 1

    def succeeded(self, pair: Pair, moved: int, seconds: float) -> None:
        for state in (pair.source, pair.destination):
            state.shards += 1
            state.bytes += moved
            state.seconds += seconds
            state.in_a_row = 0

    def blame(self, node: str, why: str) -> None:
        """Notes what happened to a node beside its shards, or to a shard with its worker."""
        for state in self.all():
            if state.node.name == node:
                state.failures += 1
                state.last = why

    def failed(self, pair: Pair, shard: Shard, error: BaseException) -> NodeState:
        """Notes a failure; returns the node to which it is due."""
        self.tried.setdefault(shard.id, set()).add((pair.source.node.name, pair.destination.node.name))
        state = blame(pair, error)
        state.failures += 1
        state.in_a_row += 1
        state.last_error, state.last = error, f"{shard}: {error}"
        if state.dropped:
            pass
        elif self.verified and isinstance(error, IntegrityError):
            # The next file of a node that lies is no better.
            state.dropped = f"it serves other bytes than were agreed on: {error}"
        elif state.in_a_row >= FAILURES_MAX:
            state.dropped = f"{state.in_a_row} failures in a row, the last one: {error}"
        return state


def blame(pair: Pair, error: BaseException) -> NodeState:
    """The node that an error speaks of."""
    if isinstance(error, (SourceError, IntegrityError)):
        return pair.source
    if isinstance(error, (DestinationError, FileError)):
        return pair.destination
    if isinstance(error, Error) and isinstance(error, _OF_THE_OTHER):
        return pair.other
    return pair.at
