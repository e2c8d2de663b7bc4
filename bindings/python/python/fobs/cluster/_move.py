"""What runs on the workers: scanning, moving one shard, finishing. Results are plain values."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from .. import _fobs
from .._errors import CancelledError, IntegrityError, PartialError, UsageError
from .._job import Job, transferred
from .._options import named
from .._session import Session
from .._types import Progress, Result
from .._values import encode, paths_of
from ._access import Access, Local, Remote, access_to, of_task, session_with
from ._agree import Hashed
from ._nodes import Node
from ._part import made
from ._shards import PIECE, STATE, File, Shard, Tree, join, scan
from ._state import (
    Record,
    finish_file,
    missing_runs,
    note_done,
    read_done,
    read_pieces,
    take_lock,
)

#: Which end a worker stands at: the destination pulls, the source pushes; or at neither, and the destination's
#: daemon pulls with a ticket.
Way = Literal["pull", "push", "ticket"]

# How long a ticket is good, seconds: a day, because a slow shard may be begun again with it.
_TICKET_LIFE = 86_400
# How often a worker tells how far a shard is, seconds.
_TELL_EVERY = 0.5


@dataclass(frozen=True)
class Assignment:
    """A shard, and between which nodes a worker of one of them moves it."""

    run: str
    key: str
    shard: Shard
    source: Node
    destination: Node
    way: Way
    #: Its files as their copies have them in common, where that was agreed on.
    agreed: Mapping[str, Hashed] = field(default_factory=dict)

    @property
    def other(self) -> Node:
        """The node that the worker does not stand at."""
        return self.destination if self.way == "push" else self.source


@dataclass(frozen=True)
class Moved:
    """What became of a shard."""

    shard: str
    records: tuple[Record, ...]
    #: Bytes in place, those among them that were there before, and seconds.
    bytes: int
    resumed_bytes: int
    seconds: float
    #: Files that were not moved, and why.
    failed: tuple[tuple[str, str], ...] = ()
    explanation: str = ""
    #: Permission bits of the file of a range.
    mode: int = 0o644


@dataclass(frozen=True)
class Greeting:
    """What a worker says of itself."""

    version: str
    host: str
    clock: float


def greet() -> Greeting:
    """Runs on each worker before a transfer."""
    return Greeting(_fobs.VERSION, platform.node(), time.time())


def look_at_source(node: Node, at: str) -> Tree | File:
    """The tree of the source, or the one file that it is."""
    above, name = node.above()
    if name:
        with access_to(above, at) as access:
            found = access.stat(name)
            if found is not None and found.kind == "file":
                return File("", found.size, found.mtime_ns)
    with access_to(node, at) as access:
        return scan(access)


@dataclass(frozen=True)
class Standing:
    """What is at the destination already."""

    present: dict[str, tuple[int, int]]
    done: dict[str, Record]


def look_at_destination(node: Node, at: str, owner: str, wanted: frozenset[str]) -> Standing:
    """Takes the destination; returns the files in it that the source has too, and what of them is verified."""
    with access_to(node, at) as access:
        access.make_directories("")
        take_lock(access, owner)
        tree = scan(access)
        present = {f.name: (f.size, f.mtime_ns) for f in tree.all_files() if f.name in wanted}
        return Standing(present, read_done(access))


class _Watch:
    """Follows the job of a shard: tells its progress, and ends it when nobody waits for it any more."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.before = self.resumed = 0
        self.told = 0.0
        self.is_wanted, self.log = of_task()

    def check(self) -> None:
        if not self.is_wanted():
            raise CancelledError(f"{self.assignment.shard} is not waited for any more")

    def __call__(self, progress: Progress) -> None:
        self.check()
        now = time.monotonic()
        if now - self.told >= _TELL_EVERY:
            self.told = now
            stand = {"key": self.assignment.key, "bytes": self.before + progress.bytes, "resumed": self.resumed}
            self.log(f"fobs-{self.assignment.run}", stand)


def move(assignment: Assignment) -> Moved:
    """Moves one shard; raises what stopped it."""
    watch = _Watch(assignment)
    try:
        return _move(assignment, watch)
    finally:
        # Nothing of it writes any more.
        watch.log(f"fobs-{assignment.run}", {"key": assignment.key, "ended": True})


