"""The bench's place: two network namespaces joined by a veth pair, a tmpfs, and an sshd of its own.

Everything made here is removed by `close()`, which also runs when the bench is interrupted.
"""

import getpass
import os
import shutil
import subprocess
import tempfile
import time

CLIENT, SERVER = "client", "server"
ADDRESS = {CLIENT: "10.98.0.1", SERVER: "10.98.0.2"}
DEVICE = "veth0"
SSH_PORT = 2222

# What a real wire does to big sends: the kernel cuts TCP and UDP super-packets into 1500-byte packets before the
# device (the device's TSO and UDP segmentation are off, software GSO stays on), and the receiver's GRO has to put
# them together again. Without `rx-udp-gro-forwarding` GRO merges UDP only for sockets that ask for it, which is
# fine too, but veth runs no GRO at all for packets that come from a device without TSO unless `gro` is on.
WIRE = {
    "tso": "off",
    "gso": "on",
    "tx-udp-segmentation": "off",
    "gro": "on",
    "rx-udp-gro-forwarding": "on",
}
# veth as it comes: super-packets of up to 64 KiB cross whole. Flattering; quoted beside the other, never alone.
SUPER = {
    "tso": "on",
    "gso": "on",
    "tx-udp-segmentation": "on",
    "gro": "off",
    "rx-udp-gro-forwarding": "off",
}
OFFLOADS = {"wire": WIRE, "super": SUPER}


