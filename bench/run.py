#!/usr/bin/env python3
"""`make bench`: fobs against rsync, scp, tar over ssh and iperf3, in one interleaved run on this machine.

Needs root for network namespaces; without it says so and ends with 77. Standard library only.
"""

import argparse
import os
import random
import shutil
import signal
import sys

import measure
import peers
import report
from lab import CLIENT, SERVER, Lab

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP = 77
NEEDED = ("ip", "tc", "ethtool", "ssh", "sshd", "scp", "rsync", "iperf3", "tar")
SMALL_FILES, SMALL_BYTES = 20_000, 4096
GREEDY_BYTES, GREEDY_RATE, GREEDY_BPS = 40_000_000, "100mbit", 100e6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fobs", default=os.path.join(HERE, "..", "target", "release", "fobs"))
    parser.add_argument("--ceiling", default=os.path.join(HERE, "..", "target", "release", "examples", "ceiling"))
    parser.add_argument("--peers-only", action="store_true", help="measure the others, without fobs")
    parser.add_argument("--preflight", action="store_true", help="only say whether the bench can run here")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--gib", type=float, default=2.0, help="size of the big file")
    parser.add_argument("--parts", default="wire,super,small,greedy", help="which parts to run")
    parser.add_argument("--results", default=os.path.join(HERE, "results"))
    return parser.parse_args()


def note(text):
    print(text, file=sys.stderr, flush=True)


def make_file(path, size, seed):
    """Content that does not compress, the same for the same seed."""
    block = random.Random(seed).randbytes(8 << 20)
    with open(path, "wb") as out:
        left, turn = size, 0
        while left:
            piece = block[turn:] + block[:turn] if turn else block
            out.write(piece[:min(left, len(piece))])
            left -= min(left, len(piece))
            turn = (turn + 4099) % len(block)


