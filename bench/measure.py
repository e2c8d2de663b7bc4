"""What a run cost: wall time, CPU seconds of each end, peak resident memory of each end.

Each end runs in a control group of its own, so that helpers (ssh, sshd's children, tar) count too. Kernel work that
is done in a process's name is in its CPU time; work in soft interrupts is charged to whoever was running.
"""

import os
import subprocess
import threading
import time

V1, V2 = "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"
# Peak memory is the kernel's own high-water mark (VmHWM); this only has to see each process once before it ends.
SAMPLE_SECONDS = 0.02


class Group:
    """A control group that counts CPU time. `usage()` is None where none can be made."""

    def __init__(self, tag, side):
        self.dir = None
        base = V1 if os.path.isdir(V1) else V2 if os.path.exists(f"{V2}/cgroup.controllers") else None
        if base:
            path = f"{base}/{tag}-{side}"
            try:
                os.mkdir(path)
                self.dir = path
            except OSError as error:
                print(f"no CPU figures for the {side}: {path}: {error.strerror}")

    def enter(self):
        """For `preexec_fn`: the new process joins."""
        if self.dir:
            with open(f"{self.dir}/cgroup.procs", "w") as out:
                out.write(str(os.getpid()))

    def usage(self):
        """CPU seconds so far."""
        if not self.dir:
            return None
        if os.path.exists(f"{self.dir}/cpuacct.usage"):
            with open(f"{self.dir}/cpuacct.usage") as file:
                return int(file.read()) / 1e9
        with open(f"{self.dir}/cpu.stat") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("usage_usec")) / 1e6

    def pids(self):
        if not self.dir:
            return []
        try:
            with open(f"{self.dir}/cgroup.procs") as file:
                return [int(line) for line in file]
        except OSError:
            return []

    def close(self):
        if self.dir:
            for _ in range(50):
                try:
                    os.rmdir(self.dir)
                    return
                except OSError:
                    time.sleep(0.05)


def high_water(pid):
    """Peak resident bytes of a process, 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class RssWatch(threading.Thread):
    """Keeps, for each group, the largest peak of any one process in it."""

    def __init__(self, groups):
        super().__init__(daemon=True)
        self.groups, self.peak, self.done = groups, {side: 0 for side in groups}, threading.Event()

    def run(self):
        while not self.done.is_set():
            for side, group in self.groups.items():
                for pid in group.pids():
                    self.peak[side] = max(self.peak[side], high_water(pid))
            self.done.wait(SAMPLE_SECONDS)


def run(words, groups, client="client", shell_input=None, timeout=300):
    """Runs one command as the client's end. Returns seconds, CPU seconds and peak bytes of both ends, and its output.

    `words` is a list, or a string for the shell where a pipe is what is measured.
    """
    before = {side: group.usage() for side, group in groups.items()}
    watch = RssWatch(groups)
    watch.start()
    start = time.monotonic()
    child = subprocess.Popen(words, shell=isinstance(words, str), stdin=shell_input or subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=groups[client].enter)
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise RuntimeError(f"{words} took longer than {timeout} s")
    seconds = time.monotonic() - start
    watch.done.set()
    watch.join()
    if child.returncode != 0:
        raise RuntimeError(f"{words} ended with {child.returncode}: {err.decode(errors='replace')[-800:]}")
    # A server's child may live a moment longer than the client: its time belongs to the run.
    time.sleep(0.05)
    cpu = {side: None if before[side] is None else group.usage() - before[side] for side, group in groups.items()}
    return {"seconds": seconds, "cpu_s": cpu, "rss_bytes": watch.peak, "stdout": out.decode(errors="replace")}
