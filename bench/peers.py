"""The contestants. Each is a function `(bench) -> record` that moves the same thing once and returns its figures."""

import json
import mmap
import os
import shutil

import measure
from lab import ADDRESS, CLIENT, SERVER

CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com")
DAEMON_PORT, IPERF_PORT, CEILING_PORT = 45600, 5201, 45700
# Free memory goes back to a virtual machine's host in blocks of this size (mm/page_reporting.c): of a block with one page in use, nothing.
BLOCK_BYTES = 2 << 20
# Warm memory beyond the file's own: for what the kernel keeps of it, and whole blocks for the contestants' buffers.
SPARE_BYTES, WHOLE_BYTES = 512 << 20, 128 << 20


class WarmMemory:
    """Free memory that the host does not take back: touched, then given back but for one page of each block, which is kept for the
    whole bench.

    A page that was returned costs whoever needs it next up to 3 CPU seconds per GB, by chance this contestant or that one; and
    one that takes long loses more of it while it runs. Whoever needs single pages, as a file does, is given these first, and
    gives them back into the same blocks: every contestant writes to the same memory. Where it was made anew for each, whoever came
    after `iperf3`, which leaves no file, took a tenth more CPU time than the next.
    """

    def __init__(self, size):
        self.size = size
        self.memory = self._touched(size + SPARE_BYTES)
        for block in range(0, len(self.memory) - BLOCK_BYTES + 1, BLOCK_BYTES):
            self.memory.madvise(mmap.MADV_DONTNEED, block + mmap.PAGESIZE, BLOCK_BYTES - mmap.PAGESIZE)

    @classmethod
    def touch_whole(cls):
        """Whole blocks, for buffers on huge pages: nothing of them can be kept, so they are touched before each run."""
        cls._touched(WHOLE_BYTES).close()

    @staticmethod
    def _touched(size):
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1
        return memory

    def close(self):
        self.memory.close()


class Contest:
    """What every contestant needs: the lab, the groups, the ssh set-up, the fobs binary and its keys."""

    def __init__(self, lab, groups, ssh_config, fobs, ceiling):
        self.lab, self.groups, self.ssh_config, self.fobs, self.ceiling = lab, groups, ssh_config, fobs, ceiling
        self.cipher = CIPHERS[0]
        self.warm = WarmMemory(0)
        self.target = lab.path("target", "x")
        self.target = os.path.dirname(self.target)
        if fobs:
            self._make_keys()

    def _make_keys(self):
        self.identity = self.lab.path("fobs", "client")
        self.known = self.lab.path("fobs", "known_hosts")
        words = [self.fobs, "keygen", "--out", self.identity]
        public = measure.subprocess.run(words, check=True, stdout=measure.subprocess.PIPE, text=True).stdout.strip()
        self.authorized = self.lab.path("fobs", "authorized_keys")
        with open(self.authorized, "w") as out:
            out.write(f"read-write {public}\n")

    def clean(self, size):
        """Empties the destination: every contestant writes fresh pages, none rewrites another's. They are warm for all of them."""
        shutil.rmtree(self.target)
        os.mkdir(self.target)
        if self.warm.size < size:
            self.warm.close()
            self.warm = WarmMemory(size)
            self._fill_once(size)
        WarmMemory.touch_whole()

    def _fill_once(self, size):
        """A file that nobody measures: whoever writes to this memory first takes a tenth more CPU time for it than all later ones."""
        path = os.path.join(self.target, "first")
        with open(path, "wb") as out:
            for _ in range(0, size, BLOCK_BYTES):
                out.write(bytes(BLOCK_BYTES))
        os.remove(path)

    def run(self, words, size, **more):
        text = " ".join(self.lab.inside(CLIENT, [])) + " " + words if isinstance(words, str) else None
        figures = measure.run(text or self.lab.inside(CLIENT, words), self.groups, **more)
        figures["bytes"] = size
        figures["gbps"] = size * 8 / figures["seconds"] / 1e9
        return figures

    @property
    def ssh(self):
        return f"ssh -F {self.ssh_config} -c {self.cipher}"


def best_cipher(contest, source, size):
    """The fastest of OpenSSH's three common ciphers on this machine, and what each reached in Gbit/s."""
    reached = {}
    for cipher in CIPHERS:
        contest.cipher = cipher
        with open(source, "rb") as data:
            reached[cipher] = contest.run(f"{contest.ssh} peer 'cat >/dev/null'", size, shell_input=data)["gbps"]
    contest.cipher = max(reached, key=reached.get)
    return reached


