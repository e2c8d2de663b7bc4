"""What is built on fsspec: its own wrappers, chains and caches, process pools, and other packages. Reports of others are
named where they were played.
"""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import random
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Served

numpy = pytest.importorskip("numpy")
fsspec = pytest.importorskip("fsspec")

import fsspec.generic  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def keys_of(served: Served) -> dict[str, str]:
    return {name: str(path) for name, path in served.keys.items()}


def url_of(served: Served, path: str) -> str:
    return f"fobs://127.0.0.1:{served.port}/{path}"


def fs_of(served: Served, **options: Any) -> Any:
    return fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, **{**keys_of(served), **options})


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "second")
    yield served
    served.stop()


def test_a_directory_is_a_file_system_of_its_own(served: Served) -> None:
    # filesystem_spec 1698: `open_async` is missing there.
    fs = fs_of(served)
    fs.pipe({"/d/a": b"1", "/d/sub/b": b"2"})
    inner = fsspec.filesystem("dir", path="/d", fs=fs)
    assert inner.find("") == ["a", "sub/b"] and inner.cat("a") == b"1"
    inner.pipe_file("n/x", b"new")
    with inner.open("w", "wb") as file:
        file.write(b"w")
    inner.mv("w", "v")
    assert (served.root / "d/n/x").read_bytes() == b"new" and (served.root / "d/v").read_bytes() == b"w"
    inner.rm("n", recursive=True)
    assert inner.find("") == ["a", "sub/b", "v"]

    async def work() -> tuple[bytes, bytes]:
        own = fs_of(served, asynchronous=True, skip_instance_cache=True)
        asynchronous = fsspec.filesystem("dir", path="/d", fs=own, asynchronous=True)
        file = await asynchronous.open_async("a", "rb")
        found = await file.read()
        await file.close()
        return found, await asynchronous._cat_file("sub/b")

    assert asyncio.run(work()) == (b"1", b"2")


def test_several_are_read_with_their_errors(served: Served) -> None:
    # filesystem_spec 2045 and 2151.
    fs, data = fs_of(served), bytes(range(100))
    fs.pipe({"/x": data, "/t/a": b"a", "/t/sub/b": b"b"})
    fs.makedirs("/t/empty/deep")
    found = fs.cat_ranges(["/x", "/none", "/x"], [0, 0, 95], [5, 5, 200], on_error="return")
    assert found[0] == data[:5] and isinstance(found[1], FileNotFoundError) and found[2] == data[95:]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/x", "/none"], [0, 0], [5, 5], on_error="raise")
    assert fs.cat_ranges(["/x"] * 4, [0, -5, 200, 50], [3, None, 300, 10]) == [data[:3], data[-5:], b"", b""]
    assert fs.cat("/t", recursive=True) == {"/t/a": b"a", "/t/sub/b": b"b"}
    assert fs.cat("/t/empty", recursive=True) == {} and fs.cat("/x", recursive=True) == data
    assert fs.cat(["/t", "/x"], recursive=True) == {"/t/a": b"a", "/t/sub/b": b"b", "/x": data}
    for act in (lambda: fs.cat("/t"), lambda: fs.cat_file("/t"), lambda: fs.cat_file("/t", 0, 5), lambda: fs.open("/t")):
        with pytest.raises(IsADirectoryError):
            act()


