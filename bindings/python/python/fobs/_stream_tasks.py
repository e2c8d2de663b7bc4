"""Byte streams for tasks: a reader and a writer of asyncio over a transport of our own. That of a socket knows
neither why it ends nor that one direction may fail while the other goes on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, Unpack

from . import _fobs
from ._errors import FileError, UsageError
from ._job import Job
from ._options import Options
from ._streams import Command, Opening, check, ended
from ._values import Path, encode, flag, nothing

# Bytes that are read at once, and those that wait to be written before a task that drains waits.
_READ_BYTES = 256 << 10
_HIGH_BYTES = 256 << 10


class _Transport(asyncio.Transport):
    """What stands between the socket to the extension and a protocol."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, opening: Opening, protocol: asyncio.StreamReaderProtocol
    ) -> None:
        super().__init__({"command": opening.line})
        self._loop, self._protocol, self._raw, self._line = loop, protocol, opening.raw, opening.line
        self._socket = socket.socket(fileno=opening.raw.descriptor())
        self._buffer = bytearray()
        self._low, self._high = _HIGH_BYTES // 4, _HIGH_BYTES
        self._reads, self._at_end, self._ended = True, False, False
        # Whether everything has come that the other end wrote.
        self._is_whole = False
        self._closing, self._paused, self._over = False, False, False
        self._error: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        protocol.connection_made(self)
        loop.add_reader(self._socket, self._readable)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reads

    def pause_reading(self) -> None:
        if self._reads and not self._over:
            self._reads = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        if not (self._reads or self._at_end or self._closing):
            self._reads = True
            self._loop.add_reader(self._socket, self._readable)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if data:
            self._protocol.data_received(data)
            return
        self.pause_reading()
        self._at_end = True
        self._start(self._judge_end())

    async def _judge_end(self) -> None:
        try:
            await Job(self._raw.why_ended(), nothing)
        except Exception as error:
            self._lose(error)
        else:
            self._is_whole = True
            if not self._over:
                self._protocol.eof_received()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self._low, self._high)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        if self._ended:
            raise RuntimeError("nothing can be written to a stream whose bytes were ended here")
        if self._error is not None:
            raise self._error
        if not len(view) or self._over:
            return
        if not self._buffer:
            view = view[self._send(view) :]
            if not len(view) or self._error is not None:
                return
            self._loop.add_writer(self._socket, self._writable)
        self._buffer += view
        if len(self._buffer) > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def _send(self, view: Any) -> int:
        try:
            return self._socket.send(view, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError:
            # What comes may be read on.
            self._error = BrokenPipeError("the other end of the stream reads no more")
            self._start(self._judge_refusal())
            return 0

    async def _judge_refusal(self) -> None:
        try:
            await Job(self._raw.why_unwritable(), flag)
        except Exception as error:
            self._lose(error)

    def _writable(self) -> None:
        del self._buffer[: self._send(self._buffer)]
        if self._error is not None:
            self._buffer.clear()
        if not self._buffer:
            self._loop.remove_writer(self._socket)
            if self._ended:
                self._raw.end_writing()
        if self._paused and len(self._buffer) <= self._low:
            self._paused = False
            self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not (self._ended or self._over):
            self._ended = True
            if not self._buffer:
                self._raw.end_writing()

    def close(self) -> None:
        """Ends both directions, once everything is written; the writer's ``wait_closed`` says how that went."""
        if not self._closing:
            self.pause_reading()
            self._closing = True
            self.write_eof()
            self._raw.end_reading()
            self._start(self._finish())

    async def _finish(self) -> None:
        try:
            code, _, _ = await Job(self._raw.wait(), ended)
            check(code, self._line)
        except Exception as error:
            self._lose(error)
        else:
            self._lose(None)

    def abort(self) -> None:
        """Fails it at both ends; a reader here does not take what had come for all of it."""
        why = "the program gave up its end of the stream"
        self._raw.abort(why)
        self._lose(None if self._is_whole else FileError(why))

    def _lose(self, error: Exception | None) -> None:
        if self._over:
            return
        self.pause_reading()
        self._loop.remove_writer(self._socket)
        self._over = self._closing = True
        self._buffer.clear()
        self._raw.close()
        self._socket.close()
        self._protocol.connection_lost(error)

    def __del__(self) -> None:
        # Of a loop that ended first: the stream was not finished.
        self._raw.close()
        self._socket.close()


class _Writer(asyncio.StreamWriter):
    """One whose collection is no end of what was written, as it is for a socket's."""

    def __del__(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()


async def opened(opening: Opening) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The reader and the writer, once the stream is open."""
    loop = asyncio.get_running_loop()
    try:
        if opening.errors is not None:
            raise UsageError("the standard error of a command is not for tasks; leave stderr out")
        await opening.job
    except BaseException:
        opening.discard()
        raise
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport = _Transport(loop, opening, protocol)
    return reader, _Writer(transport, protocol, reader, loop)


async def stream_async(
    url: Path,
    command: Command | None = None,
    *,
    listen: str | None = None,
    wait: float | None = None,
    **options: Unpack[Options],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As :func:`stream`, as a reader and a writer of asyncio. ``write_eof`` ends what is written; ``close`` and
    ``wait_closed`` wait until everything is there, and raise where it is not. A writer that is dropped fails at the
    other end.
    """
    core = _fobs.Core(encode(url), [])
    return await opened(Opening(core, None, command, listen, wait, False, options))