def _move(assignment: Assignment, watch: _Watch) -> Moved:
    began = time.monotonic()
    shard = assignment.shard
    if shard.kind == "check":
        records, bytes_, resumed, failed, why = _check(assignment, watch)
    elif shard.kind == "range":
        return _move_range(assignment, watch, began)
    else:
        act = _have_moved if assignment.way == "ticket" else _move_files
        records, bytes_, resumed, failed, why = act(assignment, watch)
    seconds = time.monotonic() - began
    return Moved(shard.id, tuple(records), bytes_, resumed, seconds, tuple(failed), why)


_Outcome = tuple[list[Record], int, int, list[tuple[str, str]], str]


@contextmanager
def _ends(assignment: Assignment) -> Iterator[tuple[Session, Local, Access]]:
    """The session with the other end, the files of this one, and access to the destination."""
    own, other = assignment.destination, assignment.source
    if assignment.way == "push":
        own, other = other, own
    if own.path is None:
        raise UsageError(
            f"the node {own.name} has workers and no path; give the path at which they find the data"
        )
    local = Local(own.path)
    with session_with(other) as session:
        if assignment.way == "pull":
            yield session, local, local
        else:
            with access_to(other, own.name) as access:
                yield session, local, access


def _move_files(assignment: Assignment, watch: _Watch) -> _Outcome:
    shard, whole = assignment.shard, {file.name: file for file in assignment.shard.files}
    records: list[Record] = []
    resumed, failed, slowest, why = 0, [], 0.0, ""
    with _ends(assignment) as (session, local, access):
        for directory, names in shard.groups:
            result, job, roots = _copy_group(assignment, watch, session, local, directory, names)
            for name, root in roots.items():
                if name in whole:
                    file = whole[name]
                    records.append((name, file.size, file.mtime_ns, root))
            resumed += result.resumed_bytes
            failed += [(join(directory, bad.path), bad.message) for bad in result.errors]
            if result.seconds_total >= slowest:
                slowest, why = result.seconds_total, str(job.explain)
            watch.before += result.bytes
        told = {name for name, _ in failed} | {record[0] for record in records}
        for name, file in whole.items():
            if name in told:
                continue
            # What an earlier attempt put in place is not reported again.
            found = access.stat(name)
            if found is not None and (found.size, found.mtime_ns) == (file.size, file.mtime_ns):
                records.append((name, file.size, file.mtime_ns, _hash(local.path(name), file.size)))
            else:
                failed.append((name, "it is gone from the source, or changed there meanwhile; call again"))
        note_done(access, shard, records)
    return records, sum(record[1] for record in records), resumed, failed, why


def _copy_group(
    assignment: Assignment,
    watch: _Watch,
    session: Session,
    local: Local,
    directory: str,
    names: tuple[str, ...],
) -> tuple[Result, Job[Result], dict[str, str]]:
    options = named({**assignment.other.options, "recursive": True, "preserve": True})
    roots: dict[str, str] = {}
    core = session._core
    if assignment.way == "pull":
        local.make_directories(directory)
        paths = [encode(join(directory, name)) for name in names]
        raw = core.get(paths, encode(local.path(directory)), options)
    else:
        if directory:
            session.mkdir(directory, parents=True, exist_ok=True)
        paths = paths_of([local.path(join(directory, name)) for name in names])
        raw = core.put(paths, encode(directory), options)
    job = session._job(raw, transferred)

    def take_roots() -> None:
        for path, _, root in raw.files():
            roots[join(directory, os.fsdecode(path))] = bytes(root).hex()

    def follow(progress: Progress) -> None:
        take_roots()
        watch(progress)

    try:
        result = job.wait(progress=follow)
    except PartialError as error:
        if error.result is None:
            raise
        result = error.result
    take_roots()
    return result, job, roots


