"""An emulated path with a fobs daemon and an sshd at its far end, and a program at its near end (root)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def serve(namespace: str, address: str, fobs: str, work: Path) -> tuple[list[subprocess.Popen[bytes]], dict[str, Any]]:
    inside = ["ip", "netns", "exec", namespace]
    made = subprocess.run([fobs, "keygen", "--out", work / "client"], check=True, stdout=subprocess.PIPE, text=True)
    public = next(line for line in made.stdout.splitlines() if "fobs-ed25519" in line)
    (work / "authorized_keys").write_text(f"read-write {public}\n")
    for key in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", work / key], check=True)
    (work / "sshd_config").write_text(
        f"ListenAddress {address}\nPort 2222\nHostKey {work}/host_key\nStrictModes no\nUsePAM no\nPidFile none\n"
        f"AuthorizedKeysFile {work}/user_key.pub\nPermitRootLogin yes\nUseDNS no\nSubsystem sftp internal-sftp\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    daemon: list[str | Path] = [fobs, "serve", "--listen", f"{address}:45600", "--root", work / "root"]
    daemon += ["--authorized-keys", work / "authorized_keys", "--identity", work / "server"]
    log = (work / "log").open("wb")
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
    started = [
        subprocess.Popen([*inside, *daemon], stdout=log, stderr=log),
        subprocess.Popen([*inside, sshd, "-D", "-f", work / "sshd_config"], stdout=log, stderr=log),
    ]
    time.sleep(2.0)
    keys = {"identity": str(work / "client"), "known_hosts": str(work / "known_hosts")}
    at = {"host": address, "fobs_port": 45600, "keys": keys, "ssh_port": 2222}
    return started, {**at, "ssh_key": str(work / "user_key"), "root": str(work / "root")}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    for name, default in (("lab", None), ("fobs", None), ("rtt", "65ms"), ("rate", "300Mbit"), ("client", None)):
        parser.add_argument(f"--{name}", default=default)
    return parser


def played(
    program: str, given: argparse.Namespace, prepare: Callable[[Path], None], **more: Any
) -> list[dict[str, Any]]:
    """The lines of JSON that `program --client PLACES` prints at the near end, shown as they come; `prepare` fills what
    the far end serves."""
    work = Path(tempfile.mkdtemp(prefix="fobs-bench-"))
    (work / "root").mkdir()
    prepare(work / "root")
    (work / "path.toml").write_text(f'rtt = "{given.rtt}"\nrate = "{given.rate}"\n')
    words = [given.lab, "link", work / "path.toml", "--control", work / "control", "--until-eof"]
    link = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    started: list[subprocess.Popen[bytes]] = []
    try:
        assert link.stdout is not None
        west, east = json.loads(link.stdout.readline())["hosts"]
        fobs = str(Path(given.fobs).resolve())
        started, at = serve(east["namespace"], east["address"], fobs, work)
        places = json.dumps({**at, **more, "fobs": fobs})
        inside = ["ip", "netns", "exec", west["namespace"], sys.executable, program, "--client", places]
        lines: list[dict[str, Any]] = []
        with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            for line in client.stdout:
                print(line, end="", flush=True)
                lines.append(json.loads(line))
        if client.returncode != 0:
            raise subprocess.CalledProcessError(client.returncode, inside)
        return lines
    finally:
        for process in started:
            process.kill()
        assert link.stdin is not None
        link.stdin.close()
        link.wait()
        shutil.rmtree(work)
