"""Throughput of an open session beside the command over one emulated path, in turns, and the time of a 1 kB range.

    beside_command.py --lab target/release/fobs-lab --fobs target/release/fobs [--rtt 65ms] [--rate 300Mbit]

Needs root (network namespaces) and sshd. Prints one JSON object a line: what, seconds (of the whole process for the
command); then the ratios of the medians. Exit code 1 where a session's throughput is below 0.97 of the command's, or a
range takes half a round trip more than one.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import far

PAIRS = 5
BYTES = 192 << 20
RANGES = 20


def timed(act: Callable[[], Any]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def client(at: dict[str, Any]) -> None:
    import fobs

    here = Path(tempfile.mkdtemp())
    data = os.urandom(BYTES)
    (here / "file").write_bytes(data)
    buffer = bytearray(BYTES)
    url = f"fobs://{at['host']}:{at['fobs_port']}/"
    keys = at["keys"]

    def command(*names: str) -> None:
        options = [f"--{key.replace('_', '-')}={value}" for key, value in keys.items()]
        subprocess.run([at["fobs"], "cp", "--quiet", *options, *names], check=True)

    with fobs.Session(url, **keys) as session:
        acts: dict[str, Callable[[], Any]] = {
            "command, push": lambda: command(str(here / "file"), f"{url}pushed"),
            "session, put": lambda: session.put(here / "file", "put"),
            "session, put_bytes": lambda: session.put_bytes("put_bytes", data),
            "command, pull": lambda: command(f"{url}pushed", str(here / "pulled")),
            "session, get_into": lambda: session.get_into("pushed", buffer),
        }
        for _ in range(PAIRS):
            for what, act in acts.items():
                print(json.dumps({"what": what, "seconds": timed(act)}), flush=True)
        assert buffer == data and (here / "pulled").read_bytes() == data
        for number in range(RANGES):
            seconds = timed(lambda: session.get_range("pushed", number << 20, 1024))
            print(json.dumps({"what": "session, get_range of 1 kB", "seconds": seconds}), flush=True)
    shutil.rmtree(here)


def report(lines: list[dict[str, Any]], rtt_s: float) -> int:
    median = {
        what: statistics.median(line["seconds"] for line in lines if line["what"] == what)
        for what in dict.fromkeys(line["what"] for line in lines)
    }
    pairs = {"session, put": "command, push", "session, put_bytes": "command, push", "session, get_into": "command, pull"}
    missed = 0
    for ours, theirs in pairs.items():
        ratio = median[theirs] / median[ours]
        missed += ratio < 0.97
        print(f"{ours}: {ratio:.3f} of the throughput of {theirs}")
    trips = median["session, get_range of 1 kB"] / rtt_s
    print(f"get_range of 1 kB: {trips:.2f} round trips")
    return 1 if missed or trips > 1.5 else 0


def main() -> int:
    given = far.arguments().parse_args()
    if given.client:
        client(json.loads(given.client))
        return 0
    return report(far.played(__file__, given, lambda root: None), float(given.rtt.removesuffix("ms")) / 1e3)


if __name__ == "__main__":
    sys.exit(main())
