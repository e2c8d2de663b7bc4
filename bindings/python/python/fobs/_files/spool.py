"""Content whose end is not known yet: in memory, beyond 64 MiB in a temporary file.

Nothing of it waits in a buffer: a forked child that ends has nothing to write to the file, which is the parent's too.
"""

from __future__ import annotations

import io
import mmap
import os
import tempfile
from typing import Any

from .._errors import UsageError

# Bytes that are kept in memory; more go into a temporary file.
SPOOL_MAX = 64 << 20


class Spool:
    """It belongs to the process that made it."""

    def __init__(self, path: str) -> None:
        self._path, self._process = path, os.getpid()
        self._memory = io.BytesIO()
        #: Where all of it is once memory is too small; without a buffer.
        self._file: io.FileIO | None = None

    def check_process(self) -> None:
        """Raises after a fork."""
        # Both would go on at one place of one file.
        if self._process != os.getpid():
            raise UsageError(
                f"{self._path!r} was opened before this process was forked, and is written by the process that opened "
                "it; open it here"
            )

    @property
    def _kept(self) -> Any:
        return self._memory if self._file is None else self._file

    def write(self, data: Any) -> int:
        """Takes all of it, or raises."""
        self.check_process()
        view = memoryview(data)
        if not view.nbytes:
            # Of no bytes there is no view as bytes.
            return 0
        view = view.cast("B")
        if self._file is None and self._memory.tell() + view.nbytes > SPOOL_MAX:
            self._leave_memory()
        if self._file is None:
            return self._memory.write(view)
        return _write_all(self._file, view)

    def _leave_memory(self) -> None:
        file: Any = tempfile.TemporaryFile(prefix="fobs-", buffering=0)
        try:
            with self._memory.getbuffer() as view:
                _write_all(file, view)
            file.seek(self._memory.tell())
        except BaseException:
            file.close()
            raise
        self._file, self._memory = file, io.BytesIO()

    def tell(self) -> int:
        """Where the next byte goes."""
        return int(self._kept.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes elsewhere."""
        self.check_process()
        return int(self._kept.seek(offset, whence))

    def truncate(self, size: int) -> None:
        """Makes it shorter, or longer by zeros, and stays where it is."""
        self.check_process()
        at = self.tell()
        if self._file is None and size > SPOOL_MAX:
            self._leave_memory()
        if self._file is None and size > (length := self.seek(0, io.SEEK_END)):
            # Memory alone would not grow.
            self._memory.write(bytes(size - length))
        self._kept.truncate(size)
        self.seek(at)

    def content(self) -> Any:
        """All of it, without a second copy in memory; it may be read when this is closed."""
        self.check_process()
        if self._file is None:
            # The same memory, until one of both is changed.
            return self._memory.getvalue()
        size = self.seek(0, io.SEEK_END)
        return mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ) if size else b""

    def close(self) -> None:
        """Drops it."""
        self._memory.close()
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _write_all(file: io.FileIO, view: memoryview) -> int:
    at = 0
    while at < view.nbytes:
        # A disk that has become full takes a part, and refuses the next one.
        with view[at:] as rest:
            at += file.write(rest)
    return at