def make_tree(path):
    """20,000 files of 4 KiB in 100 directories."""
    data = random.Random(2).randbytes(SMALL_BYTES)
    for folder in range(100):
        os.makedirs(f"{path}/d{folder:02}")
        for file in range(SMALL_FILES // 100):
            with open(f"{path}/d{folder:02}/f{file:03}", "wb") as out:
                out.write(file.to_bytes(4, "big") + folder.to_bytes(4, "big") + data[8:])


def contest(results, part, entrants, arena, source, size, reps):
    """Everyone once, then everyone again in the opposite order: a disturbance of the machine hits all alike, and nobody always comes
    after the same one."""
    for rep in range(reps):
        for name, run in entrants if rep % 2 == 0 else entrants[::-1]:
            arena.clean(size)
            record = run(arena, source, size)
            record.pop("stdout", None)
            results.add({"part": part, "name": name, "rep": rep, **record})
            rate = f"{record['gbps']:.2f} Gbit/s, " if "gbps" in record else ""
            note(f"{part} {rep + 1}/{reps} {name}: {rate}{record['seconds']:.2f} s")


def big(results, mode, lab, arena, source, size, args):
    lab.offloads(mode)
    fobs = [("fobs, daemon", peers.fobs_daemon), ("fobs, ssh", peers.fobs_ssh)] if arena.fobs else []
    bare = [("ceiling", peers.ceiling)] if arena.ceiling else []
    others = [("rsync", peers.rsync), ("scp", peers.scp), (report.CONNECT, peers.ssh_connect), ("iperf3 TCP", peers.iperf3)]
    entrants = fobs + bare + others
    contest(results, mode, entrants, arena, source, size, args.reps)


def small(results, lab, arena, args):
    lab.offloads("wire")
    source = lab.path("source", "tree")
    make_tree(source)
    fobs = [("fobs, daemon", peers.fobs_daemon), ("fobs, ssh", peers.fobs_ssh)] if arena.fobs else []
    quick = fobs + [("tar, ssh", peers.tar_ssh), ("rsync", peers.rsync)]
    contest(results, "small", quick, arena, source, SMALL_FILES * SMALL_BYTES, args.reps)
    # scp asks several questions a file: one repetition says enough.
    contest(results, "small", [("scp", peers.scp)], arena, source, SMALL_FILES * SMALL_BYTES, 1)


def greedy(results, lab, arena):
    lab.offloads("super")
    source = lab.path("source", "forty")
    make_file(source, GREEDY_BYTES, 3)
    lab.bottleneck(GREEDY_RATE)
    try:
        run = lambda *given: peers.fobs_daemon(*given, extra=("--cc", "greedy"))
        contest(results, "greedy", [("fobs --cc greedy", run)], arena, source, GREEDY_BYTES, 1)
    finally:
        lab.bottleneck(None)


def judge(results):
    bars = report.Bars()
    for mode in ("wire", "super"):
        # Of the data's time, which is what goodput means and what iperf3 tells; the whole command's stands below.
        for peer, bar in (("rsync", 2), ("scp", 2), ("iperf3 TCP", 0.5)):
            for carrier in ("fobs, daemon", "fobs, ssh"):
                value = report.ratio(results.data_rate(mode, carrier), results.data_rate(mode, peer))
                bars.at_least(f"{mode}: {carrier} / {peer}", value, bar, "x")
        # What no protocol around the same kernel calls, cipher and hash could exceed on this machine in this run.
        for other in ("rsync", "scp", "iperf3 TCP"):
            value = report.ratio(results.median(mode, "ceiling"), results.median(mode, other))
            bars.context(f"{mode}: ceiling / {other}", value, "x")
        for peer in ("rsync", "scp", "iperf3 TCP"):
            for carrier in ("fobs, daemon", "fobs, ssh"):
                value = report.ratio(results.median(mode, carrier), results.median(mode, peer))
                bars.context(f"{mode}: {carrier} / {peer}, whole commands", value, "x")
        value = report.ratio(results.median(mode, "fobs, daemon"), results.median(mode, "ceiling"))
        bars.context(f"{mode}: fobs, daemon / ceiling", value, "x")
    rss = [max(r["rss_bytes"].values()) / (1 << 20) for r in results.records
           if r.get("part") in ("wire", "super") and r["name"].startswith("fobs")]
    bars.at_most("peak RSS of either end, big file", max(rss, default=None), report.RSS_BAR >> 20, " MiB")
    for carrier in ("fobs, daemon", "fobs, ssh"):
        value = report.ratio(results.median("small", carrier), results.median("small", "tar, ssh"))
        bars.at_least(f"small files: {carrier} / tar, ssh", value, 1, "x")
    waste = [100 * r["fobs"]["waste"] for r in results.records if r.get("part") == "greedy"]
    bars.at_most("greedy into 100 Mbit/s with back-pressure: waste", max(waste, default=None), 3, "%")
    return bars


def show(results, facts, ciphers):
    print("## Bench\n")
    print(f"{facts['cpu']}, {facts['cpus']} CPUs, {facts['memory']}; Linux {facts['kernel']}, TCP {facts['tcp']}; "
          f"load at the start {facts['load']:.2f}; {facts['time']}; commit {facts['commit']}.")
    print(f"{facts['ssh']}; {facts['rsync']}; {facts['iperf3']}.")
    print("ssh into /dev/null, Gbit/s: " + ", ".join(f"{name} {value:.2f}" for name, value in ciphers.items()) + ".\n")
    titles = {"wire": "Gbit/s", "super": "Gbit/s", "small": "Gbit/s", "greedy": "Gbit/s"}
    for part, unit in titles.items():
        if results.names(part):
            print(results.table(part, unit) + "\n")


def main():
    args = arguments()
    if os.geteuid() != 0:
        print("skipped: the bench needs root (it makes network namespaces and sets their devices' offloads)")
        return SKIP
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [tool for tool in NEEDED if not shutil.which(tool)]
    if missing:
        print(f"skipped: the bench needs {', '.join(missing)} (as root, `scripts/install-needs.sh bench` installs them)")
        return SKIP
    if args.preflight:
        return 0
    fobs = None if args.peers_only else os.path.abspath(args.fobs)
    if fobs and not os.path.exists(fobs):
        print(f"there is no {fobs}: build it with `cargo build --release` (or measure the others with --peers-only)")
        return 1
    ceiling = None if args.peers_only else os.path.abspath(args.ceiling)
    if ceiling and not os.path.exists(ceiling):
        print(f"there is no {ceiling}: build it with `cargo build --release -p fobs --example ceiling`")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    size, parts = int(args.gib * report.GIB), args.parts.split(",")
    facts, results = report.machine(), report.Results(args.results)
    lab = Lab(2 * size + (2 << 30))
    groups = {side: measure.Group(lab.tag, side) for side in (CLIENT, SERVER)}
    try:
        sshd, config = lab.start_sshd(groups[SERVER])
        arena = peers.Contest(lab, groups, config, fobs, ceiling)
        source = lab.path("source", "big")
        make_file(source, size, 1)
        lab.offloads("wire")
        ciphers = peers.best_cipher(arena, source, size)
        results.add({"part": "machine", "name": "machine", **facts, "ciphers": ciphers, "bytes": size})
        for part in parts:
            {"wire": lambda: big(results, "wire", lab, arena, source, size, args),
             "super": lambda: big(results, "super", lab, arena, source, size, args),
             "small": lambda: small(results, lab, arena, args),
             "greedy": lambda: arena.fobs and greedy(results, lab, arena)}[part]()
    finally:
        lab.close()
        for group in groups.values():
            group.close()
    show(results, facts, ciphers)
    note(f"raw results: {os.path.relpath(results.path)}")
    if not fobs:
        return 0
    bars = judge(results)
    print(bars.table())
    return 1 if bars.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
