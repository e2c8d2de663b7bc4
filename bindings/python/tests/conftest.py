"""A daemon and an sshd of the tests' own, on the loopback interface."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs

#: The command that belongs to the extension.
FOBS = os.environ.get("FOBS", "fobs")
#: That of the servers: `scripts/old-and-new.sh` gives the newest release.
SERVER = os.environ.get("FOBS_TEST_PEER_BIN", FOBS)
# How long a server may take to listen, in seconds: the machine may be busy.
START_WAIT = 60.0


class Served:
    """A daemon, and what a client needs to reach it."""

    def __init__(self, directory: Path, *more: str, user: str | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.more, self.user = directory, more, user
        self.root = directory / "root"
        self.root.mkdir()
        made = subprocess.run(
            [FOBS, "keygen", "--out", directory / "client"], check=True, stdout=subprocess.PIPE, text=True
        )
        self.public = next(line for line in made.stdout.splitlines() if "fobs-ed25519" in line)
        self.authorize("read-write")
        self.port = free_port()
        self.process = self.start()
        self.url = f"fobs://127.0.0.1:{self.port}/"
        self.keys: dict[str, Any] = {
            "identity": directory / "client",
            "known_hosts": directory / "known_hosts",
        }

    def start(self) -> subprocess.Popen[bytes]:
        log = (self.directory / "log").open("ab")
        arguments = ["--listen", f"127.0.0.1:{self.port}", "--root", self.root]
        arguments += ["--authorized-keys", self.directory / "authorized_keys"]
        arguments += ["--identity", self.directory / "server"]
        command = [SERVER, "serve", *arguments, *self.more]
        if self.user is not None:
            # Its key is made by the daemon, which must be able to write it.
            top = Path(tempfile.gettempdir())
            for path in (self.directory, *self.directory.parents):
                if path.is_relative_to(top) and path != top:
                    path.chmod(path.stat().st_mode | 0o711)
            self.directory.chmod(0o777)
            (self.directory / "authorized_keys").chmod(0o644)
            command = ["setpriv", f"--reuid={self.user}", "--clear-groups", *command]
        process = subprocess.Popen(command, stderr=log, stdout=log)
        wait_for(self.port, process)
        return process

    def restart(self) -> None:
        self.stop()
        self.process = self.start()

    def authorize(self, options: str) -> None:
        (self.directory / "authorized_keys").write_text(f"{options} {self.public}\n")

    def open(self, **options: Any) -> fobs.Session:
        return fobs.Session(self.url, **{**self.keys, **options})

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_WAIT
    while time.monotonic() < end:
        assert process.poll() is None, "the server has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.stop()


@pytest.fixture
def served(shared: Served) -> Iterator[Served]:
    """The daemon, its directory empty."""
    for entry in shared.root.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    yield shared
    shared.authorize("read-write")


@pytest.fixture
def session(served: Served) -> Iterator[fobs.Session]:
    with served.open() as session:
        yield session


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The options to reach an sshd of this machine as host ``far``."""
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip("needs sshd and ssh (Debian: openssh-server, openssh-client)")
    directory, port = tmp_path_factory.mktemp("ssh"), free_port()
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    (directory / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {directory}/host_key\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/user_key.pub\nPidFile none\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nUseDNS no\nMaxStartups 100\n"
        # A shell below another one reads no start-up file of this host's user.
        "SetEnv SHLVL=1\n"
    )
    (directory / "config").write_text(
        f"Host far\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {directory}/user_key\n"
        f"  IdentitiesOnly yes\n  BatchMode yes\n  StrictHostKeyChecking accept-new\n"
        f"  UserKnownHostsFile {directory}/known_hosts\n  GlobalKnownHostsFile none\n  LogLevel ERROR\n"
    )
    log = (directory / "log").open("wb")
    process = subprocess.Popen([sshd, "-D", "-e", "-f", directory / "sshd_config"], stderr=log)
    wait_for(port, process)
    yield {"ssh_config": directory / "config", "fobs_path": str(Path(shutil.which(FOBS) or FOBS).resolve())}
    process.kill()
    process.wait()


@pytest.fixture
def content() -> Callable[[int], bytes]:
    """This number of bytes, the same for the same number."""

    def make(length: int) -> bytes:
        import random

        return random.Random(length).randbytes(length)

    return make
