"""``fobs://`` and ``fobs+ssh://`` for fsspec, and so for pandas, zarr, xarray and torch. Needs ``fobs[fsspec]``.

Whole trees go over one session in one transfer; what is read in parts goes over up to ``sessions`` of them. A
file that is written is kept here (in memory, beyond 64 MiB in a temporary file) until ``close()``, which delivers
it whole or raises: the connection is free meanwhile for what the program reads.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import stringify_path

from ._errors import DestinationError, Error, PartialError, SourceNotFoundError, UsageError
from ._session import Session
from ._types import Entry, Progress

# Bytes of a written file that are kept in memory.
_SPOOL_MAX = 64 << 20
# Longest range: to the end of any file.
_TO_END = 1 << 40
# Options of fsspec's own classes; all others are of the session.
_FSSPEC_OPTIONS = frozenset(
    {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "batch_size"}
)


class _Pool:
    """Sessions with one server, opened as they are needed."""

    def __init__(self, open_one: Callable[[], Any], most: int) -> None:
        self._open_one = open_one
        self._idle: list[Session] = []
        self._all: list[Session] = []
        self._seats = asyncio.Semaphore(most)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Session]:
        async with self._seats:
            if self._idle:
                session = self._idle.pop()
            else:
                session = await self._open_one()
                self._all.append(session)
            try:
                yield session
            finally:
                self._idle.append(session)

    def close(self) -> None:
        for session in self._all:
            session.close()


class FobsFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Files of a ``fobs serve`` daemon: ``fobs://host:port/path``.

    Options beside ``host``, ``port`` and ``sessions`` (most connections at once) are those of
    :class:`fobs.Session`: ``identity``, ``known_hosts``, ``rate`` and so on.
    """

    protocol = ("fobs",)
    root_marker = "/"
    async_impl = True
    mirror_sync_methods = True
    _scheme = "fobs"

    def __init__(
        self,
        host: str,
        port: int | None = None,
        user: str | None = None,
        sessions: int = 4,
        asynchronous: bool = False,
        loop: Any = None,
        **options: Any,
    ) -> None:
        ours = {name: value for name, value in options.items() if name in _FSSPEC_OPTIONS}
        super().__init__(asynchronous=asynchronous, loop=loop, **ours)
        at = f"{user}@" if user else ""
        host = f"[{host}]" if ":" in host else host
        self._url = f"{self._scheme}://{at}{host}" + (f":{port}" if port else "") + "/"
        self._options = {name: value for name, value in options.items() if name not in _FSSPEC_OPTIONS}
        self._most = sessions
        self._pool: _Pool | None = None

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        if self._pool is None:
            self._pool = _Pool(lambda: Session.open_async(self._url, **self._options), self._most)
        async with self._pool.take() as session:
            yield session

    def close(self) -> None:
        """Ends the connections."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        path = stringify_path(path)
        if "://" in path:
            rest = path.split("://", 1)[1]
            path = "/" + rest.split("/", 1)[1] if "/" in rest else "/"
        return cls._rooted(path.rstrip("/")) or cls.root_marker

    @classmethod
    def _rooted(cls, path: str) -> str:
        return path if path.startswith("/") or not path else f"/{path}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        parts = urlsplit(path)
        found = {"host": parts.hostname, "port": parts.port, "user": parts.username}
        return {name: value for name, value in found.items() if value}

    @staticmethod
    def _of(path: str, entry: Entry) -> dict[str, Any]:
        return {
            "name": path,
            "size": entry.size,
            "type": entry.kind,
            "mtime": entry.mtime_ns / 1e9,
            "mode": entry.mode,
        }

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        async with self._session() as session:
            return self._of(path, await session.stat_async(path))

    async def _exists(self, path: str, **_: Any) -> bool:
        async with self._session() as session:
            return await session.exists_async(self._strip_protocol(path))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            async with self._session() as session:
                entries = await session.ls_async(path)
        except SourceNotFoundError:
            # A file lists itself.
            found = [await self._info(path)]
            if found[0]["type"] == "directory":
                raise
        else:
            above = "" if path == "/" else path
            found = [self._of(f"{above}/{entry.name}", entry) for entry in entries]
            for item in found:
                if item["type"] == "link":
                    await self._follow(item)
        return found if detail else [item["name"] for item in found]

    async def _follow(self, item: dict[str, Any]) -> None:
        # A reader wants to know what it would read.
        try:
            item.update(await self._info(item["name"]), islink=True)
        except Error:
            item["type"] = "other"

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = (await self._info(path))["size"]
            start = max(size + start, 0) if start is not None and start < 0 else start
            end = size + end if end is not None and end < 0 else end
        async with self._session() as session:
            if start is None and end is None:
                return await session.get_bytes_async(path)
            start = start or 0
            length = _TO_END if end is None else max(end - start, 0)
            return await session.get_range_async(path, start, length)

    async def _delivered(self, path: str, put: Callable[[Session], Any]) -> None:
        """Runs ``put``; directories that are missing above ``path`` are made, as object stores have it."""
        async with self._session() as session:
            try:
                await put(session)
            except (DestinationError, PartialError):
                # Another task may have made it meanwhile.
                await session.mkdir_async(self._parent(path), parents=True, exist_ok=True)
                await put(session)

    async def _refuse(self, path: str) -> None:
        if await self._exists(path):
            raise FileExistsError(f"{path} exists already; write it with mode 'overwrite'")

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create":
            await self._refuse(path)
        await self._delivered(path, lambda session: session.put_bytes_async(path, value))

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        if mode == "create":
            await self._refuse(rpath)
        callback.set_size(os.path.getsize(lpath))
        await self._delivered(rpath, lambda s: s.put_async(lpath, rpath, progress=_told(callback)))

    async def _get_file(self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        rpath = self._strip_protocol(rpath)
        try:
            async with self._session() as session:
                await session.get_async(rpath, lpath, progress=_told(callback))
        except (UsageError, PartialError, SourceNotFoundError):
            if not await self._isdir(rpath):
                raise
            os.makedirs(lpath, exist_ok=True)

    async def _put(self, lpath: Any, rpath: Any, recursive: bool = False, maxdepth: Any = None, **kwargs: Any) -> Any:
        source = stringify_path(lpath) if not isinstance(lpath, list) else None
        if not recursive or maxdepth is not None or source is None or _has_magic(source) or not os.path.isdir(source):
            return await super()._put(lpath, rpath, recursive=recursive, maxdepth=maxdepth, **kwargs)
        target = self._strip_protocol(rpath)
        into = not source.endswith("/") and (stringify_path(rpath).endswith("/") or await self._isdir(target))
        target = f"{target.rstrip('/')}/{os.path.basename(os.path.abspath(source))}" if into else target
        await self._makedirs(target, exist_ok=True)
        async with self._session() as session:
            result = await session.put_async(f"{source.rstrip('/')}/", target, recursive=True)
        _count(kwargs.get("callback"), result.files)
        return None

    async def _get(self, rpath: Any, lpath: Any, recursive: bool = False, maxdepth: Any = None, **kwargs: Any) -> Any:
        source = stringify_path(rpath) if not isinstance(rpath, list) else None
        plain = recursive and maxdepth is None and source is not None and not _has_magic(source)
        if not plain or source is None or not await self._isdir(source):
            return await super()._get(rpath, lpath, recursive=recursive, maxdepth=maxdepth, **kwargs)
        target = stringify_path(lpath)
        path = self._strip_protocol(source)
        into = not source.endswith("/") and (target.endswith("/") or os.path.isdir(target))
        target = os.path.join(target, path.rsplit("/", 1)[1]) if into else target
        os.makedirs(target, exist_ok=True)
        async with self._session() as session:
            result = await session.get_async(f"{path.rstrip('/')}/", target, recursive=True)
        _count(kwargs.get("callback"), result.files)
        return None

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """By way of this host: the bytes come and go."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        info = await self._info(source)
        if info["type"] == "directory":
            await self._makedirs(target, exist_ok=True)
            return
        if info["size"] <= _SPOOL_MAX:
            await self._pipe_file(target, await self._cat_file(source))
            return
        with tempfile.TemporaryDirectory(prefix="fobs-") as directory:
            here = os.path.join(directory, "copy")
            await self._get_file(source, here)
            await self._put_file(here, target)

    async def _rm_file(self, path: str, **_: Any) -> None:
        async with self._session() as session:
            await session.rm_async(self._strip_protocol(path))

    async def _rm(self, path: Any, recursive: bool = False, maxdepth: Any = None, **_: Any) -> None:
        if maxdepth is not None:
            await super()._rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for item in await self._expand_path(path):
            async with self._session() as session:
                await session.rm_async(self._strip_protocol(item), recursive=recursive)

    async def _rmdir(self, path: str) -> None:
        if not await self._isdir(path):
            raise NotADirectoryError(f"{path} is no directory; remove it with rm")
        await self._rm_file(path)

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        async with self._session() as session:
            await session.mkdir_async(self._strip_protocol(path), parents=create_parents)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        async with self._session() as session:
            await session.mkdir_async(self._strip_protocol(path), parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        sync(self.loop, self._rmdir, path)

    def modified(self, path: str) -> Any:
        """The time of the last change."""
        from datetime import datetime, timezone

        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **kwargs: Any) -> Any:
        if mode not in ("rb", "wb", "xb"):
            raise ValueError(f"mode {mode!r} is not possible: a file is read (rb) or written whole (wb, xb)")
        if mode == "xb" and self.exists(path):
            raise FileExistsError(f"{path} exists already; write it with mode 'wb'")
        kwargs.pop("autocommit", None)
        kwargs.pop("cache_options", None)
        return FobsFile(self, path, mode="rb" if mode == "rb" else "wb", block_size=block_size or "default", **kwargs)


