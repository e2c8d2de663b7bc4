"""What runs on the workers: scanning, moving one shard, finishing. Results are plain values."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from .. import _fobs
from .._errors import CancelledError, IntegrityError, PartialError, RemoteMissingError, SourceNotFoundError, UsageError
from .._job import Job, transferred
from .._options import named
from .._session import Session
from .._types import Progress, Result
from .._values import encode
from ._access import Access, Found, Local, Remote, access_to, join, of_task, session_with
from ._agree import Hashed, hashes_at
from ._nodes import Node
from ._part import made
from ._shards import PIECE, STATE, File, Shard
from ._state import (
    Record,
    confirm_lock,
    done_names,
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
    #: What is kept of entries, and whether content is compared.
    keeps: str = "{}"
    content: bool = False
    #: Its files as their copies have them in common, where that was agreed on.
    agreed: Mapping[str, Hashed] = field(default_factory=dict)

    @property
    def picked(self) -> tuple[list[bytes], str, bool]:
        """The names of its shard, as a session takes them."""
        return [os.fsencode(name) for name in self.shard.names], self.keeps, self.content

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


def look_at_source(node: Node, at: str) -> Found | File:
    """The top of the source, or the one file that it is."""
    with access_to(node, at) as access:
        found = access.stat("")
    above, name = node.above()
    if found is None and name:
        # A server has no session in a file.
        with access_to(above, at) as access:
            found = access.stat(name)
    if found is None:
        raise SourceNotFoundError(f"{node} does not exist")
    return File("", found.size, found.mtime_ns, found.mode) if found.kind == "file" else found


def take_destination(node: Node, at: str, owner: str) -> list[str]:
    """Takes the destination, which is made where it is missing; names of the records of what an earlier call has verified."""
    with access_to(node, at) as access:
        take_lock(access, owner)
        return done_names(access)


def keep_destination(node: Node, at: str, owner: str, wait: float) -> None:
    """Looks once more, after these seconds, whether it is still taken."""
    with access_to(node, at) as access:
        confirm_lock(access, owner, wait)


def read_records(node: Node, at: str, names: list[str]) -> list[Record]:
    """What these say."""
    with access_to(node, at) as access:
        return [record for name in names for record in read_done(access, name)]


def remove(node: Node, at: str, names: list[str]) -> list[tuple[str, str]]:
    """Removes names of the destination, directories with all that is in them; those that could not be, and why."""
    failed = []
    with access_to(node, at) as access:
        for name in names:
            try:
                access.remove(name, tree=True)
            except OSError as error:
                failed.append((name, f"cannot delete it: {error}"))
    return failed


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
    if shard.kind == "range":
        return _move_range(assignment, watch, began)
    if shard.kind == "check":
        records, bytes_, resumed, failed, why = _check(assignment, watch)
    else:
        records, bytes_, resumed, failed, why = _move_names(assignment, watch)
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


@dataclass
class _Came:
    """What a session says of the names that it moved."""

    #: Hashes of files that came, by name.
    roots: dict[str, str] = field(default_factory=dict)
    resumed: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    why: str = ""


def _move_names(assignment: Assignment, watch: _Watch) -> _Outcome:
    """Moves names of the tree; what is there already only gets its attributes."""
    shard = assignment.shard
    if assignment.way == "ticket":
        with session_with(assignment.destination) as destination:
            came = _have_fetched(assignment, watch, destination)
            return _settle_up(shard, came, Remote(destination), watch)
    with _ends(assignment) as (session, local, access):
        came = _copy_names(assignment, watch, session, local)
        return _settle_up(shard, came, access, watch, local if assignment.way == "push" else None)


def _settle_up(
    shard: Shard, came: _Came, access: Access, watch: _Watch, own: Local | None = None
) -> _Outcome:
    """Records of the files that are in place; those that did not come now are hashed where they are."""
    told = {name for name, _ in came.failed}
    records = [(f.name, f.size, f.mtime_ns, came.roots[f.name]) for f in shard.files if f.name in came.roots]
    quiet = [file for file in shard.files if file.name not in came.roots and file.name not in told]
    hashed, missing = _hash_there(access, quiet, watch, own)
    resumed = came.resumed + sum(record[1] for record in hashed)
    records += hashed
    failed = came.failed + missing
    if shard.kind != "settle":
        note_done(access, shard, records)
    return records, sum(record[1] for record in records), resumed, failed, came.why


def _copy_names(assignment: Assignment, watch: _Watch, session: Session, local: Local) -> _Came:
    options = named({**assignment.other.options, "preserve": True})
    came, core = _Came(), session._core
    here = encode(os.path.join(local.root, ""))
    if assignment.way == "pull":
        raw = core.get([b""], here, options, assignment.picked)
    else:
        raw = core.put([here], b"", options, assignment.picked)
    job = session._job(raw, transferred)

    def take_roots() -> None:
        for path, _, root in raw.files():
            came.roots[os.fsdecode(path)] = bytes(root).hex()

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
    came.resumed = result.resumed_bytes
    came.failed = [(bad.path, bad.message) for bad in result.errors]
    came.why = str(job.explain)
    return came


def _have_fetched(assignment: Assignment, watch: _Watch, destination: Session) -> _Came:
    """Has the daemon of the destination pull from that of the source; no data comes by this worker."""
    shard, options = assignment.shard, named({})
    came = _Came()
    with session_with(assignment.source) as source:
        # A byte more than none: a ticket is for some.
        ticket = source.ticket("", max(shard.bytes, 1), life=_TICKET_LIFE)
        parts = (ticket.text, ticket.host, ticket.port, ticket.key)
        try:
            raw = destination._core.fetch(b"", parts, options, assignment.picked)
            found: list[Any] = destination._job(raw, list).wait(progress=watch)
        except RemoteMissingError:
            return _have_fetched_plainly(assignment, watch, source, destination)
    for path, _, text, is_file in found:
        name = os.fsdecode(path)
        if is_file:
            came.roots[name] = bytes(text or b"").hex()
        elif name:
            came.failed.append((name, bytes(text or b"").decode("utf-8", "replace")))
        else:
            came.why = bytes(text or b"").decode("utf-8", "replace").strip()
    return came


def _have_fetched_plainly(
    assignment: Assignment, watch: _Watch, source: Session, destination: Session
) -> _Came:
    """From and to daemons of 0.2, which know no names of a tree: files alone, directory by directory."""
    came = _Came()
    below: dict[str, list[File]] = {}
    for file in assignment.shard.files:
        below.setdefault(os.path.dirname(file.name), []).append(file)
    for directory, files in below.items():
        watch.check()
        if directory:
            destination.mkdir(directory, parents=True, exist_ok=True)
        ticket = source.ticket([file.name for file in files], sum(file.size for file in files), life=_TICKET_LIFE)
        for name, _, root in destination.start_fetch(directory, ticket).wait(progress=watch):
            came.roots[join(directory, name)] = root
    for name in assignment.shard.others:
        access = Remote(destination)
        found = access.stat(name)
        if found is None or found.kind != "directory":
            came.failed.append((name, "the daemon of the destination is too old for it; install the same version there"))
    return came


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
    """Has the node or worker that holds them hash files that are at the destination already."""
    node = assignment.destination
    at = node.name if assignment.way == "pull" else assignment.source.name
    with access_to(node, at) as access:
        own = Local(assignment.source.path) if assignment.way == "push" and assignment.source.path else None
        records, failed = _hash_there(access, assignment.shard.files, watch, own)
    for name, _, _, root in records:
        if name in assignment.agreed and root != assignment.agreed[name].root:
            failed.append((
                name,
                f"another file of the same size and time is at the destination, with the hash {root}; remove it and "
                "call again",
            ))  # fmt: skip
    bad = {name for name, _ in failed}
    records = [record for record in records if record[0] not in bad]
    count = sum(record[1] for record in records)
    return records, count, count, failed, ""


def _hash_there(
    access: Access, files: Sequence[File], watch: _Watch, own: Local | None = None
) -> tuple[list[Record], list[tuple[str, str]]]:
    """Records of files that are at the destination, and which are not there as they should be. ``own`` has the source's
    files, for a server of 0.2, which hashes none.
    """
    records: list[Record] = []
    failed: list[tuple[str, str]] = []
    for file, found in zip(files, _hashes(access, files, watch, own), strict=True):
        if isinstance(found, str):
            failed.append((file.name, f"it is not at the destination: {found}; call again"))
        elif found[:2] != (file.size, file.mtime_ns):
            failed.append((file.name, "it is gone from the source, or changed there meanwhile; call again"))
        else:
            records.append((file.name, file.size, file.mtime_ns, found[2]))
    return records, failed


def _hashes(
    access: Access, files: Sequence[File], watch: _Watch, own: Local | None
) -> Iterator[tuple[int, int, str] | str]:
    """Size, time and hash of each, or why there is none."""
    if isinstance(access, Remote):
        try:
            announced = hashes_at(access.session, [file.name for file in files], watch.check)
        except (UsageError, RemoteMissingError):
            if own is None:
                raise
            for file in files:
                watch.check()
                found = access.stat(file.name)
                yield "nothing has its name" if found is None else (
                    found.size,
                    found.mtime_ns,
                    _hash(own.path(file.name), file.size),
                )
            return
        for file in files:
            one = announced[file.name]
            yield one if isinstance(one, str) else (one.size, one.mtime_ns, one.root)
        return
    assert isinstance(access, Local)
    for file in files:
        watch.check()
        path = access.path(file.name)
        try:
            status = os.stat(path, follow_symlinks=False)
            if (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns):
                yield status.st_size, status.st_mtime_ns, _hash(path, file.size)
            else:
                yield status.st_size, status.st_mtime_ns, ""
        except OSError as error:
            yield str(error.strerror or error)


def _hash(path: str, size: int) -> str:
    if size <= PIECE:
        with open(path, "rb") as file:
            return _fobs.root_of(file.read())
    values: list[bytes] = Job(_fobs.hash_pieces(path, 0, size, PIECE), list).wait()
    return _fobs.join_pieces(values)


def finish(node: Node, file: File, mode: int, agreed: Hashed | None) -> Record:
    """Gives a file its name whose ranges have all come; at a worker of the destination."""
    return finish_file(Local(node.path or ""), file, mode, None if agreed is None else agreed.is_piece)
