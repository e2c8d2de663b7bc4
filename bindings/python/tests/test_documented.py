"""Sentences of docs/python.md that no other test has."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

import fobs

from .conftest import Served

Content = Callable[[int], bytes]


@pytest.mark.parametrize("length", [1000, 3_000_000])
@pytest.mark.parametrize("change", ["replaced", "shortened", "rewritten"])
def test_a_range_of_a_file_that_was_replaced_is_an_error(
    served: Served, session: fobs.Session, content: Content, length: int, change: str
) -> None:
    path, data = served.root / "x", content(length)
    path.write_bytes(data)
    opened = session.stat("x")
    assert session.get_range("x", 0, length, opened=opened) == data
    (listed,) = session.ls("")
    assert session.get_range("x", 1, 5, opened=listed) == data[1:6]
    before = path.stat()
    if change == "replaced":
        # Of the same length and time.
        (served.root / "new").write_bytes(bytes(length))
        os.utime(served.root / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
        (served.root / "new").rename(path)
    elif change == "shortened":
        os.truncate(path, length - 1)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        time.sleep(0.02)
        path.write_bytes(bytes(length))
    for start, size in ((0, length), (length // 2, 10)):
        with pytest.raises(fobs.FileError, match="changed since it was opened"):
            session.get_range("x", start, size, opened=opened)
    assert len(session.get_range("x", 0, 10, opened=session.stat("x"))) == 10


def test_the_rate_of_a_job_changes_in_either_direction(served: Served, session: fobs.Session, content: Content) -> None:
    data = content(3_000_000)
    (served.root / "x").write_bytes(data)
    # At this rate it would take minutes.
    jobs: list[Any] = [lambda: session.start_put_bytes("y", data, rate=200_000), lambda: session.start_get_bytes("x", rate=200_000)]
    for start in jobs:
        job = start()
        while not job.progress.bytes:
            time.sleep(0.01)
        job.set_rate(1e9)
        result = job.wait(timeout=60)
        assert result == data or result.bytes == len(data)
    assert (served.root / "y").read_bytes() == data


def test_no_more_connections_are_made_than_are_allowed(served: Served) -> None:
    fsspec = pytest.importorskip("fsspec")
    keys = {name: str(path) for name, path in served.keys.items()}
    (served.root / "x").write_bytes(bytes(range(100)))

    async def work(most: int) -> int:
        fs = fsspec.filesystem(
            "fobs", host="127.0.0.1", port=served.port, sessions=most, asynchronous=True, skip_instance_cache=True, **keys
        )
        found = await fs._cat_ranges(["/x"] * 60, list(range(60)), [at + 5 for at in range(60)], on_error="raise")
        assert found == [bytes(range(at, at + 5)) for at in range(60)]
        (pool,) = fs._pools.values()
        made = len(pool._all)
        fs.close()
        return made

    for most in (1, 3):
        assert 1 <= asyncio.run(work(most)) <= most
    with pytest.raises(fobs.UsageError, match="sessions=1"):
        asyncio.run(work(0))
