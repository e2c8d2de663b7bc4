"""The engines of docs/cluster.md, as it shows them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .cluster_trees import differences, make_any
from .conftest import Served, free_port, wait_for
from .test_cluster import Dask, dask  # noqa: F401 - a fixture

distributed = pytest.importorskip("distributed")

DOCUMENT = Path(__file__).parents[3] / "docs/cluster.md"


def block(word: str) -> str:
    """The block of the document that an engine has."""
    blocks = re.findall(r"^```python engine\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if word in text]
    assert len(found.splitlines()) <= 6, "a page of five lines"
    return found


def play(word: str, served: Served, here: Path, **more: Any) -> Any:
    """Moves a tree as the document says."""
    make_any(served.root)
    names: dict[str, Any] = {
        "source": served.url,
        "destination": str(here),
        "key": str(served.keys["identity"]),
        "known_hosts": str(served.keys["known_hosts"]),
        **more,
    }
    exec(compile(block(word), str(DOCUMENT), "exec"), names)
    assert differences(served.root, here) == []
    return names["result"]


def test_a_local_cluster(served: Served, tmp_path: Path) -> None:
    # Its workers import this process's main module, which pytest's is not made for.
    word = "LocalCluster("
    script = tmp_path / "script.py"
    make_any(served.root)
    inner = "\n".join("    " + line for line in block(word).splitlines())
    given = {"key": str(served.keys["identity"]), "known_hosts": str(served.keys["known_hosts"])}
    given |= {"source": served.url, "destination": str(tmp_path / "here")}
    lines = [*(f"    {name} = {value!r}" for name, value in given.items()), inner]
    script.write_text("if __name__ == '__main__':\n" + "\n".join(lines) + "\n")
    subprocess.run([sys.executable, script], check=True)
    assert differences(served.root, tmp_path / "here") == []


def test_the_address_of_a_scheduler(served: Served, dask: Dask, tmp_path: Path) -> None:  # noqa: F811
    dask.workers("d1")
    result = play("scheduler)", served, tmp_path / "here", scheduler=dask.address)
    assert {line.way for line in result.lines} == {"pull"}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """How to reach two servers of ssh on this host."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None:
        pytest.skip("needs sshd (Debian: openssh-server)")
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    processes, reached = [], []
    for number in range(2):
        port = free_port()
        config = tmp_path / f"sshd_config_{number}"
        config.write_text(
            f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host_key\nStrictModes no\nUsePAM no\n"
            f"AuthorizedKeysFile {tmp_path}/user_key.pub\nPidFile none\nPermitRootLogin yes\n"
            "SetEnv SHLVL=1\n"
        )
        log = (tmp_path / f"sshd_{number}.log").open("wb")
        processes.append(subprocess.Popen([sshd, "-D", "-e", "-f", config], stderr=log))
        wait_for(port, processes[-1])
        reached.append({"port": port, "client_keys": [str(tmp_path / "user_key")], "known_hosts": None})
    yield reached
    for process in processes:
        process.kill()
        process.wait()


def test_hosts_over_ssh(served: Served, hosts: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("asyncssh", reason="SSHCluster needs asyncssh")
    result = play(
        "SSHCluster",
        served,
        tmp_path / "here",
        hosts=["127.0.0.1"] * len(hosts),
        connect=hosts,
        python=sys.executable,
    )
    assert {line.way for line in result.lines} == {"pull"}
