#!/usr/bin/env python3
"""Eight source nodes and eight destination nodes in network namespaces, each source behind an emulated path of its
own (50 Mbit/s unless given, 20 to 150 ms). Moves one tree with fobs.cluster, then once more with workers killed on the way.
With --copies N it pulls one object to one node instead: from its first copy alone, then from N copies at once.

    scripts/cluster-show.py [--work DIR] [--mbit N] [--megabytes N] [--kill N] [--copies N] [--record FILE]
                            [--report FILE]

Needs root, `fobs` and `fobs-lab` (--bin, default target/release) and the Python package with its extra `cluster`. Prints
a line of JSON for each run, and ends with 1 where a bar is missed or the copy differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

NODES = 8
RTT_MS = (20, 150)
# Jumbo frames, as between transfer nodes: fewer packets for the processors that all nodes share.
MTU = 9000
# Bars of the experiment: share of the sum of the paths, and time with workers killed over time without.
SHARE_MIN, SLOWER_MAX = 0.9, 1.2
# Share of the tree after which workers are killed.
KILL_AT = 0.25
PORT, SCHEDULER = 7100, "10.83.2.1"
SETTLE_S = 60.0


def ip(*words: str, namespace: str = "") -> None:
    inside = ["-n", namespace] if namespace else []
    subprocess.run(["ip", *inside, *words], check=True)


class Network:
    """Namespaces: s1.. behind links, d1.. and a core on a bridge; a second bridge for Dask."""

    def __init__(self, binaries: Path, work: Path, mbit: int) -> None:
        self.mbit = mbit
        self.links: list[subprocess.Popen[str]] = []
        self.made: list[str] = []
        self.namespace: dict[str, str] = {}
        self.core = f"fobs-show-{os.getpid()}"
        self._add(self.core)
        for bridge in ("data", "dask"):
            ip("link", "add", bridge, "type", "bridge", namespace=self.core)
            ip("link", "set", bridge, "up", namespace=self.core)
        ip("addr", "add", f"{SCHEDULER}/16", "dev", "dask", namespace=self.core)
        for number in range(1, NODES + 1):
            self._source(number, binaries, work)
        for number in range(1, NODES + 1):
            self._destination(number)

    def _add(self, name: str) -> None:
        ip("netns", "add", name)
        self.made.append(name)
        ip("link", "set", "lo", "up", namespace=name)

    def _plug(self, namespace: str, device: str, bridge: str, port: str, address: str) -> None:
        ip(
            "link",
            "add",
            port,
            "netns",
            self.core,
            "type",
            "veth",
            "peer",
            "name",
            device,
            "netns",
            namespace,
        )
        ip("link", "set", port, "mtu", str(MTU), "master", bridge, "up", namespace=self.core)
        ip("addr", "add", f"{address}/16", "dev", device, namespace=namespace)
        ip("link", "set", device, "mtu", str(MTU), "up", namespace=namespace)

    def _source(self, number: int, binaries: Path, work: Path) -> None:
        low, high = RTT_MS
        rtt = low + (high - low) * (number - 1) / (NODES - 1)
        spec = work / f"link{number}.toml"
        spec.write_text(
            f'name = "path{number}"\nrtt = "{rtt:.1f}ms"\nrate = "{self.mbit}Mbit"\nmtu = {MTU}\n[hosts]\ngateways = true\n'
        )
        command = [
            binaries / "fobs-lab",
            "link",
            spec,
            "--control",
            work / f"link{number}.sock",
            "--until-eof",
        ]
        link = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.links.append(link)
        assert link.stdout is not None
        host, router = (entry["namespace"] for entry in json.loads(link.stdout.readline())["hosts"])
        self.namespace[f"s{number}"] = host
        own = f"10.81.0.{number}"
        ip("addr", "add", f"{own}/32", "dev", "link0", namespace=host)
        ip("route", "add", "default", "dev", "link0", "src", own, namespace=host)
        ip("route", "add", f"{own}/32", "dev", "link0", namespace=router)
        subprocess.run(["ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        self._plug(router, "data0", "data", f"r{number}", f"10.82.0.{number}")
        self._plug(host, "dask0", "dask", f"ms{number}", f"10.83.0.{number}")

    def _destination(self, number: int) -> None:
        namespace = f"fobs-show-{os.getpid()}-d{number}"
        self._add(namespace)
        self.namespace[f"d{number}"] = namespace
        self._plug(namespace, "data0", "data", f"d{number}", f"10.82.1.{number}")
        self._plug(namespace, "dask0", "dask", f"md{number}", f"10.83.1.{number}")
        for source in range(1, NODES + 1):
            ip("route", "add", f"10.81.0.{source}/32", "via", f"10.82.0.{source}", namespace=namespace)

    def address(self, node: str) -> str:
        return f"10.81.0.{node[1:]}" if node.startswith("s") else f"10.82.1.{node[1:]}"

    def counters(self) -> list[dict[str, Any]]:
        """Ends the links; what each of them counted."""
        counted = []
        # Each restores the kernel's settings that it found: the last one first.
        for link in reversed(self.links):
            out, _ = link.communicate()
            counted.append(json.loads(out.splitlines()[-1]))
        return counted[::-1]

    def remove(self) -> None:
        for link in reversed(self.links):
            if link.poll() is None:
                link.send_signal(signal.SIGTERM)
                link.wait()
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Show:
    """Daemons, scheduler and workers in the namespaces."""

    def __init__(self, network: Network, binaries: Path, work: Path) -> None:
        self.network, self.binaries, self.work = network, binaries, work
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        made = subprocess.run(
            [binaries / "fobs", "keygen", "--out", work / "key"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        public = next(line for line in made.stdout.splitlines() if "fobs-ed25519" in line)
        (work / "authorized_keys").write_text(f"read-write {public}\n")
        self.names = [f"{side}{number}" for side in "sd" for number in range(1, NODES + 1)]

    def start(self, name: str, namespace: str, *command: Any) -> None:
        environment = {**os.environ, "XDG_STATE_HOME": str(self.work / f"state-{name}")}
        log = (self.work / f"{name}.log").open("ab")
        words = ["ip", "netns", "exec", namespace, *command]
        self.processes[name] = subprocess.Popen(words, stdout=log, stderr=log, env=environment, cwd=self.work)

    def begin(self, source: Path, destination: Path, sessions: int) -> None:
        listen = "--listen", "--root", "--authorized-keys", "--identity"
        for name in self.names:
            root = source if name.startswith("s") else destination
            values = (
                f"{self.network.address(name)}:{PORT}",
                root,
                self.work / "authorized_keys",
                self.work / f"id-{name}",
            )
            words = [word for pair in zip(listen, values, strict=True) for word in pair]
            self.start(
                f"daemon-{name}", self.network.namespace[name], self.binaries / "fobs", "serve", *words
            )
        dask = [sys.executable, "-m"]
        self.start(
            "scheduler", self.network.core, *dask, "distributed.cli.dask_scheduler", "--host", SCHEDULER
        )
        for name in self.names:
            options = ["--no-nanny", "--no-dashboard", "--nthreads", str(sessions + 1)]
            options += ["--resources", f"fobs:{name}={sessions}"]
            address = f"10.83.{0 if name.startswith('s') else 1}.{name[1:]}"
            words = [
                *dask,
                "distributed.cli.dask_worker",
                f"tcp://{SCHEDULER}:8786",
                "--host",
                address,
                *options,
            ]
            self.start(f"worker-{name}", self.network.namespace[name], *words)

    def nodes_file(self, source: Path, destination: Path) -> Path:
        lines = [
            f'[options]\nidentity = "{self.work / "key"}"\nknown_hosts = "{self.work / "known_hosts"}"\n'
        ]
        for name in self.names:
            side, path = ("source", source) if name.startswith("s") else ("destination", destination)
            url = f"fobs://{self.network.address(name)}:{PORT}/"
            lines.append(f'[[{side}]]\nname = "{name}"\nurl = "{url}"\npath = "{path}"\n')
        file = self.work / "nodes.toml"
        file.write_text("\n".join(lines))
        return file

    def kill_worker(self, name: str) -> None:
        # `ip netns exec` becomes the command, so this is the worker itself.
        self.processes[f"worker-{name}"].kill()

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


def make_tree(root: Path, megabytes: int) -> None:
    """A file of a quarter of it, and files of 100 kB to 8 MB in directories."""
    draw = random.Random(25)
    root.mkdir()
    with (root / "large").open("wb") as file:
        for _ in range(megabytes // 4):
            file.write(draw.randbytes(1_000_000))
    left, number = megabytes * 1_000_000 * 3 // 4, 0
    while left > 0:
        size = min(left, int(10 ** draw.uniform(5, 6.9)))
        path = root / f"run{number % 16}" / f"part{number % 5}" / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(size))
        left, number = left - size, number + 1


def run(options: argparse.Namespace, work: Path, source: Path, kill: int, copies: int = 0) -> dict[str, Any]:
    """One transfer; its figures."""
    here = Path(tempfile.mkdtemp(dir=work))
    destination = here / "destination"
    destination.mkdir()
    network = Network(options.bin, here, options.mbit)
    show = Show(network, options.bin, here)
    try:
        show.begin(source, destination, 2 * max(1, copies))
        nodes = show.nodes_file(source, destination)
        arguments = [f"tcp://{SCHEDULER}:8786", str(nodes), str(kill), str(copies), str(options.report or "")]
        command = ["ip", "netns", "exec", network.core, sys.executable, __file__, "--inside", *arguments]
        inside = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert inside.stdout is not None
        result: dict[str, Any] = {}
        for line in inside.stdout:
            said = json.loads(line)
            if said["event"] == "kill":
                for name in said["nodes"]:
                    show.kill_worker(name)
            else:
                result = said
        if inside.wait() != 0 or not result:
            raise SystemExit(f"the transfer failed; its logs are in {here}")
    finally:
        show.end()
        counters = network.counters()
        network.remove()
    result["equal"] = (
        subprocess.run(["diff", "-rq", source, destination], stdout=subprocess.DEVNULL).returncode == 0
    )
    result["paths"] = counters
    shutil.rmtree(here)
    return result


def inside(scheduler: str, nodes: str, kill: int, copies: int, report: str) -> int:
    """The caller, in the namespace of the core: prints when workers are to be killed, then the figures."""
    from distributed import Client

    from fobs.cluster import read_nodes, transfer

    with Client(scheduler, timeout=SETTLE_S) as client:
        client.wait_for_workers(2 * NODES, timeout=SETTLE_S)
        draw, killed = random.Random(17), threading.Event()
        names = [f"{side}{number}" for side in "sd" for number in range(1, NODES + 1)]
        victims = draw.sample(names, kill)

        def follow(now: Any) -> None:
            if victims and not killed.is_set() and now.bytes > KILL_AT * now.bytes_known:
                killed.set()
                print(json.dumps({"event": "kill", "nodes": victims}), flush=True)

        usage = time.process_time()
        if copies:
            sources, destinations = read_nodes(nodes)
            chosen = [node.below("large") for node in sources[:copies]]
            here = replace(destinations[0], sessions=sum(node.sessions for node in chosen))
            result = transfer(chosen, here, client, copies=True, report=report or None)
        else:
            result = transfer("", "", client, nodes=nodes, progress=follow, report=report or None)
        figures = result.to_dict()
        figures["killed"], figures["cpu_seconds_caller"] = victims, time.process_time() - usage
        print(json.dumps({"event": "done", **figures}), flush=True)
    return 0


def show_copies(options: argparse.Namespace, work: Path) -> int:
    """One object from one copy and from several: the sum of the paths is what several can bring."""
    source = work / "source"
    source.mkdir()
    draw = random.Random(25)
    with (source / "large").open("wb") as file:
        for _ in range(options.megabytes):
            file.write(draw.randbytes(1_000_000))
    lines = []
    for copies in (1, options.copies):
        figures = run(options, work, source, 0, copies)
        figures["copies"], figures["share"] = copies, figures["rate_bps"] / (copies * options.mbit * 1e6)
        lines.append(figures)
        shown = ("copies", "share", "seconds", "rate_bps", "equal", "root", "bytes", "shards", "moved_elsewhere")
        print(json.dumps({name: figures[name] for name in shown}), flush=True)
    if options.record:
        options.record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(json.dumps({"faster": lines[0]["seconds"] / lines[1]["seconds"]}))
    return 0 if all(line["equal"] for line in lines) and lines[1]["share"] >= SHARE_MIN else 1


def main() -> int:
    if sys.argv[1:2] == ["--inside"]:
        scheduler, nodes, kill, copies, report = sys.argv[2:7]
        return inside(scheduler, nodes, int(kill), int(copies), report)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=Path, default=Path("target/release"))
    parser.add_argument("--work", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--mbit", type=int, default=50, help="rate of each path")
    parser.add_argument("--megabytes", type=int, default=3000)
    parser.add_argument("--kill", type=int, default=2)
    parser.add_argument("--copies", type=int, help="number of nodes from which one object is pulled, instead of a tree")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("cluster-show: network namespaces need root", file=sys.stderr)
        return 77
    options.bin = options.bin.resolve()
    options.report = options.report and options.report.resolve()
    work = Path(tempfile.mkdtemp(prefix="fobs-show-", dir=options.work))
    try:
        if options.copies:
            return show_copies(options, work)
        make_tree(work / "source", options.megabytes)
        lines = []
        for kill in [0, options.kill] if options.kill else [0]:
            figures = run(options, work, work / "source", kill)
            figures["share"] = figures["rate_bps"] / (NODES * options.mbit * 1e6)
            lines.append(figures)
            print(
                json.dumps(
                    {
                        k: figures[k]
                        for k in (
                            "killed",
                            "share",
                            "seconds",
                            "rate_bps",
                            "equal",
                            "root",
                            "files",
                            "bytes",
                            "resumed_bytes",
                            "shards",
                        )
                    }
                ),
                flush=True,
            )
        if options.record:
            options.record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    good = all(line["equal"] for line in lines) and lines[0]["share"] >= SHARE_MIN
    if len(lines) > 1:
        slower = lines[1]["seconds"] / lines[0]["seconds"]
        print(json.dumps({"slower": slower}))
        good = good and slower <= SLOWER_MAX and lines[0]["root"] == lines[1]["root"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
