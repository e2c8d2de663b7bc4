"""Workers that cannot be used, and what listens where a scheduler should."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fobs.cluster import QUIET, ClusterError, Node, transfer
from fobs.cluster._dask import connected

from .cluster_trees import differences, make_any
from .conftest import START_WAIT, Served, free_port, wait_for
from .test_cluster import Dask, Sides, dask, make_tree, serve, sides  # noqa: F401 - fixtures

distributed = pytest.importorskip("distributed")

#: What a host without the package has of it, and one with another version.
WITHOUT = "import sys\nsys.modules['fobs'] = None\n"
OTHER = "import fobs._fobs\nfobs._fobs.VERSION = '0.0.9'\n"


class Workers:
    """Starts workers in environments of their own."""

    def __init__(self, dask: Dask, directory: Path) -> None:  # noqa: F811
        self.dask, self.directory = dask, directory

    def start(self, name: str, amount: str = "2", startup: str = "", node: str = "here") -> None:
        place = self.directory / f"startup-{name}"
        place.mkdir()
        (place / "sitecustomize.py").write_text(startup)
        words = [sys.executable, "-m", "distributed.cli.dask_worker", self.dask.address, "--no-nanny", "--no-dashboard"]
        words += ["--nthreads", "3", "--resources", f"fobs:{node}={amount}", "--name", name]
        log = (self.directory / f"{name}.log").open("ab")
        environment = {**os.environ, "PYTHONPATH": str(place)}
        self.dask.processes[name] = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.directory, env=environment)

    def wait(self, *names: str) -> None:
        end = time.monotonic() + START_WAIT
        with distributed.Client(self.dask.address) as client:
            while not set(names) <= {one["name"] for one in client.scheduler_info(n_workers=-1)["workers"].values()}:
                assert time.monotonic() < end, "the workers do not start"
                time.sleep(0.05)


@pytest.fixture
def workers(dask: Dask, tmp_path: Path) -> Workers:  # noqa: F811
    return Workers(dask, tmp_path)


@pytest.mark.parametrize("amount", ["0", "0.5"])
def test_a_worker_with_too_little_of_its_resource_is_named(
    workers: Workers, served: Served, tmp_path: Path, amount: str
) -> None:
    # Dask would let each task wait for ever.
    make_any(served.root)
    workers.start("small", amount)
    workers.wait("small")
    with pytest.raises(ClusterError, match=rf"has {amount} of the resource fobs:here.*--resources fobs:here=2"):
        transfer(served.url, tmp_path / "to", workers.dask.address, **served.keys)
    workers.start("good")
    workers.wait("good")
    result = transfer(served.url, tmp_path / "to", workers.dask.address, **served.keys)
    assert any("resource fobs:here" in line for line in result.notices)
    assert differences(served.root, tmp_path / "to") == []


@pytest.mark.parametrize("startup, why", [(WITHOUT, "cannot use fobs"), (OTHER, "has fobs 0.0.9")])
def test_a_worker_that_cannot_be_used_alone_is_a_sentence(
    workers: Workers, served: Served, tmp_path: Path, startup: str, why: str
) -> None:
    make_any(served.root)
    workers.start("bad", startup=startup)
    workers.wait("bad")
    with pytest.raises(ClusterError, match=f"no worker can be used: node here: its worker .*{why}.*install") as failed:
        transfer(served.url, tmp_path / "to", workers.dask.address, **served.keys)
    assert failed.value.exit_code == 6


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_no_shard_goes_to_a_worker_without_fobs(workers: Workers, served: Served, tmp_path: Path, when: str) -> None:
    make_tree(served.root, files=120, big=0)
    workers.start("good", amount="1")
    workers.wait("good")
    joined = threading.Event()

    def join(_: Any = None) -> None:
        if not joined.is_set():
            joined.set()
            workers.start("bad", startup=WITHOUT)
            workers.wait("bad")

    if when == "before":
        join()
    result = transfer(served.url, tmp_path / "to", workers.dask.address, progress=join, rate=40_000_000, **served.keys)
    assert joined.is_set()
    assert any("cannot use fobs" in line for line in result.notices)
    # None of them failed there first.
    assert result.moved_elsewhere == () and {node.failures for node in result.nodes} == {0}
    assert differences(served.root, tmp_path / "to") == []


def test_another_worker_of_a_node_takes_the_shards_of_a_dead_one(workers: Workers, served: Served, tmp_path: Path) -> None:
    make_tree(served.root, files=120, big=0)
    workers.start("first")
    workers.wait("first")
    killed = threading.Event()

    def follow(now: Any) -> None:
        if now.bytes > now.bytes_known // 10 and not killed.is_set():
            killed.set()
            workers.start("second")
            workers.wait("second")
            workers.dask.kill("first")

    result = transfer(
        served.url, tmp_path / "to", workers.dask.address, progress=follow, rate=40_000_000, **served.keys
    )
    assert killed.is_set() and result.moved_elsewhere
    assert differences(served.root, tmp_path / "to") == []


def test_a_scheduler_without_fobs_is_a_sentence(served: Served, tmp_path: Path) -> None:
    make_any(served.root)
    port = free_port()
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    log = (tmp_path / "scheduler.log").open("wb")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    scheduler = subprocess.Popen([*words, "--no-dashboard"], stdout=log, stderr=log, cwd=tmp_path, env=environment)
    started: list[subprocess.Popen[bytes]] = [scheduler]
    try:
        wait_for(port, scheduler)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--no-nanny"]
        started.append(subprocess.Popen([*worker, "--no-dashboard", "--nthreads", "3"], stdout=log, stderr=log))
        with pytest.raises(ClusterError, match=r"the scheduler cannot read tasks of fobs.*install fobs\[cluster\]"):
            transfer(served.url, tmp_path / "to", f"tcp://127.0.0.1:{port}", **served.keys)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


@pytest.fixture
def listener() -> Iterator[Callable[[bytes | None], int]]:
    """What listens says these words to all that come, or nothing at all."""
    sockets: list[socket.socket] = []

    def listen(words: bytes | None) -> int:
        one = socket.create_server(("127.0.0.1", 0))
        sockets.append(one)

        def answer() -> None:
            while True:
                try:
                    other, _ = one.accept()
                except OSError:
                    return
                sockets.append(other)
                if words is not None:
                    other.sendall(words)
                    other.shutdown(socket.SHUT_WR)

        threading.Thread(target=answer, daemon=True).start()
        return int(one.getsockname()[1])

    yield listen
    for one in sockets:
        one.close()


@pytest.mark.parametrize("words", [None, b"", b"SSH-2.0-OpenSSH_9.2p1\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_is_no_scheduler_is_a_sentence(
    listener: Callable[[bytes | None], int], tmp_path: Path, words: bytes | None
) -> None:
    address = f"tcp://127.0.0.1:{listener(words)}"
    began = time.monotonic()
    with pytest.raises(ClusterError, match=f"{address}.*give the address") as failed:
        transfer("fobs://127.0.0.1:9/", tmp_path / "to", address)
    assert failed.value.exit_code == 35
    assert time.monotonic() - began < START_WAIT / 2


def test_two_paths_of_the_workers_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both paths of the workers.*fobs cp -rp"):
        transfer(tmp_path / "a", tmp_path / "b")


def test_workers_of_this_process_do_little_while_they_are_idle(tmp_path: Path) -> None:
    import dask

    # A name that Dask does not have would be a setting without an effect.
    assert all(dask.config.get(name) is not None for name in QUIET)
    before = dask.config.get("distributed.admin.tick.interval")
    with connected(None, [Node("here", path=str(tmp_path))]) as client:
        (worker,) = client.cluster.workers.values()
        calls = worker.periodic_callbacks
        assert not {"profile", "profile-cycle"} & calls.keys()
        assert (calls["tick"].callback_time, calls["monitor"].callback_time) == (1000, 5000)
    assert dask.config.get("distributed.admin.tick.interval") == before, "it is not the caller's"