def test_pools_of_processes_work_after_a_call_that_failed(served: Served) -> None:
    # filesystem_spec 517, 835 and 1298, s3fs 369 and 914: what was used before a fork hangs in its children.
    pytest.importorskip("pandas")
    program = f"""
        import concurrent.futures, fsspec, multiprocessing, pandas
        options = {keys_of(served)!r}
        def read(_):
            return fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **options).cat_file("/x")
        def table(_):
            return int(pandas.read_csv({url_of(served, "t.csv")!r}, storage_options=options)["a"].sum())
        if __name__ == "__main__":
            try:
                pandas.read_csv({url_of(served, "none.csv")!r}, storage_options=options)
            except FileNotFoundError:
                pass
            fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **options)
            fs.pipe({{"/x": b"content", "/t.csv": b"a\\n1\\n2\\n"}})
            for method in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                    assert list(pool.map(read, range(4))) == [b"content"] * 4
                    assert list(pool.map(table, range(4))) == [3] * 4
                with context.Pool(2) as pool:
                    assert pool.map(fs.cat_file, ["/x"] * 4) == [b"content"] * 4
            print("each")
    """
    path = served.directory / "pools.py"
    path.write_text(textwrap.dedent(program))
    ran = subprocess.run([sys.executable, "-W", "ignore", path], capture_output=True, text=True, timeout=300)
    assert ran.stdout == "each\n", ran.stderr[-3000:]


def test_what_must_not_exist_is_refused_in_every_mode(served: Served) -> None:
    # s3fs 973, dask 10442, filesystem_spec 1332: `x` of small files is `w`.
    pandas, dataframe = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    fs, options = fs_of(served), keys_of(served)
    for mode in ("x", "xt", "xb"):
        for content, refused in (("a", False), ("b", True)):
            try:
                with fs.open(f"/{mode}", mode) as file:
                    file.write(content if mode != "xb" else content.encode())
                assert not refused
            except FileExistsError:
                assert refused
        assert fs.cat(f"/{mode}") == b"a"
    frame = dataframe.from_pandas(pandas.DataFrame({"a": range(10)}), npartitions=3)
    frame.to_csv(url_of(served, "csv/*.csv"), mode="x", storage_options=options, index=False)
    with pytest.raises(FileExistsError):
        frame.to_csv(url_of(served, "csv/*.csv"), mode="x", storage_options=options, index=False)
    frame.to_csv(url_of(served, "one.csv"), single_file=True, storage_options=options, index=False)
    assert len((served.root / "one.csv").read_text().splitlines()) == 11


def test_tables_are_appended_to_as_often_as_one_likes(served: Served) -> None:
    # dask 7965 and 9861, fastparquet 743.
    pandas, dataframe = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    url, options = url_of(served, "t.parquet"), {"storage_options": keys_of(served)}

    def frame(first: int) -> Any:
        numbers = range(first, first + 10)
        return dataframe.from_pandas(pandas.DataFrame({"a": numbers, "p": [1, 2] * 5}, index=numbers), npartitions=2)

    for turn in range(4):
        frame(10 * turn).to_parquet(url, append=turn > 0, ignore_divisions=True, **options)
        assert sorted(dataframe.read_parquet(url, **options)["a"].compute()) == list(range(10 * (turn + 1)))
    frame(0).to_parquet(url, overwrite=True, **options)
    assert len(dataframe.read_parquet(url, **options)) == 10
    frame(0).to_parquet(url_of(served, "parts"), partition_on=["p"], **options)
    assert sorted(os.listdir(served.root / "parts")) == ["p=1", "p=2"]
    table = pandas.DataFrame({"a": range(5)})
    for mode in ("w", "a", "a"):
        table.to_csv(url_of(served, "t.csv"), index=False, header=mode == "w", mode=mode, **options)
        table.to_json(url_of(served, "t.json"), orient="records", lines=True, mode=mode, **options)
    assert len(pandas.read_csv(url_of(served, "t.csv"), **options)) == 15
    assert len(pandas.read_json(url_of(served, "t.json"), lines=True, **options)) == 15


