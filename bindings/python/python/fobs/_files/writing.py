"""A file that is written here, and delivered whole when it is closed.

An exception discards it, and so does the collector: only ``close()`` delivers, and it says how that ended. A
write that failed spoils the file, because nobody knows what of it is missing.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from .._errors import FileError, NoticeWarning, UsageError
from .spool import Spool

# How far up an `__exit__` is looked for: ours, that of a wrapper, and of what holds that.
_FRAMES_MAX = 12


class FobsWriter(io.BufferedIOBase):
    """A file that is written. ``deliver`` takes its content, in memory or mapped: when it is closed, or without
    ``autocommit`` when it is committed.
    """

    def __init__(
        self,
        fs: Any,
        path: str,
        mode: str,
        deliver: Callable[[Any], Any],
        begin: bytes = b"",
        autocommit: bool = True,
    ) -> None:
        self._finished = False
        self._autocommit, self._held = autocommit, None
        super().__init__()
        self.fs, self.path, self.mode = fs, path, mode
        self.kwargs: dict[str, Any] = {}
        self._deliver = deliver
        self._spoiled: str | None = None
        self._collected = False
        # What is being handled when it is opened has nothing to do with it.
        self._handled = sys.exc_info()[1]
        self._spool = Spool(path)
        if begin:
            self.write(begin)

    @property
    def closed(self) -> bool:
        """Whether it is delivered or discarded."""
        return self._finished

    @property
    def name(self) -> str:
        """The name that it gets."""
        return self.path

    full_name = name

    def readable(self) -> bool:
        """It is only written."""
        return False

    def writable(self) -> bool:
        """Until it is closed."""
        return not self._finished

    def seekable(self) -> bool:
        """Until it is closed: its content is here."""
        return not self._finished

    def _open_spool(self) -> Any:
        if self._finished:
            raise ValueError("I/O operation on closed file.")
        return self._spool

    def write(self, data: Any) -> int:
        """Takes all of it."""
        spool = self._open_spool()
        try:
            return int(spool.write(data))
        except BaseException as error:
            self._spoiled = self._spoiled or f"{error}"
            raise

    def tell(self) -> int:
        """Where the next byte goes."""
        return int(self._open_spool().tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes elsewhere in what is written."""
        spool = self._open_spool()
        spool.seek(offset, whence)
        return int(spool.tell())

    def truncate(self, size: int | None = None) -> int:
        """Makes it shorter, or longer by zeros."""
        spool = self._open_spool()
        size = int(spool.tell()) if size is None else size
        spool.truncate(size)
        return size

    def flush(self, force: bool = False) -> None:
        """Nothing is delivered before the end."""

    def _dealloc_warn(self, _: Any) -> None:
        # What a collected text wrapper calls before it closes this.
        self._collected = True

    def close(self) -> None:
        """Delivers it, or raises. An exception that is on its way out discards it."""
        if self._finished:
            return
        if self._collected:
            self.discard()
            return
        error = sys.exc_info()[1]
        if error is not None and error is not self._handled:
            self.discard()
            if not _leaves_with(sys._getframe(1)):
                text = f"{self.path!r} is discarded: it was closed while {type(error).__name__} was handled"
                warnings.warn(text, NoticeWarning, stacklevel=2)
            return
        try:
            if self._spoiled is not None:
                raise FileError(
                    f"{self.path!r} is not delivered: a write to it failed before ({self._spoiled}); write it again"
                )
            self._held = self._spool.content()
            if self._autocommit:
                self._send()
        finally:
            self._finish()

    def _send(self) -> None:
        held, self._held = self._held, None
        self._deliver(held)

    def discard(self) -> None:
        """Drops it; nothing is delivered."""
        self._held = None
        self._finish()

    def _finish(self) -> None:
        self._finished = True
        spool = getattr(self, "_spool", None)
        if spool is not None:
            spool.close()

    def commit(self) -> None:
        """Delivers what ``autocommit=False`` has held back; one of a transaction is committed by that."""
        if self._autocommit:
            return
        self._spool.check_process()
        if self._held is None:
            raise UsageError(f"{self.path!r} has nothing to commit: close it first, and commit it once")
        self._send()

    def __enter__(self) -> FobsWriter:
        self._open_spool()
        return self

    def ended_well(self) -> None:
        """What is being handled around a block that has ended well does not discard."""
        self._handled = sys.exc_info()[1]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.discard()
        self.ended_well()
        self.close()

    def __del__(self) -> None:
        self.discard()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a file that is written cannot be pickled; close it first")


def _leaves_with(frame: FrameType | None) -> bool:
    """Whether a ``with`` block is being left by an exception."""
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return False
        if frame.f_code.co_name in ("__exit__", "__aexit__"):
            return any(_is_exception(value) for value in frame.f_locals.values())
        frame = frame.f_back
    return False


def _is_exception(value: Any) -> bool:
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(item, BaseException) for item in values)


class Text(io.TextIOWrapper):
    """Text into a file that is delivered; an exception discards it here, too."""

    def __init__(self, under: Any, **options: Any) -> None:
        super().__init__(under, **options)
        self._under = under

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._under.discard()
        self._under.ended_well()
        self.close()

    def close(self) -> None:
        """Delivers it, or raises."""
        if self._under.closed:
            # Discarded: what waits here is of no use, and cannot be written.
            self.detached()
            return
        try:
            self.flush()
        except BaseException:
            # TextIOWrapper would close, and so deliver, what it could not write.
            self._under.discard()
            self.detached()
            raise
        self._under.close()

    def detached(self) -> None:
        """Lets go of what is closed below."""
        try:
            super().close()
        except ValueError:
            pass

    def __del__(self) -> None:
        self._under.discard()


class Compressed(io.BufferedIOBase):
    """A compressor that closes what it writes to, so that a failed delivery is known."""

    def __init__(self, outer: Any, inner: FobsWriter) -> None:
        self._outer, self._inner, self._done = outer, inner, False
        self.mode, self.path, self.fs = inner.mode, inner.path, inner.fs

    @property
    def closed(self) -> bool:
        """Whether it is delivered or discarded."""
        return self._done

    def readable(self) -> bool:
        """It is only written."""
        return False

    def writable(self) -> bool:
        """Until it is closed."""
        return not self._done

    def seekable(self) -> bool:
        """A compressor only goes on."""
        return False

    def write(self, data: Any) -> int:
        """Takes all of it."""
        written = self._outer.write(data)
        return memoryview(data).nbytes if written is None else int(written)

    def flush(self) -> None:
        """Nothing is delivered before the end."""

    def discard(self) -> None:
        """Drops it; nothing is delivered."""
        self._done = True
        self._inner.discard()

    def ended_well(self) -> None:
        """As of the file below."""
        self._inner.ended_well()

    def commit(self) -> None:
        """As of the file below."""
        self._inner.commit()

    def _dealloc_warn(self, _: Any) -> None:
        self.discard()

    def close(self) -> None:
        """Delivers it, or raises."""
        if self._done:
            return
        self._done = True
        try:
            self._outer.close()
        except BaseException:
            self._inner.discard()
            raise
        self._inner.close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.discard()
        self.ended_well()
        self.close()

    def __del__(self) -> None:
        self.discard()
