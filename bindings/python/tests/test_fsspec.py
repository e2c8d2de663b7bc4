"""fsspec's own suites, and what is ours beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

import fsspec.tests.abstract as abstract  # noqa: E402
from fsspec.implementations.local import LocalFileSystem  # noqa: E402

from fobs.fsspec import FobsFileSystem, FobsSshFileSystem  # noqa: E402

from .conftest import Served  # noqa: E402


@pytest.fixture(scope="module")
def one_fs(shared: Served) -> Iterator[FobsFileSystem]:
    keys = {name: str(path) for name, path in shared.keys.items()}
    fs = FobsFileSystem("127.0.0.1", shared.port, skip_instance_cache=True, **keys)
    yield fs
    fs.close()


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, one_fs: FobsFileSystem) -> FobsFileSystem:
        return one_fs

    @pytest.fixture
    def fs_path(self, fs: FobsFileSystem, tmp_path: Path) -> str:
        name = f"/{tmp_path.name}"
        fs.makedirs(name, exist_ok=True)
        return name

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return True


class TestGet(Fixtures, abstract.AbstractGetTests):  # type: ignore[misc]
    pass


class TestPut(Fixtures, abstract.AbstractPutTests):  # type: ignore[misc]
    pass


class TestCopy(Fixtures, abstract.AbstractCopyTests):  # type: ignore[misc]
    pass


class TestPipe(Fixtures, abstract.AbstractPipeTests):  # type: ignore[misc]
    pass


class TestOpen(Fixtures, abstract.AbstractOpenTests):  # type: ignore[misc]
    pass


@pytest.fixture
def fs(served: Served) -> Iterator[Any]:
    keys = {name: str(path) for name, path in served.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    yield fs
    fs.close()


def test_urls_find_the_file_system(served: Served, fs: Any) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}
    fs.pipe("/d/file", b"0123456789")
    with fsspec.open(f"fobs://127.0.0.1:{served.port}/d/file", **keys) as file:
        file.seek(3)
        assert file.read(4) == b"3456"
    assert FobsFileSystem._get_kwargs_from_urls("fobs://[::1]:5/a") == {"host": "::1", "port": 5}
    assert FobsFileSystem._strip_protocol("fobs://h:1/a/b/") == "h:1/a/b"
    assert FobsSshFileSystem._get_kwargs_from_urls("fobs+ssh://me@h/a") == {"host": "h", "user": "me"}


def test_parts_of_files_are_read(fs: Any, served: Served) -> None:
    data = bytes(range(256)) * 1000
    fs.pipe("/file", data)
    assert fs.cat_file("/file", 10, 20) == data[10:20]
    assert fs.cat_file("/file", -10) == data[-10:]
    assert fs.cat_file("/file", 5, -5) == data[5:-5]
    assert fs.cat_ranges(["/file"] * 8, range(0, 8000, 1000), range(100, 8100, 1000)) == [
        data[at : at + 100] for at in range(0, 8000, 1000)
    ]
    assert fs.info("/file")["size"] == len(data) and fs.isfile("/file") and fs.isdir("/")
    assert fs.find("/") == ["/file"] and fs.ls("/file", detail=False) == ["/file"]


def test_a_written_file_is_delivered_at_its_end_or_raises(fs: Any, served: Served) -> None:
    for length in (10, 3_000_000):
        with fs.open("/written", "wb") as file:
            file.write(b"z" * length)
            if length == 10:
                assert not (served.root / "written").exists()
        assert (served.root / "written").stat().st_size == length
    served.authorize("read-only")
    file = fs.open("/denied", "wb")
    file.write(b"x")
    with pytest.raises(PermissionError):
        file.close()
    with pytest.raises(ValueError):
        fs.open("/written", "r+b")


def test_a_tree_is_one_transfer(fs: Any, served: Served, tmp_path: Path) -> None:
    for number in range(200):
        path = tmp_path / "tree" / f"{number % 7}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]))
    fs.put(str(tmp_path / "tree"), "/there", recursive=True)
    requests = (served.directory / "log").read_text().splitlines()
    assert sum("push to '/there' (key exchange" in line for line in requests) == 1
    fs.get("/there", str(tmp_path / "back"), recursive=True)
    assert LocalFileSystem().find(str(tmp_path / "back")) == [
        path.replace("/tree/", "/back/") for path in LocalFileSystem().find(str(tmp_path / "tree"))
    ]


def test_over_ssh_too(ssh: dict[str, Any], tmp_path: Path) -> None:
    options = {name: str(value) for name, value in ssh.items()}
    with fsspec.open(f"fobs+ssh://far{tmp_path}/file", "wb", **options) as file:
        file.write(b"by ssh")
    assert (tmp_path / "file").read_bytes() == b"by ssh"
