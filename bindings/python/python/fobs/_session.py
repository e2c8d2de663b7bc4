"""Sessions: opened once, then many transfers over one connection; and copies without one."""

from __future__ import annotations

import asyncio
import os
import random
import time
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar, Union, Unpack

from . import _fobs
from ._errors import DestinationError, ExistsError, SourceNotFoundError, SshError, TransferTimeoutError, UsageError
from ._job import Job, OnProgress, transferred
from ._options import Option, Options, named, resolved, seconds
from ._types import Entry, Result, Ticket

T = TypeVar("T")

#: A path here or a name there; of any bytes.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# Longest object that is returned as bytes: what a server sends beyond it is refused.
_BYTES_MAX = 1 << 40
# Tries to open a session at a host that drops connections: about ten seconds in all.
_TRIES = 7
_BUSY = ("kex_exchange_identification", "Connection reset by peer", "Connection closed by", "Not allowed at this time")
# Levels that a walk goes down without another bound.
_DEPTH_MAX = (1 << 32) - 1


def _options(options: Any) -> list[tuple[str, str]]:
    return named(options)


def _local(path: Path) -> bytes:
    """A path of this host: ``~`` is the home directory, as it is for a shell."""
    return _encode(os.path.expanduser(os.fsencode(path)))


def _encode(name: Path) -> bytes:
    raw = os.fsencode(name)
    if b"\0" in raw:
        raise UsageError(f"the path {name!r} has a NUL byte in it; leave it out")
    return raw


def _paths(paths: Path | Iterable[Path], encode: Callable[[Path], bytes] = _encode) -> list[bytes]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [encode(paths)]
    return [encode(path) for path in paths]


def _buffer(data: Any) -> Any:
    # A torch tensor has no buffer of its own; its numpy view of bytes is the same memory.
    if hasattr(data, "untyped_storage") and hasattr(data, "detach"):
        if data.device.type != "cpu":
            raise UsageError("the tensor is not in this host's memory; move it with .cpu()")
        if not data.is_contiguous():
            raise UsageError("the tensor is not contiguous; make it so with .contiguous()")
        import torch

        flat = data.detach().reshape(-1)
        return flat.view(torch.uint8).numpy() if flat.numel() else b""
    return data


def _nothing(_: Any) -> None:
    return None


def _bytes(value: Any) -> bytes:
    # It is one already, and there is no second copy of it.
    return value  # type: ignore[no-any-return]


def _count(value: Any) -> int:
    return int(value)


