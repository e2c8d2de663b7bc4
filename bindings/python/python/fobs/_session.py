"""Sessions: opened once, then many transfers over one connection."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar, Unpack

from . import _fobs
from ._errors import DestinationError, SourceNotFoundError, TransferTimeoutError, UsageError
from ._job import Job, OnProgress, transferred
from ._options import Option, Options, named, resolved, seconds
from ._stream_tasks import opened
from ._streams import Command, Opening, Stream
from ._types import Entry, Result, Ticket
from ._values import (
    Path,
    above,
    buffer_of,
    count,
    depth_of,
    encode,
    entries,
    entry,
    fetched,
    flag,
    local,
    nothing,
    paths_of,
    raw_bytes,
    start_of,
    taken,
    ticket,
)

T = TypeVar("T")

# Longest object that is returned as bytes: what a server sends beyond it is refused.
_BYTES_MAX = 1 << 40


class Session:
    """A session with one server: opened once, then any number of calls over one connection.

    ``url`` is ``"host:path"``, ``"ssh://user@host/path"`` or ``"fobs://host/path"``; names are relative to its
    path. Options are those of ``fobs cp``, with ``_`` for ``-``: ``identity``, ``port``, ``rate`` (bits per
    second), ``compress``, ``timeout`` (seconds), ``cc``, ``transport`` and the others of docs/guide.md.

    Calls may come from any thread; transfers run one after the other, and requests about names pass them. Each
    call blocks without the GIL, and has a twin that returns a :class:`Job` (``start_put``) and one to await
    (``put_async``).
    """

    def __init__(self, url: Path, **options: Unpack[Options]) -> None:
        self._prepare(url, options)
        job = self._open()
        try:
            job.wait(timeout=self._patience)
        except TimeoutError as error:
            job._end()
            raise self._silent(error) from None

    @classmethod
    async def open_async(cls, url: Path, **options: Unpack[Options]) -> Session:
        """Opens a session without blocking the event loop."""
        session = cls.__new__(cls)
        session._prepare(url, options)
        try:
            await asyncio.wait_for(session._open()._wait_async(), session._patience)
        except TimeoutError as error:
            raise session._silent(error) from None
        return session

    def _prepare(self, url: Path, options: Any) -> None:
        self._url = url
        # Files by their whole paths: another process or a later chdir finds the same ones.
        self._given: dict[str, Option] = resolved(options)
        self._jobs: weakref.WeakSet[Job[Any]] = weakref.WeakSet()
        self._core = _fobs.Core(encode(url), named(self._given))
        timeout = self._given.get("timeout")
        # Without one a person may be typing a password.
        self._patience = None if timeout is None else seconds("timeout", timeout)

    def _open(self) -> Job[None]:
        return Job(self._core.open(), nothing)

    def _silent(self, error: TimeoutError) -> TimeoutError:
        if isinstance(error, TransferTimeoutError):
            return error
        shown = os.fsdecode(self._url)
        return TransferTimeoutError(
            f"{shown} did not answer within {self._patience} s; check that it is reachable, or give a longer timeout"
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"fobs.Session({self._url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A connection cannot be pickled: the other side opens one of its own.
        return (_reopen, (self._url, self._given))

    def close(self) -> None:
        """Cancels what runs, and ends the connection. May be called again."""
        for job in list(self._jobs):
            try:
                if not job.done:
                    job._end()
            except UsageError:
                # Of the process that this one was forked from.
                pass
        self._jobs.clear()
        ended = self._core.close()
        if ended is not None:
            # Bounded: a child that has inherited the connection does not hold it.
            Job(ended, nothing).wait()

    def _job(self, raw: _fobs.Job, finish: Callable[[Any], T]) -> Job[T]:
        job = Job(raw, finish)
        self._jobs.add(job)
        return job

    def start_put(self, source: Path | Iterable[Path], name: Path = "", **options: Unpack[Options]) -> Job[Result]:
        """Starts :meth:`put`."""
        return self._job(self._core.put(paths_of(source, local), encode(name), named(options)), transferred)

    def put(
        self,
        source: Path | Iterable[Path],
        name: Path = "",
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Copies files to the server, and directories with ``recursive=True``, as ``fobs cp`` does."""
        return self.start_put(source, name, **options).wait(progress=progress)

    async def put_async(
        self,
        source: Path | Iterable[Path],
        name: Path = "",
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """As :meth:`put`; cancelling the task cancels the transfer."""
        return await self.start_put(source, name, **options)._wait_async(progress)

    def start_get(self, name: Path | Iterable[Path], destination: Path, **options: Unpack[Options]) -> Job[Result]:
        """Starts :meth:`get`."""
        return self._job(self._core.get(paths_of(name), local(destination), named(options)), transferred)

    def get(
        self,
        name: Path | Iterable[Path],
        destination: Path,
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Copies files from the server, and directories with ``recursive=True``."""
        return self.start_get(name, destination, **options).wait(progress=progress)

    async def get_async(
        self,
        name: Path | Iterable[Path],
        destination: Path,
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """As :meth:`get`; cancelling the task cancels the transfer."""
        return await self.start_get(name, destination, **options)._wait_async(progress)

    def start_put_bytes(self, name: Path, data: Any, **options: Unpack[Options]) -> Job[Result]:
        """Starts :meth:`put_bytes`. The buffer must not change until the job has ended."""
        return self._job(self._core.put_bytes(encode(name), buffer_of(data), named(options)), transferred)

    def put_bytes(
        self, name: Path, data: Any, *, progress: OnProgress | None = None, **options: Unpack[Options]
    ) -> Result:
        """Stores a buffer (bytes, memoryview, numpy array, torch tensor) as a file, reading its memory itself."""
        return self.start_put_bytes(name, data, **options).wait(progress=progress)

    async def put_bytes_async(
        self, name: Path, data: Any, *, progress: OnProgress | None = None, **options: Unpack[Options]
    ) -> Result:
        """As :meth:`put_bytes`."""
        return await self.start_put_bytes(name, data, **options)._wait_async(progress)

    def start_get_into(
        self, name: Path, buffer: Any, start: int | None = None, **options: Unpack[Options]
    ) -> Job[int]:
        """Starts :meth:`get_into`. What the buffer holds is not specified until the job has ended."""
        raw = self._core.get_into(encode(name), buffer_of(buffer), start_of(start), None, named(options))
        return self._job(raw, count)

    def get_into(
        self,
        name: Path,
        buffer: Any,
        start: int | None = None,
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> int:
        """Fills the front of a writable buffer, and returns how many bytes: with the whole file, which must fit;
        with ``start``, with the bytes from there on, as many as there are and fit.
        """
        return self.start_get_into(name, buffer, start, **options).wait(progress=progress)

    async def get_into_async(
        self,
        name: Path,
        buffer: Any,
        start: int | None = None,
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> int:
        """As :meth:`get_into`."""
        return await self.start_get_into(name, buffer, start, **options)._wait_async(progress)

    def start_get_range(
        self, name: Path, start: int, length: int, *, opened: Entry | None = None, **options: Unpack[Options]
    ) -> Job[bytes]:
        """Starts :meth:`get_range`."""
        if length < 0:
            raise UsageError("the length of a range is not negative; give 0 or more")
        stamp = None if opened is None else opened._stamp
        length = min(int(length), _BYTES_MAX)
        raw = self._core.get_bytes(encode(name), start_of(start), length, stamp, named(options))
        return self._job(raw, raw_bytes)

    def get_range(
        self, name: Path, start: int, length: int, *, opened: Entry | None = None, **options: Unpack[Options]
    ) -> bytes:
        """The bytes of a file from ``start`` on: ``length`` of them, fewer where it ends, none beyond. Up to
        64 KiB cost one round trip. With ``opened``, what :meth:`stat` said before, a file that was replaced or
        changed since is a :class:`FileError`.
        """
        return self.start_get_range(name, start, length, opened=opened, **options).wait()

    async def get_range_async(
        self, name: Path, start: int, length: int, *, opened: Entry | None = None, **options: Unpack[Options]
    ) -> bytes:
        """As :meth:`get_range`."""
        return await self.start_get_range(name, start, length, opened=opened, **options)._wait_async()

    def start_get_bytes(self, name: Path, max_bytes: int = _BYTES_MAX, **options: Unpack[Options]) -> Job[bytes]:
        """Starts :meth:`get_bytes`."""
        return self._job(self._core.get_bytes(encode(name), None, max_bytes, None, named(options)), raw_bytes)

    def get_bytes(
        self,
        name: Path,
        max_bytes: int = _BYTES_MAX,
        *,
        progress: OnProgress | None = None,
        **options: Unpack[Options],
    ) -> bytes:
        """All of a file; one of more than ``max_bytes`` is refused."""
        return self.start_get_bytes(name, max_bytes, **options).wait(progress=progress)

    async def get_bytes_async(self, name: Path, max_bytes: int = _BYTES_MAX, **options: Unpack[Options]) -> bytes:
        """As :meth:`get_bytes`."""
        return await self.start_get_bytes(name, max_bytes, **options)._wait_async()

    def stream(
        self,
        name: Path = "",
        command: Command | None = None,
        *,
        listen: str | None = None,
        wait: float | None = None,
        stderr: bool = False,
        **options: Unpack[Options],
    ) -> Stream:
        """Opens a byte stream to a program at this server, as :func:`stream` does: over a connection of its own, with
        the session's options. ``name`` stands in place of the URL's path.
        """
        return Opening(self._core, name, command, listen, wait, stderr, options).blocking()

    async def stream_async(
        self,
        name: Path = "",
        command: Command | None = None,
        *,
        listen: str | None = None,
        wait: float | None = None,
        **options: Unpack[Options],
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As :meth:`stream`, as a reader and a writer of asyncio."""
        return await opened(Opening(self._core, name, command, listen, wait, False, options))

    def ls(self, name: Path = "", links: bool = False) -> list[Entry]:
        """What a directory holds, sorted by name; links are not followed. With ``links``, what they lead to is
        said of each.
        """
        return self._job(self._core.list(encode(name), links), entries).wait()

    async def ls_async(self, name: Path = "", links: bool = False) -> list[Entry]:
        """As :meth:`ls`."""
        return await self._job(self._core.list(encode(name), links), entries)

    def walk(self, name: Path = "", depth: int | None = None) -> list[Entry]:
        """Everything below a directory, to ``depth`` levels, in one request: names are paths from there. No link
        is entered; what it leads to is said.
        """
        return self._job(self._core.walk(encode(name), depth_of(depth)), entries).wait()

    async def walk_async(self, name: Path = "", depth: int | None = None) -> list[Entry]:
        """As :meth:`walk`."""
        return await self._job(self._core.walk(encode(name), depth_of(depth)), entries)

    def stat(self, name: Path, links: bool = False) -> Entry:
        """What a name stands for, through links; with ``links`` the link itself."""
        return self._job(self._core.stat(encode(name), links), entry).wait()

    async def stat_async(self, name: Path, links: bool = False) -> Entry:
        """As :meth:`stat`."""
        return await self._job(self._core.stat(encode(name), links), entry)

    def exists(self, name: Path) -> bool:
        """Whether a name stands for something."""
        return self._job(self._core.exists(encode(name)), flag).wait()

    async def exists_async(self, name: Path) -> bool:
        """As :meth:`exists`."""
        return await self._job(self._core.exists(encode(name)), flag)

    def rm(self, name: Path, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory; with ``recursive``, a directory and all that is in it."""
        self._job(self._core.remove(encode(name), recursive), nothing).wait()

    async def rm_async(self, name: Path, recursive: bool = False) -> None:
        """As :meth:`rm`."""
        await self._job(self._core.remove(encode(name), recursive), nothing)

    def rename(self, name: Path, to: Path, replace: bool = False) -> None:
        """Gives a file, a link or a whole directory another name, at the server and at once: mode and time stay.
        ``FileExistsError`` where something has that name, unless ``replace``, which replaces a file or an empty
        directory.
        """
        self._job(self._core.rename(encode(name), encode(to), replace), nothing).wait()

    async def rename_async(self, name: Path, to: Path, replace: bool = False) -> None:
        """As :meth:`rename`."""
        await self._job(self._core.rename(encode(name), encode(to), replace), nothing)

    def copy(self, name: Path, to: Path, replace: bool = False) -> Entry:
        """Copies a file at the server, with its permissions; no byte of it comes by here. ``FileExistsError``
        where something has that name, unless ``replace``.
        """
        return self._job(self._core.copy_file(encode(name), encode(to), replace), entry).wait()

    async def copy_async(self, name: Path, to: Path, replace: bool = False) -> Entry:
        """As :meth:`copy`."""
        return await self._job(self._core.copy_file(encode(name), encode(to), replace), entry)

    def touch(self, name: Path) -> None:
        """Sets the time of the last change to now."""
        self._job(self._core.touch(encode(name)), nothing).wait()

    async def touch_async(self, name: Path) -> None:
        """As :meth:`touch`."""
        await self._job(self._core.touch(encode(name)), nothing)

    def ticket(
        self, names: Path | Iterable[Path], size: int, *, life: float = 3600, holder: str | None = None
    ) -> Ticket:
        """Has a daemon sign a ticket with which another daemon may pull these names once, ``size`` bytes at most,
        within ``life`` seconds; ``holder`` is the only public key that may use it.
        """
        raw = self._core.ticket(paths_of(names), size, int(life), holder)
        return self._job(raw, ticket).wait()

    def fetch(self, name: Path, ticket: Ticket, **options: Unpack[Options]) -> list[tuple[str, int, str]]:
        """Has the daemon pull with a ticket into its directory ``name``; the data does not come by here. Returns
        path, size and hash of the files that are in place.
        """
        return self.start_fetch(name, ticket, **options).wait()

    def start_fetch(self, name: Path, ticket: Ticket, **options: Unpack[Options]) -> Job[list[tuple[str, int, str]]]:
        """Starts :meth:`fetch`."""
        parts = (ticket.text, ticket.host, ticket.port, ticket.key)
        return self._job(self._core.fetch(encode(name), parts, named(options)), fetched)

    def mkdir(self, name: Path, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory; with ``parents``, also those above it. ``FileExistsError`` where it exists, unless
        ``exist_ok``; of several that make one at once, one does.
        """
        raw = encode(name)
        try:
            self._job(self._core.mkdir(raw, False), nothing).wait()
        except SourceNotFoundError:
            if not parents:
                raise
            self._job(self._core.mkdir(above(raw), True), nothing).wait()
            self.mkdir(name, False, exist_ok)
        except DestinationError as error:
            if not (exist_ok and self.stat(name).is_dir):
                raise taken(error) from None

    async def mkdir_async(self, name: Path, parents: bool = False, exist_ok: bool = False) -> None:
        """As :meth:`mkdir`."""
        raw = encode(name)
        try:
            await self._job(self._core.mkdir(raw, False), nothing)
        except SourceNotFoundError:
            if not parents:
                raise
            await self._job(self._core.mkdir(above(raw), True), nothing)
            await self.mkdir_async(name, False, exist_ok)
        except DestinationError as error:
            if not (exist_ok and (await self.stat_async(name)).is_dir):
                raise taken(error) from None


def _reopen(url: Path, options: Options) -> Session:
    return Session(url, **options)
