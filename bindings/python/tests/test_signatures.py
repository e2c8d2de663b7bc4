"""Each call of fsspec is ours by the same parameters, by their names and by their places."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.asyn import AsyncFileSystem  # noqa: E402
from fsspec.spec import AbstractFileSystem  # noqa: E402

import fobs  # noqa: E402
from fobs.fsspec import FobsFileSystem  # noqa: E402

from .conftest import Served  # noqa: E402

# Those of whole classes, and what is said of one object alone.
OTHERS = {"current", "clear_instance_cache", "from_json", "from_dict", "__init__"}


@pytest.fixture
def fs(served: Served) -> Iterator[Any]:
    keys = {name: str(path) for name, path in served.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    yield fs
    fs.close()


def parameters(call: Any) -> list[inspect.Parameter]:
    found = inspect.signature(call).parameters.values()
    return [one for one in found if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self"]


def calls(base: type) -> list[str]:
    is_async = base is AsyncFileSystem
    return [
        name
        for name, call in inspect.getmembers(base, inspect.isfunction)
        if name not in OTHERS
        and (not name.startswith("_") or (is_async and (inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call))))
    ]


@pytest.mark.parametrize("base", [AbstractFileSystem, AsyncFileSystem])
def test_each_parameter_of_fsspec_is_known_by_its_name_and_place(base: type, fs: Any) -> None:
    checked = 0
    for name in calls(base):
        theirs, ours = getattr(base, name), getattr(fs, name)
        own = parameters(ours)
        known = {one.name: one for one in own}
        # A blocking twin takes its arguments by the names that fsspec gives their places.
        places = list(getattr(ours, "_places", ())) or [one.name for one in own]
        for at, one in enumerate(parameters(theirs)):
            assert one.name in known or one.name == "max_gap", (name, one.name)
            assert places[at] == one.name, (name, one.name, places)
            if one.default is not one.empty and one.name in known:
                assert known[one.name].default == one.default, (name, one.name)
            checked += 1
    assert checked > 80


def test_the_third_argument_of_each_call_means_what_fsspec_says(fs: Any, served: Served, tmp_path: Path) -> None:
    # By its coroutine's order `rm` takes it for the size of a batch, and removes all levels.
    fs.pipe({"/d/x": b"1", "/d/sub/deep/y": b"2"})
    fs.rm("/d", True, 1)
    assert fs.find("/d") == ["/d/sub/deep/y"]
    fs.pipe("/d/z", b"3")
    fs.copy("/d", "/copy", True, 1)
    assert fs.find("/copy") == ["/copy/z"]
    (tmp_path / "here").write_bytes(b"here")
    sizes: list[int] = []
    callback = type("Told", (fsspec.callbacks.Callback,), {"set_size": lambda self, size: sizes.append(size)})()
    fs.put_file(str(tmp_path / "here"), "/there", callback)
    fs.get_file("/there", str(tmp_path / "back"), callback)
    assert set(sizes) == {4} and len(sizes) > 1
    with (tmp_path / "out").open("wb") as out:
        fs.get_file("/there", outfile=out)
        fs.get_file("/there", str(tmp_path / "not"), callback, out)
    assert (tmp_path / "out").read_bytes() == b"herehere" and not (tmp_path / "not").exists()
    with pytest.raises(fobs.UsageError, match="nowhere"):
        fs.get_file("/there")
    with pytest.raises(TypeError, match="several values"):
        fs.rm("/d", True, recursive=True)
    assert fs.cat_ranges(["/there"] * 2, [0, 1], [2, 3]) == [b"he", b"er"]


@pytest.mark.parametrize("form", ["file", "directory", "list", "pattern", "bytes"])
def test_what_is_created_replaces_nothing_in_any_form(form: str, fs: Any, served: Served, tmp_path: Path) -> None:
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/empty").mkdir()
    (tmp_path / "tree/link").symlink_to("sub")
    for name in ("x", "sub/y"):
        (tmp_path / "tree" / name).write_bytes(b"new")
    here = str(tmp_path / "tree")

    def put(to: str, mode: str) -> None:
        if form == "file":
            fs.put(f"{here}/x", f"{to}/x", mode=mode)
        elif form == "directory":
            fs.put(f"{here}/", f"{to}/", recursive=True, mode=mode)
        elif form == "list":
            fs.put([f"{here}/x"], [f"{to}/x"], mode=mode)
        elif form == "pattern":
            fs.put(f"{here}/*", f"{to}/", mode=mode)
        else:
            fs.pipe({f"{to}/x": b"new"}, mode=mode)

    (served.root / "to").mkdir()
    (served.root / "to/x").write_bytes(b"good")
    with pytest.raises(FileExistsError):
        put("/to", "create")
    for mode in ("x", "append", "wb"):
        with pytest.raises(ValueError):
            put("/to", mode)
    assert (served.root / "to/x").read_bytes() == b"good"
    put("/fresh", "create")
    assert (served.root / "fresh/x").read_bytes() == b"new"
    if form == "directory":
        assert sorted(os.listdir(served.root / "fresh")) == ["empty", "link", "sub", "x"]
        assert os.readlink(served.root / "fresh/link") == "sub"
    put("/to", "overwrite")
    assert (served.root / "to/x").read_bytes() == b"new"


def test_coroutines_keep_the_order_of_theirs(served: Served) -> None:
    async def work() -> None:
        fs = FobsFileSystem(
            "127.0.0.1", served.port, asynchronous=True, skip_instance_cache=True, **served.keys
        )
        await fs._pipe_file("/x", b"1")
        with pytest.raises(FileExistsError):
            await fs._pipe_file("/x", b"2", "create")
        await fs._put_file(__file__, "/y", "create")
        with pytest.raises(FileExistsError):
            await fs._put_file(__file__, "/y", "create")
        await fs._rm("/x", False, 10)
        assert not await fs._exists("/x")
        fs.close()

    asyncio.run(work())