def _flag(value: Any) -> bool:
    return bool(value)


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
        for pause in _pauses():
            job = self._open()
            try:
                job.wait(timeout=self._patience)
                return
            except TimeoutError as error:
                job._end()
                raise self._silent(error) from None
            except SshError as error:
                if pause is None or not _is_busy(error):
                    raise
            time.sleep(pause)

    @classmethod
    async def open_async(cls, url: Path, **options: Unpack[Options]) -> Session:
        """Opens a session without blocking the event loop."""
        session = cls.__new__(cls)
        session._prepare(url, options)
        for pause in _pauses():
            try:
                await asyncio.wait_for(session._open()._wait_async(), session._patience)
                break
            except TimeoutError as error:
                raise session._silent(error) from None
            except SshError as error:
                if pause is None or not _is_busy(error):
                    raise
            await asyncio.sleep(pause)
        return session

    def _prepare(self, url: Path, options: Any) -> None:
        self._url = url
        # Files by their whole paths: another process or a later chdir finds the same ones.
        self._given: dict[str, Option] = resolved(options)
        self._jobs: weakref.WeakSet[Job[Any]] = weakref.WeakSet()
        self._core = _fobs.Core(_encode(url), _options(self._given))
        timeout = self._given.get("timeout")
        # Without one a person may be typing a password.
        self._patience = None if timeout is None else seconds("timeout", timeout)

    def _open(self) -> Job[None]:
        return Job(self._core.open(), _nothing)

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
            Job(ended, _nothing).wait()

    def _job(self, raw: _fobs.Job, finish: Callable[[Any], T]) -> Job[T]:
        job = Job(raw, finish)
        self._jobs.add(job)
        return job

    def start_put(self, source: Path | Iterable[Path], name: Path = "", **options: Unpack[Options]) -> Job[Result]:
        """Starts :meth:`put`."""
        return self._job(self._core.put(_paths(source, _local), _encode(name), _options(options)), transferred)

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
        return self._job(self._core.get(_paths(name), _local(destination), _options(options)), transferred)

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
        return self._job(self._core.put_bytes(_encode(name), _buffer(data), _options(options)), transferred)

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
        raw = self._core.get_into(_encode(name), _buffer(buffer), _start(start), None, _options(options))
        return self._job(raw, _count)

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
        raw = self._core.get_bytes(_encode(name), _start(start), length, stamp, _options(options))
        return self._job(raw, _bytes)

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
        return self._job(self._core.get_bytes(_encode(name), None, max_bytes, None, _options(options)), _bytes)

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

    def ls(self, name: Path = "", links: bool = False) -> list[Entry]:
        """What a directory holds, sorted by name; links are not followed. With ``links``, what they lead to is
        said of each.
        """
        return self._job(self._core.list(_encode(name), links), _entries).wait()

    async def ls_async(self, name: Path = "", links: bool = False) -> list[Entry]:
        """As :meth:`ls`."""
        return await self._job(self._core.list(_encode(name), links), _entries)

    def walk(self, name: Path = "", depth: int | None = None) -> list[Entry]:
        """Everything below a directory, to ``depth`` levels, in one request: names are paths from there. No link
        is entered; what it leads to is said.
        """
        return self._job(self._core.walk(_encode(name), _depth(depth)), _entries).wait()

    async def walk_async(self, name: Path = "", depth: int | None = None) -> list[Entry]:
        """As :meth:`walk`."""
        return await self._job(self._core.walk(_encode(name), _depth(depth)), _entries)

    def stat(self, name: Path, links: bool = False) -> Entry:
        """What a name stands for, through links; with ``links`` the link itself."""
        return self._job(self._core.stat(_encode(name), links), _entry).wait()

    async def stat_async(self, name: Path, links: bool = False) -> Entry:
        """As :meth:`stat`."""
        return await self._job(self._core.stat(_encode(name), links), _entry)

    def exists(self, name: Path) -> bool:
        """Whether a name stands for something."""
        return self._job(self._core.exists(_encode(name)), _flag).wait()

    async def exists_async(self, name: Path) -> bool:
        """As :meth:`exists`."""
        return await self._job(self._core.exists(_encode(name)), _flag)

    def rm(self, name: Path, recursive: bool = False) -> None:
        """Removes a file, a link or an empty directory; with ``recursive``, a directory and all that is in it."""
        self._job(self._core.remove(_encode(name), recursive), _nothing).wait()

    async def rm_async(self, name: Path, recursive: bool = False) -> None:
        """As :meth:`rm`."""
        await self._job(self._core.remove(_encode(name), recursive), _nothing)

    def rename(self, name: Path, to: Path, replace: bool = False) -> None:
        """Gives a file, a link or a whole directory another name, at the server and at once: mode and time stay.
        ``FileExistsError`` where something has that name, unless ``replace``, which replaces a file or an empty
        directory.
        """
        self._job(self._core.rename(_encode(name), _encode(to), replace), _nothing).wait()

    async def rename_async(self, name: Path, to: Path, replace: bool = False) -> None:
        """As :meth:`rename`."""
        await self._job(self._core.rename(_encode(name), _encode(to), replace), _nothing)

    def copy(self, name: Path, to: Path, replace: bool = False) -> Entry:
        """Copies a file at the server, with its permissions; no byte of it comes by here. ``FileExistsError``
        where something has that name, unless ``replace``.
        """
        return self._job(self._core.copy_file(_encode(name), _encode(to), replace), _entry).wait()

    async def copy_async(self, name: Path, to: Path, replace: bool = False) -> Entry:
        """As :meth:`copy`."""
        return await self._job(self._core.copy_file(_encode(name), _encode(to), replace), _entry)

    def touch(self, name: Path) -> None:
        """Sets the time of the last change to now."""
        self._job(self._core.touch(_encode(name)), _nothing).wait()

    async def touch_async(self, name: Path) -> None:
        """As :meth:`touch`."""
        await self._job(self._core.touch(_encode(name)), _nothing)

    def ticket(
        self, names: Path | Iterable[Path], size: int, *, life: float = 3600, holder: str | None = None
    ) -> Ticket:
        """Has a daemon sign a ticket with which another daemon may pull these names once, ``size`` bytes at most,
        within ``life`` seconds; ``holder`` is the only public key that may use it.
        """
        raw = self._core.ticket(_paths(names), size, int(life), holder)
        return self._job(raw, _ticket).wait()

    def fetch(self, name: Path, ticket: Ticket, **options: Unpack[Options]) -> list[tuple[str, int, str]]:
        """Has the daemon pull with a ticket into its directory ``name``; the data does not come by here. Returns
        path, size and hash of the files that are in place.
        """
        return self.start_fetch(name, ticket, **options).wait()

    def start_fetch(self, name: Path, ticket: Ticket, **options: Unpack[Options]) -> Job[list[tuple[str, int, str]]]:
        """Starts :meth:`fetch`."""
        parts = (ticket.text, ticket.host, ticket.port, ticket.key)
        return self._job(self._core.fetch(_encode(name), parts, _options(options)), _fetched)

    def mkdir(self, name: Path, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory; with ``parents``, also those above it. ``FileExistsError`` where it exists, unless
        ``exist_ok``; of several that make one at once, one does.
        """
        raw = _encode(name)
        try:
            self._job(self._core.mkdir(raw, False), _nothing).wait()
        except SourceNotFoundError:
            if not parents:
                raise
            self._job(self._core.mkdir(_above(raw), True), _nothing).wait()
            self.mkdir(name, False, exist_ok)
        except DestinationError as error:
            if not (exist_ok and self.stat(name).is_dir):
                raise _taken(error) from None

    async def mkdir_async(self, name: Path, parents: bool = False, exist_ok: bool = False) -> None:
        """As :meth:`mkdir`."""
        raw = _encode(name)
        try:
            await self._job(self._core.mkdir(raw, False), _nothing)
        except SourceNotFoundError:
            if not parents:
                raise
            await self._job(self._core.mkdir(_above(raw), True), _nothing)
            await self.mkdir_async(name, False, exist_ok)
        except DestinationError as error:
            if not (exist_ok and (await self.stat_async(name)).is_dir):
                raise _taken(error) from None


def _pauses() -> list[float | None]:
    """How long to wait between tries to open a session, in seconds; none follows the last one."""
    # Apart from each other where many begin at once.
    return [random.uniform(0.5, 1.0) * 0.2 * 2**number for number in range(_TRIES - 1)] + [None]


def _is_busy(error: SshError) -> bool:
    # An sshd that many log in to drops connections before it says a word (MaxStartups of sshd_config(5)).
    return any(words in error.message for words in _BUSY)


def _above(name: bytes) -> bytes:
    # What has no slash lies where names begin.
    return os.path.dirname(name.rstrip(b"/")) or b"."


def _taken(error: DestinationError) -> DestinationError:
    # Where names begin, or where one is in use, something exists too.
    return error if isinstance(error, FileExistsError) else ExistsError(error.message)


def _depth(depth: int | None) -> int:
    if depth is not None and depth < 1:
        raise UsageError("a walk goes down one level at least; give 1 or more")
    return _DEPTH_MAX if depth is None else min(int(depth), _DEPTH_MAX)


def _start(start: int | None) -> int | None:
    if start is not None and start < 0:
        raise UsageError("a range does not begin before the file; give 0 or more")
    return None if start is None else int(start)


def _entries(raw: Any) -> list[Entry]:
    return sorted((Entry._of(entry) for entry in raw), key=lambda entry: entry.name)


def _ticket(raw: Any) -> Ticket:
    return Ticket(*raw)


def _fetched(raw: Any) -> list[tuple[str, int, str]]:
    return [(os.fsdecode(name), size, (root or b"").hex()) for name, size, root in raw]


def _entry(raw: Any) -> Entry:
    return Entry._of(raw[0])


def _reopen(url: Path, options: Options) -> Session:
    return Session(url, **options)


def _places(paths: Path | Iterable[Path]) -> list[bytes]:
    """Sources or a destination of a copy: here, or ``host:path``. The shell's ``~`` is of this host."""
    return _paths(paths, lambda path: _local(path) if os.fsencode(path).startswith(b"~") else _encode(path))


def start_cp(source: Path | Iterable[Path], destination: Path, **options: Unpack[Options]) -> Job[Result]:
    """Starts :func:`cp`."""
    raw = _fobs.copy(_places(source), _places(destination)[0], _options(options), None)
    return Job(raw, transferred)


def cp(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    progress: OnProgress | None = None,
    **options: Unpack[Options],
) -> Result:
    """Copies between this host and another one, as ``fobs cp`` does: one side is ``"host:path"`` or a URL."""
    return start_cp(source, destination, **options).wait(progress=progress)


async def cp_async(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    progress: OnProgress | None = None,
    **options: Unpack[Options],
) -> Result:
    """As :func:`cp`; cancelling the task cancels the transfer."""
    return await start_cp(source, destination, **options)._wait_async(progress)


def sync(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    delete: bool = False,
    dry_run: bool = False,
    checksum: bool = False,
    exclude: Path | Iterable[Path] = (),
    progress: OnProgress | None = None,
    **options: Any,
) -> Result:
    """Brings a tree up to date, as ``fobs sync -a`` does: only what changed is sent. ``delete`` removes what the
    source does not have, ``exclude`` is one pattern of rsync or several.
    """
    # One pattern may be given by itself.
    how = (delete, dry_run, checksum, _paths(exclude))
    raw = _fobs.copy(_places(source), _places(destination)[0], _options(options), how)
    return Job(raw, transferred).wait(progress=progress)
