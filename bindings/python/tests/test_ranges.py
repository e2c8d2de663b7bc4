"""Large files that come to a cluster's destination in ranges: what they get of their directory, and what stays."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fobs.cluster import transfer

from .conftest import Served

pytest.importorskip("distributed")

MIB = 1 << 20
#: A group that nobody is in.
GROUP = 54321
DEFAULT_ACL, ACL = "system.posix_acl_default", "system.posix_acl_access"


def default_acl() -> bytes:
    """Another user may read and write, the group read, others nothing: as setfacl writes it."""
    entries = [(1, 7, -1), (2, 6, GROUP), (4, 5, -1), (0x10, 7, -1), (0x20, 0, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)


def gives_to_all(directory: Path) -> None:
    """Makes a directory that has something to give: an ACL, and as root a group."""
    directory.mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(directory, -1, GROUP)
    directory.chmod(0o2775)
    try:
        os.setxattr(directory, DEFAULT_ACL, default_acl())
    except OSError:
        # A file system without ACLs has the group.
        return


def got(path: Path) -> tuple[int, int, bytes | None]:
    found = path.stat()
    acl = os.getxattr(path, ACL) if ACL in os.listxattr(path) else None
    return found.st_gid, found.st_mode, acl


def ours_below(top: Path) -> list[str]:
    return [name for _, directories, files in os.walk(top) for name in directories + files if ".fobs" in name]


def make_large(served: Served, name: str = "d/large", mode: int = 0o640) -> Path:
    large = served.root / name
    large.parent.mkdir(exist_ok=True)
    large.write_bytes(os.urandom(MIB) * 70 + b"end")
    large.chmod(mode)
    return large


@pytest.mark.parametrize("mode", [0o640, 0o755, 0o400])
def test_ranges_get_what_their_directory_gives(served: Served, tmp_path: Path, mode: int) -> None:
    large, there = make_large(served, mode=mode), tmp_path / "there"
    gives_to_all(there / "d")
    # Before: at the end the directory itself gets the mode of the source's.
    by_hand = there / "d" / "by hand"
    by_hand.touch()
    by_hand.chmod(mode)
    transfer(served.url, there, **served.keys)
    assert got(there / "d" / "large") == got(by_hand)
    assert (there / "d" / "large").read_bytes() == large.read_bytes()
    assert ours_below(there) == []


@pytest.mark.parametrize("name", ["large", "new/large", "d/" + "é" * 127, "d/.fobs-abcdef"])
def test_a_new_directory_passes_on_what_its_parent_gives(served: Served, tmp_path: Path, name: str) -> None:
    make_large(served, name)
    there = tmp_path / "there"
    gives_to_all(there)
    by_hand = there / "by hand"
    by_hand.touch()
    by_hand.chmod(0o640)
    transfer(served.url, there, **served.keys)
    assert got(there / name) == got(by_hand)
    assert set(os.listdir((there / name).parent)) - {"by hand"} == {os.path.basename(name)}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")
def test_a_large_file_comes_into_another_file_system(served: Served, tmp_path: Path) -> None:
    large, there = make_large(served), tmp_path / "there"
    (there / "d").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "none", there / "d"], check=True)
    try:
        transfer(served.url, there, **served.keys)
        assert (there / "d" / "large").read_bytes() == large.read_bytes()
        assert ours_below(there) == []
    finally:
        subprocess.run(["umount", there / "d"], check=True)


def stopped(served: Served, there: Path) -> None:
    def stop(progress: Any) -> None:
        if progress.bytes > 8 * MIB:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        transfer(served.url, there, progress=stop, rate=80_000_000, **served.keys)


def test_ranges_of_a_file_that_changed_do_not_stay(served: Served, tmp_path: Path) -> None:
    large, there = make_large(served), tmp_path / "there"
    stopped(served, there)
    # Its earlier ranges are of no use to anybody.
    large.write_bytes(os.urandom(MIB) * 66)
    transfer(served.url, there, **served.keys)
    assert (there / "d" / "large").read_bytes() == large.read_bytes()
    assert ours_below(there) == []


def test_ranges_go_on_and_their_file_is_no_file_of_the_tree(served: Served, tmp_path: Path) -> None:
    large, there = make_large(served), tmp_path / "there"
    stopped(served, there)
    unfinished = [path for path in (there / "d").iterdir() if path.name.endswith(path.name[1:7])]
    assert len(unfinished) == 1 and unfinished[0].stat().st_mode & 0o7777 == 0o1600
    # Who copies the destination meanwhile does not get it.
    transfer(there, served.url + "elsewhere", **served.keys)
    assert list((served.root / "elsewhere" / "d").iterdir()) == []
    shutil.rmtree(served.root / "elsewhere")
    result = transfer(served.url, there, **served.keys)
    assert result.resumed_bytes > 0 and (there / "d" / "large").read_bytes() == large.read_bytes()
    assert ours_below(there) == []


def test_a_file_that_another_user_put_there_is_not_written(served: Served, tmp_path: Path) -> None:
    make_large(served)
    there = tmp_path / "there"
    stopped(served, there)
    (unfinished,) = (path for path in (there / "d").iterdir() if path.name.endswith(path.name[1:7]))
    unfinished.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"of somebody else")
    # A link that leads to it, and one more name of it.
    for plant in (os.symlink, os.link):
        plant(elsewhere, unfinished)
        with pytest.raises(OSError):
            transfer(served.url, there, **served.keys)
        assert elsewhere.read_bytes() == b"of somebody else"
        unfinished.unlink()
