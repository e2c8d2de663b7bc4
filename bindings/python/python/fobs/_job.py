"""Jobs: calls that run in a thread of the session's, and the ways to wait for one.

Every wait is Python's own, on one descriptor of the thread or of the event loop that waits: no thread is within
the extension while it waits, so none crashes when the interpreter ends.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import select
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from . import _fobs
from ._errors import Error, NoticeWarning, PartialError, UsageError, from_code
from ._types import Explanation, Progress, Result

T = TypeVar("T")

#: What is called with the newest progress, in the thread that waits.
OnProgress = Callable[[Progress], object]

# How often progress is renewed, in seconds.
_PROGRESS_EVERY = 0.2
# How often an event loop that waits is woken, in seconds: a notebook's stop cancels a task without waking its loop.
_LOOP_WAKES = 0.2
#: Longest wait at once, in seconds: a signal that arrives as a wait begins does not interrupt it, and is heard at its
#: end.
WAIT_MAX = 0.2
# How long a cancelled job may take to end, in seconds; a file system may block it.
_END_WAIT = 10.0

_running: weakref.WeakSet[Job[Any]] = weakref.WeakSet()
_numbers = itertools.count(1)


class _Thread(threading.local):
    """What a thread waits with."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.waker = _fobs.Waker()
        self.poll = select.poll()
        self.poll.register(self.waker.fileno(), select.POLLIN)


