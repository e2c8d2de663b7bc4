"""Byte streams to programs at other hosts, as raw binary files.

Reads and writes are Python's own, on a socket to the extension, which says why it ended.
"""

from __future__ import annotations

import io
import os
import select
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Unpack

from . import _fobs
from ._errors import UsageError
from ._job import WAIT_MAX, Job
from ._options import Options, named
from ._values import Path, encode, flag, nothing

#: A command for the shell there: as it reads it, or words, which are quoted for it.
Command = str | bytes | Iterable[str]

# The exit code of a command that wrote to one that reads no more.
_SIGPIPE = 128 + 13


def line_of(command: Command | None) -> bytes | None:
    """The command as the shell there reads it."""
    if command is None:
        return None
    return os.fsencode(command if isinstance(command, (str, bytes)) else shlex.join(command))


def ended(raw: Any) -> tuple[int, int, int]:
    """Exit code, bytes that were sent, bytes that came."""
    return (int(raw[0]), int(raw[1]), int(raw[2]))


class Opening:
    """A stream that is being opened."""

    def __init__(
        self,
        core: _fobs.Core,
        name: Path | None,
        command: Command | None,
        listen: str | None,
        wait: float | None,
        stderr: bool,
        options: Any,
    ) -> None:
        if wait is not None and not wait >= 0:
            raise UsageError("a stream does not listen for less than no time; give 0 s or more")
        self.line = line_of(command)
        target = (None if name is None else encode(name), self.line, listen, wait)
        started, self.raw, self.errors = core.stream(target, named(options), stderr)
        self.job = Job(started, nothing)

    def discard(self) -> None:
        """It was not opened."""
        if self.errors is not None:
            os.close(self.errors)

    def blocking(self) -> Stream:
        """Waits until it is open."""
        try:
            self.job.wait()
        except BaseException:
            self.discard()
            raise
        return Stream._of(self)


