"""One tree of many files from one node to four, of which one is slow and two are killed on the way.

    cluster_campaign.py --fobs target/release/fobs [--files 1000000] [--large 16] [--slow 8] [--work DIR] [--keep]

Each node is a network namespace on a bridge: s1 has a daemon, d1 to d4 have a Dask worker each and write to one directory.
The path of d4 has the rate --slow, in Mbit/s. The workers of d2 and d3 are killed when a quarter and half of the bytes
are there. Files have 10 bytes to 6 kB, evenly by the logarithm, and --large of them 16 to 128 MB. Needs root (network
namespaces) and distributed. Prints one JSON object, and ends with 1 where the trees differ, or more was sent again
than the shards that were open at the dead nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SEED = 46
LOG_BYTES = (1.0, 3.8)
# Bytes of large files: cut into ranges.
LARGE_BYTES = (16 << 20, 128 << 20)
# Files of a directory, and directories of the one above.
DIRECTORY, ABOVE = 500, 50
NODES = ("d1", "d2", "d3", "d4")
SLOW = "d4"
# Which nodes are killed, and when: share of the bytes.
KILLED = {"d2": 0.25, "d3": 0.5}
SESSIONS = 2
PORT, SCHEDULER_PORT = 7100, 8786
JOIN_S = 60.0
# What is sent beside the bytes of files: headers, as a share of them; and for each file its row, name, record and hash,
# bytes (566 were measured).
OVERHEAD, OF_FILE = 0.08, 700


def make_tree(root: Path, files: int, large: int) -> int:
    draw, total = random.Random(SEED), 0
    pool = draw.randbytes(1 << 20)
    for number in range(files):
        directory = root / f"d{number // DIRECTORY // ABOVE}" / f"e{number // DIRECTORY}"
        if number % DIRECTORY == 0:
            directory.mkdir(parents=True, exist_ok=True)
        size, at = int(10 ** draw.uniform(*LOG_BYTES)), draw.randrange(1 << 19)
        (directory / f"file{number}").write_bytes(pool[at : at + size])
        total += size
    for number in range(large):
        size = draw.randrange(*LARGE_BYTES)
        with (root / f"large{number}").open("wb") as file:
            for begin in range(0, size, 1 << 20):
                file.write(draw.randbytes(min(1 << 20, size - begin)))
        total += size
    return total


def ip(*words: str, namespace: str = "") -> None:
    subprocess.run(["ip", *(["-n", namespace] if namespace else []), *words], check=True)


class Campaign:
    """Namespaces, and the processes in them."""

    def __init__(self, given: argparse.Namespace, work: Path) -> None:
        self.given, self.work = given, work
        self.made: list[str] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.core = self._namespace("core")
        ip("link", "add", "bridge", "type", "bridge", namespace=self.core)
        ip("addr", "add", "10.84.0.1/24", "dev", "bridge", namespace=self.core)
        ip("link", "set", "bridge", "up", namespace=self.core)
        self.address = {name: f"10.84.0.{number}" for number, name in enumerate(("s1", *NODES), 11)}
        self.namespace = {name: self._node(name, address) for name, address in self.address.items()}

    def _namespace(self, name: str) -> str:
        made = f"fobs-campaign-{os.getpid()}-{name}"
        ip("netns", "add", made)
        self.made.append(made)
        ip("link", "set", "lo", "up", namespace=made)
        return made

    def _node(self, name: str, address: str) -> str:
        own = self._namespace(name)
        ip("link", "add", name, "netns", self.core, "type", "veth", "peer", "name", "data0", "netns", own)
        ip("link", "set", name, "master", "bridge", "up", namespace=self.core)
        ip("addr", "add", f"{address}/24", "dev", "data0", namespace=own)
        ip("link", "set", "data0", "up", namespace=own)
        if name == SLOW:
            shaper = ["tc", "-n", self.core, "qdisc", "add", "dev", name, "root", "tbf"]
            shaper += ["rate", f"{self.given.slow}mbit", "burst", "64kb", "latency", "200ms"]
            subprocess.run(shaper, check=True)
        return own

    def start(self, name: str, namespace: str, *words: Any) -> None:
        log = (self.work / f"{name}.log").open("wb")
        environment = {**os.environ, "XDG_STATE_HOME": str(self.work / f"state-{name}")}
        self.processes[name] = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *map(str, words)], stdout=log, stderr=log, cwd=self.work, env=environment
        )

    def begin(self, source: Path) -> None:
        fobs, work = self.given.fobs, self.work
        made = subprocess.run([fobs, "keygen", "--out", work / "key"], check=True, stdout=subprocess.PIPE, text=True)
        public = next(line for line in made.stdout.splitlines() if "fobs-ed25519" in line)
        (work / "authorized_keys").write_text(f"read-write {public}\n")
        daemon = [fobs, "serve", "--listen", f"{self.address['s1']}:{PORT}", "--root", source]
        daemon += ["--authorized-keys", work / "authorized_keys", "--identity", work / "server"]
        self.start("s1", self.namespace["s1"], *daemon)
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "10.84.0.1", "--no-dashboard"]
        self.start("scheduler", self.core, *dask, "--port", SCHEDULER_PORT)
        for name in NODES:
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://10.84.0.1:{SCHEDULER_PORT}"]
            worker += ["--host", self.address[name], "--no-nanny", "--no-dashboard", "--nthreads", SESSIONS + 1]
            self.start(name, self.namespace[name], *worker, "--resources", f"fobs:{name}={SESSIONS}")

    def peaks(self) -> dict[str, int]:
        """Largest memory of each node's process so far, bytes."""
        found = {}
        for name, process in self.processes.items():
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                continue
            if (line := re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)) is not None:
                found[name] = int(line[1]) * 1024
        return found

    def sent(self) -> int:
        """Bytes that left the source's node."""
        text = subprocess.run(
            ["ip", "-n", self.namespace["s1"], "-s", "-j", "link", "show", "data0"], check=True, stdout=subprocess.PIPE
        )
        return int(json.loads(text.stdout)[0]["stats64"]["tx"]["bytes"])

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def played(campaign: Campaign, destination: Path) -> dict[str, Any]:
    """The transfer; the caller is a process of its own, so that its memory is measured."""
    places = {"source": f"fobs://{campaign.address['s1']}:{PORT}/", "destination": str(destination)}
    keys = {"identity": str(campaign.work / "key"), "known_hosts": str(campaign.work / "known_hosts")}
    words = [sys.executable, __file__, "--caller", json.dumps({**places, "keys": keys})]
    caller = subprocess.Popen(["ip", "netns", "exec", campaign.core, *words], stdout=subprocess.PIPE, text=True)
    peaks: dict[str, int] = {}
    assert caller.stdout is not None
    for line in caller.stdout:
        said = json.loads(line)
        if said["event"] == "done":
            caller.wait()
            return {**said, "peaks": {**peaks, **campaign.peaks()}}
        peaks.update(campaign.peaks())
        campaign.processes[said["node"]].kill()
    raise SystemExit(f"the transfer failed with {caller.wait()}; its logs are in {campaign.work}")