def _have_moved(assignment: Assignment, watch: _Watch) -> _Outcome:
    """Has the daemon of the destination pull from that of the source; no data comes by this worker."""
    whole = {file.name: file for file in assignment.shard.files}
    records: list[Record] = []
    with session_with(assignment.source) as source, session_with(assignment.destination) as destination:
        for directory, names in assignment.shard.groups:
            tops = [join(directory, name) for name in names]
            below = tuple(top + "/" for top in tops)
            size = sum(f.size for f in whole.values() if f.name in tops or f.name.startswith(below))
            if directory:
                destination.mkdir(directory, parents=True, exist_ok=True)
            job = destination.start_fetch(directory, source.ticket(tops, size, life=_TICKET_LIFE))
            for name, _, root in job.wait(progress=watch):
                file = whole.get(join(directory, name))
                if file is not None:
                    records.append((file.name, file.size, file.mtime_ns, root))
        note_done(Remote(destination), assignment.shard, records)
    told = {record[0] for record in records}
    failed = [(name, "it did not arrive; call again") for name in whole if name not in told]
    return records, sum(record[1] for record in records), 0, failed, ""


def _move_range(assignment: Assignment, watch: _Watch, began: float) -> Moved:
    shard, file = assignment.shard, assignment.shard.files[0]
    agreed = assignment.agreed.get(file.name)
    if assignment.way != "pull":
        raise UsageError(f"{shard} can only be pulled by a worker at the destination")
    resumed = 0
    with _ends(assignment) as (session, local, _):
        mode = agreed.mode if agreed is not None else _check_source(session, file)
        watch.check()
        with made(local, file) as descriptor:
            path = encode(f"/proc/self/fd/{descriptor}")
            journal = local.path(f"{STATE}/{file.id}-{shard.start}.pieces")
            pieces = read_pieces(local, file, None if agreed is None else agreed.is_piece)
            runs = missing_runs(file, pieces, shard.start, shard.end)
            resumed = shard.bytes - sum(end - start for start, end in runs)
            watch.before, watch.resumed, why = resumed, resumed, ""
            for start, end in runs:
                options = named(dict(assignment.other.options))
                expected = None if agreed is None else agreed.expected(start, end)
                raw = session._core.get_part(
                    encode(file.name), path, encode(journal), start, end, PIECE, expected, options
                )
                job = session._job(raw, int)
                count = job.wait(progress=watch)
                if count != end - start:
                    raise _changed(file) if agreed is None else _short(file, start + count)
                watch.before, why = watch.before + count, str(job.explain)
        if agreed is None:
            _check_source(session, file)
    return Moved(shard.id, (), shard.bytes, resumed, time.monotonic() - began, (), why, mode)


def _short(file: File, at: int) -> IntegrityError:
    return IntegrityError(f"{file.name!r} ends at {at}, not at {file.size} as was agreed on")


def _check_source(session: Session, file: File) -> int:
    """The permission bits of the file, if it is still the one that was scanned."""
    now = session.stat(file.name)
    if (now.size, now.mtime_ns) != (file.size, file.mtime_ns):
        raise _changed(file)
    return now.mode


def _changed(file: File) -> ChangedError:
    return ChangedError(f"{file.name!r} changed at the source while its ranges were moved; call again")


class ChangedError(UsageError):
    """A file is not the one that was scanned."""


def _check(assignment: Assignment, watch: _Watch) -> _Outcome:
    """Hashes files that are at the destination already, where the worker can read them."""
    node = assignment.destination if assignment.way == "pull" else assignment.source
    local, records, failed = Local(node.path or ""), [], []
    for file in assignment.shard.files:
        watch.check()
        try:
            status = os.stat(local.path(file.name))
            if (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns):
                raise _changed(file)
            root = _hash(local.path(file.name), file.size)
            if file.name in assignment.agreed and root != assignment.agreed[file.name].root:
                raise FileExistsError(
                    f"another file of the same size and time is at the destination, with the hash {root}; remove "
                    "it and call again"
                )
            records.append((file.name, file.size, file.mtime_ns, root))
        except OSError as error:
            failed.append((file.name, str(error)))
    count = sum(record[1] for record in records)
    return records, count, count, failed, ""


def _hash(path: str, size: int) -> str:
    if size <= PIECE:
        with open(path, "rb") as file:
            return _fobs.root_of(file.read())
    values: list[bytes] = Job(_fobs.hash_pieces(path, 0, size, PIECE), list).wait()
    return _fobs.join_pieces(values)


def finish(node: Node, file: File, mode: int, agreed: Hashed | None) -> Record:
    """Gives a file its name whose ranges have all come; at a worker of the destination."""
    return finish_file(Local(node.path or ""), file, mode, None if agreed is None else agreed.is_piece)