class FobsSshFileSystem(FobsFileSystem):
    """Files of a host that has ``fobs`` and sshd: ``fobs+ssh://user@host/path``, the path from its root."""

    protocol = ("fobs+ssh",)
    _scheme = "ssh"

    @classmethod
    def _rooted(cls, path: str) -> str:
        # Without a slash it is relative to the home directory there.
        return path


class FobsFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read in parts, or written whole at its end."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(sync(self.fs.loop, self.fs._cat_file, self.path, start, end))

    def _initiate_upload(self) -> None:
        self._spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_MAX)  # noqa: SIM115 - closed at the end

    def _upload_chunk(self, final: bool = False) -> bool:
        self._spool.write(self.buffer.getbuffer())
        if final:
            with self._spool:
                size = self._spool.tell()
                if size <= _SPOOL_MAX:
                    self._spool.seek(0)
                    self.fs.pipe_file(self.path, self._spool.read())
                else:
                    self._spool.flush()
                    with mmap.mmap(self._spool.fileno(), size, access=mmap.ACCESS_READ) as whole:
                        self.fs.pipe_file(self.path, whole)
        return True


def _told(callback: Any) -> Callable[[Progress], None] | None:
    if callback is None or callback is DEFAULT_CALLBACK:
        return None

    def tell(progress: Progress) -> None:
        callback.absolute_update(progress.bytes)

    return tell


def _count(callback: Any, files: int) -> None:
    if callback is not None:
        callback.set_size(files)
        callback.absolute_update(files)


def _has_magic(path: str) -> bool:
    return any(letter in path for letter in "*?[")
