"""Copies of one object at several nodes: which hash they have in common, before any of it is moved.

Each node hashes its copy, in pieces. The values of one node join to its root, so with the root that the nodes
have in common each piece from any node is verified alone, and a node that serves other bytes is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from .._errors import CancelledError, IntegrityError
from .._job import Job
from .._session import Session
from .._values import encode
from ._access import Found, of_task, session_with
from ._nodes import Node
from ._result import ClusterError
from ._shards import PIECE

# Files of one request.
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Hashed:
    """A copy of a file as its node announces it. ``values`` are those of its pieces; none for one piece."""

    size: int
    mtime_ns: int
    mode: int
    root: str
    values: tuple[bytes, ...]
    #: Piece to which the first value belongs.
    first: int = 0

    def part(self, start: int, end: int) -> Hashed:
        """With the values of a range alone: all of them are megabytes for a large file."""
        first = start // PIECE
        return replace(self, values=self.values[first : (end + PIECE - 1) // PIECE], first=first)

    def expected(self, start: int, end: int) -> tuple[list[bytes], bool]:
        """What a range must be: values of its pieces, and whether they are the hash of a whole file."""
        if not self.values:
            return [bytes.fromhex(self.root)], True
        return list(self.values[start // PIECE - self.first : (end + PIECE - 1) // PIECE - self.first]), False

    def is_piece(self, index: int, value: bytes) -> bool:
        """Whether a piece is as expected; one of another range is not known."""
        if not self.values:
            return value.hex() == self.root
        at = index - self.first
        return 0 <= at < len(self.values) and self.values[at] == value


#: Hashes of files, or why one could not be read.
Announced = dict[str, Union[Hashed, str]]


def announce(node: Node, names: Sequence[str]) -> Announced:
    """Has a node hash its copies; runs on a worker."""
    is_wanted, _ = of_task()

    def check() -> None:
        if not is_wanted():
            raise CancelledError(f"the hashes of node {node.name} are not waited for any more")

    with session_with(node) as session:
        return hashes_at(session, names, check)


def hashes_at(session: Session, names: Sequence[str], check: Callable[[], None]) -> Announced:
    """Has a server hash its files, many in one request."""
    announced_by: Announced = {}
    for at in range(0, len(names), _BATCH):
        batch = list(names[at : at + _BATCH])
        job: Job[list[Any]] = session._job(session._core.hash([encode(n) for n in batch], PIECE), list)
        found = job.wait(progress=lambda _: check())
        for name, one in zip(batch, found, strict=True):
            if isinstance(one, str):
                announced_by[name] = one
            else:
                size, mtime_ns, mode, root, values = one
                announced_by[name] = Hashed(size, mtime_ns, mode, bytes(root).hex(), tuple(map(bytes, values)))
    return announced_by


@dataclass(frozen=True)
class Agreement:
    """The files as the nodes have them in common, and the nodes that are left out, and why."""

    files: dict[str, Hashed]
    dropped: dict[str, str]


def agree(names: Sequence[str], announced_by: Mapping[str, Union[Announced, OSError]], root: str | None) -> Agreement:
    """What the nodes ``announced_by`` have in common: the ``root`` of the caller, or that of more than half of them.

    Raises :class:`ClusterError` with the names of nodes that contradict each other.
    """
    files: dict[str, Hashed] = {}
    dropped = {node: f"it cannot hash its copy: {one}" for node, one in announced_by.items() if isinstance(one, OSError)}
    for name in names:
        roots: dict[str, list[str]] = {}
        kept: dict[str, Hashed] = {}
        for node, announced in announced_by.items():
            if isinstance(announced, OSError):
                continue
            one = announced[name]
            if isinstance(one, str):
                dropped.setdefault(node, one)
            else:
                roots.setdefault(one.root, []).append(node)
                kept.setdefault(one.root, one)
        if not roots:
            why = "; ".join(f"node {node}: {why}" for node, why in dropped.items())
            raise ClusterError(f"no node can hash its copy of {name!r}: {why}", _first_error(announced_by))
        right = root or max(roots, key=lambda one: len(roots[one]))
        if root is not None and root not in roots:
            raise ClusterError(
                f"no copy of {name!r} has the root {root} that was given: {_named(roots, kept)}",
                IntegrityError(""),
            )
        if root is None and 2 * len(roots[right]) <= sum(map(len, roots.values())):
            raise ClusterError(
                f"the copies of {name!r} differ: {_named(roots, kept)}. Nothing was moved; give the root of the "
                "right one, or leave the others out",
                IntegrityError(""),
            )
        files[name] = kept[right]
        for other, nodes in roots.items():
            for node in nodes if other != right else ():
                of = "was given" if root is not None else f"{len(roots[right])} nodes have"
                dropped.setdefault(node, f"its copy of {name!r} has the root {other}, not {right} that {of}")
    return Agreement(files, dropped)


def _first_error(announced_by: Mapping[str, Union[Announced, OSError]]) -> BaseException:
    return next((one for one in announced_by.values() if isinstance(one, OSError)), FileNotFoundError())


def _named(roots: Mapping[str, list[str]], kept: Mapping[str, Hashed]) -> str:
    return ", ".join(
        f"node {' and '.join(nodes)} has {root} ({kept[root].size} bytes)" for root, nodes in roots.items()
    )


def as_agreed(rows: Sequence[Found], agreed: Mapping[str, Hashed]) -> list[Found]:
    """The rows, with the sizes and times of the copies that count: the node that was scanned may be wrong."""
    return [_as_agreed(row, agreed.get(row.name)) for row in rows]


def _as_agreed(row: Found, agreed: Hashed | None) -> Found:
    return row if agreed is None else row._replace(size=agreed.size, mtime_ns=agreed.mtime_ns, mode=agreed.mode)


def has_root(announced_by: Union[Hashed, str], root: str) -> bool:
    """Whether a copy has a root."""
    return isinstance(announced_by, Hashed) and announced_by.root == root


def is_root(text: str) -> bool:
    """Whether a text is a BLAKE3 hash in hex."""
    return len(text) == 64 and all(letter in "0123456789abcdef" for letter in text)
