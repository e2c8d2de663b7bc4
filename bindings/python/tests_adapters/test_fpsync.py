"""fpsync of Debian's fpart, with fobs as its tool."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import FOBS, Served

FPSYNC = shutil.which("fpsync")


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """The console script, as pip would write it."""
    script = tmp_path / "bin" / "fobs-fpsync"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom fobs.adapters.fpsync import main\nmain()\n")
    script.chmod(0o755)
    (script.parent / "fobs").symlink_to(Path(shutil.which(FOBS) or FOBS).resolve())
    return script


@pytest.mark.skipif(FPSYNC is None, reason="needs fpsync (Debian: fpart)")
def test_fpsync_moves_a_tree_in_parts(served: Served, tool: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for number in range(40):
        path = source / f"dir{number % 5}" / f"file {number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(1000 * number))
    (source / "dir0" / "link").symlink_to("file 0")
    (source / "empty").mkdir()
    keys = f"--identity {served.keys['identity']} --known-hosts {served.keys['known_hosts']}"
    environment = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    command = [FPSYNC or "", "-m", "rsync", "-T", str(tool), "-n", "2", "-f", "10", "-t", str(tmp_path / "state")]
    command += ["-o", f"-lptgoD --numeric-ids {keys}", f"{source}/", served.url]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    logs = "".join(path.read_text() for path in (tmp_path / "state" / "log").rglob("*.stderr"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    assert subprocess.run(["diff", "-r", "--no-dereference", source, served.root]).returncode == 0
    # Five parts at least: fpsync had fobs run side by side.
    assert len(list((tmp_path / "state" / "log").rglob("*.stdout"))) >= 5


def test_the_tool_says_what_is_missing(tool: Path, tmp_path: Path) -> None:
    (tool.parent / "fobs").unlink()
    done = subprocess.run([tool, "a", "b"], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1 and "put it on the PATH" in done.stderr