def _finish_fobs(figures):
    lines = [json.loads(line) for line in figures.pop("stdout").splitlines() if line.startswith("{")]
    done = next((line for line in reversed(lines) if line.get("event") == "done"), None)
    if done is None:
        raise RuntimeError("fobs printed no `done` line")
    if done["errors"]:
        raise RuntimeError(f"fobs did not move everything: {done['errors'][:3]}")
    figures["fobs"] = done
    figures["data_gbps"] = done["goodput_bps"] / 1e9
    figures["rss_bytes"] = {CLIENT: done["max_rss_bytes"], SERVER: done["max_rss_bytes_peer"]}
    return figures


def fobs_daemon(contest, source, size, extra=()):
    """`fobs cp` to a daemon. The daemon is new each time, so that its peak memory is this run's."""
    lab = contest.lab
    serve = [contest.fobs, "serve", "--listen", f"{ADDRESS[SERVER]}:{DAEMON_PORT}", "--root", contest.target,
             "--authorized-keys", contest.authorized, "--identity", lab.path("fobs", "server")]
    child = lab.daemon(serve, SERVER, contest.groups[SERVER], "fobs-serve")
    try:
        lab.wait_for_port(DAEMON_PORT, child)
        words = [contest.fobs, "cp", "--json", "-r", "-i", contest.identity, "--known-hosts", contest.known, *extra,
                 source, f"fobs://{ADDRESS[SERVER]}:{DAEMON_PORT}/"]
        return _finish_fobs(contest.run(words, size))
    finally:
        lab.stop(child)


def fobs_ssh(contest, source, size, extra=()):
    words = [contest.fobs, "cp", "--json", "-r", "-F", contest.ssh_config, "--fobs-path", contest.fobs, *extra,
             source, f"peer:{contest.target}/"]
    return _finish_fobs(contest.run(words, size))


def ssh_connect(contest, _source, _size):
    """Connecting and nothing else: what of the others' time over ssh is no transfer. No rate, but seconds and CPU time."""
    figures = contest.run(f"{contest.ssh} peer true", 0)
    del figures["gbps"]
    return figures


def rsync(contest, source, size):
    return contest.run(["rsync", "-a", "--whole-file", "--inplace", "--no-compress", "-e", contest.ssh, source,
                        f"peer:{contest.target}/"], size)


def scp(contest, source, size):
    return contest.run(["scp", "-q", "-r", "-F", contest.ssh_config, "-c", contest.cipher, source,
                        f"peer:{contest.target}/"], size)


def tar_ssh(contest, source, size):
    parent, name = os.path.split(source)
    pipe = f"sh -c \"tar -C '{parent}' -cf - '{name}' | {contest.ssh} peer tar -C '{contest.target}' -xf -\""
    return contest.run(pipe, size)


def iperf3(contest, _source, size):
    """Unencrypted TCP from memory to memory: what the path and the kernel can do."""
    lab = contest.lab
    child = lab.daemon(["iperf3", "-s", "-1", "-B", ADDRESS[SERVER], "-p", str(IPERF_PORT)], SERVER,
                       contest.groups[SERVER], "iperf3")
    try:
        lab.wait_for_port(IPERF_PORT, child)
        figures = contest.run(["iperf3", "-J", "-c", ADDRESS[SERVER], "-p", str(IPERF_PORT), "-n", str(size)], size)
    finally:
        lab.stop(child)
    end = json.loads(figures.pop("stdout"))["end"]
    # Its own clock starts when it is connected, and it tells nothing of the time before.
    figures["gbps"] = figures["data_gbps"] = end["sum_received"]["bits_per_second"] / 1e9
    figures["tcp"] = end.get("sender_tcp_congestion", "?")
    return figures


def ceiling(contest, source, size):
    """What fobs's kernel calls, cipher and hash reach with no protocol around them: the most that fobs could do here."""
    lab = contest.lab
    address = f"{ADDRESS[SERVER]}:{CEILING_PORT}"
    child = lab.daemon([contest.ceiling, "recv", address, f"{contest.target}/big"], SERVER, contest.groups[SERVER], "ceiling")
    try:
        # It listens at once, but is not the first to say so: datagrams before that would be lost.
        lab.wait_for_udp_port(CEILING_PORT, child)
        figures = contest.run([contest.ceiling, "send", address, source], size)
        child.wait(30)
    finally:
        lab.stop(child)
    if child.returncode != 0:
        raise RuntimeError(f"the ceiling's receiver ended with {child.returncode}; its log is under {lab.dir}/log")
    return figures
