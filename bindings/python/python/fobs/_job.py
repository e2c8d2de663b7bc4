"""Jobs: calls that run in a thread of their own, and the ways to wait for one."""

from __future__ import annotations

import asyncio
import atexit
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from . import _fobs
from ._errors import PartialError
from ._types import Explanation, Progress, Result

T = TypeVar("T")

#: What is called with the newest progress, in the thread that waits.
OnProgress = Callable[[Progress], object]

# How long a wait lasts before signals are looked at, in seconds: Ctrl-C has to act within 0.2 s.
_LOOK_EVERY = 0.025
# How often progress is renewed, in seconds.
_PROGRESS_EVERY = 0.2
# How long a cancelled job may take to end, in seconds; a file system may block it.
_END_WAIT = 10.0

_running: weakref.WeakSet[Job[Any]] = weakref.WeakSet()


class Job(Generic[T]):
    """A call that runs. Dropping it cancels it.

    The method that started it says what :meth:`wait` returns.
    """

    def __init__(self, raw: _fobs.Job, finish: Callable[[Any], T]) -> None:
        self._raw = raw
        self._finish = finish
        self._outcome: tuple[T | None, BaseException | None] | None = None
        _running.add(self)

    def wait(self, timeout: float | None = None, progress: OnProgress | None = None) -> T:
        """Waits for the end and returns what the call returns, or raises what it raised.

        ``progress`` is called five times a second, in this thread; what it raises cancels the job and is
        raised here. So does Ctrl-C: the other end keeps what the same call needs to go on.
        ``TimeoutError`` where ``timeout`` seconds are over: the job goes on.
        """
        try:
            left = float("inf") if timeout is None else timeout
            until_progress = 0.0
            while not self._raw.wait(min(_LOOK_EVERY, max(left, 0.0))):
                left -= _LOOK_EVERY
                until_progress -= _LOOK_EVERY
                if left <= 0:
                    break
                if progress is not None and until_progress <= 0:
                    progress(self.progress)
                    until_progress = _PROGRESS_EVERY
        except BaseException:
            self._end()
            raise
        if not self._raw.done():
            raise TimeoutError(f"the job has not ended within {timeout} s; it goes on")
        return self._told(self._settle(), progress)

    async def _wait_async(self, progress: OnProgress | None = None) -> T:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        descriptor = self._raw.fileno()

        def wake() -> None:
            loop.remove_reader(descriptor)
            if not ended.done():
                ended.set_result(None)

        loop.add_reader(descriptor, wake)
        try:
            if progress is None:
                await ended
            else:
                while not ended.done():
                    await asyncio.wait([ended], timeout=_PROGRESS_EVERY)
                    progress(self.progress)
        except BaseException:
            self.cancel()
            loop.remove_reader(descriptor)
            # Without blocking the loop: the caller's buffer is given back only when it has ended.
            for _ in range(int(_END_WAIT / _LOOK_EVERY)):
                if self._raw.done():
                    break
                await asyncio.sleep(_LOOK_EVERY)
            raise
        return self._told(self._settle(), progress)

    def _told(self, value: T, progress: OnProgress | None) -> T:
        """Tells the last progress: the transfer's figures, which a short one may never have reported before."""
        if progress is not None:
            last = self.progress
            if isinstance(value, Result):
                total = value.bytes
                last = replace(last, scan_complete=True, bytes=total, bytes_known=total, files=value.files)
            progress(last)
        return value

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait_async().__await__()

    def _settle(self) -> T:
        if self._outcome is None:
            try:
                self._outcome = (self._finish(self._raw.outcome()), None)
            except Exception as error:
                self._outcome = (None, error)
            _running.discard(self)
        value, failed = self._outcome
        if failed is not None:
            raise failed
        return value  # type: ignore[return-value]

    def _end(self) -> None:
        self._raw.cancel()
        self._raw.wait(_END_WAIT)

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
        self._raw.cancel()

    def set_rate(self, bits_per_second: float | None) -> None:
        """Changes its highest rate from now on; ``None`` is what the options say."""
        rate = None if bits_per_second is None else int(bits_per_second)
        if rate is not None and rate < 1:
            raise ValueError("a rate is at least 1 bit per second; cancel the job to stop it")
        self._raw.set_rate(rate)


def transferred(raw: Any) -> Result:
    """The figures; raises where some files were not moved."""
    result = Result._of(raw)
    if result.errors:
        first = result.errors[0].message
        more = f" (and {len(result.errors) - 1} more)" if len(result.errors) > 1 else ""
        raise PartialError(f"{first}{more}", result)
    return result


def _end_all() -> None:
    # Before the interpreter goes: what runs keeps its resumable state, and nothing half-made.
    for job in list(_running):
        try:
            if not job.done:
                job._end()
        except Exception:  # noqa: S110 - of another process
            pass


atexit.register(_end_all)
