#!/usr/bin/env python3
"""One file over two emulated paths, and over each of them alone: the table of docs/laboratory.md ("Lanes").

Usage: scripts/lanes.py FOBS FOBS-LAB [--seconds N] [--reps N] [--pull] [--rows N,...] [--cut SECONDS,...]

One emulator holds both paths between a host in the west and one in the east, where a daemon serves. Each repetition copies
over the first path, the second, and both; with --rate of the last row over one path and over both. A file is as long as
what the paths carry in N seconds. Runs that the emulator does not vouch for are marked and left out of the medians. With --cut
copies go over both paths, of which the second passes nothing for SECONDS, from a quarter of the copy on. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple


class PathSpec(NamedTuple):
    """An emulated path."""

    mbit: float
    rtt_ms: float
    loss: str = "0%"

    def toml(self) -> str:
        return (
            f'rate = "{self.mbit}Mbit"\nrtt = "{self.rtt_ms}ms"\n'
            f'forward = {{ loss = "{self.loss}" }}\nbackward = {{ loss = "{self.loss}" }}\n'
        )

    def __str__(self) -> str:
        loss = "" if self.loss == "0%" else f", {self.loss} lost"
        return f"{self.mbit:g} Mbit/s, {self.rtt_ms:g} ms{loss}"


class Row(NamedTuple):
    """Two paths, and the user's limit on the rate, Mbit/s."""

    paths: tuple[PathSpec, PathSpec]
    rate: int | None = None


ROWS = [
    Row((PathSpec(300, 10), PathSpec(80, 30))),
    Row((PathSpec(60, 20), PathSpec(100, 100, "0.1%"))),
    Row((PathSpec(100, 20), PathSpec(100, 20))),
    Row((PathSpec(100, 20), PathSpec(100, 20)), 60),
    # One that is hardly worth having must not hold the other up.
    Row((PathSpec(60, 20), PathSpec(2, 800))),
]
PORT = 45600
# A copy that takes longer than this many times what the paths need has failed.
PATIENCE = 10


