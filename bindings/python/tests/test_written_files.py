"""Files that are written through fsspec: delivered whole, or not at all, and it is said."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fobs

fsspec = pytest.importorskip("fsspec")

from .conftest import Served  # noqa: E402


class Mine(Exception):
    pass


@pytest.fixture
def fs(served: Served) -> Iterator[Any]:
    keys = {name: str(path) for name, path in served.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    yield fs
    fs.close()


@pytest.fixture
def good(served: Served) -> Path:
    path = served.root / "good"
    path.write_bytes(b"good")
    return path


def opened(served: Served, mode: str, **more: Any) -> Any:
    keys = {name: str(path) for name, path in served.keys.items()}
    return fsspec.open(f"fobs://127.0.0.1:{served.port}/good", mode, **keys, **more)


@pytest.mark.parametrize("length", [3, 8_000_000])
@pytest.mark.parametrize("mode", ["wb", "w", "ab"])
def test_an_exception_discards(fs: Any, good: Path, mode: str, length: int) -> None:
    with pytest.raises(Mine), fs.open("/good", mode) as file:
        file.write("x" * length if mode == "w" else b"x" * length)
        raise Mine
    assert good.read_bytes() == b"good" and os.listdir(good.parent) == ["good"]


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}])
@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_an_exception_discards_in_what_fsspec_opens(
    served: Served, good: Path, mode: str, options: dict[str, Any]
) -> None:
    with pytest.raises(Mine), opened(served, mode, **options) as file:
        file.write("x" if mode == "wt" else b"x")
        raise Mine
    assert good.read_bytes() == b"good"
    with opened(served, mode, **options) as file:
        file.write("new" if mode == "wt" else b"new")
    assert good.read_bytes() != b"good"


def test_an_exception_discards_through_other_contexts(fs: Any, good: Path) -> None:
    with pytest.raises(Mine), closing(fs.open("/good", "wb")) as file:
        file.write(b"x")
        raise Mine
    file = fs.open("/good", "wb")
    with pytest.warns(fobs.NoticeWarning, match="discarded"):
        try:
            file.write(b"x")
            raise Mine
        except Mine:
            file.close()
    assert good.read_bytes() == b"good"
    try:
        raise Mine
    except Mine:
        # What was handled before it was opened has nothing to do with it.
        with fs.open("/good", "wb") as file:
            file.write(b"new")
    assert good.read_bytes() == b"new"


@pytest.mark.parametrize("mode", ["wb", "w", "gzip", "OpenFile"])
def test_the_collector_never_delivers(fs: Any, served: Served, good: Path, mode: str) -> None:
    if mode == "OpenFile":
        file = opened(served, "wt").open()
    elif mode == "gzip":
        file = fs.open("/good", "wb", compression="gzip")
    else:
        file = fs.open("/good", mode)
    file.write("x" if mode in ("w", "OpenFile") else b"x")
    del file
    gc.collect()
    assert good.read_bytes() == b"good"


def test_a_script_with_an_open_file_ends(served: Served, good: Path) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}
    program = f"""
import fsspec
fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **{keys!r})
fs.exists("/good")
held = [fs.open("/good", mode) for mode in ("wb", "w")]
held[0].write(b"x"), held[1].write("x")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert good.read_bytes() == b"good"


