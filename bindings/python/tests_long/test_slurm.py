"""The page of docs/cluster.md for a batch system, against SLURM itself (Debian: slurm-wlm) on this host."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster_trees import differences
from tests.conftest import Served, free_port
from tests.test_cluster import make_tree
from tests.test_cluster_engines import play

pytest.importorskip("dask_jobqueue")

# How long a daemon of SLURM, or a job, may take to begin, seconds.
BEGIN_S = 60.0

CONFIG = """
ClusterName=fobs
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthInfo=socket={work}/munge.socket
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def until(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + BEGIN_S
    while not is_so():
        assert time.monotonic() < end, f"not within {BEGIN_S:.0f} s: {what}"
        time.sleep(0.2)


def said(*words: str) -> str:
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A controller and one node of SLURM, with munge, all on the loopback."""
    programs = {name: shutil.which(name) or shutil.which(name, path="/usr/sbin") for name in ("munged", "slurmctld", "slurmd")}
    missing = [name for name, path in programs.items() if path is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {' '.join(missing) or 'nothing else'} (Debian: slurm-wlm, munge)")
    work = tmp_path / "slurm"
    for name in ("state", "spool"):
        (work / name).mkdir(parents=True)
    (work / "munge.key").write_bytes(os.urandom(128))
    (work / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    ports = {"controller": free_port(), "node": free_port()}
    (work / "slurm.conf").write_text(CONFIG.format(host=host, work=work, **ports))
    monkeypatch.setenv("SLURM_CONF", str(work / "slurm.conf"))
    munge = [f"--{name}={work}/munge.{end}" for name, end in (
        ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"),
    )]  # fmt: skip
    commands = [
        [programs["munged"], "--foreground", "--force", *munge],
        [programs["slurmctld"], "-D", "-i", "-f", str(work / "slurm.conf")],
        [programs["slurmd"], "-D", "-f", str(work / "slurm.conf")],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            log = (work / f"daemon-{number}.log").open("wb")
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=work))
            if number == 0:
                until("munged listens", (work / "munge.socket").exists)
        until("the node is idle", lambda: "idle" in said("sinfo", "--noheader", "--format=%T"))
        yield work
    finally:
        said("scancel", "--user=root")
        until("no job is left", lambda: not said("squeue", "--noheader").strip())
        for process in reversed(processes):
            process.terminate()
            process.wait(BEGIN_S)


@pytest.fixture
def at_loopback(tmp_path: Path) -> Iterator[None]:
    import dask

    where = {"interface": "lo", "log-directory": str(tmp_path / "jobs"), "walltime": "00:10:00"}
    with dask.config.set({f"jobqueue.slurm.{name}": value for name, value in where.items()}):
        yield


def test_the_page_for_slurm_moves_a_tree(slurm: Path, at_loopback: None, served: Served, tmp_path: Path) -> None:
    result = play("SLURMCluster", served, tmp_path / "here")
    assert {line.way for line in result.lines} == {"pull"}
    done = (slurm / "daemon-1.log").read_text()
    assert done.count("sched: Allocate JobId=") + done.count("_slurm_rpc_submit_batch_job: JobId=") >= 2, done


def test_a_job_that_is_cancelled_leaves_its_shards_to_another(
    slurm: Path, at_loopback: None, served: Served, tmp_path: Path
) -> None:
    from dask_jobqueue import SLURMCluster

    from fobs.cluster import transfer

    make_tree(served.root)
    cancelled = threading.Event()

    def follow(now: Any) -> None:
        if now.bytes > now.bytes_known // 5 and not cancelled.is_set():
            job = said("squeue", "--noheader", "--states=RUNNING", "--format=%i").split()[0]
            said("scancel", "--signal=KILL", "--full", job)
            cancelled.set()

    with SLURMCluster(cores=3, memory="1GB", worker_extra_args=["--resources fobs:here=2"]) as cluster:
        cluster.scale(jobs=2)
        cluster.wait_for_workers(2, timeout=BEGIN_S)
        options = {"rate": 40_000_000, **served.keys}
        result = transfer(served.url, str(tmp_path / "here"), cluster, progress=follow, **options)
    assert cancelled.is_set()
    assert differences(served.root, tmp_path / "here") == []
    assert result.bytes == sum(path.stat().st_size for path in served.root.rglob("*") if path.is_file())
