"""What precedes the first shard: the source is listed, the destination taken, and copies agreed on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from .._errors import UsageError
from ._access import Found
from ._agree import Announced, Hashed, agree, announce, as_agreed, has_root
from ._move import keep_destination, look_at_source, read_records, take_destination
from ._memory import Memory
from ._nodes import Node
from ._ordered import Batch, read_rows
from ._pairs import Pairs
from ._result import ClusterError, of_side
from ._shards import File
from ._spool import Spool
from ._state import CONFIRM_AFTER, BusyError, Record
from ._workers import Asked, NodeLostError, Workers

# Files of records that one task reads.
_RECORDS_AT_ONCE = 64
# Entries of each side where copies are agreed on: their hashes are held in memory.
COPIES_MAX = 100_000


class Survey:
    """What is at both sides."""

    def __init__(
        self, workers: Workers, pairs: Pairs, sides: tuple[tuple[Node, ...], tuple[Node, ...]], owner: str
    ) -> None:
        self.workers, self.pairs, self.owner = workers, pairs, owner
        self.source, self.destination = sides
        #: The hash that the one file must have.
        self.root: str | None = None
        #: What earlier calls of this user know of files; nothing where copies are to say what they are.
        self.memory: Memory | None = None
        #: The source itself, where it is a directory, or the one file that it is.
        self.top: Found | None = None
        self.one_file: Found | None = None
        #: The first rows of the destination, with what it is itself; of one that does not exist there are none.
        self.first: Batch | None = None
        self.asking = {"source": _Asking(workers, may_miss=False), "destination": _Asking(workers, may_miss=True)}
        #: Directories of either side that could not be listed, and why.
        self.failed: list[tuple[str, str]] = []
        self.taken = 0.0
        #: Names of the records of an earlier call, once the destination is taken.
        self.records: list[str] = []
        #: Files as their copies have them in common.
        self.agreed: dict[str, Hashed] = {}

    def first_that_can(
        self, places: list[tuple[Node, Node]], what: str, act: Callable[[Node, Node], Any]
    ) -> Any:
        """Tries the nodes of a side one after the other; one that cannot be reached is noted."""
        last: tuple[Node, BaseException] | None = None
        tried: set[str] = set()
        lost: set[str] = set()
        for node, at in places:
            if node.name in tried or at.name in lost:
                continue
            try:
                return act(node, at)
            except NodeLostError as error:
                # It says nothing of the node that was looked at: another worker may reach it.
                lost.add(at.name)
                last = last or (at, error)
                self.pairs.blame(at.name, f"{what} failed: {error}")
                self.workers.notices.append(f"node {at.name}: {what} failed: {error}")
            except BusyError as error:
                raise ClusterError(f"node {node.name}: {error}", error, node=node.name) from error
            except OSError as error:
                why = of_side(error, what)
                tried.add(node.name)
                last = (node, why)
                self.pairs.blame(node.name, f"{what} failed: {why}")
                self.workers.notices.append(f"node {node.name}: {what} failed: {why}")
        if last is None:
            raise UsageError(
                f"no worker can reach the {what}: give its nodes a url, or workers of their own and a path"
            )
        bad, cause = last
        raise ClusterError(f"node {bad.name}: {what} failed: {cause}", cause, node=bad.name) from cause

    def begin(self) -> None:
        """Asks both sides for their first rows at once: each answer takes some round trips."""
        for what, side, other in (
            ("destination", self.destination, self.source), ("source", self.source, self.destination)
        ):  # fmt: skip
            if places := self.workers.places(side, other):
                self.asking[what].begin(*places[0])

    def scan(self) -> Found:
        """The top of the source, or the one file that it is."""

        def act(node: Node, at: Node) -> Found | File:
            found: Found | File = self.workers.call(look_at_source, at, node, at.name)
            return found

        found: Found | File = self.first_that_can(
            self.workers.places(self.source, self.destination), "source", act
        )
        if isinstance(found, File):
            return self._one_file(found)
        self.top = found
        return found

    def rows_of_source(self) -> Iterator[Found]:
        """What is in the source, in order."""
        if self.one_file is not None:
            self.asking["source"].end()
            return iter([self.one_file])
        return self._rows("source")

    def rows_of_destination(self) -> Iterator[Found]:
        """What stands at the destination, in order; nothing where it does not exist."""
        return self._rows("destination", self.first)

    def look_at_destination(self) -> None:
        """Its first rows."""
        self.first = self._batch("destination")

    @property
    def is_left_open(self) -> bool:
        """Whether the destination has to be made first, or another transfer has left something to go on with there."""
        assert self.first is not None
        return self.first.top is None or self.first.has_state

    @property
    def is_same_top(self) -> bool:
        """Whether the destination itself has the mode and the time of the source."""
        there = None if self.first is None else self.first.top
        if self.top is None:
            return True
        return there is not None and (there.mode, there.mtime_ns) == (self.top.mode, self.top.mtime_ns)

    def _rows(self, what: str, batch: Batch | None = None) -> Iterator[Found]:
        """Batch after batch, the next one asked for while one is taken; any node of the side goes on with it."""
        while True:
            batch = batch or self._batch(what)
            self.failed += batch.failed
            yield from batch.rows
            if batch.is_last:
                return
            batch = None

    def _batch(self, what: str) -> Batch:
        asking = self.asking[what]
        sides = (self.source, self.destination)
        places = self.workers.places(*(sides if what == "source" else sides[::-1]))
        # The one that has the place first.
        places.sort(key=lambda place: (place[0].name, place[1].name) != asking.good)
        batch: Batch = self.first_that_can(places, what, asking.next)
        return batch

    def _one_file(self, file: File) -> Found:
        """The directory above takes the place of a source that is a file."""
        names = set()
        for state in self.pairs.sources:
            state.node, name = state.node.above()
            names.add(name)
        self.source = tuple(state.node for state in self.pairs.sources)
        if len(names) != 1:
            raise UsageError(f"the nodes of the source name the file differently: {', '.join(sorted(names))}")
        self.one_file = Found(names.pop(), "file", file.size, file.mtime_ns, file.mode)
        return self.one_file

    def take(self) -> None:
        """Takes the destination."""
        self.records = self._at_destination(
            lambda node, at: self.workers.call(take_destination, at, node, at.name, self.owner)
        )
        self.taken = time.monotonic()

    def keep(self) -> None:
        """Makes sure that no other transfer took the destination at the same time."""
        wait = max(self.taken + CONFIRM_AFTER - time.monotonic(), 0.0)
        self._at_destination(
            lambda node, at: self.workers.call(keep_destination, at, node, at.name, self.owner, wait)
        )

    def verified(self) -> Iterator[list[Record]]:
        """Records of what an earlier call has verified, some files of them at once."""
        for begin in range(0, len(self.records), _RECORDS_AT_ONCE):
            some = self.records[begin : begin + _RECORDS_AT_ONCE]
            yield self._at_destination(partial(self._records_at, some))

    def _records_at(self, names: list[str], node: Node, at: Node) -> Any:
        return self.workers.call(read_records, at, node, at.name, names)

    def _at_destination(self, act: Callable[[Node, Node], Any]) -> Any:
        return self.first_that_can(self.workers.places(self.destination, self.source), "destination", act)

    def agree(self, rows: Iterable[Found], there: Iterable[Found], spool: Spool) -> tuple[list[Found], list[Found]]:
        """Has the nodes of the source agree on the files that are to be moved, before any of them is; both lists."""
        listed, standing = _few(rows, "source"), _few(there, "destination")
        files = [row for row in listed if row.kind == "file"]
        if self.root is not None and len(files) != 1:
            raise UsageError(f"a root is that of one file, and the source has {len(files)}; name one of them")
        at = {row.name: row for row in standing}
        names = [row.name for row in files if row.size and self.done(spool, row, at.get(row.name)) is None]
        unreachable = [state.node.name for state in self.pairs.sources if state.node.url is None]
        if unreachable:
            raise UsageError(f"the node {unreachable[0]} has no url, and copies are pulled; give it one")
        places = [at for at in self.destination if at.path is not None and self.workers.has(at)]
        if not places:
            raise UsageError("copies are verified at the destination; start workers at its nodes")
        if not names:
            return listed, standing
        agreement = agree(names, self._announced(names, places), self.root)
        for state in self.pairs.sources:
            if state.node.name in agreement.dropped:
                state.dropped = agreement.dropped[state.node.name]
                self.workers.notices.append(f"node {state.node.name} was left out: {state.dropped}")
        self.agreed = agreement.files
        return as_agreed(listed, self.agreed), standing

    def _announced(self, names: list[str], places: list[Node]) -> dict[str, Announced | OSError]:
        """What the nodes announce: all at once, or one after the other until one has the given root."""
        nodes = [state.node for state in self.pairs.sources]
        if self.root is None:
            where = {
                node.name: (places[index % len(places)], node) for index, node in enumerate(nodes)
            }
            started = {
                name: self.workers.submit(announce, at, node, names) for name, (at, node) in where.items()
            }
            return {name: self._outcome(asked) for name, asked in started.items()}
        announced_by: dict[str, Announced | OSError] = {}
        for node in nodes:
            one = self._outcome(self.workers.submit(announce, places[0], node, names))
            announced_by[node.name] = one
            if not isinstance(one, OSError) and has_root(one[names[0]], self.root):
                # The pieces of the others are verified against these, so they need not hash.
                break
        return announced_by

    def done(self, spool: Spool, row: Found, found: Found | None) -> Record | None:
        """The record of a file that an earlier call has verified, if it still stands there."""
        stands = (row.size, row.mtime_ns)
        if found is None or (found.kind, found.size, found.mtime_ns) != ("file", *stands):
            return None
        record = spool.verified(row.name)
        if record is not None and record[1:3] == stands:
            return record if self.root in (None, record[3]) else None
        record = None if self.memory is None else self.memory.of(row.name)
        if self.memory is None or record is None or record[1:3] != stands:
            return None
        self.memory.used += 1
        return record

    def _outcome(self, asked: Asked) -> Announced | OSError:
        """What a task returned, or the error of a node."""
        try:
            announced: Announced = self.workers.wait(asked)
            return announced
        except OSError as error:
            return error


class _Asking:
    """Reads the rows of one side as a stream, and knows the last row and the worker that listed it."""

    def __init__(self, workers: Workers, may_miss: bool) -> None:
        self.workers, self.may_miss = workers, may_miss
        self.name, self.after = uuid.uuid4().hex, ""
        #: The nodes that answered last.
        self.good = ("", "")
        self.worker = ""
        #: What has been asked for already, and the nodes that answer it.
        self.ahead: tuple[tuple[str, str], Asked] | None = None

    def begin(self, node: Node, at: Node) -> None:
        """Asks for the first rows; a node that is gone shows when they are taken."""
        try:
            self.ahead = ((node.name, at.name), self._submit(node, at, ""))
        except NodeLostError:
            self.ahead = None

    def end(self) -> None:
        """Lets go of what has been asked for."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None:
            ahead[1].future.cancel()

    def next(self, node: Node, at: Node) -> Batch:
        """The rows after the last ones."""
        worker = self.worker if (node.name, at.name) == self.good else ""
        asked = None
        if self.ahead is not None and self.ahead[0] == (node.name, at.name):
            (_, asked), self.ahead = self.ahead, None
        self.end()
        try:
            batch: Batch = self.workers.wait(asked or self._submit(node, at, worker))
        except NodeLostError:
            # The worker that had the place; another one of the node finds it.
            self.good = ("", "")
            if not worker or not self.workers.has(at):
                raise
            batch = self.workers.wait(self._submit(node, at, ""))
        self.good, self.worker = (node.name, at.name), batch.worker
        if batch.rows:
            self.after = batch.rows[-1].name
        if not batch.is_last:
            self.ahead = (self.good, self._submit(node, at, self.worker))
        return batch

    def _submit(self, node: Node, at: Node, worker: str) -> Asked:
        return self.workers.submit(
            read_rows, at, node, at.name, self.name, self.after, self.may_miss, worker=worker
        )


def _few(rows: Iterable[Found], side: str) -> list[Found]:
    """All of them: copies are agreed on as a whole."""
    found = list(islice(rows, COPIES_MAX + 1))
    if len(found) > COPIES_MAX:
        raise UsageError(f"the {side} has more than {COPIES_MAX} entries, too many for copies; name a part of them")
    return found
