"""A tree as a stream of rows, in batches: a worker keeps its place between them, and another one finds the place again.

The order is that of paths by component: a directory comes before what is in it, and nothing else between.
"""

from __future__ import annotations

import marshal
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .._errors import ConnectError, DestinationError, SourceNotFoundError, SshError, TransferTimeoutError
from ._access import Access, Failed, Found, Local, Remote, access_to, address_of_task, join
from ._nodes import Node
from ._shards import STATE

# Rows of a batch, and bytes of their names.
BATCH_ROWS, BATCH_BYTES = 10_000, 4 << 20
# The format that all versions of Python read.
_MARSHAL = 4
# Streams whose places one process keeps; one that was forgotten is found again by its last name.
_KEPT_MAX = 16

_IN_STATE = f"{STATE}/"

Key = bytes


def key(name: str) -> Key:
    """What rows are ordered by: the separator before all that a name can have."""
    return os.fsencode(name).replace(b"/", b"\0")


@dataclass(frozen=True)
class Batch:
    """The next rows of a stream."""

    rows: list[Found]
    #: Directories that could not be listed, and why.
    failed: Failed
    is_last: bool
    #: The worker that has the place.
    worker: str = ""
    #: The top itself, with the first rows; nothing where it does not exist.
    top: Found | None = None
    #: Whether a transfer has left its state there, or one works on it.
    has_state: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Each row travels: pickle would take five times as long.
        rows = marshal.dumps([tuple(row) for row in self.rows], _MARSHAL)
        return _batch, (rows, self.failed, self.is_last, self.worker, self.top, self.has_state)


def _batch(rows: bytes, *more: Any) -> Batch:
    return Batch([Found(*row) for row in marshal.loads(rows)], *more)


@dataclass
class _Level:
    """Rows that are left of one listing."""

    rows: Iterator[Found]
    #: Whether what is in the directories among them is listed as well.
    is_deep: bool


@dataclass
class Stream:
    """The rows of a tree that come after a name."""

    access: Access
    after: str = ""
    failed: Failed = field(default_factory=list)
    #: Whether a transfer has left its state there, or one works on it; known with the first row.
    has_state: bool = False

    def __post_init__(self) -> None:
        self._after: Key | None = key(self.after) if self.after else None
        self._levels: list[_Level] = []
        self._next: str | None = ""

    def rows(self) -> Iterator[Found]:
        """One after the other; raises what listing the top raises."""
        while self._next is not None or self._levels:
            if self._next is not None:
                directory, self._next = self._next, None
                self._enter(directory)
                continue
            level = self._levels[-1]
            row = next(level.rows, None)
            if row is None:
                self._levels.pop()
                continue
            if row.name == STATE or row.name.startswith(_IN_STATE):
                continue
            if not level.is_deep and row.kind == "directory":
                self._next = row.name
            if self._after is not None:
                own = key(row.name)
                if own <= self._after:
                    if own != self._after and not self._after.startswith(own + b"\0"):
                        self._next = None
                    continue
                self._after = None
            self.after = row.name
            yield row

    def _enter(self, directory: str) -> None:
        try:
            if isinstance(self.access, Local):
                if not directory:
                    self.has_state = os.path.lexists(self.access.path(STATE))
                self._levels.append(_Level(_of_directory(self.access, directory), is_deep=False))
            else:
                self._levels.append(self._answered(directory))
        except (FileNotFoundError, NotADirectoryError, SourceNotFoundError) as error:
            if not directory and isinstance(self.access, Local):
                raise SourceNotFoundError(f"cannot list {self.access.root!r}: {error.strerror}") from error
            if not directory:
                raise
            # One of this host that is gone was removed meanwhile.
            if not isinstance(self.access, Local):
                self.failed.append((directory, "it is gone, or its server is"))
        except (ConnectError, SshError, TransferTimeoutError):
            # Of the node, not of the directory: another one goes on after the last row.
            raise
        except OSError as error:
            if not directory:
                raise
            self.failed.append((directory, f"cannot list {directory!r}: {error.strerror or error}"))

    def _answered(self, directory: str) -> _Level:
        """All below a directory in one request; that alone where a part may not be read, or is too much for one answer."""
        assert isinstance(self.access, Remote)
        try:
            found = self.access.below(directory)
            is_deep = True
        except (ConnectError, SshError, TransferTimeoutError, SourceNotFoundError):
            raise
        except OSError:
            found = [row._replace(name=join(directory, row.name)) for row in self.access.list(directory)]
            is_deep = False
            found.sort(key=lambda row: key(row.name))
        if not directory:
            self.has_state = any(row.name == STATE for row in found)
        return _Level(iter(found), is_deep)


def _of_directory(local: Local, directory: str) -> Iterator[Found]:
    """Names alone are held, so that a directory of millions of files can be listed."""
    names = os.listdir(os.fsencode(local.path(directory)))
    names.sort()
    return local.rows(directory, map(os.fsdecode, names))


_kept: dict[str, tuple[Stream, Iterator[Found]]] = {}
_lock = threading.Lock()


def read_rows(node: Node, at: str, name: str, after: str, may_miss: bool) -> Batch:
    """The next rows of the stream ``name`` after the row ``after``, at a worker. With ``may_miss`` a top that does not
    exist has none.
    """
    with _lock:
        stream, rows = _kept.pop(name, (None, None))
    with access_to(node, at) as access:
        top = access.stat("") if not after else None
        if may_miss and not after and top is None:
            return Batch([], [], True)
        if may_miss and top is not None and top.kind != "directory":
            raise DestinationError(f"{node} is no directory; choose another destination, or move it away")
        if stream is None or rows is None or stream.after != after:
            stream = Stream(access, after)
            rows = stream.rows()
        stream.access, stream.failed = access, []
        taken: list[Found] = []
        letters = 0
        try:
            for row in rows:
                taken.append(row)
                letters += len(row.name)
                if len(taken) >= BATCH_ROWS or letters >= BATCH_BYTES:
                    break
            else:
                return Batch(taken, stream.failed, True, "", top, stream.has_state)
        except SourceNotFoundError:
            if not may_miss:
                raise
            return Batch([], [], True)
    with _lock:
        while len(_kept) >= _KEPT_MAX:
            del _kept[next(iter(_kept))]
        _kept[name] = (stream, rows)
    return Batch(taken, stream.failed, False, address_of_task(), top, stream.has_state)


def end_streams() -> None:
    """Lets go of the places that this process keeps."""
    with _lock:
        _kept.clear()
