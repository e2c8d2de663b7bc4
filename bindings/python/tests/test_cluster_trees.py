"""The cluster moves any tree, any number of times, in all three ways."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs
from fobs.cluster import ClusterError, Node, transfer

from .cluster_trees import differences, make_any
from .conftest import Served

distributed = pytest.importorskip("distributed")

WAYS = ("pull", "push", "ticket")


class Between:
    """A source and a destination, and how one is moved to the other."""

    def __init__(self, base: Path, way: str, user: str | None = None) -> None:
        self.way = way
        self.daemons = []
        self.source, self.destination = base / "from", base / "to"
        self.ends: dict[str, Any] = {}
        if user is not None:
            base.chmod(0o755)
        for name, path, served in (("s", self.source, way != "push"), ("d", self.destination, way != "pull")):
            path.mkdir()
            self.ends[name] = path
            if served:
                daemon = Served(base / f"daemon-{name}", "--third-party", user=user)
                # Below the root of its daemon, as most trees are.
                daemon.root.rmdir()
                daemon.root.symlink_to(base)
                daemon.restart()
                self.daemons.append(daemon)
                self.ends[name] = Node(name, url=f"{daemon.url}{path.name}", options=daemon.keys)

    def move(self, **options: Any) -> Any:
        return transfer(self.ends["s"], self.ends["d"], **options)

    def stop(self) -> None:
        for daemon in self.daemons:
            daemon.stop()


@pytest.fixture(params=WAYS)
def between(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Between]:
    made = Between(tmp_path, request.param)
    yield made
    made.stop()


def test_links_modes_times_and_empty_directories_come_as_they_are(between: Between) -> None:
    make_any(between.source)
    result = between.move()
    assert differences(between.source, between.destination) == []
    assert {line.way for line in result.lines} == {between.way}
    assert not (between.destination / ".fobs-cluster").exists()


def test_the_same_call_again_sends_nothing_and_what_is_new(between: Between) -> None:
    make_any(between.source)
    first = between.move()
    again = between.move()
    assert (again.resumed_bytes, again.root) == (first.bytes, first.root)
    assert again.lines == () and differences(between.source, between.destination) == []
    (between.source / "d1" / "new").write_bytes(b"new")
    (between.source / "d0/e0/f0").write_bytes(b"changed")
    (between.source / "to-file").unlink()
    (between.source / "to-file").symlink_to("elsewhere")
    (between.source / "d2").chmod(0o750)
    (between.source / os.fsdecode(b"name \xff")).chmod(0o600)
    third = between.move()
    assert differences(between.source, between.destination) == []
    assert third.bytes - third.resumed_bytes < 100


def test_a_broken_off_transfer_goes_on(between: Between) -> None:
    make_any(between.source, files=80)
    for number in range(30):
        (between.source / f"big{number}").write_bytes(os.urandom(1_000_000))
    total = sum(path.stat().st_size for path in between.source.rglob("*") if path.is_file() and not path.is_symlink())

    def stop(progress: Any) -> None:
        if progress.bytes > total / 3 or progress.shards:
            raise InterruptedError

    slow = {"rate": 40_000_000} if between.way != "ticket" else {}
    with pytest.raises(InterruptedError):
        between.move(progress=stop, **slow)
    result = between.move()
    assert differences(between.source, between.destination) == []
    assert result.resumed_bytes > 0
    assert not (between.destination / ".fobs-cluster").exists()


def test_hard_links_and_xattrs_come_with_their_options(between: Between) -> None:
    make_any(between.source)
    try:
        os.setxattr(between.source / "d0/e0/f0", "user.colour", b"blue")
        os.setxattr(between.source / "empty", "user.colour", b"none")
    except OSError:
        pytest.skip("this file system has no attributes")
    between.move(hard_links=True, xattrs=True)
    assert differences(between.source, between.destination, links=True, xattrs=True) == []
    # An attribute that changes alone, and a name that joins its file.
    os.setxattr(between.source / "other", "user.colour", b"red")
    os.link(between.source / "d0/e0/f0", between.source / "d1/joined")
    between.move(hard_links=True, xattrs=True)
    assert differences(between.source, between.destination, links=True, xattrs=True) == []


def test_large_files_with_further_names_stay_one_file(tmp_path: Path) -> None:
    between = Between(tmp_path, "pull")
    try:
        (between.source / "d").mkdir()
        (between.source / "d/large").write_bytes(os.urandom(65 << 20))
        os.link(between.source / "d/large", between.source / "again")
        result = between.move(hard_links=True)
        assert differences(between.source, between.destination, links=True) == []
        assert result.files == 2
    finally:
        between.stop()


def test_what_the_source_lacks_is_deleted_on_request(between: Between) -> None:
    make_any(between.source)
    (between.destination / "d0").mkdir()
    for name in ("stale", "d0/stale", "keep.log", "d0/keep.log"):
        (between.destination / name).write_bytes(b"old")
    (between.destination / "gone/deep").mkdir(parents=True)
    (between.destination / "gone/deep/x").write_bytes(b"old")
    # A directory where the source has a file, and a file where it has a directory.
    (between.destination / "other/x").mkdir(parents=True)
    (between.destination / "empty").write_bytes(b"in the way")
    planned = between.move(delete=True, exclude=["*.log"], dry_run=True)
    assert set(planned.planned.deletions) == {"stale", "d0/stale", "gone", "other", "empty"}
    assert (between.destination / "stale").exists() and not (between.destination / ".fobs-cluster").exists()
    result = between.move(delete=True, exclude=["*.log"])
    assert result.deleted == 5
    for name in ("keep.log", "d0/keep.log"):
        assert (between.destination / name).read_bytes() == b"old"
        (between.destination / name).unlink()
    between.move()
    assert differences(between.source, between.destination) == []


def test_patterns_leave_out_and_protect(between: Between) -> None:
    make_any(between.source)
    (between.source / "d1/x.tmp").write_bytes(b"x")
    (between.source / "d1/keep.tmp").write_bytes(b"x")
    between.move(exclude=["*.tmp", "/d0/", "only-links"], include=["keep.tmp"])
    assert not (between.destination / "d0").exists() and not (between.destination / "only-links").is_symlink()
    assert (between.destination / "d1/keep.tmp").exists() and not (between.destination / "d1/x.tmp").exists()
    assert (between.destination / "to-directory").is_symlink()


def test_equal_size_and_time_is_not_enough_with_checksum(between: Between) -> None:
    make_any(between.source)
    between.move()
    changed = between.destination / "d1/e1/f1"
    status, mode = changed.stat(), changed.stat().st_mode
    changed.chmod(0o600)
    changed.write_bytes(b"?" * status.st_size)
    changed.chmod(mode & 0o7777)
    os.utime(changed, ns=(0, status.st_mtime_ns))
    between.move(checksum=True)
    assert differences(between.source, between.destination) == []


def test_special_files_are_named_unless_they_are_asked_for(between: Between) -> None:
    (between.source / "d").mkdir()
    (between.source / "d/file").write_bytes(b"x")
    os.mkfifo(between.source / "d/fifo")
    with pytest.raises(ClusterError, match="fifo") as failed:
        between.move()
    assert failed.value.exit_code == 23 and (between.destination / "d/file").exists()
    between.move(specials=True)
    assert (between.destination / "d/fifo").is_fifo()


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to run a daemon as another user")
    between = Between(tmp_path, "pull", user="nobody")
    try:
        make_any(between.source)
        top = Path(tempfile.gettempdir())
        for path in (tmp_path, *tmp_path.parents):
            if path != top and path.is_relative_to(top):
                path.chmod(0o755)
        for path in (between.source, *between.source.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755)
        (between.source / "d1/e1").chmod(0o700)
        (between.destination / "stale").write_bytes(b"x")
        with pytest.raises(ClusterError, match="d1/e1") as failed:
            between.move(delete=True)
        assert failed.value.exit_code == 23
        assert (between.destination / "d0/e0/f0").exists()
        # What was not seen whole deletes nothing.
        assert (between.destination / "stale").exists()
    finally:
        between.stop()


def test_requests_do_not_grow_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    between = Between(tmp_path, "ticket")
    try:
        asked: list[str] = []
        count = fobs.Session._job

        def counted(self: Any, raw: Any, finish: Any) -> Any:
            asked.append("one")
            return count(self, raw, finish)

        monkeypatch.setattr(fobs.Session, "_job", counted)
        # The lock is kept with two requests every two seconds, however few files there are.
        monkeypatch.setattr("fobs.cluster._hold.BEAT_EVERY", 3600.0)
        needed = []
        for files in (60, 900):
            shutil.rmtree(between.source)
            between.source.mkdir()
            make_any(between.source, files=files)
            between.move()
            asked.clear()
            between.move()
            needed.append(len(asked))
        assert needed[1] <= needed[0] + 2, f"{needed} requests for a tree that is there"
    finally:
        between.stop()
