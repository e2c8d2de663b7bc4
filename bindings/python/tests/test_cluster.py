"""One transfer over many nodes: real Dask workers, real daemons."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs
from fobs.cluster import BusyError, ClusterError, ClusterResult, Node, NodeRate, ShardLine, read_nodes, transfer

from .conftest import FOBS, START_WAIT, Served, free_port, wait_for

distributed = pytest.importorskip("distributed")

MIB = 1 << 20


def make_tree(root: Path, seed: int = 1, files: int = 24, big: int = 70 * MIB) -> int:
    """Small files in nested directories, an empty directory, a name that is not UTF-8, a large file; the bytes."""
    draw = random.Random(seed)
    total = 0
    for number in range(files):
        path = root / f"dir{number % 4}" / f"sub{number % 3}" / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(300_000))
        total += 300_000
    (root / "empty").mkdir(parents=True)
    (root / os.fsdecode(b"name \xff")).write_bytes(b"")
    if big:
        (root / "big").write_bytes(draw.randbytes(big + 12345))
        total += big + 12345
    return total


def same(one: Path, other: Path) -> bool:
    return subprocess.run(["diff", "-r", one, other], stdout=subprocess.PIPE).returncode == 0


class Dask:
    """A scheduler and workers as processes of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._start(
            "scheduler", "dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"
        )
        wait_for(self.port, self.processes["scheduler"])

    def _start(self, name: str, module: str, *arguments: str) -> None:
        log = (self.directory / f"{name}.log").open("ab")
        command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
        self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)

    def workers(self, *nodes: str) -> None:
        for node in nodes:
            options = ["--no-nanny", "--no-dashboard", "--nthreads", "3", "--resources", f"fobs:{node}=2"]
            self._start(node, "dask_worker", self.address, *options)
        end = time.monotonic() + START_WAIT
        with distributed.Client(self.address) as client:
            while len(client.scheduler_info(n_workers=-1)["workers"]) < len(self.processes) - 1:
                assert time.monotonic() < end, "the workers do not start"
                time.sleep(0.1)

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    running = Dask(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Served]]:
    """Starts daemons, each with a directory of its own."""
    started: list[Served] = []

    def start(name: str) -> Served:
        directory = tmp_path / name
        directory.mkdir()
        started.append(Served(directory))
        return started[-1]

    yield start
    for one in started:
        one.stop()


class Sides:
    """Two nodes on each side, s1 and s2, d1 and d2: the nodes of a side serve one directory."""

    def __init__(self, dask: Dask, serve: Callable[[str], Served], rate: int) -> None:
        self.dask = dask
        self.daemons = {name: serve(name) for name in ("s1", "s2", "d1", "d2")}
        self.source, self.destination = self.daemons["s1"].root, self.daemons["d1"].root
        for other, shared in (("s2", "s1"), ("d2", "d1")):
            # Both daemons of a side serve one directory, as on a parallel file system.
            self.daemons[other].root.rmdir()
            self.daemons[other].root.symlink_to(self.daemons[shared].root)
            self.daemons[other].restart()
        self.rate = rate

    def node(self, name: str, **changes: Any) -> Node:
        daemon = self.daemons[name]
        options = {**daemon.keys, "rate": self.rate, "timeout": 10}
        given = {"url": daemon.url, "path": str(daemon.root), "options": options, **changes}
        return Node(name, **given)

    def transfer(self, **options: Any) -> Any:
        source = [self.node("s1"), self.node("s2")]
        destination = [self.node("d1"), self.node("d2")]
        return transfer(source, destination, self.dask.address, **options)


@pytest.fixture
def sides(dask: Dask, serve: Callable[[str], Served]) -> Sides:
    return Sides(dask, serve, 80_000_000)