def ask(control: str, question: dict[str, Any]) -> dict[str, Any]:
    """A question to the emulator."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(control)
        channel.sendall(json.dumps(question).encode() + b"\n")
        answer: dict[str, Any] = json.loads(channel.makefile().readline())
        return answer


def stop(child: subprocess.Popen[Any]) -> None:
    """Ends a program that this script started."""
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class Place:
    """Two hosts, two paths between them, and a daemon."""

    def __init__(self, fobs: Path, lab: Path, row: Row, work: Path) -> None:
        self.fobs, self.work, self.row = fobs, work, row
        files = []
        for number, path in enumerate(row.paths):
            files.append(work / f"path{number}.toml")
            files[-1].write_text(path.toml())
        command = [lab, "link", *files, "--until-eof", "--control", work / "link.sock"]
        self.link = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.link.stdout
        try:
            self.paths = json.loads(self.link.stdout.readline())["paths"]
            self.serve()
        except BaseException:
            self.close()
            raise

    def serve(self) -> None:
        """Starts the daemon in the east, at all addresses."""
        public = subprocess.run([self.fobs, "keygen", "--out", self.work / "client-key"], check=True, capture_output=True, text=True)
        keys = self.work / "keys"
        keys.touch(mode=0o600)
        keys.write_text(f"read-write {public.stdout.strip()} lab\n")
        served = self.work / "served"
        served.mkdir()
        east = self.paths[0]["hosts"][1]["namespace"]
        command = ["ip", "netns", "exec", east, self.fobs, "serve", "--listen", f"0.0.0.0:{PORT}", "--root", served]
        command += ["--authorized-keys", keys, "--identity", self.work / "server-key"]
        log = (self.work / "daemon.log").open("w")
        self.daemon = subprocess.Popen(command, stderr=log, stdout=log)
        for _ in range(200):
            if "fobs://" in (self.work / "daemon.log").read_text() or "listen" in (self.work / "daemon.log").read_text():
                return
            if self.daemon.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"the daemon does not listen: {(self.work / 'daemon.log').read_text()}")

    def close(self) -> None:
        if hasattr(self, "daemon"):
            stop(self.daemon)
        assert self.link.stdin
        self.link.stdin.close()
        self.link.wait(30)

    def cut_and_mend(self, way: str, start: float, seconds: float) -> int:
        """Cuts the second path from `start` seconds on; the bytes that have passed by it when it is whole again."""
        path, spec = self.paths[1], self.row.paths[1]
        for wait, loss in [(start, "100%"), (seconds, spec.loss)]:
            time.sleep(wait)
            answer = ask(path["control"], {"set": {"forward": {"loss": loss}, "backward": {"loss": loss}}})
            assert answer == {"set": True}, answer
        passed: int = ask(path["control"], {"get": "counters"})[way]["bytes_out"]
        return passed

    def copy(
        self, over: list[int], seconds: float, pull: bool, cut: float | None = None
    ) -> tuple[float, list[str], list[str]]:
        """Mbit/s of a copy over these paths; what the emulator has against it, and what is said of the lanes."""
        mbit = min(sum(self.row.paths[path].mbit for path in over), self.row.rate or float("inf"))
        source, back = self.work / "file", self.work / "back"
        size = int(mbit * 1e6 / 8 * seconds)
        if not source.exists() or source.stat().st_size != size:
            with source.open("wb") as file:
                for left in range(size, 0, -(1 << 20)):
                    file.write(os.urandom(min(left, 1 << 20)))
        there = self.work / "served" / "file"
        ends = [source, f"fobs://{self.paths[0]['hosts'][1]['address']}:{PORT}/file"]
        if pull:
            shutil.copyfile(source, there)
            ends = [ends[1], back]
        for path in self.paths:
            ask(path["control"], {"reset": True})
        command = ["ip", "netns", "exec", self.paths[0]["hosts"][0]["namespace"], self.fobs, "cp", "--json"]
        command += ["-i", self.work / "client-key", "--known-hosts", self.work / "known"]
        for path in over:
            command += ["--via", self.paths[path]["hosts"][0]["device"]]
        if self.row.rate:
            command += ["--rate", f"{self.row.rate}Mbit"]
        environment = {**os.environ, "XDG_STATE_HOME": tempfile.mkdtemp(dir=self.work)}
        way, passed = "backward" if pull else "forward", None
        pipe = subprocess.PIPE
        with subprocess.Popen([*command, *ends], stdout=pipe, stderr=pipe, text=True, env=environment) as running:
            try:
                if cut is not None:
                    passed = self.cut_and_mend(way, seconds / 4, cut)
                out, err = running.communicate(timeout=(seconds + (cut or 0)) * PATIENCE)
            except BaseException:
                running.kill()
                raise
        if running.returncode != 0:
            raise SystemExit(f"{out[-2000:]}\n{err}")
        last = next(event for event in map(json.loads, reversed(out.splitlines())) if event["event"] == "done")
        counters = [ask(path["control"], {"get": "counters"}) for path in self.paths]
        doubts = [why for path in counters for why in path["invalid_because"]]
        dropped = [path[way]["queue_drops"] for path in counters]
        sent, needed, sockets = (last[name] for name in ("packets_sent", "packets_needed", "socket_drops"))
        note = f"{sent} packets sent, {needed} needed; queues dropped {dropped}, the receiver's sockets {sockets}"
        if passed is not None:
            after = counters[1][way]["bytes_out"] - passed
            note += f"; {after / 1e6:.1f} MB came by the second path after its return"
        for file in (there, back):
            file.unlink(missing_ok=True)
        return last["goodput_bps"] / 1e6, doubts, [note, *last.get("lanes", [])]


def measure(row: Row, given: argparse.Namespace) -> None:
    """One row of the table."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fobs-lanes-", dir=parent) as work:
        place = Place(given.fobs.resolve(), given.lab.resolve(), row, Path(work))
        try:
            contests = [[0], [0, 1]] if row.rate else [[0], [1], [0, 1]]
            rates: dict[str, list[float]] = {str(over): [] for over in contests}
            for rep in range(given.reps):
                for over in contests if rep % 2 == 0 else reversed(contests):
                    rate, doubts, lanes = place.copy(over, given.seconds, given.pull)
                    print(f"  paths {over}: {rate:.1f} Mbit/s {'; '.join(doubts)}", file=sys.stderr)
                    for sentence in lanes:
                        print(f"    {sentence}", file=sys.stderr)
                    if not doubts:
                        rates[str(over)].append(rate)
        finally:
            place.close()
    medians = {over: statistics.median(found) if found else float("nan") for over, found in rates.items()}
    both = medians["[0, 1]"]
    alone = [medians[str(over)] for over in contests[:-1]]
    nominal = sum(path.mbit for path in row.paths)
    limit = f"; --rate {row.rate}Mbit" if row.rate else ""
    counts = "+".join(str(len(found)) for found in rates.values())
    print(
        f"| {row.paths[0]} beside {row.paths[1]}{limit} | {' and '.join(f'{rate:.1f}' for rate in alone)} | {both:.1f} "
        f"| {100 * both / sum(alone):.1f}% | {100 * both / (row.rate or nominal):.1f}% | {counts} |",
        flush=True,
    )


def measure_cuts(row: Row, cuts: list[float], given: argparse.Namespace) -> None:
    """Copies over both paths, of which the second is cut."""
    parent = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fobs-lanes-", dir=parent) as work:
        place = Place(given.fobs.resolve(), given.lab.resolve(), row, Path(work))
        try:
            for cut in cuts:
                # So long that the path is back for a quarter of the copy.
                rate, doubts, lanes = place.copy([0, 1], max(given.seconds, 2 * cut), given.pull, cut)
                print(f"cut for {cut:g} s: {rate:.1f} Mbit/s {'; '.join(doubts)}", flush=True)
                for sentence in lanes:
                    print(f"  {sentence}", flush=True)
        finally:
            place.close()


def main() -> None:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fobs", type=Path)
    parser.add_argument("lab", type=Path)
    parser.add_argument("--seconds", type=float, default=12, help="how long a copy takes at the paths' rate")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--pull", action="store_true", help="copy from the daemon instead of to it")
    parser.add_argument("--rows", default=",".join(str(row) for row in range(1, len(ROWS) + 1)))
    parser.add_argument("--cut", help="seconds for which the second path passes nothing, one copy for each")
    given = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: two emulated paths need root", file=sys.stderr)
        raise SystemExit(77)
    if given.cut:
        for number in given.rows.split(","):
            measure_cuts(ROWS[int(number) - 1], [float(cut) for cut in given.cut.split(",")], given)
        return
    print("| paths | each alone, Mbit/s | both | of the sum | of the links' rate | valid runs |\n|---|---|---|---|---|---|")
    for number in given.rows.split(","):
        measure(ROWS[int(number) - 1], given)


if __name__ == "__main__":
    main()
