"""Other packages, as their users call them: by URL."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Served

numpy = pytest.importorskip("numpy")
fsspec = pytest.importorskip("fsspec")

pytestmark = pytest.mark.filterwarnings("ignore")


def keys_of(served: Served) -> dict[str, str]:
    return {name: str(path) for name, path in served.keys.items()}


def url_of(served: Served, path: str) -> str:
    return f"fobs://127.0.0.1:{served.port}/{path}"


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "second")
    yield served
    served.stop()


@pytest.mark.parametrize("compression", [None, "gzip", "bz2", "zip"])
def test_pandas_reads_what_it_wrote(served: Served, compression: str | None) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(1000), "b": [f"é{number}" for number in range(1000)]})
    url, options = url_of(served, "d/table.csv"), keys_of(served)
    # pandas itself does not read back what it writes in UTF-16 with bz2.
    for encoding in ("utf-8", "utf-16") if compression != "bz2" else ("utf-8",):
        frame.to_csv(url, index=False, compression=compression, storage_options=options, encoding=encoding)
        back = pandas.read_csv(url, compression=compression, storage_options=options, encoding=encoding)
        assert back.equals(frame)
    frame.to_parquet(url_of(served, "d/table.parquet"), storage_options=options)
    assert pandas.read_parquet(url_of(served, "d/table.parquet"), storage_options=options).equals(frame)


def test_a_table_that_fails_half_way_leaves_the_one_before(served: Served) -> None:
    pandas = pytest.importorskip("pandas")
    (served.root / "table.csv").write_bytes(b"good")

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("on purpose")

    frame = pandas.DataFrame({"a": [1] * 100_000 + [Broken()]})
    with pytest.raises(RuntimeError):
        frame.to_csv(url_of(served, "table.csv"), storage_options=keys_of(served), chunksize=1000)
    assert (served.root / "table.csv").read_bytes() == b"good"


def test_zarr_reads_missing_chunks_as_fill_and_no_other(served: Served, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    url, options = url_of(served, "store"), keys_of(served)
    array = zarr.open(url, mode="w", shape=(100, 100), chunks=(10, 10), dtype="i4", storage_options=options)
    array[:50] = 7
    again = zarr.open(url, mode="r", storage_options=options)
    assert int(again[:].sum()) == 7 * 5000 and int(again[99, 99]) == 0
    # Emptied, and written anew.
    array = zarr.open(url, mode="w", shape=(10,), chunks=(5,), dtype="i4", storage_options=options)
    array[:] = 1
    assert int(zarr.open(url, mode="r", storage_options=options)[:].sum()) == 10
    root = zarr.open_group(url_of(served, ""), mode="w", storage_options=options)
    root.create_array("x", shape=(4,), dtype="i4")[:] = 3
    assert sorted(os.listdir(served.root)) == ["x", "zarr.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to serve as another user")
def test_zarr_raises_for_a_chunk_that_may_not_be_read(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    served = Served(tmp_path / "served", user="nobody")
    try:
        local = zarr.open(str(served.root / "store"), mode="w", shape=(100,), chunks=(10,), dtype="i4")
        local[:] = 7
        os.chmod(served.root / "store", 0o755)
        for top, directories, files in os.walk(served.root):
            for name in directories:
                os.chmod(Path(top) / name, 0o755)
            for name in files:
                os.chmod(Path(top) / name, 0o644)
        os.chmod(served.root / "store/c/3", 0)
        array = zarr.open(url_of(served, "store"), mode="r", storage_options=keys_of(served))
        assert int(array[:30].sum()) == 210
        with pytest.raises(PermissionError):
            array[:]
    finally:
        served.stop()


def test_xarray_writes_and_opens_by_url(served: Served) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    options = keys_of(served)
    data = xarray.Dataset({"t": (("x", "y"), numpy.arange(10_000.0).reshape(100, 100))})
    data.to_zarr(url_of(served, "data.zarr"), mode="w", storage_options=options)
    assert xarray.open_zarr(url_of(served, "data.zarr"), storage_options=options).equals(data)
    data.to_zarr(url_of(served, "data.zarr"), mode="w", storage_options=options)
    pytest.importorskip("h5netcdf")
    data.to_netcdf(served.root / "data.nc", engine="h5netcdf")
    with fsspec.open(url_of(served, "data.nc"), **options) as file:
        assert xarray.open_dataset(file, engine="h5netcdf").load().equals(data)


@pytest.mark.parametrize("parallel", [False, True])
def test_xarray_opens_many_files_as_one(served: Served, parallel: bool) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    for number in range(6):
        part = xarray.Dataset({"t": (("time", "x"), numpy.full((3, 50), float(number)))}, {"time": numpy.arange(3) + 3 * number})
        part.to_netcdf(served.root / f"{number}.nc", engine="h5netcdf")
    files = [file.open() for file in fsspec.open_files(url_of(served, "*.nc"), **keys_of(served))]
    with xarray.open_mfdataset(files, engine="h5netcdf", parallel=parallel) as data:
        assert data.sizes["time"] == 18 and float(data["t"].sum()) == 150 * sum(range(6))


def test_a_killed_server_costs_a_call_and_no_file(tmp_path: Path) -> None:
    served = Served(tmp_path / "served")
    try:
        (served.root / "good").write_bytes(b"good")
        (served.root / "big").write_bytes(bytes(4_000_000))
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, rate=8_000_000, timeout=3, **keys_of(served))
        fs.exists("/")
        writer = fs.open("/good", "wb")
        writer.write(bytes(4_000_000))
        calls = (lambda: fs.cat("/big"), lambda: fs.get_file("/big", str(tmp_path / "got")), writer.close)
        for call in calls:
            killer = threading.Timer(0.8, served.process.kill)
            killer.start()
            with pytest.raises(OSError):
                call()
            killer.join()
            served.process.wait()
            served.process = served.start()
            assert fs.cat("/good") == b"good" and not (tmp_path / "got").exists()
        with fs.open("/big", "rb", block_size=1 << 16) as file:
            file.read(10)
            served.restart()
            file.seek(2_000_000)
            assert file.read(10) == bytes(10)
    finally:
        served.stop()


def test_dask_refuses_two_servers_and_reads_one(served: Served, second: Served) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    for number in range(3):
        (served.root / f"{number}.csv").write_text(f"a,b\n{number},1\n")
        (second.root / f"{number}.csv").write_text(f"a,b\n{number},1000\n")
    options = keys_of(served)
    one = dataframe.read_csv(url_of(served, "*.csv"), storage_options=options)
    assert int(one["b"].sum().compute(scheduler="threads")) == 3
    with pytest.raises(ValueError):
        both = [url_of(served, "0.csv"), url_of(second, "0.csv")]
        dataframe.read_csv(both, storage_options=options)["b"].sum().compute(scheduler="threads")


def test_paths_of_upath_keep_their_host(served: Served, second: Served) -> None:
    upath = pytest.importorskip("upath")
    (served.root / "d").mkdir()
    (served.root / "d/x").write_bytes(b"first")
    (second.root / "d").mkdir()
    (second.root / "d/x").write_bytes(b"other")
    for server, content in ((served, b"first"), (second, b"other")):
        path = upath.UPath(url_of(server, "d/x"), **keys_of(server))
        assert path.read_bytes() == content and path.exists() and not path.is_dir()
        assert str(server.port) in str(path) and str(server.port) in str(path.parent)
        assert [item.read_bytes() for item in path.parent.iterdir()] == [content]
        again = upath.UPath(str(path), **keys_of(server))
        assert again.read_bytes() == content
        moved = path.rename(path.parent / "y")
        assert moved.read_bytes() == content and not path.exists()


@pytest.mark.parametrize("name", ["%41", "a%2Fb", "run_1#2", "a?b", "a b", "é", "a[1]"])
def test_paths_of_upath_mean_one_file_in_every_form(served: Served, name: str) -> None:
    upath = pytest.importorskip("upath")
    (served.root / "d").mkdir()
    (served.root / "d" / name).write_bytes(name.encode())
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, **keys_of(served))
    path = upath.UPath(fs.unstrip_protocol(f"/d/{name}"), **keys_of(served))
    top = upath.UPath(url_of(served, "d"), **keys_of(served))
    (found,) = top.iterdir()
    forms = [path, top / name, found, upath.UPath(str(path), **keys_of(served)), upath.UPath(path.as_uri(), **keys_of(served))]
    forms += [pickle.loads(pickle.dumps(path)), path.parent / path.name, upath.UPath(path), path.with_name(name)]
    for form in forms:
        assert form.read_bytes() == name.encode() and form.name == name, (form, str(form))
    with fsspec.open(str(path), **keys_of(served)) as file:
        assert file.read() == name.encode()


def test_a_path_of_upath_opens_in_another_process(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upath = pytest.importorskip("upath")
    (served.root / "x").write_bytes(b"there")
    monkeypatch.chdir(served.directory)
    with warnings.catch_warnings():
        # One of a scheme that it does not know is warned of.
        warnings.simplefilter("error")
        path = upath.UPath(url_of(served, "x"), identity="client", known_hosts="known_hosts")
    # A process that has imported nothing of ours.
    fresh = f"import upath; print(upath.UPath({str(path)!r}, **{keys_of(served)!r}).read_bytes())"
    alone = subprocess.run([sys.executable, "-W", "error", "-c", fresh], capture_output=True, text=True, timeout=60)
    assert alone.stdout == "b'there'\n", alone.stderr
    (tmp_path / "pickled").write_bytes(pickle.dumps(path))
    monkeypatch.chdir("/")
    assert path.read_bytes() == b"there"
    program = f"import pickle; print(pickle.load(open({str(tmp_path / 'pickled')!r}, 'rb')).read_bytes())"
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert seen.stdout == "b'there'\n", seen.stderr


def test_joblib_workers_share_a_file_system(served: Served) -> None:
    joblib = pytest.importorskip("joblib")
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, **keys_of(served))
    fs.pipe({f"/{number}": b"%d" % number for number in range(8)})
    for backend in ("loky", "threading", "multiprocessing"):
        got = joblib.Parallel(n_jobs=4, backend=backend)(
            joblib.delayed(fs.cat_file)(f"/{number}") for number in range(8)
        )
        assert got == [b"%d" % number for number in range(8)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torch_loads_by_workers(served: Served, method: str) -> None:
    torch = pytest.importorskip("torch")
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, **keys_of(served))
    fs.pipe({f"/{number}": b"%d" % number for number in range(8)})
    loader = torch.utils.data.DataLoader(
        Numbers(fs), num_workers=2, multiprocessing_context=method, persistent_workers=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sorted(int(item) for item in loader) == list(range(8))
    fs.close()


class Numbers:
    """A data set of files."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs

    def __len__(self) -> int:
        return 8

    def __getitem__(self, at: int) -> int:
        return int(self.fs.cat_file(f"/{at}"))


def test_pyarrow_moves_and_reads(served: Served) -> None:
    pyarrow_fs = pytest.importorskip("pyarrow.fs")
    handler = pyarrow_fs.FSSpecHandler(
        fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, **keys_of(served))
    )
    fs = pyarrow_fs.PyFileSystem(handler)
    with fs.open_output_stream("/a") as file:
        file.write(b"content")
    fs.move("/a", "a")
    assert (served.root / "a").read_bytes() == b"content"
    fs.create_dir("/d/sub")
    with pytest.raises(OSError):
        fs.move("/d", "/d/sub")
    fs.move("/a", "/d/b")
    with fs.open_input_file("/d/b") as file:
        assert file.read() == b"content"
    assert (served.root / "d/sub").is_dir()