def test_a_tree_goes_there_and_comes_back(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    total = make_tree(source)
    report, seen = tmp_path / "report.html", []
    there = transfer(source, served.url, progress=seen.append, report=report, **served.keys)
    assert same(source, served.root)
    assert (there.bytes, there.files, there.resumed_bytes) == (total, 26, 0)
    assert seen[-1].bytes == total and there.root in report.read_text()
    back = transfer(served.url, tmp_path / "back", **served.keys)
    assert same(source, tmp_path / "back")
    assert back.root == there.root
    assert any("big" in back.slowest or line.files == 1 for line in back.lines)
    # The large file came in ranges, each counted once.
    assert sum(line.bytes for line in back.lines) == total


def test_the_report_shows_any_name_and_fits_a_phone() -> None:
    lines = tuple(ShardLine("x", "<b>s1", "d1", way, 5, 1, at, at + 1.0) for way, at in (("pull", 0.0), ("ticket", 0.5)))
    nodes = (
        NodeRate("<b>s1", "source", 10, 2, 80.0, 1, "it <i>lies</i>"),
        NodeRate("d1", "destination", 10, 2, 80.0, 0, ""),
    )
    result = ClusterResult(
        10, 0, 1234, 1.5, 80.0, "ab", nodes, "<b>x", 1.0, "& why", 2, ("<u>",), (), (("a<b", "<em>"),), lines
    )
    html = fobs.cluster._report.page(result)
    assert "width=device-width" in html and "prefers-color-scheme: dark" in html
    assert html.count("class=pull style='left:0.00%;width:66.67%'") == 1
    assert html.count("class=ticket style='left:33.33%;width:66.67%'") == 1
    # Two shards at once take two lanes, the second one without a name.
    assert html.count("<div class=lane>") == 2 and "1,234 files" in html
    for bad in ("<b>s1", "<i>", "<u>", "a<b", "<em>"):
        assert bad not in html


def test_a_second_call_sends_nothing_again(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    total = make_tree(source, big=0)
    first = transfer(source, served.url, **served.keys)
    second = transfer(source, served.url, **served.keys)
    assert (second.resumed_bytes, second.root) == (total, first.root)
    (source / "dir1" / "new").write_bytes(b"new")
    (source / "dir2" / "sub2" / "file2").write_bytes(b"changed")
    third = transfer(source, served.url, **served.keys)
    assert same(source, served.root)
    assert third.bytes - third.resumed_bytes == len(b"new") + len(b"changed")
    assert third.root != first.root


def test_one_file_goes_below_the_destination(served: Served, tmp_path: Path) -> None:
    (served.root / "dir").mkdir()
    (served.root / "dir" / "one").write_bytes(b"x" * 1000)
    result = transfer(served.url + "dir/one", tmp_path / "here", **served.keys)
    assert (tmp_path / "here" / "one").read_bytes() == b"x" * 1000
    assert (result.files, result.bytes) == (1, 1000)


def test_killed_workers_shards_go_to_others_and_it_is_said_of_their_nodes(sides: Sides) -> None:
    total = make_tree(sides.source, files=60)
    sides.dask.workers("s1", "s2", "d1", "d2")
    killed = threading.Event()

    def kill(progress: Any) -> None:
        if progress.bytes > total / 4 and not killed.is_set():
            killed.set()
            sides.dask.kill("d1")
            sides.dask.kill("s2")

    result = sides.transfer(progress=kill)
    assert killed.is_set() and result.moved_elsewhere
    hurt = {node.name: node for node in result.nodes if node.failures}
    assert hurt and set(hurt) <= {"d1", "s2"}
    assert all("shard" in node.last and "worker" in node.last for node in hurt.values()), hurt
    assert same(sides.source, sides.destination)
    assert result.bytes == total
    again = sides.transfer()
    assert (again.root, again.resumed_bytes) == (result.root, total)


def test_an_ended_client_goes_on_without_sending_again(sides: Sides) -> None:
    total = make_tree(sides.source)
    sides.dask.workers("s1", "d1")

    def stop(progress: Any) -> None:
        if progress.bytes > total / 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sides.transfer(progress=stop)
    assert (sides.destination / ".fobs-cluster").is_dir()
    result = sides.transfer()
    assert same(sides.source, sides.destination)
    assert result.resumed_bytes > total / 4
    assert not (sides.destination / ".fobs-cluster").exists()


def test_unreachable_nodes_are_left_out_by_name(sides: Sides) -> None:
    make_tree(sides.source, big=0)
    sides.dask.workers("d1", "d2")
    dead = sides.node("s2", url=f"fobs://127.0.0.1:{free_port()}/")
    result = transfer([dead, sides.node("s1")], [sides.node("d1"), sides.node("d2")], sides.dask.address)
    assert same(sides.source, sides.destination)
    assert any("s2" in line for line in (*result.notices, *result.moved_elsewhere))
    with pytest.raises(ClusterError, match="node s2.*") as failed:
        transfer([dead], [sides.node("d1")], sides.dask.address)
    assert failed.value.exit_code == 35


def test_a_dead_scheduler_ends_the_call_and_the_next_goes_on(sides: Sides, tmp_path: Path) -> None:
    total = make_tree(sides.source)
    sides.dask.workers("d1")

    def kill(progress: Any) -> None:
        if progress.bytes > total / 2:
            sides.dask.kill("scheduler")

    with pytest.raises(ClusterError, match="scheduler.*call again"):
        sides.transfer(progress=kill)
    result = transfer([sides.node("s1", path=None)], sides.destination, **sides.daemons["s1"].keys)
    assert same(sides.source, sides.destination)
    assert result.resumed_bytes > total / 4


def test_two_transfers_into_one_destination_are_refused(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    make_tree(source, big=8 * MIB)
    first = threading.Thread(target=lambda: transfer(source, served.url, rate=20_000_000, **served.keys))
    first.start()
    while not (served.root / ".fobs-cluster" / "lock").exists():
        time.sleep(0.05)
    with pytest.raises(ClusterError, match="another cluster transfer") as failed:
        transfer(source, served.url, **served.keys)
    assert isinstance(failed.value.__cause__ or failed.value, (BusyError, ClusterError))
    first.join()
    assert same(source, served.root)


def test_what_cannot_be_moved_is_named_and_the_rest_arrives(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    make_tree(source, big=0)
    os.mkfifo(source / "pipe")
    with pytest.raises(ClusterError, match="pipe") as failed:
        transfer(source, served.url, **served.keys)
    assert failed.value.exit_code == 23
    assert failed.value.result.files == 25


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_names_the_node(served: Served, tmp_path: Path) -> None:
    small, source = tmp_path / "small", served.root
    make_tree(source, files=0, big=70 * MIB)
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", small], check=True)
    try:
        with pytest.raises(ClusterError, match="node here.*(room|space)") as failed:
            transfer(served.url, small, **served.keys)
        assert failed.value.exit_code in (4, 11) and failed.value.shard
    finally:
        subprocess.run(["umount", small], check=True)


def test_workers_with_other_versions_and_clocks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from fobs.cluster import _workers
    from fobs.cluster._move import Greeting

    class Client:
        status = "running"

        """Four workers: one of another version, two with a clock that is off, one without fobs."""

        def sync(self, *_: Any, **__: Any) -> Any:
            return {"workers": {f"w{n}": {"resources": {f"fobs:n{n}": 1}} for n in range(4)}}

        class scheduler:
            identity = None

        def run(self, *_: Any, **__: Any) -> Any:
            return {
                "w0": Greeting("0.0.1", "h", time.time()),
                "w1": Greeting(fobs.__version__, "h", time.time() - 7200),
                "w2": ModuleNotFoundError("fobs"),
                "w3": Greeting(fobs.__version__, "h", time.time() + 1000),
            }

    nodes = [Node(f"n{n}", path="/x") for n in range(4)]
    workers = _workers.Workers(Client(), nodes)
    workers.greet()
    assert [workers.has(node) for node in nodes] == [False, True, False, True]
    text = "\n".join(workers.notices)
    assert "node n0: its worker w0 has fobs 0.0.1" in text and "install the same" in text
    assert "clock of node n1 is -2.0 hours off" in text
    assert re.search(r"clock of node n3 is \+(1000|9\d\d) s off", text), text
    assert "node n2" in text and "install fobs[cluster]" in text


def test_lists_of_nodes_are_read_and_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(
        '[options]\nrate = 5\n[[source]]\nurl = "fobs://a/x"\n[[destination]]\nname = "d"\npath = "/y"\n'
    )
    (source,), (destination,) = read_nodes(file)
    assert (source.name, source.options, destination.path) == ("s1", {"rate": 5}, "/y")
    for text, says in (
        ("[[source]]\n", "neither a url nor a path"),
        ('[[source]]\nurl = "x"\n', "write fobs://host/path"),
        ('[[source]]\npath = "/"\ncolour = 1\n', "colour"),
        ('[[source]]\npath = "/"\nname = "a b"\n', "no name of a node"),
        ('[[source]]\npath = "/"\nsessions = 0\n', "sessions"),
        ('[[source]]\npath = "/"\nname = "a"\n[[destination]]\npath = "/"\nname = "a"\n', "two nodes"),
        ("nonsense", "is no list of nodes"),
        ("[sources]\n", "sources"),
    ):
        file.write_text(text)
        with pytest.raises(fobs.UsageError, match=says):
            read_nodes(file)


def test_the_command_has_json_and_the_exit_codes_of_cp(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source"
    total = make_tree(source, big=0)
    shim = tmp_path / "bin"
    shim.mkdir()
    (shim / "fobs-cluster").write_text(f'#!/bin/sh\nexec {sys.executable} -m fobs.cluster "$@"\n')
    (shim / "fobs-cluster").chmod(0o755)
    keys = ["--identity", str(served.keys["identity"]), "--known-hosts", str(served.keys["known_hosts"])]

    def run(*arguments: str, path: str = f"{shim}:{os.environ['PATH']}") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": path}
        return subprocess.run([FOBS, "cluster", *arguments], env=environment, capture_output=True, text=True)

    done = run("--json", *keys, str(source), served.url)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["bytes"], last["files"]) == ("done", total, 25)
    assert same(source, served.root)
    new = run("--identity", keys[1], "--known-hosts", str(tmp_path / "known_hosts"), str(source), served.url)
    lines = [line for line in new.stderr.splitlines() if "is new here" in line]
    assert len(lines) == 1 and lines[0].startswith("fobs cluster: 127.0.0.1 is new here: its key ")
    assert "Warning" not in new.stderr
    switched = run(*keys, "--option", "fsync=true", "--option", "strict-host-key=false", str(source), served.url)
    assert switched.returncode == 0, switched.stderr
    limited = run(*keys, "--rate", "400Mbit", "--timeout", "2m", str(source), served.url)
    assert limited.returncode == 0, limited.stderr
    mistaken = run(*keys, "--rate", "400Mbyte", str(source), served.url)
    assert mistaken.returncode == 1 and "'400Mbyte' is no value of the option rate" in mistaken.stderr
    absent = run("--json", *keys, str(tmp_path / "absent"), served.url)
    assert absent.returncode == 3 and json.loads(absent.stdout.splitlines()[-1])["code"] == "no_source"
    refused = run(*keys, str(source), f"fobs://127.0.0.1:{free_port()}/")
    assert refused.returncode == 35 and "node d1" in refused.stderr
    assert run("--nonsense").returncode == 1
    missing = run("a", "b", path="/nowhere")
    assert missing.returncode == 1 and "pip install" in missing.stderr


def test_daemons_move_a_tree_between_them_with_tickets(tmp_path: Path) -> None:
    source, destination = Served(tmp_path / "s", "--third-party"), Served(tmp_path / "d", "--third-party")
    try:
        total = make_tree(source.root, big=0)
        nodes = [Node(n, url=s.url, options=s.keys) for n, s in (("s", source), ("d", destination))]
        result = transfer(nodes[0], nodes[1])
        assert same(source.root, destination.root)
        assert (result.bytes, result.files) == (total, 25)
        assert {line.way for line in result.lines} == {"ticket"}
        # A ticket by hand: once, and not for more than it says.
        with source.open() as there, destination.open() as here:
            ticket = there.ticket("dir0", total)
            assert {name.split("/")[0] for name, _, _ in here.fetch("again", ticket)} == {"dir0"}
            with pytest.raises(fobs.AccessDeniedError, match="used already"):
                here.fetch("again", ticket)
            with pytest.raises(fobs.AccessDeniedError):
                there.ticket("../x", 1)
    finally:
        source.stop()
        destination.stop()


def test_a_tree_that_changes_between_two_calls_loses_nothing(served: Served, tmp_path: Path) -> None:
    source, here = served.root, tmp_path / "here"
    total = make_tree(source)

    def stop(progress: Any) -> None:
        if progress.bytes > total / 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        transfer(served.url, here, progress=stop, rate=80_000_000, **served.keys)
    # Other files, and other places for them: the shards are cut anew.
    (source / "dir1" / "sub1" / "file1").unlink()
    (source / "dir2" / "sub2" / "file2").write_bytes(b"changed")
    (source / "dir0" / "new").write_bytes(b"new" * 100_000)
    wide = Node("d1", path=str(here), sessions=5)
    result = transfer(Node("s1", url=served.url, sessions=5, options=served.keys), wide)
    # What is gone from the source stays at the destination.
    (here / "dir1" / "sub1" / "file1").unlink(missing_ok=True)
    assert same(source, here)
    assert result.resumed_bytes > total / 4
    assert not (here / ".fobs-cluster").exists()


def test_times_of_another_clock_move_and_resume(served: Served, tmp_path: Path) -> None:
    make_tree(served.root, big=0)
    hours = 7 * 3600
    for number, path in enumerate(sorted(path for path in served.root.rglob("*") if path.is_file())):
        # As from hosts whose clocks are hours behind and ahead.
        at = time.time() + (hours if number % 2 else -hours)
        os.utime(path, (at, at))
    first = transfer(served.url, tmp_path / "here", **served.keys)
    again = transfer(served.url, tmp_path / "here", **served.keys)
    assert (again.resumed_bytes, again.root) == (first.bytes, first.root)
    assert same(served.root, tmp_path / "here")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_disk_that_fills_up_loses_nothing_verified(served: Served, tmp_path: Path) -> None:
    small = tmp_path / "small"
    total = make_tree(served.root, files=30, big=0)
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "none", small], check=True)
    try:
        with pytest.raises(ClusterError, match="No space left.*make room.*shard .*, nodes s1 to here") as failed:
            transfer(served.url, small, **served.keys)
        assert failed.value.exit_code in (4, 11, 23)
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        result = transfer(served.url, small, **served.keys)
        assert same(served.root, small)
        assert (result.bytes, result.resumed_bytes > 0) == (total, True)
    finally:
        subprocess.run(["umount", small], check=True)
