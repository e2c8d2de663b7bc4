"""Several sources for one object: copies at several daemons, pulled in ranges that are verified one by one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs
from fobs import _fobs
from fobs.cluster import ClusterError, Node, transfer

from .conftest import Served, free_port

pytest.importorskip("distributed")

MIB = 1 << 20


class Copies:
    """Daemons s1, s2 ... that hold copies of one file each."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.daemons = directory, dict[str, Served]()
        self.content = b""

    def start(self, count: int, content: bytes) -> None:
        self.content = content
        for number in range(1, count + 1):
            name = f"s{number}"
            self.daemons[name] = Served(self.directory / name)
            self.write(name, content)

    def file(self, name: str) -> Path:
        return self.daemons[name].root / "object"

    def write(self, name: str, content: bytes) -> None:
        """All copies have one time."""
        self.file(name).write_bytes(content)
        os.utime(self.file(name), (10**9, 10**9))

    def node(self, name: str, **options: Any) -> Node:
        daemon = self.daemons[name]
        return Node(name, url=daemon.url + "object", options={**daemon.keys, "timeout": 20, **options})

    def pull(self, destination: Path, rates: dict[str, int] | None = None, **options: Any) -> Any:
        nodes = [self.node(name, **({"rate": rates[name]} if rates else {})) for name in self.daemons]
        return transfer(nodes, destination, copies=True, **options)

    @property
    def root(self) -> str:
        return _fobs.root_of(self.content)


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    made = Copies(tmp_path)
    yield made
    for daemon in made.daemons.values():
        daemon.stop()


def by_source(result: Any) -> dict[str, int]:
    """Bytes that came from each node."""
    return {node.name: node.bytes for node in result.nodes if node.side == "source"}


def dropped(result: Any) -> dict[str, str]:
    return {node.name: node.dropped for node in result.nodes if node.dropped}


def test_one_object_comes_from_three_copies(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(3, content(60 * MIB + 4321))
    result = copies.pull(tmp_path / "here", root=copies.root.upper())
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    shares = by_source(result)
    assert sum(shares.values()) == result.bytes == len(copies.content)
    assert all(share > 0 for share in shares.values()), shares
    assert not result.notices and not dropped(result)
    again = copies.pull(tmp_path / "here")
    assert (again.resumed_bytes, again.root) == (result.bytes, result.root)
    assert not (tmp_path / "here" / ".fobs-cluster").exists()


@pytest.mark.parametrize("size", [1, 70_000, 4 * MIB, 4 * MIB + 1])
def test_small_objects_are_verified_too(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes], size: int
) -> None:
    copies.start(2, content(size))
    copies.pull(tmp_path / "here", root=copies.root)
    assert (tmp_path / "here" / "object").read_bytes() == copies.content


