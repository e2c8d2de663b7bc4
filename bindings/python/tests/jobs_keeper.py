"""Keepers of the tests' own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import fobs.jobs

from .conftest import FOBS, START_WAIT


class Kept:
    """A keeper with a state of its own, over its socket and over TLS."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
        monkeypatch.setenv("XDG_STATE_HOME", str(directory / "state"))
        self.work = directory / "work"
        self.work.mkdir()
        monkeypatch.chdir(self.work)
        self.start()

    def start(self) -> None:
        log = self.directory / "log"
        with log.open("wb") as file:
            self.process = subprocess.Popen([FOBS, "jobs", "serve", "--listen", "127.0.0.1:0"], stderr=file)
        end = time.monotonic() + START_WAIT
        while True:
            found = re.search(r"https://([\d.]+:\d+) \(certificate's SHA-256: ([0-9a-f]{64})\)", log.read_text())
            if found:
                break
            assert self.process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        self.url, self.fingerprint = f"https://{found[1]}", found[2]

    def token(self, scopes: str) -> str:
        command = [FOBS, "jobs", "token", "create", "--scope", scopes, "--expires", "1h"]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
        return made.stdout.strip()

    def far(self, scopes: str) -> fobs.jobs.Keeper:
        return fobs.jobs.Keeper(self.url, token=self.token(scopes), fingerprint=self.fingerprint)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
