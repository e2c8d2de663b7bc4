#!/usr/bin/env python3
"""Compares goodput in the laboratory with the simulator's, path by path, as a Markdown table.

usage: scripts/agreement.py --fobs FOBS RESULT.jsonl[.gz]...

Every path of the result files over which one flow of fobs ran alone, without other traffic or faults that the simulator has
under another name, is run again in virtual time: same rate, delay, queue, loss, size and controller. Goodput is that of
the data phase: medians of valid runs here, of five seeds there.
"""

import argparse
import collections
import gzip
import json
import pathlib
import statistics
import subprocess
import tempfile
import tomllib

SEEDS = range(1, 6)
# Keys of a path that the scenario below has; a path with others is left out.
KNOWN = {"name", "rate", "rtt", "bytes", "timeout", "vary", "forward", "seed"}
# The laboratory's hosts send into their device as fast as they can.
INTERFACE_MBIT = 10_000


def lines(file):
    opened = gzip.open(file, "rt") if file.suffix == ".gz" else open(file, encoding="utf-8")
    with opened as text:
        for line in text:
            yield json.loads(line)


def runs_of(files):
    """(path, controller) to the valid runs of fobs alone, and whether the path can be simulated."""
    found = collections.OrderedDict()
    for file in files:
        plan = None
        for record in lines(file):
            if record["kind"] == "header":
                plan = tomllib.loads(record["plan"])
                plain = all(set(path) <= KNOWN for path in plan["path"])
                plain = plain and all(set(path.get("forward", {})) <= {"loss"} for path in plan["path"])
            elif record["kind"] == "run" and record["valid"] and plain and len(record["flows"]) == 1:
                flow = record["flows"][0]
                options = flow["options"]
                alone = flow["tool"] == "fobs" and flow["end"] == "complete" and set(options) <= {"cc"}
                if alone and not record.get("load"):
                    found.setdefault((record["path"], options.get("cc", "auto")), []).append(record)
    return found


def scenario(run, controller):
    link = run["link"]
    return f"""
duration_s = 600

[[link]]
from = "a"
to = "west"
rate_mbit = {INTERFACE_MBIT}
delay_ms = 0

[[link]]
from = "west"
to = "b"
rate_mbit = {link["rate_bps"] / 1e6}
delay_ms = {link["rtt_ms"] / 2}
queue_kb = {link["queue_bytes"] / 1e3}
loss = {link["loss"]}

[[flow]]
kind = "fobs"
from = "a"
to = "b"
cc = "{controller}"
size_mb = {run["bytes"] / 1e6}
"""


def simulated(fobs, text):
    """Goodput of each seed, Mbit/s."""
    with tempfile.TemporaryDirectory() as folder:
        file, said = pathlib.Path(folder, "path.toml"), pathlib.Path(folder, "said.json")
        file.write_text(text, encoding="utf-8")
        goodputs = []
        for seed in SEEDS:
            command = [fobs, "sim", "run", "--seed", str(seed), "--json", said, file]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            goodputs.append(json.loads(said.read_text(encoding="utf-8"))["flows"][0]["goodput_mbit"])
        return goodputs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fobs", default="fobs", help="the program to simulate with")
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="files of fobs-lab run")
    arguments = parser.parse_args()
    print("| path | controller | valid runs | laboratory, Mbit/s | simulator, Mbit/s | simulator / laboratory |")
    print("|---|---|---:|---:|---:|---:|")
    ratios = []
    for (path, controller), runs in runs_of(arguments.results).items():
        here = statistics.median(run["flows"][0]["goodput_bps"] / 1e6 for run in runs)
        there = statistics.median(simulated(arguments.fobs, scenario(runs[0], controller)))
        ratios.append(there / here)
        print(f"| {path} | {controller} | {len(runs)} | {here:.1f} | {there:.1f} | {there / here:.3f} |")
    within = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    print(f"\n{within} of {len(ratios)} paths agree within 10%.")


if __name__ == "__main__":
    main()