def call(at: dict[str, Any]) -> None:
    """Moves the tree, and prints when a node is to be killed."""
    from distributed import Client
    from fobs.cluster import ClusterProgress, Node, transfer

    alive = dict(KILLED)

    def follow(now: ClusterProgress) -> None:
        for name, share in list(alive.items()):
            if now.bytes > share * now.bytes_known:
                del alive[name]
                print(json.dumps({"event": "kill", "node": name}), flush=True)

    source = Node("s1", url=at["source"], sessions=SESSIONS * len(NODES), options=at["keys"])
    destination = [Node(name, path=at["destination"], sessions=SESSIONS) for name in NODES]
    with Client(f"tcp://10.84.0.1:{SCHEDULER_PORT}", timeout=JOIN_S) as client:
        client.wait_for_workers(len(NODES), timeout=JOIN_S)
        began = time.process_time()
        result = transfer(source, destination, client, progress=follow)
    # A line of what went elsewhere names the shard.
    again = {found[1] for line in result.moved_elsewhere if (found := re.search(r"shard ([0-9a-f]{16})", line))}
    figures = {
        "seconds": round(result.seconds, 1),
        "files": result.files,
        "bytes": result.bytes,
        "shards": result.shards,
        "begun_again": len(again),
        "open_bytes": sum(line.bytes for line in result.lines if line.shard in again),
        "nodes": {node.name: [node.bytes, node.failures] for node in result.nodes},
        "caller_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "caller_cpu": round(time.process_time() - began, 1),
        "root": result.root,
        "killed": sorted(set(KILLED) - set(alive)),
    }
    print(json.dumps({"event": "done", **figures}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fobs", type=Path, default=Path("target/release/fobs"))
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=16)
    parser.add_argument("--slow", type=float, default=8.0, help="rate of d4, Mbit/s")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--keep", action="store_true", help="leave the logs")
    parser.add_argument("--caller")
    given = parser.parse_args()
    if given.caller:
        call(json.loads(given.caller))
        return 0
    given.fobs = given.fobs.resolve()
    work = Path(tempfile.mkdtemp(prefix="fobs-campaign-", dir=given.work))
    campaign = Campaign(given, work)
    try:
        total = make_tree(work / "source", given.files, given.large)
        (work / "destination").mkdir()
        campaign.begin(work / "source")
        figures = played(campaign, work / "destination")
        sent = campaign.sent()
        is_same = subprocess.run(["diff", "-rq", work / "source", work / "destination"], stdout=sys.stderr).returncode == 0
        # Before the trees are removed, which takes minutes.
        again = sent - total * (1 + OVERHEAD) - given.files * OF_FILE
        is_bounded = again <= figures["open_bytes"] and figures["begun_again"] <= SESSIONS * len(KILLED)
        print(json.dumps({**figures, "sent": sent, "same": is_same, "bounded": is_bounded}), flush=True)
    finally:
        campaign.end()
        if not given.keep:
            shutil.rmtree(work)
    return 0 if is_same and is_bounded and figures["bytes"] == total else 1


if __name__ == "__main__":
    sys.exit(main())
