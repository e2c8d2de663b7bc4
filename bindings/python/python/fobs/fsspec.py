"""``fobs://`` and ``fobs+ssh://`` (also ``fobsssh://``) for fsspec, and so for pandas, zarr, xarray and torch. Needs
``fobs[fsspec]``.

Whole trees go over one session in one transfer; what is read in parts goes over up to ``sessions`` of them. A
file that is written is kept here (in memory, beyond 64 MiB in a temporary file) until ``close()``, which delivers
it whole or raises; an exception and the collector discard it. Renames, copies and walks happen at the server.
"""

from __future__ import annotations

import asyncio
import io
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import Any

from fsspec.asyn import get_loop

from ._errors import FileError, UsageError
from ._files.mapping import Mapper
from ._files.names import (
    DAEMON_PORT,
    Authority,
    Qualified,
    UrlPort,
    encoded,
    names_server,
    normal,
    parent,
    split_url,
    text_of,
)
from ._files.reading import TO_END, FobsFile, FobsStream
from ._files.run import Pool, mirror, run, whole
from ._files.several import Several
from ._files.writing import Compressed, FobsWriter, Text
from ._options import plain, resolved
from ._session import Session
from ._types import Entry

__all__ = ["FobsFile", "FobsFileSystem", "FobsSshFileSystem", "FobsWriter"]

# Options of fsspec's own classes; all others are of the session.
_FSSPEC_OPTIONS = frozenset(
    {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "batch_size"}
)