def test_a_copy_that_differs_is_left_out_by_name(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(3, content(20 * MIB))
    other = bytearray(copies.content)
    other[-1] ^= 1
    copies.write("s1", bytes(other))
    result = copies.pull(tmp_path / "here")
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert list(dropped(result)) == ["s1"] and by_source(result)["s1"] == 0
    assert any("node s1 was left out" in line and copies.root in line for line in result.notices)


def test_a_copy_of_another_size_is_left_out_though_it_is_scanned_first(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(3, content(9 * MIB))
    copies.write("s1", copies.content[: 5 * MIB])
    result = copies.pull(tmp_path / "here")
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert list(dropped(result)) == ["s1"]


def test_two_copies_that_differ_are_both_named_unless_the_root_is_given(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(2, content(9 * MIB))
    copies.write("s1", content(9 * MIB + 1)[:-1])
    with pytest.raises(ClusterError, match="copies of 'object' differ: node s1 has .*, node s2 has ") as failed:
        copies.pull(tmp_path / "here")
    assert failed.value.exit_code == 7
    assert not (tmp_path / "here" / "object").exists()
    result = copies.pull(tmp_path / "here", root=copies.root)
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert list(dropped(result)) == ["s1"]


def test_with_a_root_a_copy_that_differs_is_found_by_its_first_range(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(2, content(40 * MIB))
    copies.write("s2", bytes(30 * MIB))
    result = copies.pull(tmp_path / "here", root=copies.root)
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert list(dropped(result)) == ["s2"] and by_source(result)["s2"] == 0


def test_a_wrong_root_is_refused(copies: Copies, tmp_path: Path, content: Callable[[int], bytes]) -> None:
    copies.start(2, content(5 * MIB))
    wrong = _fobs.root_of(b"something else")
    with pytest.raises(ClusterError, match=f"no copy of 'object' has the root {wrong}.*node s1 and s2 has") as failed:
        copies.pull(tmp_path / "here", root=wrong)
    assert failed.value.exit_code == 7
    assert not (tmp_path / "here" / "object").exists()
    for bad in ("", "xyz", copies.root[:-1], copies.root + "0"):
        with pytest.raises(fobs.UsageError, match="64 hexadecimal digits"):
            copies.pull(tmp_path / "here", root=bad)


def test_a_source_that_serves_other_bytes_than_it_announced_is_left_out(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies.start(3, content(40 * MIB))
    from fobs.cluster import _survey

    def then_lie(*arguments: Any) -> Any:
        # Between its announcement and its first range the file gets other bytes, of the same size and time.
        agreement = real(*arguments)
        copies.write("s2", bytes(len(copies.content)))
        return agreement

    real = _survey.agree
    monkeypatch.setattr(_survey, "agree", then_lie)
    result = copies.pull(tmp_path / "here")
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert list(dropped(result)) == ["s2"] and "other bytes" in dropped(result)["s2"]
    assert by_source(result)["s2"] == 0
    assert any("node s2" in line and "other bytes" in line for line in result.moved_elsewhere)


def test_ranges_of_a_slow_source_are_fetched_elsewhere(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(3, content(40 * MIB))
    fast, slow = 160_000_000, 1_000_000
    began = time.monotonic()
    result = copies.pull(tmp_path / "here", {"s1": fast, "s2": fast, "s3": slow})
    seconds = time.monotonic() - began
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert any("node s3" in line and "slow" in line for line in result.moved_elsewhere), result.moved_elsewhere
    assert not dropped(result)
    # A range of the slow source has 8 MiB: alone it needs more than a minute.
    assert seconds < 8 * MIB * 8 / slow / 2, seconds


def test_a_source_that_is_killed_holds_nothing_up(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(3, content(60 * MIB))
    killed = threading.Event()

    def kill(progress: Any) -> None:
        if progress.bytes > len(copies.content) / 4 and not killed.is_set():
            killed.set()
            copies.daemons["s2"].stop()

    # A range takes 2 s, so that some of the killed one's are in transfer.
    rates = dict.fromkeys(copies.daemons, 30_000_000)
    result = copies.pull(tmp_path / "here", rates, progress=kill)
    assert killed.is_set()
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert any("s2" in line for line in result.moved_elsewhere)


def test_a_source_that_is_not_there_is_left_out(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(2, content(5 * MIB))
    copies.file("s2").unlink()
    dead = Node("s3", url=f"fobs://127.0.0.1:{free_port()}/object", options={**copies.daemons["s1"].keys})
    result = transfer([dead, copies.node("s1"), copies.node("s2")], tmp_path / "here", copies=True)
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert sorted(dropped(result)) == ["s2", "s3"]
    assert "object" in dropped(result)["s2"]


def test_a_tree_of_copies_is_agreed_on_file_by_file(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(3, b"")
    for name, daemon in copies.daemons.items():
        for number in range(8):
            path = daemon.root / f"dir{number % 3}" / f"file{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content(1000 * number))
            os.utime(path, (10**9, 10**9))
    (copies.daemons["s3"].root / "dir1" / "file4").write_bytes(b"x" * 4000)
    nodes = [Node(name, url=one.url, options=one.keys) for name, one in copies.daemons.items()]
    result = transfer(nodes, tmp_path / "here", copies=True)
    roots = [daemon.root for daemon in copies.daemons.values()]
    assert subprocess.run(["diff", "-r", roots[0], tmp_path / "here"]).returncode == 0
    assert list(dropped(result)) == ["s3"]
    with pytest.raises(fobs.UsageError, match="a root is that of one file"):
        transfer(nodes, tmp_path / "there", root=copies.root)


def test_a_file_of_the_same_size_and_time_that_is_another_is_named(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(2, content(5 * MIB))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "object").write_bytes(bytes(5 * MIB))
    os.utime(tmp_path / "here" / "object", (10**9, 10**9))
    with pytest.raises(ClusterError, match="another file of the same size and time.*remove it and call again"):
        copies.pull(tmp_path / "here")
    (tmp_path / "here" / "object").unlink()
    copies.pull(tmp_path / "here")
    assert (tmp_path / "here" / "object").read_bytes() == copies.content


def test_the_command_takes_several_sources_and_a_root(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    copies.start(2, content(6 * MIB))
    keys = copies.daemons["s1"].keys
    public = copies.daemons["s1"].public
    for daemon in copies.daemons.values():
        daemon.public = public
        daemon.authorize("read-only")
    urls = [daemon.url + "object" for daemon in copies.daemons.values()]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fobs.cluster", "--identity", str(keys["identity"])]
        command += ["--known-hosts", str(keys["known_hosts"]), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    done = run("--root", copies.root, *urls, str(tmp_path / "here"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    copies.write("s2", bytes(6 * MIB))
    differ = run(*urls, str(tmp_path / "there"))
    assert differ.returncode == 7 and "node s1 has" in differ.stderr and "node s2 has" in differ.stderr
    assert run(urls[0]).returncode == 1


def test_a_second_call_keeps_only_pieces_of_the_right_file(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    """Between two calls the copies become another file of the same size and time, but for one part."""
    first = bytearray(content(48 * MIB))
    copies.start(2, bytes(first))

    def stop(progress: Any) -> None:
        if progress.bytes > len(first) / 2:
            raise InterruptedError

    rates = dict.fromkeys(copies.daemons, 30_000_000)
    with pytest.raises(InterruptedError):
        copies.pull(tmp_path / "here", rates, progress=stop)
    first[20 * MIB :] = bytes(28 * MIB)
    copies.content = bytes(first)
    for name in copies.daemons:
        copies.write(name, copies.content)
    # Other shards than those of the first call.
    nodes = [copies.node("s1"), copies.node("s2")]
    here = Node("d1", path=str(tmp_path / "here"), sessions=1)
    result = transfer(nodes, here, root=copies.root)
    assert (tmp_path / "here" / "object").read_bytes() == copies.content
    assert 0 < result.resumed_bytes <= 20 * MIB
    assert not (tmp_path / "here" / ".fobs-cluster").exists()


def test_a_range_that_was_fetched_elsewhere_is_not_written_to_again(
    copies: Copies, tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    """The slow source goes on for a moment; the file has the time of its copies nevertheless."""
    copies.start(2, content(30 * MIB))
    result = copies.pull(tmp_path / "here", {"s1": 200_000_000, "s2": 20_000_000})
    time.sleep(1)
    assert (tmp_path / "here" / "object").stat().st_mtime_ns == 10**18
    assert result.resumed_bytes == 0
    assert sum(by_source(result).values()) == len(copies.content)
    assert any("slow" in line for line in result.moved_elsewhere), result.moved_elsewhere
