"""Sessions: opened once, then many transfers over one connection; and copies without one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar, Union

from . import _fobs
from ._errors import DestinationError, UsageError
from ._job import Job, OnProgress, transferred
from ._types import Entry, Result, Ticket

T = TypeVar("T")

#: A path here or a name there; of any bytes.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: The value of an option.
Option = Union[str, int, float, bool, "os.PathLike[str]", Sequence[str], None]

# Longest object that is returned as bytes: what a server sends beyond it is refused.
_BYTES_MAX = 1 << 40


def _options(options: dict[str, Option]) -> list[tuple[str, str]]:
    named: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool):
            named.append((name, "true" if value else "false"))
        elif isinstance(value, float) and name == "rate":
            named.append((name, str(int(value))))
        elif isinstance(value, (str, int, float)):
            named.append((name, str(value)))
        elif isinstance(value, os.PathLike):
            named.append((name, os.fspath(value)))
        else:
            named.extend((name, item) for item in value)
    return named


def _encode(name: Path) -> bytes:
    raw = os.fsencode(name)
    if b"\0" in raw:
        raise UsageError(f"the path {name!r} has a NUL byte in it; leave it out")
    return raw


def _paths(paths: Path | Iterable[Path]) -> list[bytes]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [_encode(paths)]
    return [_encode(path) for path in paths]


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
    return bytes(value)


def _count(value: Any) -> int:
    return int(value)


def _flag(value: Any) -> bool:
    return bool(value)


class Session:
    """A session with one server: opened once, then any number of calls over one connection.

    ``url`` is ``"host:path"``, ``"ssh://user@host/path"`` or ``"fobs://host/path"``; names are relative to its
    path. Options are those of ``fobs cp``, with ``_`` for ``-``: ``identity``, ``port``, ``rate`` (bits per
    second), ``compress``, ``timeout`` (seconds), ``cc``, ``transport`` and the others of docs/guide.md.

    Calls may come from any thread; transfers run one after the other. Each call blocks without the GIL, and has
    a twin that returns a :class:`Job` (``start_put``) and one to await (``put_async``).
    """

    def __init__(self, url: Path, **options: Option) -> None:
        self._url = url
        self._given = options
        self._core = _fobs.Core(_encode(url), _options(options))
        self._jobs: list[Job[Any]] = []
        Job(self._core.open(), _nothing).wait()

    @classmethod
    async def open_async(cls, url: Path, **options: Option) -> Session:
        """Opens a session without blocking the event loop."""
        session = cls.__new__(cls)
        session._url, session._given, session._jobs = url, options, []
        session._core = _fobs.Core(_encode(url), _options(options))
        await Job(session._core.open(), _nothing)
        return session

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
        for job in self._jobs:
            try:
                if not job.done:
                    job._end()
            except UsageError:
                # Of the process that this one was forked from.
                pass
        self._jobs.clear()
        self._core.close()

    def _job(self, raw: _fobs.Job, finish: Callable[[Any], T]) -> Job[T]:
        job = Job(raw, finish)
        self._jobs = [other for other in self._jobs if not other.done]
        self._jobs.append(job)
        return job

    def start_put(self, source: Path | Iterable[Path], name: Path = "", **options: Option) -> Job[Result]:
        """Starts :meth:`put`."""
        return self._job(self._core.put(_paths(source), _encode(name), _options(options)), transferred)

    def put(
        self,
        source: Path | Iterable[Path],
        name: Path = "",
        *,
        progress: OnProgress | None = None,
        **options: Option,
    ) -> Result:
        """Copies files to the server, and directories with ``recursive=True``, as ``fobs cp`` does."""
        return self.start_put(source, name, **options).wait(progress=progress)

    async def put_async(
        self,
        source: Path | Iterable[Path],
        name: Path = "",
        *,
        progress: OnProgress | None = None,
        **options: Option,
    ) -> Result:
        """As :meth:`put`; cancelling the task cancels the transfer."""
        return await self.start_put(source, name, **options)._wait_async(progress)

    def start_get(self, name: Path | Iterable[Path], destination: Path, **options: Option) -> Job[Result]:
        """Starts :meth:`get`."""
        return self._job(self._core.get(_paths(name), _encode(destination), _options(options)), transferred)

    def get(
        self,
        name: Path | Iterable[Path],
        destination: Path,
        *,
        progress: OnProgress | None = None,
        **options: Option,
    ) -> Result:
        """Copies files from the server, and directories with ``recursive=True``."""
        return self.start_get(name, destination, **options).wait(progress=progress)

    async def get_async(
        self,
        name: Path | Iterable[Path],
        destination: Path,
        *,
        progress: OnProgress | None = None,
        **options: Option,
    ) -> Result:
        """As :meth:`get`; cancelling the task cancels the transfer."""
        return await self.start_get(name, destination, **options)._wait_async(progress)

    def start_put_bytes(self, name: Path, data: Any, **options: Option) -> Job[Result]:
        """Starts :meth:`put_bytes`. The buffer must not change until the job has ended."""
        return self._job(self._core.put_bytes(_encode(name), _buffer(data), _options(options)), transferred)

    def put_bytes(
        self, name: Path, data: Any, *, progress: OnProgress | None = None, **options: Option
    ) -> Result:
        """Stores a buffer (bytes, memoryview, numpy array, torch tensor) as a file, reading its memory itself."""
        return self.start_put_bytes(name, data, **options).wait(progress=progress)

    async def put_bytes_async(
        self, name: Path, data: Any, *, progress: OnProgress | None = None, **options: Option
    ) -> Result:
        """As :meth:`put_bytes`."""
        return await self.start_put_bytes(name, data, **options)._wait_async(progress)

    def start_get_into(
        self, name: Path, buffer: Any, start: int | None = None, **options: Option
    ) -> Job[int]:
        """Starts :meth:`get_into`. What the buffer holds is not specified until the job has ended."""
        raw = self._core.get_into(_encode(name), _buffer(buffer), _start(start), _options(options))
        return self._job(raw, _count)

    def get_into(
        self,
        name: Path,
        buffer: Any,
        start: int | None = None,
        *,
        progress: OnProgress | None = None,
        **options: Option,
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
        **options: Option,
    ) -> int:
        """As :meth:`get_into`."""
        return await self.start_get_into(name, buffer, start, **options)._wait_async(progress)

    def start_get_range(self, name: Path, start: int, length: int, **options: Option) -> Job[bytes]:
        """Starts :meth:`get_range`."""
        if length < 0:
            raise UsageError("the length of a range is not negative; give 0 or more")
        raw = self._core.get_bytes(_encode(name), _start(start), min(length, _BYTES_MAX), _options(options))
        return self._job(raw, _bytes)

    def get_range(self, name: Path, start: int, length: int, **options: Option) -> bytes:
        """The bytes of a file from ``start`` on: ``length`` of them, fewer where it ends, none beyond. Up to
        64 KiB cost one round trip.
        """
        return self.start_get_range(name, start, length, **options).wait()

    async def get_range_async(self, name: Path, start: int, length: int, **options: Option) -> bytes:
        """As :meth:`get_range`."""
        return await self.start_get_range(name, start, length, **options)._wait_async()

    def start_get_bytes(self, name: Path, max_bytes: int = _BYTES_MAX, **options: Option) -> Job[bytes]:
        """Starts :meth:`get_bytes`."""
        return self._job(self._core.get_bytes(_encode(name), None, max_bytes, _options(options)), _bytes)

    def get_bytes(
        self,
        name: Path,
        max_bytes: int = _BYTES_MAX,
        *,
        progress: OnProgress | None = None,
        **options: Option,
    ) -> bytes:
        """All of a file; one of more than ``max_bytes`` is refused."""
        return self.start_get_bytes(name, max_bytes, **options).wait(progress=progress)

    async def get_bytes_async(self, name: Path, max_bytes: int = _BYTES_MAX, **options: Option) -> bytes:
        """As :meth:`get_bytes`."""
        return await self.start_get_bytes(name, max_bytes, **options)._wait_async()

    def ls(self, name: Path = "") -> list[Entry]:
        """What a directory holds, sorted by name; links are not followed."""
        return self._job(self._core.list(_encode(name)), _entries).wait()

    async def ls_async(self, name: Path = "") -> list[Entry]:
        """As :meth:`ls`."""
        return await self._job(self._core.list(_encode(name)), _entries)

    def stat(self, name: Path) -> Entry:
        """What a name stands for, through links."""
        return self._job(self._core.stat(_encode(name)), _entry).wait()

    async def stat_async(self, name: Path) -> Entry:
        """As :meth:`stat`."""
        return await self._job(self._core.stat(_encode(name)), _entry)

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

    def ticket(
        self, names: Path | Iterable[Path], size: int, *, life: float = 3600, holder: str | None = None
    ) -> Ticket:
        """Has a daemon sign a ticket with which another daemon may pull these names once, ``size`` bytes at most,
        within ``life`` seconds; ``holder`` is the only public key that may use it.
        """
        raw = self._core.ticket(_paths(names), size, int(life), holder)
        return self._job(raw, _ticket).wait()

    def fetch(self, name: Path, ticket: Ticket, **options: Option) -> list[tuple[str, int, str]]:
        """Has the daemon pull with a ticket into its directory ``name``; the data does not come by here. Returns
        path, size and hash of the files that are in place.
        """
        return self.start_fetch(name, ticket, **options).wait()

    def start_fetch(self, name: Path, ticket: Ticket, **options: Option) -> Job[list[tuple[str, int, str]]]:
        """Starts :meth:`fetch`."""
        parts = (ticket.text, ticket.host, ticket.port, ticket.key)
        return self._job(self._core.fetch(_encode(name), parts, _options(options)), _fetched)

    def mkdir(self, name: Path, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory; with ``parents``, also those above it. ``FileExistsError`` where it exists, unless
        ``exist_ok``.
        """
        raw = _encode(name)
        try:
            if not parents or not exist_ok:
                self._refuse_existing(raw, parents, exist_ok)
            self._job(self._core.mkdir(raw, parents), _nothing).wait()
        except DestinationError as error:
            if not exist_ok and self.exists(name):
                raise FileExistsError(str(error)) from error
            if not (exist_ok and self.stat(name).is_dir):
                raise

    def _refuse_existing(self, raw: bytes, parents: bool, exist_ok: bool) -> None:
        # The server makes no difference for parents: it makes what is missing.
        if parents and not exist_ok and self._job(self._core.exists(raw), _flag).wait():
            raise FileExistsError(f"cannot make the directory {os.fsdecode(raw)!r}: it exists already")

    async def mkdir_async(self, name: Path, parents: bool = False, exist_ok: bool = False) -> None:
        """As :meth:`mkdir`."""
        if not exist_ok and await self.exists_async(name):
            raise FileExistsError(f"cannot make the directory {name!r}: it exists already")
        try:
            await self._job(self._core.mkdir(_encode(name), parents), _nothing)
        except DestinationError:
            if not (exist_ok and (await self.stat_async(name)).is_dir):
                raise