class FobsFileSystem(Several):
    """Files of a ``fobs serve`` daemon: ``fobs://host:port/path``.

    Options beside ``host``, ``port`` and ``sessions`` (most connections at once) are those of
    :class:`fobs.Session`: ``identity``, ``known_hosts``, ``rate`` and so on.
    """

    protocol: Any = ("fobs",)
    # A name that keeps its host has no slash before it, which UPath would add.
    root_marker = ""
    async_impl = True
    # Ours cancel what they leave.
    mirror_sync_methods = False
    _scheme = "fobs"
    _pid: int

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
        self._authority = Authority(user, host, None if port is None else int(port))
        self._port_is_of_url = isinstance(port, UrlPort)
        self._url = f"{self._scheme}://{self._authority}/"
        self._options: Any = resolved({n: value for n, value in options.items() if n not in _FSSPEC_OPTIONS})
        self._most = sessions
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = weakref.WeakKeyDictionary()
        # Of the class it keeps the host, here it is compared.
        self._strip_protocol: Any = self._own_name  # type: ignore[method-assign]
        mirror(self)

    # -- sessions

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            url, options = self._url, self._options
            pool = self._pools[loop] = Pool(lambda: Session.open_async(url, **options), self._most)
        async with pool.take() as session:
            yield session

    @property
    def loop(self) -> Any:
        """The event loop of the blocking calls; after a fork another one, with sessions of its own."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._pools = weakref.WeakKeyDictionary()
            self._loop = None if self.asynchronous else get_loop()
        return self._loop

    def _run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self.loop, func, *args, **kwargs)

    def close(self) -> None:
        """Ends the connections."""
        for pool in list(self._pools.values()):
            pool.close()
        self._pools = weakref.WeakKeyDictionary()

    @property
    def storage_options(self) -> Any:
        """What makes the same file system in another process, with files by their whole paths."""
        return self._storage_options

    @storage_options.setter
    def storage_options(self, options: Any) -> None:
        self._storage_options = plain(options)

    @property
    def fsid(self) -> str:
        """Which server it is."""
        return f"{self.protocol[0]}://{self._authority}"

    # -- names

    @classmethod
    def _schemes(cls) -> tuple[str, ...]:
        return tuple(cls.protocol)

    @classmethod
    def _rooted(cls, path: str) -> str:
        return normal(path if path.startswith("/") else f"/{path}")

    @classmethod
    def _qualified(cls, authority: Authority) -> str:
        port = authority.port or DAEMON_PORT
        return str(Authority(authority.user, authority.host, port))

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        text = text_of(path)
        url = split_url(text, cls._schemes())
        if url is not None:
            authority, name = url
            if not authority:
                return cls._rooted(name) or "/"
            return Qualified(cls._qualified(Authority.parse(authority)) + (normal(name) or "/").rstrip("/"))
        if isinstance(path, Qualified) or text.startswith("/"):
            return path if isinstance(path, Qualified) else normal(text)
        return cls._rooted(text)

    def _own_name(self, path: Any) -> Any:
        """As ``_strip_protocol`` of the class, of a URL of this server."""
        if isinstance(path, (list, tuple, set)):
            return [self._own_name(item) for item in path]
        form, name = self._split(path)
        return (form + name).rstrip("/") or "/" if form else name

    def _split(self, path: Any) -> tuple[str, str]:
        """The form of a name, ``host:port`` or nothing, and its path at the server."""
        text = text_of(path)
        url = split_url(text, self._schemes())
        if url is not None:
            if url[0]:
                self._compare(Authority.parse(url[0]), text)
            return "", self._rooted(url[1]) or "/"
        own = self._qualified(self._authority)
        head, slash, rest = text.partition("/")
        if not isinstance(path, Qualified) and head != own and names_server(head):
            # Of a URL without its scheme that was put together with more.
            raise UsageError(
                f"{text!r} is of another server than {self.fsid}, or a name below the root: that begins with a slash"
            )
        if text and not text.startswith("/") and (isinstance(path, Qualified) or head == own):
            if head != own:
                self._compare(Authority.parse(head), text)
            return head, normal(slash + rest) or "/"
        head, slash, rest = text[1:].partition("/")
        if text.startswith("/") and head == own:
            # UPath puts a slash before it.
            return f"/{own}", normal(slash + rest) or "/"
        return "", self._rooted(text) or "/"

    def _compare(self, other: Authority, shown: str) -> None:
        own = self._authority
        same_host = own.host == other.host or (
            self._scheme == "fobs" and own.host.lower() == other.host.lower()
        )
        same_user = other.user == own.user or (other.user is None and not self._url_names_user)
        same_port = self._same_port(other.port)
        if not (same_host and same_user and same_port):
            raise UsageError(
                f"{shown!r} is of another server than {self.fsid}; open a file system for each of them"
            )

    @property
    def _url_names_user(self) -> bool:
        return isinstance(self._authority.user, _UrlUser)

    def _same_port(self, port: int | None) -> bool:
        own = self._authority.port
        if port is None or port == (own or DAEMON_PORT):
            return port is not None or own in (None, DAEMON_PORT) or not self._port_is_of_url
        # What a URL without a port was given for one that has its port from an option.
        return port == DAEMON_PORT and own is not None and not self._port_is_of_url

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a name of this server."""
        name = text_of(name)
        if split_url(name, self._schemes()) is not None:
            self._split(name)
            return name
        path = self._split(name)[1]
        return f"{self.protocol[0]}://{self._authority}{encoded(path if path.startswith('/') else f'/{path}')}"

    @classmethod
    def _parent(cls, path: Any) -> str:
        path = cls._strip_protocol(path)
        if isinstance(path, Qualified) or ":" in path.partition("/")[0]:
            return Qualified(path.rpartition("/")[0] or path)
        return parent(path) or "/"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        text = text_of(path)
        found = split_url(text, ("fobs", "fobs+ssh", "fobsssh"))
        if found is None or not found[0]:
            return {}
        at = Authority.parse(found[0])
        user = None if at.user is None else _UrlUser(at.user)
        port = None if at.port is None else UrlPort(at.port)
        return {name: value for name, value in (("host", at.host), ("port", port), ("user", user)) if value}

    def get_mapper(
        self, root: Any = "", check: bool = False, create: bool = False, missing_exceptions: Any = None
    ) -> Any:
        """The files below ``root`` by their names, as a mapping."""
        return Mapper(self._strip_protocol(root), self, check, create, missing_exceptions)

    # -- reading

    async def _opened(self, path: Any) -> Entry:
        """What is at a name when it is opened, by which its ranges know it."""
        async with self._session() as session:
            entry = await session.stat_async(self._split(path)[1])
        if entry.is_dir:
            raise IsADirectoryError(f"{path!r} is a directory; name a file in it")
        if not entry.is_file:
            raise UsageError(f"{path!r} is no regular file, and only those are read")
        return entry

    async def _range(self, path: Any, start: int, end: int, opened: Entry | None = None) -> bytes:
        path, length = self._split(path)[1], max(end - start, 0)
        async with self._session() as session:
            return await session.get_range_async(path, start, length, opened=opened)

    async def _cat_file(self, path: Any, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        form, path = self._split(path)
        if (start or 0) < 0 or (end or 0) < 0:
            size = (await self._info(form + path))["size"]
            if size == 0:
                # A file of /proc says nothing of its size.
                return (await self._cat_file(form + path))[start:end]
            start = max(size + start, 0) if start is not None and start < 0 else start
            end = size + end if end is not None and end < 0 else end
        try:
            if start is not None or end is not None:
                return await self._range(path, start or 0, TO_END if end is None else end)
            async with self._session() as session:
                found = await session.get_bytes_async(path)
            # A file of /proc says nothing of its size, and an older server reads it by that.
            return found or await self._range(path, 0, TO_END)
        except UsageError:
            if await self._isdir(form + path):
                raise IsADirectoryError(f"{path!r} is a directory; name a file in it") from None
            raise

    async def _cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """The contents of files; with ``recursive``, of all files below."""
        if not recursive:
            return await super()._cat(path, on_error=on_error, batch_size=batch_size, **kwargs)
        found = await super()._cat(path, recursive=True, on_error="return", batch_size=batch_size, **kwargs)
        several = found if isinstance(found, dict) else {"": found}
        # Directories are among what is below, and have no content.
        kept = {name: value for name, value in several.items() if not isinstance(value, IsADirectoryError)}
        failed = next((value for value in kept.values() if isinstance(value, BaseException)), None)
        if failed is not None and on_error == "raise":
            raise failed
        if not isinstance(found, dict) and kept:
            return found
        is_kept = on_error != "omit" or failed is None
        return {name: value for name, value in kept.items() if is_kept or not isinstance(value, BaseException)}

    # -- writing

    async def _mkdir(self, path: Any, create_parents: bool = True, **_: Any) -> None:
        async with self._session() as session:
            await session.mkdir_async(self._split(path)[1], parents=create_parents)

    async def _makedirs(self, path: Any, exist_ok: bool = False) -> None:
        async with self._session() as session:
            await session.mkdir_async(self._split(path)[1], parents=True, exist_ok=exist_ok)

    async def _rm_file(self, path: Any, **_: Any) -> None:
        self._not_in_a_transaction("removes nothing")
        path = self._split(path)[1]
        if (await self._entry(path)).is_dir:
            raise IsADirectoryError(f"{path!r} is a directory; remove it with rmdir or rm")
        await self._gone(path, False)

    async def _rmdir(self, path: Any) -> None:
        self._not_in_a_transaction("removes nothing")
        path = self._split(path)[1]
        if not (await self._entry(path)).is_dir:
            raise NotADirectoryError(f"{path!r} is no directory; remove it with rm")
        await self._gone(path, False)

    async def _touch(self, path: Any, truncate: bool = True, **_: Any) -> None:
        form, path = self._split(path)
        if truncate or not await self._exists(form + path):
            await self._pipe_file(form + path, b"")
            return
        self._not_in_a_transaction("gives no times")
        async with self._session() as session:
            await session.touch_async(path)

    def rmdir(self, path: Any) -> None:
        """Removes an empty directory."""
        self._run(self._rmdir, path)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Gives files or directories other names, at the server; into a directory that exists."""
        self._run(self._mv, path1, path2, recursive, maxdepth, **kwargs)

    def touch(self, path: Any, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file; without ``truncate``, one that exists only gets the time of now."""
        self._run(self._touch, path, truncate, **kwargs)

    def lexists(self, path: Any, **kwargs: Any) -> bool:
        """Whether a name exists, also that of a link that leads nowhere."""
        return bool(self._run(self._lexists, path, **kwargs))

    def islink(self, path: Any) -> bool:
        """Whether a name is that of a link."""
        return bool(self._run(self._islink, path))

    def modified(self, path: Any) -> datetime:
        """The time of the last change."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    # -- open files

    def _open(self, path: Any, mode: str = "rb", block_size: Any = None, **kwargs: Any) -> Any:
        form, path = self._split(path)
        if mode == "rb":
            kwargs.pop("autocommit", None)
            return FobsFile(self, form + path, block_size=block_size or "default", **kwargs)
        if mode not in ("wb", "xb", "ab"):
            raise ValueError(f"mode {mode!r} is not possible: a file is read (rb), or written whole (wb, xb, ab)")
        begin, deliver = self._run(self._begun, path, mode)
        autocommit = bool(kwargs.get("autocommit", True))
        return FobsWriter(self, form + path, mode, lambda content: self._run(deliver, content), begin, autocommit)

    async def _begun(self, path: str, mode: str) -> tuple[bytes, Callable[[Any], Awaitable[None]]]:
        """What a file that is written begins with, and what takes its content."""
        begin, before = b"", None
        if mode == "xb" and await self._lexists(path):
            raise FileExistsError(f"{path!r} exists already; write it with mode 'wb'")
        if mode == "ab" and await self._exists(path):
            before = await self._opened(path)
            begin = await self._range(path, 0, TO_END, before)

        async def deliver(content: Any) -> None:
            if before is not None and (await self._opened(path))._stamp != before._stamp:
                raise UsageError(f"{path!r} has changed since it was opened to append; append to it again")
            await self._pipe_file(path, content, "create" if mode == "xb" else "overwrite")

        return begin, deliver

    def open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: Any = None,
        cache_options: Any = None,
        compression: Any = None,
        **kwargs: Any,
    ) -> Any:
        """As Python's ``open``; an exception discards what is written. ``compression`` is fsspec's."""
        text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        binary = mode if "b" in mode else mode.replace("t", "") + "b"
        if cache_options is not None:
            kwargs["cache_options"] = cache_options
        file = self._open(path, mode=binary, block_size=block_size, **kwargs)
        if compression is not None:
            from fsspec.compression import compr
            from fsspec.core import get_compression

            name = get_compression(text_of(path), compression)
            if name is not None:
                outer = compr[name](file, mode="r" if binary == "rb" else "w")
                file = outer if binary == "rb" else Compressed(outer, file)
        if "b" in mode:
            return file
        return io.TextIOWrapper(file, **text) if binary == "rb" else Text(file, **text)

    async def open_async(self, path: Any, mode: str = "rb", **kwargs: Any) -> FobsStream:
        """A file that is read or written by coroutines; what is written is delivered when it is closed."""
        if mode not in ("rb", "wb", "xb", "ab") or kwargs.get("compression"):
            raise ValueError(f"mode {mode!r} is not possible here; give rb, wb, xb or ab, without compression")
        form, path = self._split(path)
        if mode == "rb":
            return await FobsStream.read_of(self, form + path, await self._opened(path))
        return FobsStream.written(self, form + path, *await self._begun(path, mode))


for _name in ("_cat", "_cat_ranges", "_copy", "_get", "_pipe", "_put", "_mv", "_rm"):
    setattr(FobsFileSystem, _name, whole(getattr(FobsFileSystem, _name)))


class _UrlUser(str):
    """A user whom a URL names, and no option."""


class FobsSshFileSystem(FobsFileSystem):
    """Files of a host that has ``fobs`` and sshd: ``fobs+ssh://user@host/path``, the path from its root."""

    protocol = ("fobs+ssh", "fobsssh")
    _scheme = "ssh"
    _is_served = False

    @classmethod
    def _rooted(cls, path: str) -> str:
        # Without a slash it is relative to the home directory there.
        return normal(path) if path.strip("/.") or path.startswith("/") or path == "" else "."

    @classmethod
    def _qualified(cls, authority: Authority) -> str:
        # The port may be said by ssh's own configuration; the colon tells the host from a name.
        return str(authority) + ("" if authority.port else ":")

    def _same_port(self, port: int | None) -> bool:
        own = self._authority.port
        return port == own or (port is None and not self._port_is_of_url)


def _register() -> None:
    # Also where the package is not installed by its metadata; "+" is no letter of a scheme to some programs.
    from fsspec import register_implementation

    for name, kind in (("fobs", FobsFileSystem), ("fobs+ssh", FobsSshFileSystem), ("fobsssh", FobsSshFileSystem)):
        register_implementation(name, kind, clobber=True)


_register()
