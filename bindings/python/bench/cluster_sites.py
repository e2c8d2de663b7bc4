"""One tree between two sites: fobs cluster beside fpsync with rsync, and rclone, over an emulated path, in one run.

    cluster_sites.py --lab target/release/fobs-lab --fobs target/release/fobs [--rtt 40ms] [--rate 1Gbit] [--files 20000]
                     [--limit SECONDS] [--only TOOL]

Each tool sends the tree, and then the same tree again, with four workers (rclone with sixteen transfers as well); Dask's
workers are there before. Needs root (network namespaces), sshd, fpsync (Debian: fpart), rsync and rclone, and distributed.
Prints one JSON object a line: tool, run, seconds (none where it took longer than --limit), files, bytes; then a table.
Exit code 1 where the trees differ.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import far

WORKERS = 4
# Files have 100 bytes to 160 kB, evenly by the logarithm, in directories of a hundred.
LOG_BYTES = (2.0, 5.2)
DIRECTORY = 100
SEED = 4611

Send = Callable[[Path, str], object]
Tool = Callable[[dict[str, Any]], AbstractContextManager[Send]]


def make_tree(root: Path, files: int) -> int:
    draw, total = random.Random(SEED), 0
    for number in range(files):
        path = root / f"d{number // DIRECTORY % 20}" / f"e{number // DIRECTORY}" / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = draw.randbytes(int(10 ** draw.uniform(*LOG_BYTES)))
        path.write_bytes(data)
        total += len(data)
    return total


@contextmanager
def fobs_cluster(at: dict[str, Any]) -> Iterator[Send]:
    import dask
    from distributed import LocalCluster
    from fobs.cluster import QUIET, Node, transfer

    workers = {"threads_per_worker": 3, "resources": {"fobs:near": 1}, "dashboard_address": None}
    with dask.config.set(QUIET), LocalCluster(n_workers=WORKERS, **workers) as cluster:

        def send(source: Path, name: str) -> None:
            far = Node("far", url=f"fobs://{at['host']}:{at['fobs_port']}/{name}", sessions=WORKERS, options=at["keys"])
            transfer(Node("near", path=str(source), sessions=WORKERS), far, cluster)

        yield send


def shell(at: dict[str, Any]) -> str:
    given = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    return f"ssh -p {at['ssh_port']} -i {at['ssh_key']} {given}"


@contextmanager
def fpsync(at: dict[str, Any]) -> Iterator[Send]:
    def send(source: Path, name: str) -> None:
        with tempfile.TemporaryDirectory() as state:
            words = ["fpsync", "-m", "rsync", "-n", str(WORKERS), "-f", "1000", "-t", state]
            # Without blanks, which fpsync takes for the end of a word.
            script = Path(state) / "shell"
            script.write_text(f'#!/bin/sh\nexec {shell(at)} "$@"\n')
            script.chmod(0o755)
            words += ["-o", f"-lptgoD --numeric-ids -e {script}"]
            words += [f"{source}/", f"root@{at['host']}:{at['root']}/{name}/"]
            subprocess.run(words, check=True, timeout=at["limit"])

    yield send


def rclone(transfers: int) -> Tool:
    @contextmanager
    def tool(at: dict[str, Any]) -> Iterator[Send]:
        def send(source: Path, name: str) -> None:
            place = f":sftp,host={at['host']},port={at['ssh_port']},user=root,key_file={at['ssh_key']}"
            words = ["rclone", "copy", "--config", "/dev/null", "--transfers", str(transfers)]
            words += ["--checkers", str(2 * transfers)]
            # Without a command for each file at the other host.
            words += ["--sftp-disable-hashcheck", str(source), f"{place}:{at['root']}/{name}"]
            subprocess.run(words, check=True, timeout=at["limit"])

        yield send

    return tool


TOOLS: dict[str, Tool] = {
    "fobs cluster": fobs_cluster,
    "fpsync, rsync": fpsync,
    f"rclone --transfers {WORKERS}": rclone(WORKERS),
    "rclone --transfers 16": rclone(16),
}


def client(at: dict[str, Any]) -> None:
    """The near end: sends the tree with each tool, twice."""
    os.environ["PATH"] = f"{Path(at['fobs']).parent}:{os.environ['PATH']}"
    source = Path(tempfile.mkdtemp(prefix="fobs-bench-source-"))
    try:
        total = make_tree(source, at["files"])
        for tool in at["tools"]:
            opened = TOOLS[tool]
            name = tool.replace(" ", "-").replace(",", "")
            target = Path(at["root"]) / name
            target.mkdir()
            with opened(at) as send:
                lines = [played(send, source, name, "first")]
                # After one that was stopped, a second one would be a part of the first.
                again = lines[0]["seconds"] is not None
                lines.append(played(send, source, name, "second") if again else {"run": "second", "seconds": None})
            is_same = subprocess.run(["diff", "-rq", source, target], stdout=subprocess.DEVNULL).returncode == 0
            for line in lines:
                print(json.dumps({"tool": tool, **line, "files": at["files"], "bytes": total, "same": is_same}), flush=True)
            shutil.rmtree(target)
    finally:
        shutil.rmtree(source)


def played(send: Send, source: Path, name: str, run: str) -> dict[str, Any]:
    began = time.monotonic()
    try:
        send(source, name)
    except subprocess.TimeoutExpired:
        return {"run": run, "seconds": None}
    return {"run": run, "seconds": round(time.monotonic() - began, 2)}


def report(lines: list[dict[str, Any]], limit: int) -> int:
    found = {(line["tool"], line["run"]): line["seconds"] for line in lines}
    shown = {which: f"{took:.1f}" for which, took in found.items() if took is not None}
    shown |= {which: f"over {limit}" if which[1] == "first" else "-" for which, took in found.items() if took is None}
    tools = list(dict.fromkeys(tool for tool, _ in found))
    for tool in tools:
        print(f"{tool:26} first {shown[tool, 'first']:>8} s   second {shown[tool, 'second']:>8} s")
    is_whole = {tool: all(found[tool, run] is not None for run in ("first", "second")) for tool in tools}
    differ = {line["tool"] for line in lines if not line["same"] and is_whole[line["tool"]]}
    for tool in sorted(differ):
        print(f"{tool}: the trees differ")
    return 1 if differ else 0


def main() -> int:
    parser = far.arguments()
    parser.set_defaults(rtt="40ms", rate="1Gbit")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--limit", type=int, default=900, help="seconds after which a run is stopped")
    parser.add_argument("--only", action="append", choices=TOOLS, help="a tool; repeatable")
    given = parser.parse_args()
    if given.client:
        client(json.loads(given.client))
        return 0
    # What is not installed is left out.
    tools = given.only or [tool for tool in TOOLS if tool == "fobs cluster" or shutil.which(tool.split()[0].rstrip(","))]
    for tool in sorted(TOOLS.keys() - set(tools)):
        print(f"without {tool}", file=sys.stderr)
    lines = far.played(__file__, given, lambda root: None, files=given.files, tools=tools, limit=given.limit)
    return report(lines, given.limit)


if __name__ == "__main__":
    sys.exit(main())
