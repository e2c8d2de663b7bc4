"""Copies between here and there, and names for what is there."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
import tempfile
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import isfilelike

from .._errors import DestinationError, PartialError, RemoteMissingError, SourceNotFoundError, UsageError
from .._session import Session
from .._types import Entry, Progress
from .names import below, local, parent, text_of
from .spool import Spool
from .tree import Tree


class Staged:
    """What is at the server under a name of its own until a transaction is committed."""

    def __init__(self, fs: Any, temporary: str, name: str, replace: bool) -> None:
        self.fs, self.temporary, self.path, self.replace = fs, temporary, name, replace

    def commit(self) -> None:
        """Gives it its name."""
        self.fs._run(self.fs._take_name, self.temporary, self.path, self.replace)

    def discard(self) -> None:
        """Removes it."""
        self.fs._run(self.fs._gone, self.temporary, False)


class Moving(Tree):
    """Moving. A name is given by the server, at the moment when everything is there."""

    async def _with_parents(self, path: str, act: Callable[[Session], Awaitable[Any]]) -> Any:
        """Runs ``act``; directories that are missing above ``path`` are made, as object stores have it."""
        async with self._session() as session:
            try:
                return await act(session)
            except (DestinationError, PartialError, SourceNotFoundError) as error:
                above = parent(path)
                # Only that is mended by trying again; a full disk is not.
                if not above or error.errno != errno.ENOENT:
                    raise
                # Another task may have made it meanwhile.
                await session.mkdir_async(above, parents=True, exist_ok=True)
                return await act(session)

    async def _take_name(self, temporary: str, path: str, replace: bool) -> None:
        async with self._session() as session:
            try:
                await session.rename_async(temporary, path, replace)
            except BaseException:
                await asyncio.shield(_removed(session, temporary))
                raise

    async def _deliver(self, path: str, put: Callable[[Session, str], Awaitable[Any]], create: bool = False) -> None:
        """Has ``put`` store something under ``path``. Where that must not exist, and in a transaction, it gets its
        name afterwards: the server decides at that moment who has it.
        """
        if not create and not self._intrans:
            await self._with_parents(path, lambda session: put(session, path))
            return
        if create and await self._lexists(path):
            raise FileExistsError(f"{path!r} exists already; write it with mode 'wb' or 'overwrite'")
        temporary = f"{below(parent(path), '.' + path.rpartition('/')[2][:200])}.{secrets.token_hex(6)}.fobs-new"
        try:
            await self._with_parents(path, lambda session: put(session, temporary))
        except BaseException:
            async with self._session() as session:
                await asyncio.shield(_removed(session, temporary))
            raise
        if self._intrans:
            self.transaction.files.append(Staged(self, temporary, path, not create))
            return
        await self._take_name(temporary, path, False)

    async def _pipe_file(self, path: Any, value: Any, mode: str = "overwrite", **_: Any) -> None:
        path = self._split(path)[1]
        if isinstance(value, str):
            raise TypeError("bytes are written, not text; encode it, or use write_text")
        with Spool(path) as spool:
            if hasattr(value, "__next__") or hasattr(value, "__aiter__"):
                # Its length is known at its end.
                await _fill(spool, value)
                value = spool.content()
            await self._deliver(path, lambda session, name: session.put_bytes_async(name, value), creates(mode))

    async def _put_file(
        self, lpath: Any, rpath: Any, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        creates(mode)
        here, path = local(lpath), self._split(rpath)[1]
        found = os.stat(here) if os.path.exists(here) else os.lstat(here)
        if stat.S_ISDIR(found.st_mode):
            await self._makedirs(path, exist_ok=True)
            return
        if stat.S_ISLNK(found.st_mode):
            await self._put_link(here, path)
            return
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{here!r} is no regular file; read it yourself, and write what comes of it")
        callback.set_size(found.st_size)
        if await self._isdir(path):
            # A copy would go into it, under another name.
            raise IsADirectoryError(f"{path!r} is a directory; name a file in it")
        if found.st_size == 0:
            with open(here, "rb") as file:
                content = file.read()
            # A file of /proc says nothing of its size.
            await self._pipe_file(path, content, mode)
            return
        await self._deliver(
            path, lambda session, name: session.put_async(here, name, progress=told(callback)), creates(mode)
        )

    async def _put_link(self, here: str, path: str) -> None:
        """A link as it is: one that leads nowhere, or to a directory."""
        self._not_in_a_transaction("makes no links")
        with tempfile.TemporaryDirectory(prefix="fobs-") as directory:
            os.symlink(os.readlink(here), os.path.join(directory, path.rpartition("/")[2]))
            above = parent(path)
            await self._with_parents(path, lambda session: session.put_async(directory + "/", above, recursive=True))

    async def _get_file(
        self, rpath: Any, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        form, path = self._split(rpath)
        into = outfile if outfile is not None else lpath
        if into is None:
            raise UsageError(f"{path!r} goes nowhere; name a file of this host, or give one that is open")
        if isfilelike(into):
            content = await self._cat_file(form + path)
            callback.set_size(len(content))
            into.write(content)
            callback.absolute_update(len(content))
            return
        here = local(lpath)
        entry = await self._entry(path)
        there = entry.leads_to if entry.is_link else entry
        if there is None:
            await self._get_link(entry, here)
        elif there.is_dir:
            os.makedirs(here, exist_ok=True)
        elif there.size == 0:
            content = await self._cat_file(form + path)
            _above(here)
            with open(here, "wb") as file:
                file.write(content)
        else:
            await self._get_content(path, here, there, callback)

    async def _get_link(self, entry: Entry, here: str) -> None:
        if entry.target is None:
            raise FileNotFoundError(f"{entry.name!r} is a link that leads nowhere")
        _above(here)
        if os.path.lexists(here):
            os.unlink(here)
        os.symlink(entry.target, here)

    async def _get_content(self, path: str, here: str, there: Entry, callback: Any) -> None:
        """Under a name of its own, so that several that fetch one file into one place do not meet."""
        callback.set_size(there.size)
        _above(here)
        if os.path.isdir(here):
            raise IsADirectoryError(f"{here!r} is a directory; name a file in it")
        head, name = os.path.split(here)
        temporary = os.path.join(head, f".{name[:200]}.{secrets.token_hex(6)}.fobs-new")
        try:
            async with self._session() as session:
                await session.get_async(path, temporary, progress=told(callback), no_partial=True)
            if os.path.islink(temporary):
                raise UsageError(f"{path!r} became a link while it was fetched; try again")
            os.replace(temporary, here)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    async def _cp_file(self, path1: Any, path2: Any, **_: Any) -> None:
        """At the server; the bytes stay there."""
        source, target = self._split(path1)[1], self._split(path2)[1]
        entry = await self._entry(source)
        there = entry.leads_to if entry.is_link else entry
        if there is None:
            await self._cp_link(source, target, entry)
        elif there.is_dir:
            await self._makedirs(target, exist_ok=True)
        elif there.is_file:
            await self._deliver(target, lambda session, name: self._copied(session, source, name, entry))
        else:
            raise UsageError(f"{source!r} is no regular file, and only those are copied")

    async def _cp_link(self, source: str, target: str, entry: Entry) -> None:
        if entry.target is None:
            raise FileNotFoundError(f"{source!r} is a link, and this server does not say where it leads")
        with tempfile.TemporaryDirectory(prefix="fobs-") as directory:
            link = os.path.join(directory, "link")
            os.symlink(entry.target, link)
            await self._put_link(link, target)

    async def _copied(self, session: Session, source: str, target: str, entry: Entry) -> None:
        try:
            await session.copy_async(source, target, replace=True)
            return
        except RemoteMissingError:
            pass
        # A server of 0.2: by way of this host.
        if source == target:
            raise UsageError(f"{source!r} is copied to itself; choose another name")
        with tempfile.TemporaryDirectory(prefix="fobs-") as directory:
            here = os.path.join(directory, "copy")
            await session.get_async(source, here)
            await session.put_async(here, target)

    async def _mv_file(self, path1: Any, path2: Any, **_: Any) -> None:
        self._not_in_a_transaction("moves nothing")
        source, target = self._split(path1)[1], self._split(path2)[1]
        if source == target:
            await self._entry(source)
            return
        try:
            await self._with_parents(target, lambda session: session.rename_async(source, target, replace=True))
        except RemoteMissingError:
            await self._mv_by_copy(source, target)
        except UsageError as error:
            if error.errno != errno.EXDEV:
                raise
            await self._mv_by_copy(source, target)

    async def _mv_by_copy(self, source: str, target: str) -> None:
        if (await self._entry(source)).kind != "file":
            raise UsageError(f"{source!r} is no file, and cannot be moved there by this server; copy and remove it")
        await self._cp_file(source, target)
        await self._gone(source, False)

    async def _mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **_: Any
    ) -> None:
        """A rename: whole directories too, whatever ``recursive`` says, as fsspec has it for local files."""
        if isinstance(path1, (list, tuple)) and isinstance(path2, (list, tuple)):
            pairs = list(zip(path1, path2, strict=True))
        else:
            sources = await self._meant(path1)
            if not sources:
                raise FileNotFoundError(f"nothing is there by the name of {path1!r}")
            text = text_of(path2)
            several = not isinstance(path1, (str, os.PathLike)) or len(sources) > 1
            form, target = self._split(path2)
            into = several or text.endswith("/") or await self._isdir(form + target)
            pairs = []
            for source in sources:
                inner = form + (below(target, source.rpartition("/")[2]) if into else target)
                same = self._split(source)[1] == target
                pairs.append((source, form + target if same else inner))
        for source, target in pairs:
            await self._mv_file(source, target)


async def _fill(spool: Spool, pieces: Any) -> None:
    """Keeps what comes of a generator, which may call a file system of this loop: another thread runs it."""
    if hasattr(pieces, "__aiter__"):
        async for piece in pieces:
            spool.write(piece)
        return
    is_over = threading.Event()

    def fill() -> None:
        for piece in pieces:
            if is_over.is_set():
                return
            spool.write(piece)

    try:
        await asyncio.to_thread(fill)
    finally:
        is_over.set()


def creates(mode: str) -> bool:
    """Whether what is written must not exist yet."""
    if mode not in ("overwrite", "create"):
        raise UsageError(f"mode {mode!r} is not possible: what is there is replaced (overwrite), or refused (create)")
    return mode == "create"


async def _removed(session: Session, name: str) -> None:
    try:
        await session.rm_async(name)
    except OSError:
        # It may never have been there; else its name says what it is.
        pass


def _above(here: str) -> None:
    directory = os.path.dirname(here)
    if directory:
        os.makedirs(directory, exist_ok=True)


def told(callback: Any) -> Callable[[Progress], None] | None:
    """A callback of fsspec as one of ours."""
    if callback is None or callback is DEFAULT_CALLBACK:
        return None

    def tell(progress: Progress) -> None:
        if progress.scan_complete and progress.bytes_known:
            callback.set_size(progress.bytes_known)
        callback.absolute_update(progress.bytes)

    return tell