def test_one_generic_file_system_mixes_no_hosts(served: Served, second: Served, tmp_path: Path) -> None:
    fs = fs_of(served)
    fs.pipe({"/d/x": b"1", "/d/y/z": b"2"})
    fsspec.generic.set_generic_fs("fobs", host="127.0.0.1", port=served.port, **keys_of(served))
    try:
        generic = fsspec.filesystem("generic", default_method="generic", skip_instance_cache=True)
        with pytest.raises((ValueError, OSError)):
            generic.cp_file(url_of(served, "d/x"), url_of(second, "copy"))
        generic.cp_file(url_of(served, "d/x"), url_of(served, "copied"))
    finally:
        fsspec.generic._generic_fs.clear()
    assert os.listdir(second.root) == [] and (served.root / "copied").read_bytes() == b"1"
    current = {"default_method": "current"}
    fsspec.generic.rsync(f"file://{served.root}/d", url_of(served, "synced"), inst_kwargs=current)
    assert fs.find("/synced") == ["/synced/x", "/synced/y/z"]
    (tmp_path / "here").mkdir()
    fsspec.generic.rsync(url_of(served, "d"), f"file://{tmp_path}/here", inst_kwargs=current)
    assert (tmp_path / "here/y/z").read_bytes() == b"2"


def test_chains_and_references_reach_into_files(served: Served, tmp_path: Path) -> None:
    options = {"fobs": keys_of(served)}
    with zipfile.ZipFile(served.root / "a.zip", "w") as archive:
        archive.writestr("d/x.txt", "zipped")
    with tarfile.open(served.root / "a.tar", "w") as tar:
        member = tarfile.TarInfo("x")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"tar"))
    cache = {"simplecache": {"cache_storage": str(tmp_path / "cache")}, **options}
    for chain, more, expected in (
        (f"zip://d/x.txt::{url_of(served, 'a.zip')}", options, b"zipped"),
        (f"zip://d/x.txt::simplecache::{url_of(served, 'a.zip')}", cache, b"zipped"),
        (f"tar://x::{url_of(served, 'a.tar')}", options, b"tar"),
    ):
        with fsspec.open(chain, **more) as file:
            assert file.read() == expected
    with fsspec.open(f"simplecache::{url_of(served, 'new')}", "wb", **cache) as file:
        file.write(b"through the cache")
    assert (served.root / "new").read_bytes() == b"through the cache"
    fs_of(served).pipe("/x", bytes(range(100)))
    references = {"a": [url_of(served, "x"), 10, 5], "b": b"inline", "c": [url_of(served, "x")]}
    far = {"host": "127.0.0.1", "port": served.port, **keys_of(served)}
    fs = fsspec.filesystem(
        "reference", fo=references, remote_protocol="fobs", remote_options=far, skip_instance_cache=True
    )
    assert fs.cat("a") == bytes(range(10, 15)) and fs.cat("b") == b"inline" and len(fs.cat("c")) == 100


@pytest.mark.parametrize("more", [{}, {"timeout": timedelta(seconds=90)}, {"rate": numpy.int64(10**9)}, {"min_rate": ("1M", 30)}])
def test_a_file_system_goes_to_others_as_text_and_pickled(served: Served, more: dict[str, Any]) -> None:
    identity, known = served.directory / "client", os.fsencode(str(served.directory / "known_hosts"))
    fs = fs_of(served, identity=identity, known_hosts=known, **more)
    fs.pipe("/x", b"content")
    assert pickle.loads(pickle.dumps(fs)).cat("/x") == b"content"
    program = f"from fsspec import AbstractFileSystem as A; print(A.from_json({fs.to_json()!r}).cat('/x'))"
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "b'content'\n", ran.stderr


CACHES = ["none", "bytes", "readahead", "all", "first", "mmap", "blockcache", "background"]


@pytest.mark.parametrize("cache", CACHES)
def test_every_cache_reads_what_is_there(served: Served, cache: str) -> None:
    fs, random_ = fs_of(served), random.Random(cache)
    data = random_.randbytes(300_000)
    text = "".join(f"é line {number}\n" for number in range(10_000))
    fs.pipe({"/x": data, "/t": text.encode()})
    for block_size in (100, 4096, 1 << 16, 5 << 20):
        with fs.open("/x", "rb", block_size=block_size, cache_type=cache) as file:
            at = 0
            for _ in range(30):
                if random_.random() < 0.5:
                    at = random_.randrange(0, 310_000)
                    file.seek(at)
                length = random_.choice([0, 1, 10, 5000, 100_000, -1])
                expected = data[at:] if length < 0 else data[at : at + length]
                assert file.read(length) == expected, (block_size, at, length)
                at += len(expected)
                assert file.tell() == at
    with fs.open("/t", "r", encoding="utf-8", block_size=1000, cache_type=cache) as file:
        assert "".join(file) == text
    size = len(text.encode())
    blocks = [fs.read_block("/t", at, 40_000, delimiter=b"\n") for at in range(0, size, 40_000)]
    assert b"".join(blocks) == text.encode()


