"""One transfer at a time changes a destination, whenever others begin and end."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fobs.cluster._access import Local
from fobs.cluster._shards import STATE, File, Shard
from fobs.cluster._state import LOCK, BusyError, beat, clear, confirm_lock, give_back, note_done, take_lock

from .cluster_trees import differences, make_any
from .conftest import Served

distributed = pytest.importorskip("distributed")


def test_a_destination_is_taken_when_the_transfer_before_ends(tmp_path: Path) -> None:
    access = Local(str(tmp_path))
    take_lock(access, "first")
    waits: list[float] = []

    def end(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            give_back(access, "first", left_open=False)
            assert not (tmp_path / STATE).exists()

    take_lock(access, "second", sleep=end)
    assert len(waits) == 2 and "second" in (tmp_path / LOCK).read_text()


def test_a_lock_that_went_with_another_state_is_written_again(tmp_path: Path) -> None:
    access = Local(str(tmp_path))
    take_lock(access, "second")
    confirm_lock(access, "second", 0.0, sleep=lambda _: clear(access))
    assert "second" in (tmp_path / LOCK).read_text()


def test_the_directory_may_go_while_the_lock_is_written(tmp_path: Path) -> None:
    class Late(Local):
        left = 3

        def write(self, name: str, data: bytes) -> None:
            if self.left:
                self.left -= 1
                shutil.rmtree(tmp_path / STATE)
            super().write(name, data)

    take_lock(Late(str(tmp_path)), "one")
    assert "one" in (tmp_path / LOCK).read_text()


@pytest.mark.parametrize("left_open", [False, True])
def test_nothing_of_a_transfer_that_has_taken_over_is_removed(tmp_path: Path, left_open: bool) -> None:
    access = Local(str(tmp_path))
    take_lock(access, "first")
    # The first one was silent for too long.
    beat(access, "second", 0)
    note_done(access, Shard("files", (File("a", 1, 1),)), [("a", 1, 1, "00" * 32)])
    before = sorted(path.name for path in (tmp_path / STATE).iterdir())
    give_back(access, "first", left_open)
    assert sorted(path.name for path in (tmp_path / STATE).iterdir()) == before
    with pytest.raises(BusyError):
        beat(access, "first", 1)
    give_back(access, "second", left_open=False)
    assert not (tmp_path / STATE).exists()


def test_several_calls_at_once_end_well_or_name_the_other(served: Served, tmp_path: Path) -> None:
    make_any(served.root, files=200)
    here, words = tmp_path / "here", [sys.executable, "-W", "ignore", "-m", "fobs.cluster", served.url]
    keys = ["-i", str(served.keys["identity"]), "--known-hosts", str(served.keys["known_hosts"])]
    for number in range(3):
        calls = [
            subprocess.Popen([*words, here, *keys], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        said = [(call.communicate(timeout=120)[1], call.returncode) for call in calls]
        assert any(code == 0 for _, code in said), said
        for text, code in said:
            assert code == 0 or (code == 4 and "another cluster transfer" in text), said
        assert differences(served.root, here) == []
        assert not (here / STATE).exists()
        shutil.rmtree(here / f"d{number}")
