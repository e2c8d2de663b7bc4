"""A file that is read in parts."""

from __future__ import annotations

from typing import Any

from fsspec.asyn import AbstractAsyncStreamedFile
from fsspec.spec import AbstractBufferedFile

from .._errors import FileError
from .._types import Entry
from .run import run

# How much of a file without a size is looked at to see whether it has content.
_PEEK = 1 << 16
# Longest range: to the end of any file.
TO_END = 1 << 40


class FobsFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read in parts, all of the same file: one that was replaced or changed meanwhile is an error."""

    def __init__(self, fs: Any, path: str, **kwargs: Any) -> None:
        self._entry: Entry = run(fs.loop, fs._opened, path)
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
        if len(found) < min(end, self.size) - start:
            raise FileError(f"{self.path!r} has become shorter since it was opened; open it again")
        return found

    def seek(self, loc: int, whence: int = 0) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return int(super().seek(loc, whence))

    def __del__(self) -> None:
        # Nothing of it is anywhere but here.
        self.closed = True


class FobsStream(AbstractAsyncStreamedFile):  # type: ignore[misc]
    """A file of :meth:`open_async`: read in parts, or written and delivered when it is closed."""

    async def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(await self.fs._range(self.path, start, end, self.kwargs["entry"]))

    async def _initiate_upload(self) -> None:
        self._pieces: list[bytes] = []

    async def _upload_chunk(self, final: bool = False) -> bool:
        self._pieces.append(self.buffer.getvalue())
        if final:
            mode = self.kwargs.get("how", "overwrite")
            await self.fs._pipe_file(self.path, b"".join(self._pieces), mode=mode)
        return True

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and self.mode != "rb":
            # An exception discards.
            self.closed = True
            return
        await self.close()

    def __del__(self) -> None:
        self.closed = True
