#!/usr/bin/env python3
"""Runs every controller over the paths of a plan in virtual time, and prints tables in Markdown.

usage: scripts/controllers.py --fobs FOBS [--plan lab/plans/grid.toml] [--cc NAME...]
       scripts/controllers.py --lab RESULT.jsonl[.gz]...

Every path of the plan, with its rate, round trip, loss, size and time-out and a queue of one bandwidth-delay product, and on it every
--cc that the program knows; medians of the seeds. `fixed` sends at 95% of the link, which no other controller is told.
Paths with anything else in them (other traffic, faults) are left out. With --lab, the same tables of the valid runs of the
laboratory's plan `controllers` instead; a dash is a run that was valid in no try.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import tomllib

from agreement import lines, scenario

SEEDS = range(1, 4)
FIXED_SHARE = 0.95
# What may stand in a path of a plan; a path with more is left out.
KNOWN = {"name", "rate", "rtt", "bytes", "timeout", "vary", "forward"}
# Below the best other controller by more than this, `auto` is named.
TOLERANCE = 0.03
UNITS = {"Mbit": 1e6, "Gbit": 1e9, "MB": 1e6, "GB": 1e9, "ms": 1e-3, "s": 1.0, "%": 1e-2, "": 1.0}


def quantity(text):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z%]*)", str(text)).groups()
    return float(number) * UNITS[unit]


def paths(plan):
    """Every path of the plan as (name, link, bytes, seconds)."""
    for path in plan["path"]:
        if not set(path) <= KNOWN or not set(path.get("forward", {})) <= {"loss"}:
            continue
        vary = path.get("vary", {})
        for values in itertools.product(*vary.values()):
            chosen = dict(zip(vary, values))
            name = path["name"]
            for key, value in chosen.items():
                name = name.replace("{" + key.rsplit(".", 1)[-1] + "}", value)
            rate, rtt = quantity(chosen.get("rate", path.get("rate"))), quantity(chosen.get("rtt", path.get("rtt")))
            loss = quantity(chosen.get("forward.loss", path.get("forward", {}).get("loss", "0")))
            link = {"rate_bps": rate, "rtt_ms": rtt * 1e3, "loss": loss, "queue_bytes": max(rate / 8 * rtt, 30_000)}
            yield name, link, quantity(path["bytes"]), quantity(path["timeout"])


def controllers(fobs):
    """The names that --cc takes, in the order of its help."""
    refused = subprocess.run([fobs, "cp", "--cc", "?", "a", "b:"], capture_output=True, text=True, check=False).stderr
    names = re.search(r"possible values: ([a-z0-9, -]+)", refused).group(1)
    return [name.strip() for name in names.split(",")]


def run(fobs, controller, link, size, seconds, seed):
    """Share of the link, waste, and whether it was complete in time."""
    text = scenario({"link": link, "bytes": size}, controller).replace("duration_s = 600", f"duration_s = {seconds}")
    if controller == "fixed":
        text += f"rate_mbit = {FIXED_SHARE * link['rate_bps'] / 1e6}\n"
    with tempfile.TemporaryDirectory() as folder:
        file, said = pathlib.Path(folder, "path.toml"), pathlib.Path(folder, "said.json")
        file.write_text(text, encoding="utf-8")
        command = [fobs, "sim", "run", "--seed", str(seed), "--json", said, file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        flow = json.loads(said.read_text(encoding="utf-8"))["flows"][0]
    return flow["goodput_mbit"] * 1e6 / link["rate_bps"], flow["waste"], flow["outcome"] == "complete"


def measured(files):
    """What the laboratory's valid runs came to, as `run` says it, by path and controller; and all paths and controllers in order."""
    names, controllers_met, found = [], [], {}
    for record in (record for file in files for record in lines(file) if record["kind"] == "run"):
        flow = record["flows"][0]
        cell = record["path"], flow["options"]["cc"]
        names += [cell[0]] if cell[0] not in names else []
        controllers_met += [cell[1]] if cell[1] not in controllers_met else []
        if record["valid"]:
            # A copy that was cut off tells no waste, and no share if not one chunk was complete.
            figures = (flow["share"] or 0.0, (flow["report"] or {}).get("waste"))
            share, waste = (math.nan if figure is None else figure for figure in figures)
            found.setdefault(cell, []).append((share, waste, flow["end"] == "complete"))
    return names, controllers_met, {cell: medians(runs) for cell, runs in found.items()}


def medians(runs):
    shares, wastes, complete = zip(*runs)
    return statistics.median(shares), statistics.median(wastes), all(complete)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fobs", default="fobs", help="the program to simulate with")
    parser.add_argument("--plan", default="lab/plans/grid.toml", type=pathlib.Path)
    parser.add_argument("--lab", nargs="+", type=pathlib.Path, help="tables of these results instead")
    parser.add_argument("--cc", action="append", help="only this controller; may be given more than once")
    arguments = parser.parse_args()
    if arguments.lab:
        show(*measured(arguments.lab))
        return
    names = arguments.cc or controllers(arguments.fobs)
    cells = list(paths(tomllib.loads(arguments.plan.read_text(encoding="utf-8"))))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {
            (name, cc): [pool.submit(run, arguments.fobs, cc, link, size, seconds, seed) for seed in SEEDS]
            for name, link, size, seconds in cells
            for cc in names
        }
        found = {key: medians([future.result() for future in runs]) for key, runs in futures.items()}
    show([name for name, *_ in cells], names, found)


def show(cells, names, found):
    """The tables, and where `auto` is below the best other one."""
    for title, figure in (("Share of the link, %", 0), ("Waste, %", 1)):
        print(f"| {title} | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
        for name in cells:
            row = [found.get((name, cc)) for cc in names]
            print(f"| {name} | {' | '.join(word(cell, figure) for cell in row)} |")
        print()
    for name in cells:
        others = {cc: found[name, cc] for cc in names if cc != "auto" and (name, cc) in found}
        if (name, "auto") in found and others:
            best = max(others, key=lambda cc: others[cc][0])
            ratio = found[name, "auto"][0] / others[best][0]
            if ratio < 1 - TOLERANCE:
                print(f"{name}: auto has {ratio:.3f} of {best}, whose waste is {100 * others[best][1]:.1f}%")


def word(cell, figure):
    """A cell of a table; what was cut off tells no waste."""
    if cell is None or math.isnan(cell[figure]):
        return "-"
    return f"{100 * cell[figure]:.1f}{'' if cell[2] else '*'}"


if __name__ == "__main__":
    main()
