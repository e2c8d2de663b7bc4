"""A file that is read in parts, and one of coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fsspec.asyn import AbstractAsyncStreamedFile
from fsspec.spec import AbstractBufferedFile

from .._errors import FileError
from .._types import Entry
from .run import run
from .spool import Spool

# How much of a file without a size is looked at to see whether it has content.
_PEEK = 1 << 16
# Longest range: to the end of any file.
TO_END = 1 << 40


class FobsFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read in parts, all of the same file: one that was replaced or changed meanwhile is an error."""

    def __init__(self, fs: Any, path: str, entry: Entry | None = None, **kwargs: Any) -> None:
        self._entry: Entry = entry or run(fs.loop, fs._opened, path)
        self._content: bytes | None = None
        size = self._entry.size
        if size == 0 and run(fs.loop, fs._range, path, 0, _PEEK):
            # A file of /proc says nothing of its size.
            self._content = bytes(run(fs.loop, fs._range, path, 0, TO_END))
            size = len(self._content)
        kwargs.pop("size", None)
        super().__init__(fs, path, mode="rb", size=size, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._content is not None:
            return self._content[start:end]
        found = bytes(run(self.fs.loop, self.fs._range, self.path, start, end, self._entry))
        return whole_range(self.path, found, min(end, self.size) - start)

    def seek(self, loc: int, whence: int = 0) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return int(super().seek(loc, whence))

    def __reduce__(self) -> Any:
        # In another process it is the same file too, or one that has changed.
        cache = self.cache.name if self.cache else "none"
        return _again, (self.fs, self.path, self._entry, self.loc, self.blocksize, cache, self.kwargs)

    def __del__(self) -> None:
        # Nothing of it is anywhere but here.
        self.closed = True


def _again(
    fs: Any, path: str, entry: Entry, at: int, block_size: int, cache: str, more: dict[str, Any]
) -> FobsFile:
    file = FobsFile(fs, path, entry, block_size=block_size, cache_type=cache, **more)
    file.seek(at)
    return file


def whole_range(path: str, found: bytes, length: int) -> bytes:
    """What was read, which is as long as the file was said to be."""
    if len(found) < length:
        raise FileError(f"{path!r} has become shorter since it was opened; open it again")
    return found


class FobsStream(AbstractAsyncStreamedFile):  # type: ignore[misc]
    """A file of :meth:`open_async`: read in parts, or written and delivered when it is closed. A write that failed
    spoils it.
    """

    #: What it begins with, and what takes its content.
    _begin: bytes = b""
    _deliver: Callable[[Any], Awaitable[None]]
    _spool: Spool | None = None
    _content: bytes | None = None
    _spoiled: str | None = None

    @classmethod
    def written(cls, fs: Any, path: str, begin: bytes, deliver: Callable[[Any], Awaitable[None]]) -> FobsStream:
        """One that is written."""
        stream = cls(fs, path, mode="wb")
        stream._begin, stream._deliver, stream.loc = begin, deliver, len(begin)
        return stream

    @classmethod
    async def read_of(cls, fs: Any, path: str, entry: Entry) -> FobsStream:
        """One that is read in parts, all of the same file."""
        content = None
        if entry.size == 0:
            # A file of /proc says nothing of its size.
            content = bytes(await fs._range(path, 0, TO_END))
        stream = cls(fs, path, mode="rb", size=len(content) if content else entry.size, cache_type="none", entry=entry)
        stream._content = content or None
        return stream

    async def _fetch_range(self, start: int, end: int) -> bytes:
        if self._content is not None:
            return self._content[start:end]
        found = bytes(await self.fs._range(self.path, start, end, self.kwargs["entry"]))
        return whole_range(self.path, found, min(end, self.size) - start)

    async def _initiate_upload(self) -> None:
        self._spool = Spool(self.path)
        self._keep(self._spool, self._begin)

    def _keep(self, spool: Spool, piece: bytes) -> None:
        if self._spoiled is not None:
            raise FileError(
                f"{self.path!r} is not delivered: a write to it failed before ({self._spoiled}); write it again"
            )
        try:
            spool.write(piece)
        except BaseException as error:
            self._spoiled = f"{error}"
            raise

    async def _upload_chunk(self, final: bool = False) -> bool:
        assert self._spool is not None, "it is made as the upload begins"
        self._keep(self._spool, self.buffer.getvalue())
        if final:
            await self._deliver(self._spool.content())
        return True

    def discard(self) -> None:
        """Drops it; nothing is delivered."""
        self.closed = True
        if self._spool is not None:
            self._spool.close()

    async def close(self) -> None:
        """Delivers what is written, or raises."""
        try:
            await super().close()
        finally:
            self.discard()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            # An exception discards.
            self.discard()
            return
        await self.close()

    def __del__(self) -> None:
        self.discard()
