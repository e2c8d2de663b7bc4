"""Medians, the table, the bars, and the JSON lines."""

import json
import os
import platform
import statistics
import subprocess
import time

GIB, GB = 1 << 30, 1e9
# The name of the runs that only connect, and who connects that way and does not tell how long it took.
CONNECT, CONNECTS = "ssh, nothing moved", ("rsync", "scp", "tar, ssh")
RSS_BAR = 256 << 20


def machine():
    """What a figure is worthless without."""
    def first(words, line=0):
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.stdout.splitlines()[line].strip() if done.returncode == 0 else "unknown"
        except (OSError, IndexError):
            return "missing"

    def grep(path, key):
        with open(path) as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(key)), "?")

    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": grep("/proc/cpuinfo", "model name"),
        "cpus": os.cpu_count(),
        "memory": grep("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "tcp": open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip(),
        "ssh": first(["ssh", "-V"]),
        "rsync": first(["rsync", "--version"]),
        "iperf3": first(["iperf3", "--version"]),
        "commit": first(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"]),
    }


class Results:
    """All records of one bench run; each is also one line of JSON in the results file."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, time.strftime("%Y%m%dT%H%M%SZ.jsonl", time.gmtime()))
        self.records = []

    def add(self, record):
        record = {"v": 1, **record}
        self.records.append(record)
        with open(self.path, "a") as out:
            out.write(json.dumps(record) + "\n")

    def of(self, part, name, key="gbps"):
        """All values of a figure, over the repetitions."""
        rows = [r for r in self.records if r.get("part") == part and r.get("name") == name]
        return [r[key] for r in rows if r.get(key) is not None]

    def median(self, part, name, key="gbps"):
        values = self.of(part, name, key)
        return statistics.median(values) if values else None

    def data_rate(self, part, name):
        """Gbit/s from the first byte on: as the contestant tells it, or its time less the time of connecting in the same run."""
        if name not in CONNECTS:
            return self.median(part, name, "data_gbps")
        seconds, connecting = self.median(part, name, "seconds"), self.median(part, CONNECT, "seconds")
        if seconds is None or connecting is None:
            return None
        size = next(r["bytes"] for r in self.records if r.get("part") == part and r["name"] == name)
        return size * 8 / (seconds - connecting) / 1e9

    def names(self, part):
        return list(dict.fromkeys(r["name"] for r in self.records if r.get("part") == part))

    def _ends(self, part, name, key, combine):
        rows = [r[key] for r in self.records if r.get("part") == part and r.get("name") == name]
        return {side: combine([row[side] for row in rows if row.get(side) is not None] or [0])
                for side in ("client", "server")}

    def table(self, part, unit):
        """Markdown rows: median and spread, and what each end paid."""
        lines = [f"| {part} | {unit}, median (min-max) | of the data alone | seconds | CPU s/GB, client + server "
                 "| peak RSS MiB, client / server |",
                 "|---|---|---|---|---|---|"]
        for name in self.names(part):
            values, seconds = self.of(part, name), self.median(part, name, "seconds")
            if not values:
                lines.append(f"| {name} | | | {seconds:.2f} | | |")
                continue
            size = next(r["bytes"] for r in self.records if r.get("part") == part and r["name"] == name)
            cpu = self._ends(part, name, "cpu_s", statistics.median)
            rss = self._ends(part, name, "rss_bytes", max)
            data = self.data_rate(part, name)
            lines.append(f"| {name} | {statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f}) "
                         f"| {'' if data is None else f'{data:.2f}'} | {seconds:.2f} | {cpu['client'] * GB / size:.2f} + {cpu['server'] * GB / size:.2f} "
                         f"| {rss['client'] >> 20} / {rss['server'] >> 20} |")
        return "\n".join(lines)


class Bars:
    """The bars this project promised to clear, each with what was measured."""

    def __init__(self):
        self.rows = []

    def at_least(self, what, value, bar, unit=""):
        self._add(what, value, f">= {bar:g}{unit}", None if value is None else value >= bar, unit)

    def at_most(self, what, value, bar, unit=""):
        self._add(what, value, f"<= {bar:g}{unit}", None if value is None else value <= bar, unit)

    def context(self, what, value, unit=""):
        """A figure that nothing was promised about, to read the others by."""
        self.rows.append((what, "", _shown(value, unit), ""))

    def _add(self, what, value, bar, passed, unit):
        self.rows.append((what, bar, _shown(value, unit), {True: "pass", False: "FAIL", None: "not measured"}[passed]))

    def table(self):
        return "\n".join(["| bar | asked | measured | |", "|---|---|---|---|"]
                         + [f"| {' | '.join(row)} |" for row in self.rows])

    def failed(self):
        return any(row[3] not in ("pass", "") for row in self.rows)


def _shown(value, unit):
    return "not measured" if value is None else f"{value:.2f}{unit}"


def ratio(a, b):
    return a / b if a and b else None
