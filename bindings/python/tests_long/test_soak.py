"""A long life: descriptors, threads and memory stay where they were, with the collector off.

``FOBS_SOAK=0.1`` does a tenth.
"""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Served

SCALE = float(os.environ.get("FOBS_SOAK", "1"))


def counts() -> tuple[int, int, int]:
    status = Path("/proc/self/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), memory


def fail(session: Any, times: int) -> None:
    for _ in range(times):
        try:
            session.get_bytes("none")
        except OSError:
            pass


def small(session: Any, times: int) -> None:
    for number in range(times // 4):
        session.exists("x")
        session.get_range("x", 0, 10)
        session.put_bytes(f"{number % 10}", b"x")
        session.stat("x", links=True)


def opened(served: Served, times: int) -> None:
    for _ in range(times):
        with served.open() as session:
            session.exists("x")


async def gathered(session: Any, times: int) -> None:
    for _ in range(times // 100):
        await asyncio.gather(*(session.stat_async("x") for _ in range(100)))


def through_fsspec(fs: Any, times: int) -> None:
    for number in range(times):
        with fs.open(f"/d/{number % 10}", "wb") as file:
            file.write(b"x")
        with fs.open(f"/d/{number % 10}", "rb") as file:
            assert file.read() == b"x"
        fs.exists("/none")


@pytest.mark.filterwarnings("ignore")
def test_a_long_life_leaves_nothing(served: Served) -> None:
    fsspec = pytest.importorskip("fsspec")
    keys = {name: str(path) for name, path in served.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    with served.open() as session:
        session.put_bytes("x", b"0123456789")
        lives = {
            "100,000 small calls": lambda scale: small(session, int(100_000 * scale)),
            "1,000 failures": lambda scale: fail(session, int(1_000 * scale)),
            "20,000 gathered": lambda scale: asyncio.run(gathered(session, int(20_000 * scale))),
            "2,000 files of fsspec": lambda scale: through_fsspec(fs, int(2_000 * scale)),
            "10,000 sessions": lambda scale: opened(served, int(10_000 * scale)),
        }
        for name, live in lives.items():
            live(0.02)
            gc.collect()
            gc.disable()
            try:
                before = counts()
                live(SCALE)
                after = counts()
            finally:
                gc.enable()
            print(f"{name}: descriptors, threads, kB {before} then {after}")
            assert after[0] <= before[0] + 2 and after[1] <= before[1] + 2, name
            # Less than 60 bytes a call, which is the allocator's.
            assert after[2] - before[2] < 20_000, name
    fs.close()
