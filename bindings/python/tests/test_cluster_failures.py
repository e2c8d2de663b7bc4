"""What an operator meets: workers that die, schedulers that do not answer, networks that are closed."""

from __future__ import annotations

import html
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs
from fobs.cluster import ClusterError, Node, transfer
from fobs.cluster._access import Local
from fobs.cluster._shards import STATE
from fobs.cluster._state import LOCK, clear

from .cluster_trees import differences, make_any
from .conftest import START_WAIT, Served, free_port
from .test_cluster import Dask, Sides, dask, serve, sides  # noqa: F401 - fixtures

distributed = pytest.importorskip("distributed")


@pytest.fixture
def third_party(tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    both = Served(tmp_path / "s", "--third-party"), Served(tmp_path / "d", "--third-party")
    yield both
    for one in both:
        one.stop()


def nodes(both: tuple[Served, Served], **options: Any) -> list[Node]:
    return [Node(name, url=s.url, options={**s.keys, **options}) for name, s in zip("sd", both, strict=True)]


def test_another_node_lists_when_a_worker_dies_at_it(sides: Sides) -> None:  # noqa: F811
    make_any(sides.source)
    sides.dask.workers("d1", "d2")
    # The listing hangs at the source's daemon while its worker is killed.
    stopped = sides.daemons["s1"].process
    stopped.send_signal(signal.SIGSTOP)
    ended: list[Any] = []

    def call() -> None:
        try:
            source = [sides.node("s1", path=None), sides.node("s2", path=None)]
            ended.append(transfer(source, [sides.node("d1"), sides.node("d2")], sides.dask.address))
        except BaseException as error:
            ended.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    try:
        _wait_for_task(sides.dask.address, "look_at_source")
        for name in ("d1", "d2"):
            if _is_busy(sides.dask.address, name):
                sides.dask.kill(name)
                # What it did goes to the other one at once, which is busy then.
                break
        calling.join(START_WAIT)
        assert not calling.is_alive(), "it waits for a worker that is dead"
        assert isinstance(ended[0], fobs.cluster.ClusterResult), ended[0]
        assert any("worker" in node.last for node in ended[0].nodes if node.failures)
        assert differences(sides.source, sides.destination) == []
    finally:
        stopped.send_signal(signal.SIGCONT)
        calling.join(START_WAIT)


def _wait_for_task(address: str, name: str) -> None:
    end = time.monotonic() + START_WAIT
    with distributed.Client(address) as client:
        while not any(name in key for keys in client.processing().values() for key in map(str, keys)):
            assert time.monotonic() < end, "no worker was asked"
            time.sleep(0.05)


def _is_busy(address: str, node: str) -> bool:
    with distributed.Client(address) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        return any(
            f"fobs:{node}" in workers[worker]["resources"] for worker, keys in client.processing().items() if keys
        )


def test_no_worker_at_all_ends_the_call(sides: Sides) -> None:  # noqa: F811
    make_any(sides.source)
    sides.dask.workers("d1")
    stopped = sides.daemons["s1"].process
    stopped.send_signal(signal.SIGSTOP)
    failed: list[BaseException] = []

    def call() -> None:
        try:
            transfer([sides.node("s1", path=None)], [sides.node("d1")], sides.dask.address)
        except BaseException as error:
            failed.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    try:
        _wait_for_task(sides.dask.address, "look_at_source")
        sides.dask.kill("d1")
        calling.join(START_WAIT)
        assert isinstance(failed[0], ClusterError) and failed[0].exit_code == 35, failed
        assert "worker" in str(failed[0])
    finally:
        stopped.send_signal(signal.SIGCONT)
        calling.join(START_WAIT)


def test_a_task_for_a_client_without_a_scheduler_is_a_sentence(tmp_path: Path) -> None:
    from fobs.cluster._workers import Workers

    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        client = distributed.Client(cluster)
        node = Node("here", path=str(tmp_path))
        workers = Workers(client, [node])
        client.close()
        for act in (lambda: workers.submit(len, node, ""), lambda: workers.call(len, node, ""), workers.greet):
            with pytest.raises(ClusterError, match="scheduler.*call again") as failed:
                act()
            assert failed.value.exit_code == 35


def test_the_state_goes_though_a_worker_that_was_taken_for_dead_writes(tmp_path: Path) -> None:
    class Late(Local):
        late = 2

        def remove(self, name: str, tree: bool = False) -> None:
            if name == STATE and self.late:
                self.late -= 1
                self.write(f"{STATE}/done-{self.late}", b"[]")
            super().remove(name, tree)

    access = Late(str(tmp_path))
    access.make_directories(STATE)
    access.write(LOCK, b"{}")
    clear(access)
    assert not list(tmp_path.iterdir())


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    with pytest.raises(ClusterError, match="no Dask scheduler answers") as failed:
        transfer(tmp_path / "from", "fobs://127.0.0.1/x", f"tcp://127.0.0.1:{free_port()}")
    assert failed.value.exit_code == 35
    with pytest.raises(fobs.UsageError, match="no address of a Dask scheduler"):
        transfer(tmp_path / "from", "fobs://127.0.0.1/x", "nonsense://x:1")
    command = [sys.executable, "-m", "fobs.cluster", "--scheduler", f"tcp://127.0.0.1:{free_port()}"]
    ran = subprocess.run([*command, str(tmp_path / "from"), "fobs://127.0.0.1/x"], capture_output=True, text=True)
    assert ran.returncode == 35, ran.stderr
    assert ran.stderr.startswith("fobs cluster: no Dask scheduler") and ran.stderr.count("\n") == 1, ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a network without routes")
def test_a_closed_network_is_no_matter_for_a_warning(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    words = f"""
from fobs.cluster import transfer
import fobs
try:
    transfer({str(tmp_path / "from")!r}, "fobs://127.0.0.1:1/x", timeout=2)
except fobs.Error as error:
    print(error.exit_code)
"""
    ran = subprocess.run(
        ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "-", sys.executable, "-c", words],
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip().isdigit() and ran.stderr == "", ran.stderr


def test_a_third_party_report_says_what_was_moved_and_why_so_slowly(
    third_party: tuple[Served, Served], tmp_path: Path
) -> None:
    source, destination = third_party
    make_any(source.root)
    (source.root / "large").write_bytes(os.urandom(20_000_000))
    report = tmp_path / "report.html"
    result = transfer(*nodes(third_party), report=report)
    page = report.read_text()
    for text in (source.url, destination.url, result.date, "transfer(", "Slowest shard"):
        assert text in page, text
    assert result.slowest and len(result.slowest_why.split()) > 5, result.slowest_why
    assert html.escape(result.slowest_why) in page


def test_third_party_again_and_after_a_source_was_away(third_party: tuple[Served, Served]) -> None:
    source, destination = third_party
    make_any(source.root)
    first = transfer(*nodes(third_party))
    for _ in range(2):
        again = transfer(*nodes(third_party))
        assert (again.resumed_bytes, again.root) == (first.bytes, first.root)
    shutil.rmtree(destination.root / "d0")
    (source.root / "d1/new").write_bytes(b"new")
    source.stop()
    with pytest.raises(ClusterError) as failed:
        transfer(*nodes(third_party, timeout=3))
    assert failed.value.exit_code == 35
    source.process = source.start()
    transfer(*nodes(third_party))
    assert differences(source.root, destination.root) == []


def test_a_plan_says_what_each_node_would_do(third_party: tuple[Served, Served], tmp_path: Path) -> None:
    source, _ = third_party
    make_any(source.root, files=2000)
    (source.root / "large").write_bytes(os.urandom(4_000_000))
    planned = transfer(*nodes(third_party), dry_run=True, rate=80_000_000).planned
    assert planned is not None and planned.bytes == sum(line[2] for line in planned.shards)
    assert len(planned.shards) > 1
    # Two sessions of 10 MB/s each.
    assert planned.seconds is not None and 0.5 <= planned.seconds * 20e6 / planned.bytes <= 2.0
    worded = transfer(*nodes(third_party), dry_run=True, rate="80Mbit").planned
    assert worded is not None and worded.seconds == planned.seconds
    assert {name for name, *_ in planned.nodes} == {"s", "d"}
    pulled = transfer(source.url, tmp_path / "here", dry_run=True, **source.keys).planned
    assert pulled is not None and pulled.seconds, "the rate of a source that is pulled from is measured"
    assert not (tmp_path / "here").exists()


def test_the_first_worker_is_waited_for(served: Served, dask: Dask, tmp_path: Path) -> None:  # noqa: F811
    make_any(served.root)
    late = threading.Timer(1.0, dask.workers, ["d1"])
    late.start()
    here = Node("d1", path=str(tmp_path / "here"))
    transfer(Node("s1", url=served.url, options=served.keys), here, dask.address)
    late.join()
    assert differences(served.root, tmp_path / "here") == []


def test_a_destination_that_is_no_directory_is_one_sentence(served: Served, tmp_path: Path) -> None:
    (served.root / "tree").mkdir()
    (served.root / "tree/x").write_bytes(b"x")
    (served.root / "taken").write_bytes(b"a file")
    (tmp_path / "taken").write_bytes(b"a file")
    (tmp_path / "tree").mkdir()
    keys = ["-i", str(served.keys["identity"]), "--known-hosts", str(served.keys["known_hosts"])]
    for source, destination in (
        (f"{served.url}tree", tmp_path / "taken"),
        (f"{served.url}tree", "/proc/none/x"),
        (str(tmp_path / "tree"), f"{served.url}taken"),
    ):
        command = [sys.executable, "-m", "fobs.cluster", *keys, source, str(destination)]
        ran = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in ran.stderr.splitlines() if "is new here" not in line]
        assert ran.returncode == 4 and len(lines) == 1, ran.stderr
        assert "destination failed" in lines[0] and "Errno" not in lines[0], lines


def test_a_scheduler_that_dies_in_the_middle_is_one_sentence(served: Served, dask: Dask, tmp_path: Path) -> None:  # noqa: F811
    for number in range(8):
        (served.root / f"big{number}").write_bytes(os.urandom(4_000_000))
    dask.workers("d1")
    (tmp_path / "nodes.toml").write_text(
        f'[options]\nidentity = "{served.keys["identity"]}"\nknown_hosts = "{served.keys["known_hosts"]}"\n'
        f'[[source]]\nname = "s1"\nurl = "{served.url}"\n[[destination]]\nname = "d1"\npath = "{tmp_path / "to"}"\n'
    )
    command = [sys.executable, "-W", "ignore", "-m", "fobs.cluster", "", "", "--nodes", str(tmp_path / "nodes.toml")]
    command += ["--scheduler", dask.address, "--rate", "10000000", "-q"]
    call = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    _wait_for_task(dask.address, "fobs-")
    dask.kill("scheduler")
    said = call.communicate(timeout=60)[1]
    assert call.returncode == 35 and said.count("\n") == 1, said
    assert said.startswith("fobs cluster: the Dask scheduler does not answer"), said
