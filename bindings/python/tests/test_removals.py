"""What is never removed."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("fsspec")

import fobs  # noqa: E402
from fobs.fsspec import FobsFileSystem, FobsSshFileSystem  # noqa: E402

from .conftest import Served  # noqa: E402

TOPS = ["/", "", ".", "//", "/.", "./", "/./", "fobs+ssh://host/", "fobs+ssh://host", "host:/", ["/x", "/"], ["", "/x"]]


@pytest.mark.parametrize("more", [{}, {"maxdepth": 1}])
@pytest.mark.parametrize("name", TOPS)
def test_no_whole_host_is_emptied(name: Any, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # No host is asked: what would be removed is noted here.
    removed: list[str] = []
    fs = FobsSshFileSystem("host", skip_instance_cache=True)

    async def entry(path: str) -> fobs.Entry:
        return fobs.Entry(path, "directory", 0, 0, 0o755)

    async def listed(path: str) -> list[fobs.Entry]:
        return [fobs.Entry("inner", "directory", 0, 0, 0o755)]

    async def below(path: str, depth: int | None) -> list[fobs.Entry]:
        return await listed(path)

    async def gone(path: str, tree: bool, may_be_full: bool = False) -> None:
        removed.append(path)

    for attribute, value in (("_entry", entry), ("_listed", listed), ("_below", below), ("_gone", gone)):
        monkeypatch.setattr(fs, attribute, value)
    with pytest.raises(fobs.UsageError, match="whole host"):
        fs.rm(name, recursive=True, **more)
    assert removed == []
    fs.rm("/x", recursive=True, **more)
    assert removed[-1] == "/x"


@pytest.mark.parametrize("name", ["/", "", "//"])
def test_the_directory_that_is_served_is_emptied_and_stays(name: str, served: Served) -> None:
    keys = {key: str(path) for key, path in served.keys.items()}
    fs = FobsFileSystem("127.0.0.1", served.port, skip_instance_cache=True, **keys)
    fs.pipe({"/a": b"1", "/d/b": b"2"})
    with pytest.raises(OSError):
        fs.rm(name)
    assert sorted(os.listdir(served.root)) == ["a", "d"]
    fs.rm(name, recursive=True)
    assert os.listdir(served.root) == []
    fs.close()
