"""What every release of this major version serves: `scripts/old-and-new.sh` runs it with the newest one as server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fobs

from .conftest import Served

Content = Callable[[int], bytes]


@pytest.mark.parametrize("length", [0, 1000, 65_537, 3_000_000])
def test_an_object_goes_there_and_back(session: fobs.Session, served: Served, content: Content, length: int) -> None:
    data, room = content(length), bytearray(length)
    session.put_bytes("x", data)
    assert (served.root / "x").read_bytes() == data
    assert session.get_bytes("x") == data
    assert session.get_into("x", room) == length and bytes(room) == data
    assert session.get_range("x", 3, 500) == data[3:503]


@pytest.mark.parametrize("length", [1000, 3_000_000])
def test_an_object_of_more_than_the_room_is_refused(
    session: fobs.Session, served: Served, content: Content, length: int
) -> None:
    (served.root / "x").write_bytes(content(length))
    with pytest.raises(fobs.UsageError, match=str(length - 1)):
        session.get_bytes("x", max_bytes=length - 1)
    with pytest.raises(fobs.UsageError):
        session.get_into("x", bytearray(length - 1))


@pytest.mark.parametrize("length", [1000, 3_000_000])
def test_parts_of_a_file_that_changed_are_refused(
    session: fobs.Session, served: Served, content: Content, length: int
) -> None:
    path, data = served.root / "x", content(length)
    path.write_bytes(data)
    opened = session.stat("x")
    assert session.get_range("x", 1, length, opened=opened) == data[1:]
    path.write_bytes(data + b"more")
    with pytest.raises(fobs.FileError, match="changed since it was opened"):
        session.get_range("x", 1, length, opened=opened)


def test_a_file_system_reads_and_compares(served: Served, content: Content) -> None:
    fsspec = pytest.importorskip("fsspec")
    keys = {name: str(path) for name, path in served.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    path, data = served.root / "x", content(250_000)
    path.write_bytes(data)
    assert fs.cat("/x") == data and fs.cat_file("/x", 5, 9) == data[5:9]
    with fs.open("/x", block_size=100, cache_type="none") as file:
        assert file.read(10) == data[:10]
        path.unlink()
        path.write_bytes(data[1:])
        with pytest.raises(fobs.FileError, match="changed since it was opened"):
            file.read(10)
    fs.close()