def test_a_write_that_failed_spoils_the_file(fs: Any, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fs.open("/good", "wb")
    file.write(b"x" * 1000)
    full = OSError(28, "No space left on device")

    class Full:
        def write(self, _: Any) -> int:
            raise full

        def __getattr__(self, name: str) -> Any:
            return getattr(spool, name)

    spool, file._spool = file._spool, Full()
    with pytest.raises(OSError, match="No space"):
        file.write(b"y" * 1000)
    file._spool = spool
    file.write(b"z" * 1000)
    with pytest.raises(fobs.FileError, match="a write to it failed"):
        file.close()
    assert good.read_bytes() == b"good"


@pytest.mark.parametrize("compression", [None, "gzip", "bz2"])
def test_a_delivery_that_fails_is_raised(fs: Any, served: Served, good: Path, compression: str | None) -> None:
    for mode in ("wb", "w"):
        file = fs.open("/good", mode, compression=compression)
        file.write("x" if mode == "w" else b"x")
        served.authorize("read-only")
        with pytest.raises(PermissionError):
            file.close()
        served.authorize("read-write")
    assert good.read_bytes() == b"good"
    with fs.open("/good", "wb", compression=compression) as file:
        file.write(b"new" * 1000)
    with fs.open("/good", "rb", compression=compression) as file:
        assert file.read() == b"new" * 1000
    if compression == "gzip":
        assert gzip.decompress(good.read_bytes()) == b"new" * 1000


def test_a_transaction_commits_or_leaves_nothing(fs: Any, served: Served, good: Path, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"put")
    for fails in (True, False):
        try:
            with fs.transaction:
                fs.pipe_file("/good", b"piped")
                fs.put_file(str(tmp_path / "here"), "/put")
                fs.cp_file("/good", "/copied")
                with fs.open("/opened", "wb") as file:
                    file.write(b"opened")
                assert good.read_bytes() == b"good" and not (served.root / "opened").exists()
                if fails:
                    raise Mine
        except Mine:
            pass
        names = sorted(os.listdir(served.root))
        assert names == (["good"] if fails else ["copied", "good", "opened", "put"])
    contents = {name: (served.root / name).read_bytes() for name in ("good", "put", "copied", "opened")}
    assert contents == {"good": b"piped", "put": b"put", "copied": b"good", "opened": b"opened"}
    fs.pipe_file("/after", b"at once")
    assert (served.root / "after").exists()


def test_a_transaction_refuses_what_it_cannot_take_back(fs: Any, served: Served, good: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/x").write_bytes(b"x")
    fs.pipe_file("/d/x", b"x")
    for root in (tmp_path, served.root):
        (root / "link").symlink_to("nowhere")
    before = sorted(str(path) for path in served.root.rglob("*"))
    for act in (
        lambda: fs.rm("/good"), lambda: fs.rm("/d", recursive=True), lambda: fs.rm_file("/good"), lambda: fs.rmdir("/d"),
        lambda: fs.mv("/good", "/bad"), lambda: fs.put(str(tmp_path / "tree"), "/t", recursive=True),
        lambda: fs.cp("/d", "/t", recursive=True), lambda: fs.touch("/good", truncate=False),
        lambda: fs.put_file(str(tmp_path / "link"), "/l"), lambda: fs.cp_file("/link", "/l"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="transaction"), fs.transaction:
            act()
    assert sorted(str(path) for path in served.root.rglob("*")) == before
    fs.rm("/d", recursive=True)


@pytest.mark.parametrize("how", ["wb", "w", "gzip"])
def test_a_block_that_ends_well_delivers_while_another_error_is_handled(fs: Any, good: Path, how: str) -> None:
    more = {"compression": "gzip"} if how == "gzip" else {}
    mode = "wb" if how == "gzip" else how
    file = fs.open("/good", mode, **more)
    try:
        raise Mine
    except Mine:
        with file:
            file.write("new" if mode == "w" else b"new")
    content = good.read_bytes()
    assert (gzip.decompress(content) if how == "gzip" else content) == b"new"


@pytest.mark.parametrize("how", ["pipe", "open", "put", "mkdir", "session"])
def test_of_eight_that_make_one_name_one_does(served: Served, how: str, tmp_path: Path) -> None:
    won: list[int] = []
    failures: list[BaseException] = []
    ready = threading.Barrier(8)
    keys = {name: str(path) for name, path in served.keys.items()}
    for number in range(8):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)

    def work(number: int) -> None:
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
        try:
            fs.exists("/one")
            ready.wait(60)
            if how == "pipe":
                fs.pipe_file("/one", b"%d" % number, mode="create")
            elif how == "open":
                with fs.open("/one", "xb") as file:
                    file.write(b"%d" % number)
            elif how == "put":
                fs.put_file(str(tmp_path / f"{number}"), "/one", mode="create")
            elif how == "mkdir":
                fs.mkdir("/one")
            else:
                with served.open() as session:
                    session.mkdir("one", parents=True)
            won.append(number)
        except FileExistsError:
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            fs.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and len(won) == 1
    assert os.listdir(served.root) == ["one"]
    if how in ("pipe", "open", "put"):
        assert (served.root / "one").read_bytes() == b"%d" % won[0]


def test_what_failed_in_part_delivers_nothing_later(served: Served, tmp_path: Path) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}
    slow = fsspec.filesystem(
        "fobs", host="127.0.0.1", port=served.port, rate=4_000_000, skip_instance_cache=True, **keys
    )
    (served.root / "taken").mkdir()
    (tmp_path / "here").write_bytes(bytes(1_000_000))
    with pytest.raises(OSError):
        slow.pipe({"/taken": b"", "/late": bytes(1_000_000)})
    with pytest.raises(OSError):
        slow.put([str(tmp_path / "here"), str(tmp_path / "none")], ["/late", "/none"])
    time.sleep(4)
    assert sorted(name for name in os.listdir(served.root) if not name.startswith(".")) == ["taken"]
    slow.close()


def test_a_file_is_appended_to_and_touched(fs: Any, served: Served, good: Path) -> None:
    with fs.open("/good", "ab") as file:
        assert file.tell() == 4
        file.write(b" more")
    assert good.read_bytes() == b"good more"
    with fs.open("/new", "a") as file:
        file.write("text")
    assert (served.root / "new").read_bytes() == b"text"
    file = fs.open("/good", "ab")
    file.write(b"!")
    good.write_bytes(b"another")
    with pytest.raises(OSError, match="changed"):
        file.close()
    os.utime(good, (1, 1))
    fs.touch("/good", truncate=False)
    assert good.read_bytes() == b"another" and good.stat().st_mtime > 1
    fs.touch("/good")
    fs.touch("/made", truncate=False)
    assert good.read_bytes() == b"" and (served.root / "made").exists()


def test_what_comes_of_a_generator_is_written(fs: Any, served: Served) -> None:
    fs.pipe_file("/made", (b"%d," % number for number in range(1000)))
    assert (served.root / "made").read_bytes().startswith(b"0,1,2,")
    with pytest.raises(TypeError):
        fs.pipe_file("/made", "text")
    # One that reads from the same file system while it is written.
    with fs.open("/made", "rb") as file:
        fs.pipe_file("/copied", iter(lambda: file.read(1000), b""))
    assert (served.root / "copied").read_bytes() == (served.root / "made").read_bytes()
    fs.pipe({"/one": iter([b"1"]), "/two": (fs.cat_file("/copied") for _ in range(2)), "/none": iter([])})
    assert (served.root / "none").read_bytes() == b""

    def fails() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise Mine

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"%d" % number

    with pytest.raises(Mine):
        fs.pipe_file("/made", fails())
    assert (served.root / "made").read_bytes().startswith(b"0,1,2,")
    fs.pipe_file("/async", pieces())
    assert (served.root / "async").read_bytes() == b"012"


def test_text_of_any_encoding_is_read_back(fs: Any) -> None:
    for encoding in ("utf-8", "utf-16", "utf-8-sig"):
        with fs.open("/text", "w", encoding=encoding, newline="") as file:
            for line in range(3):
                file.write(f"é{line}\n")
        assert fs.read_bytes("/text") == "é0\né1\né2\n".encode(encoding)
        with fs.open("/text", "r", encoding=encoding) as file:
            assert file.read() == "é0\né1\né2\n"


def full(_: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_files_are_written_and_read_by_coroutines(served: Served) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}

    async def all_of_it() -> None:
        fs = fsspec.filesystem(
            "fobs", host="127.0.0.1", port=served.port, asynchronous=True, skip_instance_cache=True, **keys
        )
        async with await fs.open_async("/file", "wb") as file:
            await file.write(b"12345")
        async with await fs.open_async("/file", "rb") as file:
            assert await file.read(2) + await file.read() == b"12345"
        with pytest.raises(Mine):
            async with await fs.open_async("/file", "wb") as file:
                await file.write(b"x" * 10_000_000)
                raise Mine
        file = await fs.open_async("/file", "wb")
        with pytest.MonkeyPatch.context() as patch:
            await file.write(b"y" * 6_000_000)
            patch.setattr(file._spool, "write", full)
            with pytest.raises(OSError, match="No space"):
                await file.write(b"y" * 6_000_000)
        with pytest.raises(fobs.FileError, match="a write to it failed"):
            await file.close()
        with pytest.raises(FileExistsError):
            async with await fs.open_async("/file", "xb") as file:
                await file.write(b"x")
        assert await fs._cat_file("/file") == b"12345"
        async with await fs.open_async("/file", "ab") as file:
            assert file.tell() == 5
            await file.write(b"67")
        file = await fs.open_async("/file", "ab", block_size=4)
        (served.root / "file").write_bytes(b"another")
        await file.write(b"89")
        with pytest.raises(OSError, match="changed"):
            await file.close()
        assert await fs._cat_file("/file") == b"another"
        (served.root / "file").unlink()
        fs.close()

    # A loop each: what one used is not another's.
    asyncio.run(all_of_it())
    asyncio.run(all_of_it())


def test_what_is_no_ordinary_file_is_right_or_refused(fs: Any, served: Served, tmp_path: Path, ssh: Any) -> None:
    os.mkfifo(tmp_path / "fifo")
    os.mkfifo(served.root / "fifo")
    with pytest.raises(fobs.UsageError, match="regular"):
        fs.put_file(str(tmp_path / "fifo"), "/x")
    for act in (lambda: fs.cat_file("/fifo"), lambda: fs.open("/fifo", "rb"), lambda: fs.cp_file("/fifo", "/y")):
        with pytest.raises(fobs.UsageError, match="regular"):
            act()
    fs.put_file("/proc/self/status", "/status")
    assert b"VmRSS" in (served.root / "status").read_bytes()
    far = fsspec.filesystem("fobs+ssh", host="far", skip_instance_cache=True, **{n: str(v) for n, v in ssh.items()})
    assert b"processor" in far.cat_file("/proc/cpuinfo")
    with far.open("/proc/cpuinfo", "rb") as file:
        assert b"processor" in file.read()
    far.get_file("/proc/cpuinfo", str(tmp_path / "cpus"))
    assert b"processor" in (tmp_path / "cpus").read_bytes()
    version = Path("/proc/version").read_bytes()
    assert far.cat_file("/proc/version", -5) == version[-5:] and far.cat_file("/proc/version", 3, -5) == version[3:-5]
    assert asyncio.run(awaited(far, "/proc/version")) == version
    with fobs.Session("far:/", **ssh) as session:
        room = bytearray(len(version) + 10)
        assert session.get_into("proc/version", room) == len(version) and room.startswith(version)
        assert session.get_bytes("proc/version") == version
        with pytest.raises(OSError, match="longer"):
            session.get_bytes("proc/version", 5)
    # An error in the middle is not the end (sshfs 224).
    for act in (lambda: far.cat_file("/proc/self/mem"), lambda: far.get_file("/proc/self/mem", str(tmp_path / "mem"))):
        with pytest.raises(OSError):
            act()
    assert not (tmp_path / "mem").exists()
    far.close()


async def awaited(fs: Any, path: str) -> bytes:
    """A file by :meth:`open_async`, in two reads."""
    own = type(fs)(**{**fs.storage_options, "asynchronous": True, "skip_instance_cache": True})
    file = await own.open_async(path, "rb")
    found = await file.read(4) + await file.read()
    await file.close()
    own.close()
    return bytes(found)


def test_a_full_disk_is_tried_once(fs: Any, served: Served, tmp_path: Path) -> None:
    served.authorize('read-write,path="d"')
    (served.root / "d").mkdir()
    (tmp_path / "here").write_bytes(b"x" * 100_000)
    before = (served.directory / "log").read_text().count("push to")
    with pytest.raises(PermissionError):
        fs.put_file(str(tmp_path / "here"), "/elsewhere")
    with pytest.raises(OSError):
        fs.put_file(str(tmp_path / "here"), "/d")
    time.sleep(0.2)
    assert (served.directory / "log").read_text().count("push to") - before <= 2
