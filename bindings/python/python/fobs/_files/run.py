"""Coroutines for callers that do not await, and the sessions of an event loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, async_methods, private
from fsspec.exceptions import FSTimeoutError
from fsspec.spec import AbstractFileSystem

from .._errors import UsageError
from .._job import WAIT_MAX
from .._session import Session

T = TypeVar("T")

# How long the end of a coroutine is waited for whose caller was interrupted: longer than a job takes to end.
_END_WAIT = 15.0


def run(loop: Any, func: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
    """Has the loop of another thread run a coroutine. An interrupt cancels it, and its end is waited for: nothing is
    delivered after the caller has gone on.
    """
    if loop is None or loop.is_closed():
        raise RuntimeError("the event loop of the file system is not running; await its methods instead")
    if _running() is loop:
        raise NotImplementedError("a blocking call within the event loop that would do it; await the coroutine")
    ended = threading.Event()
    box: list[Any] = []
    tasks: list[asyncio.Task[Any]] = []

    async def work() -> None:
        try:
            box.append((await func(*args, **kwargs), None))
        except BaseException as error:
            box.append((None, error))

    def start() -> None:
        tasks.append(loop.create_task(work()))
        tasks[0].add_done_callback(lambda _: ended.set())

    try:
        loop.call_soon_threadsafe(start)
        end = None if not timeout else time.monotonic() + timeout
        # In short waits: a signal that arrives as one begins is heard at its end.
        while not ended.wait(WAIT_MAX if end is None else min(max(end - time.monotonic(), 0), WAIT_MAX)):
            if end is not None and time.monotonic() >= end:
                raise FSTimeoutError
    except BaseException:
        loop.call_soon_threadsafe(lambda: tasks[0].cancel() if tasks else ended.set())
        while not ended.is_set():
            try:
                if not ended.wait(_END_WAIT):
                    break
            except KeyboardInterrupt:
                # It is being raised already.
                continue
        raise
    finally:
        tasks.clear()
    value, failed = box.pop() if box else (None, asyncio.CancelledError())
    if failed is None:
        return value
    try:
        if isinstance(failed, asyncio.TimeoutError) and not isinstance(failed, OSError):
            raise FSTimeoutError from failed
        raise failed
    finally:
        # An exception that knows this frame must not be known by it.
        del failed


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def mirror(fs: Any) -> None:
    """Gives a file system the blocking twins of its coroutines, as fsspec does, but by :func:`run`."""
    for name in {*async_methods, *dir(AsyncFileSystem), *dir(type(fs))}:
        if not private.match(name):
            continue
        twin = name[1:]
        method = getattr(fs, name, None)
        own = getattr(getattr(type(fs), twin, None), "__func__", getattr(type(fs), twin, None))
        if own is not getattr(AbstractFileSystem, twin, None) or own is getattr(object, twin, None):
            continue
        if inspect.iscoroutinefunction(method):
            setattr(fs, twin, _Blocking(fs, twin, method))
        elif inspect.isasyncgenfunction(method):
            setattr(fs, twin, _generator(fs, method))


class _Blocking:
    """A blocking twin. Other processes get it with its file system."""

    def __init__(self, fs: Any, twin: str, method: Callable[..., Any]) -> None:
        functools.update_wrapper(self, method)
        self._fs, self._twin, self._method = fs, twin, method
        self._places = _places_of(twin)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # fsspec gives some of its coroutines another order than their blocking calls: what is meant goes by its name.
        for name, value in zip(self._places, args):
            if name in kwargs:
                raise TypeError(f"{self._twin}() got several values of its argument {name!r}")
            kwargs[name] = value
        return run(self._fs.loop, self._method, *args[len(self._places) :], **kwargs)

    def __reduce__(self) -> Any:
        return getattr, (self._fs, self._twin)


def _places_of(twin: str) -> tuple[str, ...]:
    """The parameters that fsspec's blocking call takes by their places, in order."""
    theirs = getattr(AbstractFileSystem, twin, None)
    if theirs is None:
        return ()
    found = list(inspect.signature(theirs).parameters.values())[1:]
    return tuple(one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD)


def _generator(fs: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        items = method(*args, **kwargs)
        while True:
            try:
                yield run(fs.loop, items.__anext__)
            except StopAsyncIteration:
                return

    return call


class _Scope:
    """The tasks of a call that is about several files, from its beginning to its end."""

    def __init__(self) -> None:
        self.is_over = False
        self.tasks: set[asyncio.Task[Any]] = set()

    def enter(self) -> None:
        """Of a task that is about to ask the server for something."""
        if self.is_over:
            raise asyncio.CancelledError("the call that this was a part of is over")
        task = asyncio.current_task()
        if task is not None:
            self.tasks.add(task)

    async def end(self) -> None:
        """Cancels what is left, and waits for its end."""
        self.is_over = True
        left = [task for task in self.tasks if task is not asyncio.current_task() and not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.shield(asyncio.wait(left, timeout=_END_WAIT))


_scope: ContextVar[_Scope | None] = ContextVar("fobs_scope", default=None)


def whole(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A call about several files: fsspec leaves the others running when it is cancelled or one fails, and they would be
    delivered after the caller has gone on.
    """

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        if _scope.get() is not None:
            return await method(*args, **kwargs)
        scope = _Scope()
        before = _scope.set(scope)
        try:
            return await method(*args, **kwargs)
        except BaseException:
            await scope.end()
            raise
        finally:
            _scope.reset(before)
            # An exception knows this frame, and a task its exception.
            scope.tasks.clear()

    return call


class Pool:
    """Sessions with one server, opened as they are needed; of one event loop."""

    def __init__(self, open_one: Callable[[], Awaitable[Session]], most: int) -> None:
        if most < 1:
            raise UsageError(f"there are {most} sessions at most, and one is needed; give sessions=1 or more")
        self._open_one = open_one
        self._idle: list[Session] = []
        self._all: list[Session] = []
        self._seats = asyncio.Semaphore(most)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Session]:
        """One of them."""
        scope = _scope.get()
        if scope is not None:
            scope.enter()
        async with self._seats:
            if self._idle:
                session = self._idle.pop()
            else:
                session = await self._open_one()
                self._all.append(session)
            try:
                yield session
            finally:
                self._idle.append(session)

    def close(self) -> None:
        """Ends all of them."""
        for session in self._all:
            session.close()
        self._all.clear()
        self._idle.clear()