class _Loop:
    """What an event loop waits with."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waker = _fobs.Waker()
        self.waiting: dict[int, list[asyncio.Future[None]]] = {}
        self.tick: asyncio.TimerHandle | None = None

    def wait(self, loop: asyncio.AbstractEventLoop, number: int) -> asyncio.Future[None]:
        future = loop.create_future()
        if not self.waiting:
            loop.add_reader(self.waker.fileno(), self._wake, loop)
            self._tick(loop)
        self.waiting.setdefault(number, []).append(future)
        return future

    def forget(self, loop: asyncio.AbstractEventLoop, number: int, future: asyncio.Future[None]) -> None:
        futures = self.waiting.get(number, [])
        if future in futures:
            futures.remove(future)
        if not futures and self.waiting.pop(number, None) is not None:
            self._rest(loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tick = loop.call_later(_LOOP_WAKES, self._tick, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in self.waker.drain():
            for future in self.waiting.pop(number, ()):
                if not future.done():
                    future.set_result(None)
        self._rest(loop)

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        # A loop that nothing waits in is left alone: it may be closed at any time.
        if not self.waiting:
            loop.remove_reader(self.waker.fileno())
            if self.tick is not None:
                self.tick.cancel()
                # It knows the loop, which must be free to go.
                self.tick = None


_thread = _Thread()
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()


def _thread_state() -> _Thread:
    if _thread.process != os.getpid():
        _thread.__init__()  # type: ignore[misc]
    return _thread


class Job(Generic[T]):
    """A call that runs. Dropping it cancels it, whichever call started it: keep it, or wait for it.

    The method that started it says what :meth:`wait` returns.
    """

    def __init__(self, raw: _fobs.Job, finish: Callable[[Any], T]) -> None:
        if raw.refused_with is not None:
            raise from_code(*raw.refused_with)
        self._started = raw
        self._process = os.getpid()
        self._finish = finish
        self._number = next(_numbers)
        self._lock = threading.Lock()
        self._outcome: tuple[tuple[str, str] | None, Any] | None = None
        _running.add(self)

    @property
    def _raw(self) -> _fobs.Job:
        if self._process != os.getpid():
            raise UsageError(
                "the job was started before this process was forked, and has no thread here; wait for it in the "
                "process that started it"
            )
        return self._started

    def wait(self, timeout: float | None = None, progress: OnProgress | None = None) -> T:
        """Waits for the end and returns what the call returns, or raises what it raised.

        ``progress`` is called five times a second, in this thread; what it raises cancels the job and is
        raised here. So does Ctrl-C: the other end keeps what the same call needs to go on.
        ``TimeoutError`` where ``timeout`` seconds are over: the job goes on.
        """
        try:
            if not self._wait(timeout, progress):
                raise _NotYet(f"the job has not ended within {timeout} s; it goes on")
        except _NotYet:
            raise
        except BaseException:
            self._end()
            raise
        return self._told(self._settle(), progress)

    def _wait(self, timeout: float | None, progress: OnProgress | None = None) -> bool:
        state = _thread_state()
        end = None if timeout is None else time.monotonic() + timeout
        told = time.monotonic()
        self._raw.tell(state.waker, self._number)
        while not self._raw.done():
            now = time.monotonic()
            left = WAIT_MAX if end is None else end - now
            if left <= 0:
                return False
            if progress is not None:
                if now >= told:
                    progress(self.progress)
                    told = time.monotonic() + _PROGRESS_EVERY
                    # It may have taken longer than there is time.
                    continue
                left = min(left, told - now)
            # Other jobs that this thread has waited for may end here too.
            if state.poll.poll(min(left, WAIT_MAX) * 1000):
                state.waker.drain()
        return True

    async def _wait_async(self, progress: OnProgress | None = None) -> T:
        try:
            while not self._raw.done():
                await self._ended(None if progress is None else _PROGRESS_EVERY)
                if progress is not None and not self._raw.done():
                    told: Any = progress(self.progress)
                    if asyncio.iscoroutine(told):
                        await told
        except BaseException:
            self.cancel()
            # Without blocking the loop: the caller's buffer is given back only when it has ended.
            await asyncio.shield(self._ended(_END_WAIT))
            self._raw.release()
            raise
        value = self._settle()
        if progress is not None:
            told = progress(self._last(value))
            if asyncio.iscoroutine(told):
                await told
        return value

    async def _ended(self, seconds: float | None) -> None:
        """Waits for the end, at most so long."""
        loop = asyncio.get_running_loop()
        state = _loops.get(loop)
        if state is None:
            state = _loops[loop] = _Loop(loop)
        future = state.wait(loop, self._number)
        try:
            self._raw.tell(state.waker, self._number)
            await asyncio.wait([future], timeout=seconds)
        finally:
            state.forget(loop, self._number, future)

    def _last(self, value: T) -> Progress:
        """The last progress: the transfer's figures, which a short one may never have reported before."""
        last = self.progress
        if isinstance(value, Result):
            total = value.bytes
            last = replace(last, scan_complete=True, bytes=total, bytes_known=total, files=value.files)
        return last

    def _told(self, value: T, progress: OnProgress | None) -> T:
        if progress is not None:
            progress(self._last(value))
        return value

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait_async().__await__()

    def _settle(self) -> T:
        # No exception is kept: it would know the frames that know this job.
        with self._lock:
            if self._outcome is None:
                self._outcome = self._raw.outcome()
        _running.discard(self)
        self._warn()
        failed, value = self._outcome
        if failed is not None:
            raise from_code(*failed)
        return self._finish(value)

    def _warn(self) -> None:
        for notice in self._raw.pinned():
            warnings.warn(notice, NoticeWarning, stacklevel=4)

    def _end(self) -> None:
        """Cancels it, and waits for its end; an interrupt meanwhile is not lost but late."""
        self._raw.cancel()
        end = time.monotonic() + _END_WAIT
        while not self._raw.done() and time.monotonic() < end:
            try:
                self._wait(end - time.monotonic())
            except KeyboardInterrupt:
                # The one that is being raised says the same.
                continue
        self._raw.release()

    @property
    def done(self) -> bool:
        """Whether it has ended, so that :meth:`wait` returns at once."""
        return self._raw.done()

    @property
    def progress(self) -> Progress:
        """Where it stands."""
        return Progress._of(self._raw.progress())

    @property
    def notices(self) -> list[str]:
        """Lines for a person, each once: a key that was pinned, a connection that was made again."""
        return self._raw.notices()

    @property
    def explain(self) -> Explanation:
        """Why it is, or was, as fast as it is."""
        return Explanation._of(self._raw.explain())

    def cancel(self) -> None:
        """Has it end soon with :class:`CancelledError`. What it needs to go on later stays."""
        self._started.cancel()

    def set_rate(self, bits_per_second: float | None) -> None:
        """Changes its highest rate from now on; ``None`` is what the options say."""
        rate = None if bits_per_second is None else int(bits_per_second)
        if rate is not None and rate < 1:
            raise ValueError("a rate is at least 1 bit per second; cancel the job to stop it")
        self._raw.set_rate(rate)


class _NotYet(TimeoutError):
    """The time is over, and the job goes on."""


_NotYet.__name__ = _NotYet.__qualname__ = "TimeoutError"


def transferred(raw: Any) -> Result:
    """The figures; raises where some files were not moved."""
    result = Result._of(raw)
    if result.errors:
        first = result.errors[0].message
        more = f" (and {len(result.errors) - 1} more)" if len(result.errors) > 1 else ""
        raise PartialError(f"{first}{more}", result)
    return result


def _end_all() -> None:
    # Before the interpreter goes: what runs keeps its resumable state, and nothing half-made. All at once, so
    # that many do not take longer than one.
    jobs = []
    for job in list(_running):
        try:
            if not job.done:
                job.cancel()
                jobs.append(job)
        except Error:
            # Of the process that this one was forked from.
            pass
    end = time.monotonic() + _END_WAIT
    for job in jobs:
        job._wait(max(end - time.monotonic(), 0.0))


atexit.register(_end_all)
