#!/usr/bin/env python3
"""Injects one limit at a time into real copies and counts what `fobs cp --explain` says.

Every trial is a copy between two network namespaces with one thing made scarce, drawn from a seed: a disk (a loop device
that blkio.throttle holds back), a CPU (a cpu cgroup's quota), the receive buffer (net.core.rmem_max, for a process that may
not exceed it), the path (the emulator `fobs-lab link`), or the rate (--rate). Needs root, cgroup v1 with cpu and blkio, and
about 1 GB in /dev/shm; without root it says so and ends with 77. Standard library only.

    scripts/explain-trials.py --trials 20 --out trials.jsonl      # runs, appends a line for each
    scripts/explain-trials.py --report trials.jsonl               # the confusion matrix, as Markdown
    scripts/explain-trials.py --again --traces DIR --out again.jsonl   # what this fobs says of recorded trials
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP = 77
MB = 1_000_000
# What is injected, and the word by which `explain.limit` names it.
CASES = {
    "slow source disk": "source",
    "slow destination disk": "destination",
    "starved receiver CPU": "receiver_cpu",
    "starved sender CPU": "sender_cpu",
    "small receiver buffer": "receiver_buffer",
    "narrow link": "narrow_path",
    "random loss": "random_loss",
    "policer": "policer",
    "rate cap": "rate_cap",
}
# Whether these limit is not certain: each is run again without what is injected, and must be slower than that.
CONTROLLED = ["small receiver buffer"]
# Bytes: holds all that comes in a pause, with the kernel's overhead, at any rate that is drawn.
AMPLE_BUFFER = 4 << 20
COPY_TIMEOUT_S = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fobs", default=os.path.join(HERE, "..", "target", "release", "fobs"))
    parser.add_argument("--lab", default=os.path.join(HERE, "..", "target", "release", "fobs-lab"))
    parser.add_argument("--trials", type=int, default=20, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial: it is the seed")
    parser.add_argument("--cases", default=",".join(CASES), help="which, by commas")
    parser.add_argument("--direction", choices=["push", "pull", "both"], default="both", help="both: by turns")
    parser.add_argument("--out", help="file to append a JSON line for each trial to")
    parser.add_argument("--traces", help="directory for the traces")
    parser.add_argument("--again", action="store_true", help="explain the traces in --traces instead of running anything")
    parser.add_argument("--report", help="make the matrix of this file instead of running anything")
    return parser.parse_args()


def sh(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Veth:
    """Two namespaces and a wire that is faster than the hosts."""

    def __init__(self):
        self.spaces = [f"fobs-explain-{os.getpid()}-{end}" for end in "ab"]
        for space in self.spaces:
            sh("ip", "netns", "add", space)
        a, b = self.spaces
        sh("ip", "-n", a, "link", "add", "e0", "type", "veth", "peer", "name", "e0", "netns", b)
        for place, space in enumerate(self.spaces):
            sh("ip", "-n", space, "addr", "add", f"10.78.0.{place + 1}/24", "dev", "e0")
            sh("ip", "-n", space, "link", "set", "e0", "up")
            sh("ip", "-n", space, "link", "set", "lo", "up")
        self.address = "10.78.0.2"

    def close(self):
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False)


class Emulated:
    """The path of a spec, from `fobs-lab link`."""

    def __init__(self, lab, folder, spec):
        path = os.path.join(folder, "link.toml")
        with open(path, "w") as out:
            out.write(spec)
        self.process = subprocess.Popen([lab, "link", path, "--until-eof"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        hosts = json.loads(self.process.stdout.readline())["hosts"]
        self.spaces = [host["namespace"] for host in hosts]
        self.address = hosts[1]["address"]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()


class SlowDisk:
    """An ext4 on a loop device that reads and writes so many bytes a second, and writes at once."""

    THROTTLE = "/sys/fs/cgroup/blkio/blkio.throttle.{}_bps_device"

    def __init__(self, folder, size, content=None):
        self.image, self.mount = os.path.join(folder, "disk.img"), os.path.join(folder, "disk")
        os.mkdir(self.mount)
        with open(self.image, "wb") as out:
            out.truncate(size)
        sh("mkfs.ext4", "-q", "-O", "^has_journal", self.image)
        self.device = subprocess.run(["losetup", "-f", "--show", self.image], check=True, stdout=subprocess.PIPE,
                                     text=True).stdout.strip()
        number = os.stat(self.device).st_rdev
        self.number = f"{os.major(number)}:{os.minor(number)}"
        if content:
            sh("mount", self.device, self.mount)
            shutil.copy(content, self.mount)
            sh("umount", self.mount)
        sh("mount", "-o", "sync", self.device, self.mount)

    def slow_down(self, bytes_per_second):
        for way in ("read", "write"):
            with open(self.THROTTLE.format(way), "w") as out:
                out.write(f"{self.number} {bytes_per_second}")

    def close(self):
        self.slow_down(0)
        subprocess.run(["umount", self.mount], check=False)
        subprocess.run(["losetup", "-d", self.device], check=False)


class CpuQuota:
    """A cpu cgroup that has this share of one CPU."""

    def __init__(self, share):
        self.path = f"/sys/fs/cgroup/cpu/fobs-explain-{os.getpid()}"
        os.mkdir(self.path)
        self.write("cpu.cfs_period_us", 100_000)
        self.write("cpu.cfs_quota_us", int(100_000 * share))

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as out:
            out.write(str(value))

    def close(self):
        for _ in range(100):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.05)


class ReceiveBuffers:
    """net.core.rmem_max for all of the machine, until it is put back."""

    PATH = "/proc/sys/net/core/rmem_max"

    def __init__(self, size):
        with open(self.PATH) as file:
            self.before = file.read()
        self.set(str(size))

    def set(self, text):
        with open(self.PATH, "w") as out:
            out.write(text)

    def close(self):
        self.set(self.before)


class Pauses:
    """Takes a process off its CPU for some milliseconds again and again, as a hypervisor does that has others to serve."""

    def __init__(self, process, off_ms, every_ms):
        self.process, self.off_s, self.every_s = process, off_ms / 1e3, every_ms / 1e3
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done.wait(self.every_s - self.off_s):
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(self.off_s)
            self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.done.set()
        self.thread.join()


def draw(case, seed):
    """What a trial is: everything random comes from its case and number."""
    r = random.Random(f"{case} {seed}")
    mbit = lambda low, high: round(r.uniform(low, high), 1)
    if case == "slow source disk" or case == "slow destination disk":
        rate = r.randrange(15, 40)
        return {"disk_mb_s": rate, "megabytes": rate * 3}
    if case == "starved receiver CPU" or case == "starved sender CPU":
        return {"cpu_share": round(r.uniform(0.08, 0.2), 3), "megabytes": 160}
    if case == "small receiver buffer":
        rate = r.randrange(300, 800)
        return {"rmem_max": r.randrange(8, 32) << 10, "rate_mbit": rate, "rtt_ms": r.randrange(5, 40),
                "off_ms": r.randrange(4, 8), "every_ms": r.randrange(30, 60), "megabytes": round(rate / 8 * 0.4, 1)}
    if case == "narrow link":
        rate = mbit(20, 100)
        return {"rate_mbit": rate, "rtt_ms": r.randrange(5, 60), "megabytes": round(rate / 8 * 2.5, 1)}
    if case == "random loss":
        loss, rtt_ms = round(r.uniform(0.3, 2), 2), r.randrange(15, 60)
        # What a loss-based controller makes of it (Mathis and others, 1997), for three seconds.
        expected = 1.22 * 1472 / (rtt_ms / 1e3 * (loss / 100) ** 0.5)
        return {"loss_percent": loss, "rate_mbit": 300, "rtt_ms": rtt_ms, "cc": "cubic",
                "megabytes": round(3 * expected / MB, 2)}
    if case == "policer":
        rate = mbit(20, 100)
        return {"policer_mbit": rate, "burst_kib": r.randrange(16, 96), "rate_mbit": 300, "rtt_ms": r.randrange(5, 60),
                "megabytes": round(rate / 8 * 3, 1)}
    rate = mbit(30, 300)
    return {"cap_mbit": rate, "megabytes": round(rate / 8 * 2.5, 1)}


def spec(drawn, seed):
    lines = [f"seed = {seed + 1}", f"rtt = '{drawn['rtt_ms']}ms'", f"rate = '{drawn['rate_mbit']}Mbit'"]
    if "loss_percent" in drawn:
        lines.append(f"forward = {{ loss = '{drawn['loss_percent']}%' }}")
        lines.append(f"backward = {{ loss = '{drawn['loss_percent']}%' }}")
    if "policer_mbit" in drawn:
        policer = f"{{ policer = {{ rate = '{drawn['policer_mbit']}Mbit', burst = '{drawn['burst_kib']}KiB' }} }}"
        lines += [f"forward = {policer}", f"backward = {policer}"]
    return "\n".join(lines) + "\n"


def wait_for_port(space, address):
    """Until the daemon listens; asked of /proc because only a namespace knows its own ports."""
    for _ in range(500):
        table = subprocess.run(["ip", "netns", "exec", space, "cat", "/proc/net/tcp"], stdout=subprocess.PIPE, text=True)
        if f":{45600:04X} 00000000:0000 0A" in table.stdout:
            return
        time.sleep(0.01)
    raise RuntimeError(f"the daemon does not listen on {address}")


def one_line(argv, **more):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **more).stdout.strip()


class Trial:
    def __init__(self, args, case, number, injected=True):
        self.args, self.case, self.number, self.injected = args, case, number, injected
        self.drawn = draw(case, number)
        self.pull = args.direction == "pull" or (args.direction == "both" and number % 2 == 1)
        self.open = []

    def keep(self, thing):
        self.open.append(thing)
        return thing

    def run(self):
        self.folder = tempfile.mkdtemp(prefix="fobs-explain-", dir="/dev/shm")
        # Another user must get through.
        os.chmod(self.folder, 0o755)
        try:
            return self.copy()
        finally:
            for thing in reversed(self.open):
                thing.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def content(self, path):
        left, data = int(self.drawn["megabytes"] * MB), random.Random(self.number).randbytes(1 << 20)
        with open(path, "wb") as out:
            while left > 0:
                out.write(data[:left])
                left -= len(data)

    def copy(self):
        case, drawn, folder, fobs = self.case, self.drawn, self.folder, self.args.fobs
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        os.mkdir(source)
        os.mkdir(target)
        os.chmod(target, 0o777)
        self.content(os.path.join(source, "file"))
        net = self.keep(Emulated(self.args.lab, folder, spec(drawn, self.number)) if "rtt_ms" in drawn else Veth())
        sender, receiver = {}, {}
        if case == "slow source disk":
            disk = self.keep(SlowDisk(folder, (drawn["megabytes"] + 32) * MB, os.path.join(source, "file")))
            disk.slow_down(drawn["disk_mb_s"] * MB)
            source = disk.mount
        if case == "slow destination disk":
            disk = self.keep(SlowDisk(folder, (drawn["megabytes"] + 32) * MB))
            disk.slow_down(drawn["disk_mb_s"] * MB)
            target = disk.mount
        if case == "starved receiver CPU":
            receiver["group"] = self.keep(CpuQuota(drawn["cpu_share"]))
        if case == "starved sender CPU":
            sender["group"] = self.keep(CpuQuota(drawn["cpu_share"]))
        if case == "small receiver buffer":
            receiver["without"] = True
            self.keep(ReceiveBuffers(drawn["rmem_max"] if self.injected else AMPLE_BUFFER))
        client, server = (receiver, sender) if self.pull else (sender, receiver)
        a, b = net.spaces

        identity, keys = os.path.join(folder, "client"), os.path.join(folder, "keys")
        public = one_line([fobs, "keygen", "--out", identity], stderr=subprocess.DEVNULL)
        with open(keys, "w") as out:
            out.write(f"read-write {public}\n")
        served = source if self.pull else target
        daemon = self.start(b, server, [fobs, "serve", "--root", served, "--authorized-keys", keys, "--listen", net.address,
                                        "--identity", os.path.join(folder, "server")])
        try:
            wait_for_port(b, net.address)
            remote = f"fobs://{net.address}/file"
            ends = [remote, os.path.join(target, "file")] if self.pull else [os.path.join(source, "file"), remote]
            words = [fobs, "cp", "--json", "--explain", "-i", identity, "--known-hosts", os.path.join(folder, "hosts")]
            if "cap_mbit" in drawn:
                words += ["--rate", f"{drawn['cap_mbit']}Mbit"]
            if "cc" in drawn:
                words += ["--cc", drawn["cc"]]
            if self.args.traces and self.injected:
                os.makedirs(self.args.traces, exist_ok=True)
                words += ["--trace", os.path.join(self.args.traces, f"{case.replace(' ', '-')}-{self.number}.jsonl")]
            process = self.start(a, client, words + ends)
            if "off_ms" in drawn:
                self.keep(Pauses(process if self.pull else daemon, drawn["off_ms"], drawn["every_ms"]))
            out, err = process.communicate(timeout=COPY_TIMEOUT_S)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate()
        last = json.loads(out.strip().splitlines()[-1]) if out.strip() else {}
        if process.returncode != 0:
            return self.line({"error": last.get("message", err.strip())})
        explain = last.get("explain") or {}
        return self.line({"limit": explain.get("limit"), "share": explain.get("share"), "sentence": explain.get("sentence"),
                          "seconds": last["seconds"], "goodput_bps": last["goodput_bps"]})

    def line(self, more):
        return {"case": self.case, "expected": CASES[self.case], "trial": self.number,
                "direction": "pull" if self.pull else "push", "drawn": self.drawn, **more}

    def start(self, space, how, words):
        prefix = ["ip", "netns", "exec", space]
        if how.get("without"):
            prefix += ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
        group = how.get("group")

        def enter():
            if group:
                group.write("cgroup.procs", os.getpid())

        return subprocess.Popen(prefix + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=enter)


def report(path):
    with open(path) as file:
        lines = [json.loads(line) for line in file if line.strip()]
    counts = collections.defaultdict(collections.Counter)
    for line in lines:
        counts[line["case"]][line.get("limit") or "failed"] += 1
    names = list(CASES.values())
    others = sorted({name for row in counts.values() for name in row} - set(names))
    print("| injected | " + " | ".join(names + others) + " | named |")
    print("|---" * (len(names + others) + 2) + "|")
    for case, expected in CASES.items():
        row = counts[case]
        cells = [str(row[name]) if row[name] else "" for name in names + others]
        print(f"| {case} | " + " | ".join(cells) + f" | {row[expected]} of {sum(row.values())} |")


def again(args):
    """A trace's name tells what was injected; `fobs explain` says of it what this fobs would have said."""
    by_name = {case.replace(" ", "-"): case for case in CASES}
    for name in sorted(os.listdir(args.traces)):
        stem, _, number = name.removesuffix(".jsonl").rpartition("-")
        case = by_name[stem]
        why = json.loads(one_line([args.fobs, "explain", "--json", os.path.join(args.traces, name)]))
        line = {"case": case, "expected": CASES[case], "trial": int(number), "drawn": draw(case, int(number)),
                "limit": why["limit"], "share": why["share"], "sentence": why["sentence"]}
        with open(args.out, "a") as out:
            out.write(json.dumps(line) + "\n")


def main():
    args = arguments()
    if args.report:
        return report(args.report)
    if args.again:
        return again(args)
    if os.geteuid() != 0:
        print("explain-trials: needs root for namespaces, cgroups and loop devices; skipped", file=sys.stderr)
        return SKIP
    # Whoever ends this ends a trial: what it changed of the machine is put back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for number in range(args.first, args.first + args.trials):
        for case in args.cases.split(","):
            trial = Trial(args, case, number)
            try:
                line = trial.run()
                if case in CONTROLLED:
                    line["control_bps"] = Trial(args, case, number, injected=False).run().get("goodput_bps")
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                line = trial.line({"error": str(error)})
            verdict = "ok " if line.get("limit") == line["expected"] else "NOT"
            print(f"{verdict} {number:3} {case:22} {line.get('sentence') or line.get('error')}", flush=True)
            if args.out:
                with open(args.out, "a") as out:
                    out.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
