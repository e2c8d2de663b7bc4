"""Random sequences of calls over ssh beside the same host mounted by sshfs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.local import LocalFileSystem  # noqa: E402

from .sequences import SEEDS, Side, play  # noqa: E402

# Where distributions have it; the tests' sshd names no subsystem.
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
# What another host changes meanwhile is not what is tried.
AS_IT_IS = "dir_cache=no,attr_timeout=0,entry_timeout=0,negative_timeout=0"


@pytest.fixture(scope="module")
def mounted(ssh: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A directory, and where sshfs shows it."""
    program = next((path for path in SFTP_SERVERS if os.path.exists(path)), None)
    if shutil.which("sshfs") is None or program is None:
        pytest.skip("needs sshfs and sftp-server (Debian: sshfs, openssh-sftp-server)")
    directory = tmp_path_factory.mktemp("sshfs")
    source, mount = directory / "source", directory / "mount"
    source.mkdir()
    mount.mkdir()
    options = f"{AS_IT_IS},sftp_server={program}"
    # Newer ones show no link that leads upwards, unless they are told to.
    said = subprocess.run(["sshfs", "--help"], capture_output=True, text=True)
    if "no_contain_symlinks" in said.stdout + said.stderr:
        options += ",no_contain_symlinks"
    made = subprocess.run(
        ["sshfs", "-F", ssh["ssh_config"], f"far:{source}", mount, "-o", options], capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"sshfs cannot mount here: {made.stderr.strip()}")
    yield source, mount
    subprocess.run(["fusermount3", "-u", mount], check=True)


@pytest.fixture(scope="module")
def far(ssh: dict[str, Any]) -> Iterator[Any]:
    fs = fsspec.filesystem("fobs+ssh", host="far", skip_instance_cache=True, **ssh)
    yield fs
    fs.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_have_the_results_of_sshfs(seed: int, far: Any, mounted: tuple[Path, Path], tmp_path: Path) -> None:
    source, mount = (path / f"seed-{seed}" for path in mounted)
    source.mkdir()
    there = tmp_path / "there"
    theirs = Side(LocalFileSystem(), source, str(mount), tmp_path)
    play(seed, Side(far, there, str(there), tmp_path), theirs)
    shutil.rmtree(source)
