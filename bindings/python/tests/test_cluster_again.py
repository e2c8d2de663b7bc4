"""The same call once more: what stands already is neither read nor written, and costs a few round trips."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs
from fobs.cluster import _memory
from fobs.cluster._memory import Memory
from fobs.cluster._nodes import Node

from .cluster_trees import differences, make_any
from .test_cluster_trees import WAYS, Between

distributed = pytest.importorskip("distributed")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/fobs/cluster"


@pytest.fixture(params=WAYS)
def between(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Between]:
    made = Between(tmp_path, request.param)
    make_any(made.source, files=300)
    yield made
    made.stop()


def test_a_tree_that_stands_costs_a_few_requests_and_no_write(between: Between, monkeypatch: pytest.MonkeyPatch) -> None:
    between.move()
    asked: list[str] = []
    count = fobs.Session._job

    def counted(self: Any, raw: Any, finish: Any) -> Any:
        asked.append(type(raw).__name__)
        return count(self, raw, finish)

    monkeypatch.setattr(fobs.Session, "_job", counted)
    before = [os.lstat(path).st_ctime_ns for path in (between.destination, *between.destination.rglob("*"))]
    again = between.move()
    # What it is and what is in it, of each side that is a daemon; the source's top is looked at for itself.
    most = 5 if between.way == "ticket" else 3
    assert len(asked) <= most, f"{len(asked)} requests"
    assert [os.lstat(path).st_ctime_ns for path in (between.destination, *between.destination.rglob("*"))] == before
    assert (again.remembered, again.shards) == (again.files, 0)


def test_what_is_not_remembered_is_hashed_and_gives_the_same_root(between: Between, state: Path) -> None:
    first = between.move()
    (kept,) = state.iterdir()
    whole = kept.read_bytes()
    for spoilt in (None, b"", b"no database", whole[: len(whole) // 2], whole.replace(b"files", b"other")):
        kept.unlink() if spoilt is None else kept.write_bytes(spoilt)
        again = between.move()
        assert (again.root, again.files, again.resumed_bytes) == (first.root, first.files, first.bytes)
        assert again.remembered == 0, spoilt
    assert between.move().remembered == first.files


def test_what_changed_at_either_side_is_sent_and_the_rest_remembered(between: Between) -> None:
    draw, first = random.Random(7), between.move()
    for _ in range(3):
        for root in (between.source, between.destination):
            for path in draw.sample([p for p in sorted(root.rglob("f*")) if p.is_file() and not p.is_symlink()], 4):
                path.chmod(0o644)
                path.write_bytes(draw.randbytes(3000))
        (between.source / f"d1/new{draw.random()}").write_bytes(b"new")
        result = between.move()
        assert differences(between.source, between.destination) == []
        # Names of one file change together.
        assert first.files - 20 < result.remembered < result.files
        assert between.move().root == result.root


def test_content_is_compared_whatever_is_remembered(between: Between) -> None:
    between.move()
    changed = between.destination / "d2/e0/f12"
    status = changed.stat()
    changed.chmod(0o600)
    changed.write_bytes(b"?" * status.st_size)
    changed.chmod(status.st_mode & 0o7777)
    os.utime(changed, ns=(0, status.st_mtime_ns))
    between.move(checksum=True)
    assert differences(between.source, between.destination) == []


def test_a_dry_run_remembers_nothing(between: Between, state: Path) -> None:
    between.move(dry_run=True)
    assert not state.exists() or not list(state.iterdir())


def memory(number: int) -> Memory:
    return Memory([Node("s", path=f"/from/{number}")], [Node("d", path="/to")])


def rows(count: int) -> list[tuple[bytes, int, int, bytes]]:
    return [(b"d/%06d" % number, number, 5, bytes(32)) for number in range(count)]


def test_files_are_found_in_any_order(state: Path) -> None:
    names = ["a", "a-b", "a/b", "a/b/c", "a.o", os.fsdecode(b"\xff/x"), "line\nbreak"]
    memory(1).keep(len(names), ((os.fsencode(name), at, at, bytes([at]) * 32) for at, name in enumerate(names)))
    asked, found = [*names, *reversed(names), "none", "a/none", "zz", *names], memory(1)
    for name in asked:
        at = names.index(name) if name in names else None
        assert found.of(name) == (None if at is None else (name, at, at, bytes([at]).hex() * 32)), name
    assert memory(2).of("a") is None


def test_memory_is_bounded_in_bytes_and_days(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        memory(number).keep(1000, rows(1000))
        time.sleep(0.01)
    size = next(state.iterdir()).stat().st_size
    monkeypatch.setattr(_memory, "BYTES_MAX", 3 * size + 10)
    memory(6).keep(1000, rows(1000))
    kept = [number for number in range(7) if memory(number).of("d/000001") is not None]
    assert kept == [4, 5, 6], "the oldest ones go"
    for path in state.iterdir():
        os.utime(path, (0, 0))
    memory(7).keep(10, rows(10))
    assert [number for number in range(8) if memory(number).of("d/000001") is not None] == [7]
    monkeypatch.setattr(_memory, "FILES_MAX", 9)
    memory(8).keep(10, rows(10))
    assert memory(8).of("d/000001") is None


def test_a_memory_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    memory(1).keep(10, rows(10))
    assert memory(1).of("d/000001") is None