def test_libraries_that_take_files_write_and_read_them(served: Served) -> None:
    fs = fs_of(served)
    with fs.open("/a.npz", "wb") as file:
        numpy.savez(file, a=numpy.arange(10))
    with fs.open("/a.npz", "rb") as file:
        assert numpy.load(file)["a"].tolist() == list(range(10))
    with fs.open("/a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "1" * 1000)
    with fs.open("/a.zip", "rb") as file:
        assert zipfile.ZipFile(file).read("x") == b"1" * 1000
    with fs.open("/a.tar.gz", "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.add(__file__, "me")
    with fs.open("/a.tar.gz", "rb") as file:
        assert tarfile.open(fileobj=file).getnames() == ["me"]
    # filesystem_spec 1071: what `write` returns is counted.
    with fs.open("/b", "wb") as file:
        buffered = io.BufferedWriter(file, 1 << 16)
        buffered.write(b"x" * 200_000)
        buffered.flush()
        buffered.detach()
    assert fs.cat("/b") == b"x" * 200_000
    for turn in range(3):
        with fs.open("/u", "a", encoding="utf-16") as file:
            file.write(f"line {turn}\n")
    with fs.open("/u", "r", encoding="utf-16") as file:
        assert file.read() == "line 0\nline 1\nline 2\n"


def test_duckdb_reads_and_writes_by_url(served: Served) -> None:
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    fs = fs_of(served)
    fs.pipe({"/d/1.csv": b"a\n1\n2\n", "/d/2.csv": b"a\n3\n"})
    connection = duckdb.connect()
    connection.register_filesystem(fs)
    assert connection.execute(f"select sum(a) from read_csv('{url_of(served, 'd/*.csv')}')").fetchall() == [(6,)]
    connection.execute(f"copy (select 7 as a) to '{url_of(served, 'out.parquet')}'")
    assert pandas.read_parquet(served.root / "out.parquet")["a"].tolist() == [7]
    with pytest.raises(Exception, match="none.parquet"):
        connection.execute(f"select * from read_parquet('{url_of(served, 'none.parquet')}')")


def test_data_sets_of_hugging_face_are_saved_and_loaded(served: Served, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    options = keys_of(served)
    datasets.Dataset.from_dict({"a": list(range(100))}).save_to_disk(url_of(served, "set"), storage_options=options)
    assert datasets.load_from_disk(url_of(served, "set"), storage_options=options)["a"][:3] == [0, 1, 2]
    (served.root / "t.csv").write_text("a\n1\n2\n")
    loaded = datasets.load_dataset(
        "csv", data_files=url_of(served, "t.csv"), storage_options=options, cache_dir=str(tmp_path / "cache")
    )
    assert list(loaded["train"]["a"]) == [1, 2]


def test_checkpoints_of_torch_come_back(served: Served) -> None:
    torch = pytest.importorskip("torch")
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter

    state, back = {"w": torch.arange(1000.0)}, {"w": torch.zeros(1000)}
    checkpoint.save(state, storage_writer=FsspecWriter(url_of(served, "saved"), **keys_of(served)))
    checkpoint.load(back, storage_reader=FsspecReader(url_of(served, "saved"), **keys_of(served)))
    assert torch.equal(back["w"], state["w"])
    fs = fs_of(served)
    with fs.open("/state.pt", "wb") as file:
        torch.save(state, file)
    with fs.open("/state.pt", "rb") as file:
        assert torch.equal(torch.load(file)["w"], state["w"])