def _start(start: int | None) -> int | None:
    if start is not None and start < 0:
        raise UsageError("a range does not begin before the file; give 0 or more")
    return start


def _entries(raw: Any) -> list[Entry]:
    return sorted((Entry._of(entry) for entry in raw), key=lambda entry: entry.name)


def _ticket(raw: Any) -> Ticket:
    return Ticket(*raw)


def _fetched(raw: Any) -> list[tuple[str, int, str]]:
    return [(os.fsdecode(name), size, (root or b"").hex()) for name, size, root in raw]


def _entry(raw: Any) -> Entry:
    return Entry._of(raw[0])


def _reopen(url: Path, options: dict[str, Option]) -> Session:
    return Session(url, **options)


def start_cp(source: Path | Iterable[Path], destination: Path, **options: Option) -> Job[Result]:
    """Starts :func:`cp`."""
    raw = _fobs.copy(_paths(source), _encode(destination), _options(options), None)
    return Job(raw, transferred)


def cp(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    progress: OnProgress | None = None,
    **options: Option,
) -> Result:
    """Copies between this host and another one, as ``fobs cp`` does: one side is ``"host:path"`` or a URL."""
    return start_cp(source, destination, **options).wait(progress=progress)


async def cp_async(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    progress: OnProgress | None = None,
    **options: Option,
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
    exclude: Iterable[Path] = (),
    progress: OnProgress | None = None,
    **options: Option,
) -> Result:
    """Brings a tree up to date, as ``fobs sync -a`` does: only what changed is sent. ``delete`` removes what the
    source does not have, ``exclude`` holds patterns of rsync.
    """
    how = (delete, dry_run, checksum, [_encode(pattern) for pattern in exclude])
    raw = _fobs.copy(_paths(source), _encode(destination), _options(options), how)
    return Job(raw, transferred).wait(progress=progress)