class Stream(io.RawIOBase):
    """A byte stream to a program at another host: a raw binary file that is read and written.

    What is read was verified, in order and without a gap; a stream that fails raises, and never looks as if it had
    ended. :meth:`end_writing` ends one direction. :meth:`close` waits until everything that was written is there;
    leaving a ``with`` block by an exception, or dropping the stream, fails at the other end instead. One thread may
    read while another one writes, and any may call :meth:`abort`.
    """

    _raw: _fobs.RawStream
    _socket: socket.socket
    _line: bytes | None
    _lock: threading.Lock
    _end: tuple[int, int, int] | None
    #: Calls that use the descriptor now, and whether it goes with the last of them.
    _users: int
    _is_over: bool
    #: What a command writes to its standard error, where ``stderr=True`` was asked for: a binary file to be read.
    stderr: io.BufferedReader | None

    def __init__(self) -> None:
        raise UsageError("streams are made by fobs.stream() and Session.stream()")

    @classmethod
    def _of(cls, opening: Opening) -> Stream:
        stream = cls.__new__(cls)
        stream._raw, stream._line, stream._end = opening.raw, opening.line, None
        stream._lock, stream._users, stream._is_over = threading.Lock(), 0, False
        stream.stderr = None if opening.errors is None else os.fdopen(opening.errors, "rb")
        stream._socket = socket.socket(fileno=opening.raw.descriptor())
        return stream

    def __repr__(self) -> str:
        return f"<fobs.Stream {'closed' if self.closed else 'open'}>"

    def __reduce__(self) -> Any:
        raise TypeError("a stream cannot be pickled; open one in the other process")

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return not self.closed

    def writable(self) -> bool:
        """Whether it can be written: yes."""
        return not self.closed

    def fileno(self) -> int:
        """The descriptor, to be polled; it does not block. What is read and written goes through the methods."""
        self._check()
        return self._socket.fileno()

    def readinto(self, buffer: Any, /) -> int:
        """Fills the front of a buffer with what has come, and waits where nothing has. Returns how many bytes: 0 at
        the end.
        """
        with self._used():
            view = memoryview(buffer).cast("B")
            if not len(view):
                return 0
            while True:
                try:
                    count = self._socket.recv_into(view)
                except BlockingIOError:
                    self._wait(select.POLLIN)
                    continue
                except ConnectionResetError:
                    count = 0
                if count == 0:
                    Job(self._raw.why_ended(), nothing).wait()
                return count

    def write(self, data: Any, /) -> int:
        """Writes all of a buffer, and waits while the other end is slower. ``BrokenPipeError`` where it reads no
        more.
        """
        with self._used():
            view = memoryview(data).cast("B")
            written = 0
            while written < len(view):
                try:
                    written += self._socket.send(view[written:], socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    self._wait(select.POLLOUT)
                except (BrokenPipeError, ConnectionResetError):
                    Job(self._raw.why_unwritable(), flag).wait()
                    raise BrokenPipeError("the other end of the stream reads no more") from None
            return written

    def end_writing(self) -> None:
        """Ends what is written: the other end reads the rest and then its end. Reading goes on."""
        self._check()
        self._raw.end_writing()

    def wait(self) -> int:
        """Waits until the stream is over, and returns the exit code of the command: 0 of what is none, 128 and the
        number of a signal that ended it. What comes must be read meanwhile, or before.
        """
        if self._end is None:
            self._check()
            self._end = Job(self._raw.wait(), ended).wait()
        return self._end[0]

    @property
    def verified(self) -> int:
        """Bytes of what was written that are verified at the server."""
        return self._end[1] if self._end is not None else self._raw.verified()

    def abort(self, why: str = "the program gave up its end of the stream") -> None:
        """Fails it at both ends, and says there why, and to a thread that reads or writes it here. It is closed then."""
        if not self.closed:
            self._raw.abort(why)
            self._let_go()

    def close(self) -> None:
        """Ends both directions and waits until everything that was written is at the other end; raises where it is
        not. ``subprocess.CalledProcessError`` where a command failed and :meth:`wait` was not asked.
        """
        if self.closed:
            return
        try:
            if self._end is None:
                self._raw.end_writing()
                self._raw.end_reading()
                if self.stderr is not None:
                    self.stderr.close()
                check(self.wait(), self._line)
        finally:
            self._let_go()

    @contextmanager
    def _used(self) -> Iterator[None]:
        """The descriptor stays as long as a call uses it: its number may be another file's at once."""
        with self._lock:
            self._check()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                is_last = self._is_over and not self._users
            if is_last:
                self._release()

    def _let_go(self) -> None:
        with self._lock:
            is_first, self._is_over = not self._is_over, True
            super().close()
            is_free = is_first and not self._users
        if is_free:
            self._release()
        if self.stderr is not None:
            self.stderr.close()

    def _release(self) -> None:
        self._raw.close()
        self._socket.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            # What was written is not all of it.
            self.abort(f"the program gave up its end of the stream: {kind.__name__}")
        self.close()

    def __del__(self) -> None:
        # In place of that of files, which closes them: this one was not finished.
        if hasattr(self, "_socket"):
            self.abort()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on a closed stream")

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._socket.fileno(), event)
        poll.poll(WAIT_MAX * 1000)


def check(code: int, line: bytes | None) -> None:
    """Raises where a command failed; not where it wrote what nobody read."""
    if code not in (0, _SIGPIPE):
        raise subprocess.CalledProcessError(code, os.fsdecode(line or b"the command of the key"))


def stream(
    url: Path,
    command: Command | None = None,
    *,
    listen: str | None = None,
    wait: float | None = None,
    stderr: bool = False,
    **options: Unpack[Options],
) -> Stream:
    """Opens a byte stream: over ssh to a command of the shell there, at a daemon (``fobs://host/NAME``) to the command
    of the key's line or to the program that listens as ``NAME``. With ``listen`` it is one that waits, ``wait``
    seconds, for the program that asks for that name.
    """
    core = _fobs.Core(encode(url), [])
    return Opening(core, None, command, listen, wait, stderr, options).blocking()