def sh(*words, check=True, **kw):
    """Runs a command to its end and returns what it printed."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed ({done.returncode}): {done.stdout.strip()}")
    return done.stdout


class Lab:
    def __init__(self, tmpfs_bytes):
        self.tag = f"fobs-bench-{os.getpid()}"
        self.namespace = {CLIENT: f"{self.tag}-c", SERVER: f"{self.tag}-s"}
        self.dir = tempfile.mkdtemp(prefix="fobs-bench-")
        self.children = []
        self.mounted = False
        try:
            sh("mount", "-t", "tmpfs", "-o", f"size={tmpfs_bytes}", self.tag, self.dir)
            self.mounted = True
            self._make_network()
        except BaseException:
            self.close()
            raise

    def _make_network(self):
        for side in (CLIENT, SERVER):
            sh("ip", "netns", "add", self.namespace[side])
        sh("ip", "link", "add", DEVICE, "netns", self.namespace[CLIENT], "type", "veth",
           "peer", "name", DEVICE, "netns", self.namespace[SERVER])
        for side in (CLIENT, SERVER):
            ns = self.namespace[side]
            sh("ip", "-n", ns, "addr", "add", f"{ADDRESS[side]}/24", "dev", DEVICE)
            sh("ip", "-n", ns, "link", "set", "lo", "up")
            sh("ip", "-n", ns, "link", "set", DEVICE, "up")
            # One run's remembered ssthresh must not decide the next run's rate.
            sh("ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1")

    def offloads(self, mode):
        """Sets `wire` or `super` on both ends; fails where the kernel does not take a setting."""
        for side in (CLIENT, SERVER):
            ns = self.namespace[side]
            words = [word for pair in OFFLOADS[mode].items() for word in pair]
            sh("ip", "netns", "exec", ns, "ethtool", "-K", DEVICE, *words)
            sh("ip", "-n", ns, "tcp_metrics", "flush", check=False)

    def bottleneck(self, rate):
        """A path of `rate` (tc's spelling) with back-pressure, or none again with None.

        htb shapes the sender's own device and its pfifo is far longer than any socket send buffer: the queue never
        drops, the socket's buffer fills instead, and the sender's writes are what waits.
        """
        tc = ("ip", "netns", "exec", self.namespace[CLIENT], "tc")
        sh(*tc, "qdisc", "del", "dev", DEVICE, "root", check=False)
        if rate is None:
            return
        sh(*tc, "qdisc", "add", "dev", DEVICE, "root", "handle", "1:", "htb", "default", "1")
        sh(*tc, "class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "quantum", "65536")
        sh(*tc, "qdisc", "add", "dev", DEVICE, "parent", "1:1", "pfifo", "limit", "1000000")

    def inside(self, side, words):
        """The words of a command that runs on one side. `ip netns exec` replaces itself: the pid is the command's."""
        return ["ip", "netns", "exec", self.namespace[side], *words]

    def path(self, *parts):
        full = os.path.join(self.dir, *parts)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return full

    def daemon(self, words, side, group, log):
        """Starts something that stays, in a cgroup; ended by `stop` or `close`."""
        out = open(self.path("log", log), "wb")
        child = subprocess.Popen(self.inside(side, words), stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, preexec_fn=group.enter if group else None)
        self.children.append(child)
        return child

    def stop(self, child):
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if child in self.children:
            self.children.remove(child)

    def wait_for_port(self, port, child):
        """Returns once something listens on the server's TCP port."""
        self._wait_for_line("tcp", f":{port:04X} ", " 0A ", port, child)

    def wait_for_udp_port(self, port, child):
        """Returns once a socket is bound to the server's UDP port."""
        self._wait_for_line("udp", f":{port:04X} ", " 07 ", port, child)

    def _wait_for_line(self, table, needle, state, port, child):
        for _ in range(500):
            if child.poll() is not None:
                raise RuntimeError(f"the server on port {port} ended early; its log is under {self.dir}/log")
            with open(f"/proc/{child.pid}/net/{table}") as lines:
                if any(needle in line and state in line for line in lines):
                    return
            time.sleep(0.01)
        raise RuntimeError(f"nothing listens on port {port}")

    def start_sshd(self, group):
        """A private sshd and the client's configuration for it: `ssh -F CONFIG peer`. Returns (child, config)."""
        keys = self.path("ssh", "host_key")
        user = self.path("ssh", "user_key")
        for file in (keys, user):
            if not os.path.exists(file):
                sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file)
        shutil.copy(user + ".pub", self.path("ssh", "authorized_keys"))
        os.makedirs("/run/sshd", exist_ok=True)
        sftp = next((p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server") if os.path.exists(p)),
                    "internal-sftp")
        server = self.path("ssh", "sshd_config")
        with open(server, "w") as out:
            out.write(f"ListenAddress {ADDRESS[SERVER]}\nPort {SSH_PORT}\nHostKey {keys}\n"
                      f"AuthorizedKeysFile {self.path('ssh', 'authorized_keys')}\nPidFile none\nStrictModes no\n"
                      f"UsePAM no\nPermitRootLogin yes\nUseDNS no\nSubsystem sftp {sftp}\n")
        client = self.path("ssh", "config")
        with open(client, "w") as out:
            out.write(f"Host peer\n  HostName {ADDRESS[SERVER]}\n  Port {SSH_PORT}\n  User {getpass.getuser()}\n"
                      f"  IdentityFile {user}\n  IdentitiesOnly yes\n  BatchMode yes\n  Compression no\n"
                      f"  StrictHostKeyChecking accept-new\n  UserKnownHostsFile {self.path('ssh', 'known')}\n"
                      "  LogLevel ERROR\n")
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        child = self.daemon([sshd, "-D", "-e", "-f", server], SERVER, group, "sshd")
        self.wait_for_port(SSH_PORT, child)
        return child, client

    def close(self):
        for child in list(self.children):
            self.stop(child)
        for name in self.namespace.values():
            sh("ip", "netns", "del", name, check=False)
        if self.mounted:
            for _ in range(50):
                if subprocess.run(["umount", self.dir], stderr=subprocess.DEVNULL).returncode == 0:
                    break
                time.sleep(0.1)
            else:
                subprocess.run(["umount", "-l", self.dir])
        shutil.rmtree(self.dir, ignore_errors=True)
