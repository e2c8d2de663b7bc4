"""A wait for something of Dask's that has no limit of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def within(seconds: float, act: Callable[[], _T]) -> _T:
    """What ``act`` returns or raises; :class:`TimeoutError` where it takes longer, and it goes on in a thread."""
    outcome: queue.Queue[tuple[bool, object]] = queue.Queue()

    def run() -> None:
        try:
            outcome.put((True, act()))
        except BaseException as error:
            outcome.put((False, error))

    threading.Thread(target=run, name="fobs-cluster-ask", daemon=True).start()
    try:
        is_answer, value = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer for {seconds:.0f} s") from None
    if is_answer:
        return value  # type: ignore[return-value]
    assert isinstance(value, BaseException)
    raise value
