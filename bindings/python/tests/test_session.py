"""What a session does, and what it returns."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fobs

from .conftest import Served

Content = Callable[[int], bytes]


@pytest.mark.parametrize("length", [0, 1, 65_536, 65_537, 3_000_000])
def test_buffers_go_both_ways(session: fobs.Session, served: Served, content: Content, length: int) -> None:
    data = content(length)
    result = session.put_bytes("object", data)
    assert (result.bytes, result.files, result.errors) == (length, 1, ())
    assert (served.root / "object").read_bytes() == data
    assert session.get_bytes("object") == data
    room = bytearray(length + 5)
    assert session.get_into("object", room) == length
    assert room[:length] == data
    assert session.get_range("object", 10, 100) == data[10:110]
    if length > 100:
        part = bytearray(100_000)
        assert session.get_into("object", part, start=50) == min(100_000, length - 50)
        assert part[:20] == data[50:70]


def test_files_and_trees_go_both_ways(session: fobs.Session, served: Served, tmp_path: Path, content: Content) -> None:
    tree = tmp_path / "tree" / "sub"
    tree.mkdir(parents=True)
    (tree / "large").write_bytes(content(2_000_000))
    (tmp_path / "tree" / "small").write_bytes(b"x")
    seen: list[fobs.Progress] = []
    result = session.put(tmp_path / "tree", recursive=True, progress=seen.append)
    assert result.files == 2 and seen[-1].bytes == 2_000_001
    session.get("tree", tmp_path / "back", recursive=True)
    assert (tmp_path / "back/sub/large").read_bytes() == content(2_000_000)
    with pytest.raises(fobs.SourceNotFoundError):
        session.get("none", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_names_are_listed_made_and_removed(session: fobs.Session, served: Served) -> None:
    session.mkdir("a/b", parents=True)
    session.mkdir("a/b", parents=True, exist_ok=True)
    for options in ({}, {"parents": True}):
        with pytest.raises(FileExistsError):
            session.mkdir("a/b", **options)
    session.put_bytes("a/f", b"1234")
    assert [(entry.name, entry.kind) for entry in session.ls("a")] == [("b", "directory"), ("f", "file")]
    entry = session.stat("a/f")
    assert (entry.size, entry.is_file, entry.is_dir) == (4, True, False)
    assert entry.mtime_ns == (served.root / "a/f").stat().st_mtime_ns
    assert session.exists("a/b") and not session.exists("a/none")
    with pytest.raises(fobs.DestinationError):
        session.rm("a")
    session.rm("a", recursive=True)
    assert session.ls() == []


def test_names_need_not_be_utf8(session: fobs.Session, served: Served) -> None:
    name = b"caf\xe9"
    session.put_bytes(name, b"latin")
    assert (served.root / os.fsdecode(name)).read_bytes() == b"latin"
    assert session.ls()[0].name == os.fsdecode(name)
    assert session.get_bytes(os.fsdecode(name)) == b"latin"
    with pytest.raises(fobs.UsageError, match="NUL"):
        session.get_bytes("a\0b")


def test_numpy_is_read_and_filled_in_place(session: fobs.Session) -> None:
    numpy = pytest.importorskip("numpy")
    sent = numpy.arange(200_000, dtype=numpy.float64).reshape(400, 500)
    session.put_bytes("array", sent)
    got = numpy.zeros_like(sent)
    assert session.get_into("array", got) == sent.nbytes
    assert (got == sent).all()
    assert session.get_into("array", memoryview(got).cast("B")[8:16], start=80) == 8
    assert got[0, 1] == 10.0


def test_the_async_twins_do_the_same(served: Served, tmp_path: Path, content: Content) -> None:
    async def all_of_it() -> None:
        session = await fobs.Session.open_async(served.url, **served.keys)
        await session.mkdir_async("d")
        data = content(1_000_000)
        names = [f"d/{number}" for number in range(5)]
        await asyncio.gather(*(session.put_bytes_async(name, data) for name in names))
        assert [entry.name for entry in await session.ls_async("d")] == list("01234")
        assert await session.get_range_async("d/3", 5, 5) == data[5:10]
        room = bytearray(len(data))
        assert await session.get_into_async("d/0", room) == len(data) and room == data
        assert (await session.get_async("d/1", tmp_path / "one")).bytes == len(data)
        assert (await session.put_async(tmp_path / "one", "two")).files == 1
        assert await session.get_bytes_async("two") == data
        assert (await session.stat_async("two")).size == len(data) and await session.exists_async("two")
        with pytest.raises(FileExistsError):
            await session.mkdir_async("d")
        await session.rm_async("d", recursive=True)
        with pytest.raises(FileNotFoundError):
            await session.stat_async("d")
        session.close()

    asyncio.run(all_of_it())


def test_cp_and_sync_in_one_line(served: Served, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/keep").write_bytes(b"keep")
    (tmp_path / "tree/skip.tmp").write_bytes(b"skip")
    (served.root / "old").mkdir()
    (served.root / "old/extra").write_bytes(b"extra")
    source = f"{tmp_path}/tree/"
    tried = fobs.sync(source, f"{served.url}old", delete=True, dry_run=True, exclude=["*.tmp"], **served.keys)
    assert tried.errors == () and (served.root / "old/extra").exists()
    fobs.sync(source, f"{served.url}old", delete=True, exclude=["*.tmp"], **served.keys)
    assert sorted(path.name for path in (served.root / "old").iterdir()) == ["keep"]
    result = fobs.cp(f"{served.url}old/keep", tmp_path / "back", **served.keys)
    assert result.bytes == 4 and (tmp_path / "back").read_bytes() == b"keep"
    assert asyncio.run(fobs.cp_async(tmp_path / "back", f"{served.url}again", **served.keys)).files == 1
    with pytest.raises(fobs.UsageError):
        fobs.cp(tmp_path / "a", tmp_path / "b")


def test_a_job_tells_and_obeys(session: fobs.Session, served: Served, content: Content) -> None:
    job = session.start_put_bytes("slow", content(20_000_000), rate=4_000_000)
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.7)
    assert not job.done and job.progress.bytes < 20_000_000
    job.set_rate(10e9)
    assert job.wait(timeout=60).bytes == 20_000_000
    assert job.wait().bytes == 20_000_000, "as often as one likes"
    explanation = job.explain
    assert explanation.sentence and "<table>" in explanation._repr_html_()
    with pytest.raises(ValueError):
        job.set_rate(0)


def test_cancelling_ends_a_job_soon(session: fobs.Session, served: Served, content: Content) -> None:
    job = session.start_put_bytes("never", content(2_000_000), rate=100_000)
    job.cancel()
    with pytest.raises(fobs.CancelledError):
        job.wait(timeout=10)
    assert not session.exists("never")

    async def cancelled() -> None:
        task = asyncio.create_task(session.put_bytes_async("never", content(2_000_000), rate=100_000))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await session.exists_async("never")

    asyncio.run(cancelled())


def test_errors_mirror_exit_codes_and_pickle() -> None:
    from fobs._errors import ALL

    codes = {kind.code: kind.exit_code for kind in ALL}
    assert len(set(codes.values())) == 16 and codes["partial"] == 23 and codes["ssh"] == 255
    for kind in ALL:
        again = pickle.loads(pickle.dumps(kind("what, why, do")))
        assert type(again) is kind and str(again) == "what, why, do" and isinstance(again, OSError)
    assert issubclass(fobs.SourceNotFoundError, FileNotFoundError)
    assert issubclass(fobs.AccessDeniedError, PermissionError)
    assert issubclass(fobs.TransferTimeoutError, TimeoutError)


def test_a_session_pickles_as_its_options(session: fobs.Session) -> None:
    session.put_bytes("x", b"here")
    with pickle.loads(pickle.dumps(session)) as other:
        assert other.get_bytes("x") == b"here"
    result = pickle.loads(pickle.dumps(session.put_bytes("y", b"yy")))
    assert result.bytes == 2


def test_options_are_checked_by_name(served: Served) -> None:
    for options in ({"colour": "red"}, {"rate": 0}, {"timeout": 0.1}, {"cc": "none"}):
        with pytest.raises(fobs.UsageError, match=next(iter(options))):
            served.open(**options)


def test_progress_bars_are_callbacks(session: fobs.Session, content: Content) -> None:
    pytest.importorskip("tqdm")
    pytest.importorskip("rich")
    from fobs.progress import Rich, Tqdm

    for bar in (Tqdm("bar", disable=True), Rich("bar")):
        with bar as progress:
            session.put_bytes("bar", content(1_000_000), progress=progress)


def test_the_readme_runs_over_ssh(
    ssh: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    text = (Path(__file__).parents[1] / "README.md").read_text()
    program = text.split("```python runs\n")[1].split("```")[0]
    assert '"host:data"' in program
    (tmp_path / "there").mkdir()
    (tmp_path / "results.h5").write_bytes(b"a file")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"ssh": ssh}
    exec(program.replace('"host:data"', f'"far:{tmp_path}/there", **ssh'), names)
    assert (tmp_path / "copy.h5").read_bytes() == b"a file"
    assert (tmp_path / "there/array").stat().st_size == names["array"].nbytes
