"""What a file that is written keeps here until it is delivered: lengths, and forks."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

import fobs  # noqa: E402
from fobs._files import spool  # noqa: E402

from .conftest import Served  # noqa: E402

PIECE = 100_000


@pytest.fixture(params=["memory", "file"])
def fs(request: pytest.FixtureRequest, served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What is written is kept in memory, or in a file soon."""
    if request.param == "file":
        monkeypatch.setattr(spool, "SPOOL_MAX", PIECE // 2)
    keys = {name: str(path) for name, path in served.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    yield fs
    fs.close()


def test_a_writer_does_what_a_file_of_this_host_does(fs: Any, served: Served, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")

    def write(file: Any) -> list[int]:
        said = [file.write(b"a" * PIECE), file.write(numpy.arange(10.0)), file.write(numpy.empty(0))]
        said += [file.write(numpy.empty((0, 3))), file.write(memoryview(b"")), file.seek(10), file.write(b"b" * 5)]
        said += [file.tell(), file.truncate(2 * PIECE), file.tell(), file.seek(0, 2), file.write(b"c")]
        said += [file.truncate(PIECE + 7), file.seek(PIECE - 1), file.write(b"d" * PIECE), file.truncate(), file.tell()]
        return said + [file.seek(3 * PIECE), file.write(b"e"), file.truncate(3 * PIECE + 1)]

    with (tmp_path / "here").open("wb", buffering=0) as here, fs.open("/there", "wb") as there:
        assert write(there) == write(here)
    assert (served.root / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_what_is_not_committed_is_not_delivered(fs: Any, served: Served, compression: str | None) -> None:
    def written(data: bytes) -> Any:
        file = fs.open("/x", "wb", autocommit=False, compression=compression)
        file.write(data)
        file.close()
        return file

    def content() -> bytes:
        with fs.open("/x", "rb", compression=compression) as file:
            return bytes(file.read())

    with fs.open("/x", "wb", compression=compression) as file:
        file.write(b"good")
    file = written(b"new" * PIECE)
    assert content() == b"good"
    file.commit()
    assert content() == b"new" * PIECE
    with pytest.raises(fobs.UsageError, match="nothing to commit"):
        file.commit()
    written(b"discarded").discard()
    written(b"collected")
    file = fs.open("/x", "wb", autocommit=False)
    with pytest.raises(fobs.UsageError, match="close it first"):
        file.commit()
    file.discard()
    gc.collect()
    assert content() == b"new" * PIECE


ENDS = {
    "unwinds": "raise SystemExit",
    "ends at once": "os._exit(0)",
    "collects": "del file; gc.collect(); os._exit(0)",
    "writes": "file.write(b'of the child')",
    "seeks and writes": "file.seek(0); file.write(b'of the child')",
    "closes": "file.close()",
    "goes on": "pass",
}


@pytest.mark.parametrize("mode", ["wb", "w", "gzip"])
@pytest.mark.parametrize("kept", ["memory", "file"])
def test_a_forked_child_neither_delivers_nor_disturbs(served: Served, mode: str, kept: str) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}
    program = f"""
        import fsspec, gc, os, sys
        from fobs._files import spool
        if {kept!r} == "file":
            spool.SPOOL_MAX = 1000
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **{keys!r})
        whole = {{"compression": "gzip"}} if {mode!r} == "gzip" else {{}}
        data = ["a" * 5000, "b" * 10, "c" * 10]
        if {mode!r} != "w":
            data = [piece.encode() for piece in data]
        for number, end in enumerate({list(ENDS.values())!r}):
            child = None
            try:
                with fs.open(f"/{{number}}", "w" if {mode!r} == "w" else "wb", **whole) as file:
                    file.write(data[0])
                    file.write(data[1])
                    child = os.fork()
                    if child == 0:
                        exec(end)
                    else:
                        os.waitpid(child, 0)
                        assert not os.path.exists(f"{served.root}/{{number}}"), end
                        file.write(data[2])
            except BaseException as error:
                if child != 0:
                    raise
            finally:
                if child == 0:
                    os._exit(0)
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys)
    for number, end in enumerate(ENDS):
        with fs.open(f"/{number}", "rb", compression="gzip" if mode == "gzip" else None) as file:
            assert file.read() == b"a" * 5000 + b"b" * 10 + b"c" * 10, end
    fs.close()


def test_a_forked_child_is_told_that_it_delivers_nothing(served: Served) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}
    program = f"""
        import fobs, fsspec, os
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **{keys!r})
        file = fs.open("/x", "wb")
        file.write(b"x")
        if os.fork():
            # As a program that goes on in the background.
            os.wait()
            os._exit(0)
        try:
            file.close()
        except fobs.UsageError as error:
            print("refused:", "forked" in str(error), flush=True)
        with fs.open("/own", "wb") as file:
            file.write(b"own")
        os._exit(0)
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == "refused: True\n", ran.stderr
    assert (served.root / "own").read_bytes() == b"own" and not (served.root / "x").exists()
