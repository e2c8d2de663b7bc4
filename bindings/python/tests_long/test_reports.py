"""Situations that users of other implementations of fsspec have reported; each names the report."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Served

fsspec = pytest.importorskip("fsspec")

pytestmark = pytest.mark.filterwarnings("ignore")


def keys_of(served: Served) -> dict[str, str]:
    return {name: str(path) for name, path in served.keys.items()}


def url_of(served: Served, path: str) -> str:
    return f"fobs://127.0.0.1:{served.port}/{path}"


def fs_of(served: Served, **options: Any) -> Any:
    return fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, **{**keys_of(served), **options})


def test_a_file_that_was_closed_says_so_when_it_is_read(served: Served) -> None:
    # s3fs 337: a data set is read lazily after its file was closed.
    (served.root / "x").write_bytes(b"content")
    with fsspec.open(url_of(served, "x"), **keys_of(served)) as file:
        assert file.read(3) == b"con"
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with pytest.raises(ValueError, match="closed"):
        file.seek(0)


def test_a_size_that_was_heard_once_is_not_kept(served: Served) -> None:
    # s3fs 422: a file that has grown is read by its old size.
    fs = fs_of(served)
    (served.root / "x").write_bytes(b"short")
    assert fs.size("/x") == 5 and fs.ls("/", detail=True)[0]["size"] == 5 and fs.cat("/x") == b"short"
    (served.root / "x").write_bytes(b"much longer now")
    with fs.open("/x") as file:
        assert file.read() == b"much longer now" and file.size == 15
    assert fs.size("/x") == 15 and fs.ls("/", detail=True)[0]["size"] == 15


@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
def test_caches_take_empty_files_and_files_that_were_not_read(served: Served, tmp_path: Path, cache: str) -> None:
    # filesystem_spec 90 and 799.
    (served.root / "empty").write_bytes(b"")
    (served.root / "x").write_bytes(b"content" * 1000)
    options = {"fobs": keys_of(served), cache: {"cache_storage": str(tmp_path / "cache")}}
    if cache != "blockcache":
        # What fsspec makes of an empty one there is its own affair.
        with fsspec.open(f"{cache}::{url_of(served, 'empty')}", **options) as file:
            assert file.read() == b""
    with fsspec.open(f"{cache}::{url_of(served, 'x')}", **options):
        pass
    for _ in range(2):
        with fsspec.open(f"{cache}::{url_of(served, 'x')}", **options) as file:
            assert file.read() == b"content" * 1000


def test_threads_that_share_a_cache_read_whole_files(served: Served, tmp_path: Path) -> None:
    # filesystem_spec 639: readers find a file that another one is still bringing.
    data = os.urandom(2_000_000)
    (served.root / "x").write_bytes(data)
    wrong: list[Any] = []

    def work() -> None:
        try:
            fs = fsspec.filesystem(
                "simplecache", target_protocol="fobs", cache_storage=str(tmp_path / "cache"),
                target_options={"host": "127.0.0.1", "port": served.port, "rate": 100e6, **keys_of(served)},
            )  # fmt: skip
            if fs.cat_file("/x") != data:
                wrong.append("other bytes")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong


def test_depth_and_patterns_are_those_of_a_shell(served: Served) -> None:
    # s3fs 378, 783 and 138, filesystem_spec 1322.
    fs = fs_of(served)
    for name in ("d/sub/deep", "d/x", "myfile.backup"):
        fs.pipe(f"/{name}", b"")
    assert fs.find("/d", maxdepth=1) == ["/d/x"]
    assert fs.find("/d", maxdepth=1, withdirs=True) == ["/d", "/d/sub", "/d/x"]
    assert fs.glob("/*myfile") == [] and fs.glob("/myfile*") == ["/myfile.backup"]
    assert [name.rstrip("/") for name in fs.glob("/d/*/")] == ["/d/sub"]
    assert fs.glob("/d/*") == ["/d/sub", "/d/x"] and fs.glob("/*/*/deep") == ["/d/sub/deep"]


def test_a_mode_that_is_not_built_is_refused_and_hurts_nothing(served: Served) -> None:
    # sshfs 51: files that are read and written at once.
    fs = fs_of(served)
    fs.pipe("/x", b"good")
    for mode in ("r+b", "w+b", "a+b", "x+b", "r+"):
        with pytest.raises((ValueError, NotImplementedError)):
            with fs.open("/x", mode) as file:
                file.write(b"bad!" if "b" in mode else "bad!")
    assert fs.cat("/x") == b"good" and os.listdir(served.root) == ["x"]


def test_zarr_lists_and_removes_what_is_below_a_name_alone(served: Served) -> None:
    # zarr-python 2661, 3773 and 2430: prefixes of names that are not directories.
    zarr = pytest.importorskip("zarr")
    options = keys_of(served)
    group = zarr.open_group(url_of(served, "store"), mode="w", storage_options=options)
    for name in ("a", "ab"):
        group.create_array(name, shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    del group["a"]
    assert sorted(group.array_keys()) == ["ab"] and int(group["ab"][:].sum()) == 4
    assert not (served.root / "store/a").exists() or not any((served.root / "store/a").rglob("zarr.json"))
    zarr.open_group(url_of(served, "store"), mode="w", storage_options=options).create_array("c", shape=(1,), dtype="i4")
    assert sorted(zarr.open_group(url_of(served, "store"), mode="r", storage_options=options).array_keys()) == ["c"]


def test_upath_walks_by_patterns(served: Served) -> None:
    # universal_pathlib 80: `**/*` finds nothing.
    upath = pytest.importorskip("upath")
    for name in ("d/sub/deep", "d/x", "top"):
        fs_of(served).pipe(f"/{name}", b"")
    path = upath.UPath(url_of(served, ""), **keys_of(served))
    found = sorted(item.name for item in path.glob("**/*") if item.is_file())
    assert found == ["deep", "top", "x"]


def test_it_works_beside_a_client_of_distributed(served: Served) -> None:
    # distributed 4124, filesystem_spec 424: two event loops in one process.
    pytest.importorskip("distributed")
    program = f"""
        import dask.bag, fsspec
        from distributed import Client
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **{keys_of(served)!r})
        fs.pipe({{f"/{{n}}.txt": b"%d\\n" % n for n in range(4)}})
        with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None):
            lines = dask.bag.read_text({url_of(served, "*.txt")!r}, storage_options={keys_of(served)!r}).compute()
            print(sorted(int(line) for line in lines), fs.cat("/3.txt"))
    """
    seen = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert seen.stdout == "[0, 1, 2, 3] b'3\\n'\n", seen.stderr


def test_files_that_the_collector_takes_on_the_loop_of_another_do_not_lock(served: Served) -> None:
    # dask 7547: the collector runs in the thread of the event loop, and closes a file there.
    fs = fs_of(served)
    fs.pipe("/x", bytes(100_000))

    class Ring:
        def __init__(self, file: Any) -> None:
            self.file, self.own = file, self

    done = threading.Event()

    async def collect() -> None:
        gc.collect()

    def work() -> None:
        for _ in range(20):
            for mode in ("rb", "wb"):
                Ring(fs.open("/x" if mode == "rb" else "/y", mode))
            fsspec.asyn.sync(fsspec.asyn.get_loop(), collect)
        assert fs.cat("/x") == bytes(100_000)
        done.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert done.wait(120), "it stands still"
    assert not (served.root / "y").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to serve as another user")
def test_a_pattern_reads_no_directory_that_it_does_not_name(tmp_path: Path) -> None:
    # filesystem_spec 727: `/users/*/mine/*` fails at a directory of another user beside `mine`.
    served = Served(tmp_path / "served", user="nobody")
    try:
        for name in ("u1/mine", "u2/mine", "u1/theirs"):
            (served.root / "users" / name).mkdir(parents=True)
        for top, directories, _ in os.walk(served.root):
            for name in directories:
                os.chmod(Path(top) / name, 0o755)
        (served.root / "users/u1/mine/x").write_bytes(b"")
        (served.root / "users/u1/theirs").chmod(0)
        fs = fs_of(served, skip_instance_cache=True)
        assert fs.glob("/users/*/mine/*") == ["/users/u1/mine/x"]
        with pytest.raises(PermissionError):
            fs.glob("/users/*/theirs/*")
    finally:
        served.stop()


FORMS = ["", "/", "/*", "/**", "/nested", "/n*", "/one", "/*/deep"]


@pytest.mark.parametrize("form", FORMS)
def test_copies_come_to_where_local_ones_do_the_second_time_too(served: Served, tmp_path: Path, form: str) -> None:
    # filesystem_spec 724, 820, 882, 997, 1062 and s3fs 358: where a tree and a pattern go, and go once more.
    from fsspec.implementations.local import LocalFileSystem

    fs, here = fs_of(served), LocalFileSystem(auto_mkdir=True)
    for top in (tmp_path / "s", served.root / "s"):
        (top / "nested/deep").mkdir(parents=True)
        for name in ("one", "nested/two", "nested/deep/three"):
            (top / name).write_bytes(name.encode())
    for to in ("", "/", "/new", "/new/"):
        for recursive in (True, False):
            for exists in (True, False):
                places = [tmp_path / "local", served.root / "put", tmp_path / "got", served.root / "copied"]
                for place in places:
                    place.unlink() if place.is_file() else shutil.rmtree(place, ignore_errors=True)
                    if exists:
                        place.mkdir()
                for _ in range(2):
                    here.put(f"{tmp_path}/s{form}", f"{places[0]}{to}", recursive=recursive)
                    fs.put(f"{tmp_path}/s{form}", f"/put{to}", recursive=recursive)
                    fs.get(f"/s{form}", f"{places[2]}{to}", recursive=recursive)
                    fs.copy(f"/s{form}", f"/copied{to}", recursive=recursive)
                    first, *others = [sorted(str(found.relative_to(top)) for found in top.rglob("*")) for top in places]
                    assert others == [first] * 3, (to, recursive, exists)
                    assert [place.is_file() for place in places] == [places[0].is_file()] * 4


def test_arrays_whose_names_begin_alike_stay(served: Served) -> None:
    # zarr-python 2917 and gcsfs 136: `a` overwrites `aa`.
    zarr = pytest.importorskip("zarr")
    store = zarr.storage.FsspecStore.from_url(url_of(served, "x.zarr"), storage_options=keys_of(served))
    group, names = zarr.create_group(store=store, overwrite=True), ["aa", "a", "b", "bb", "0", "0_c"]
    for name in names:
        group.create_array(name=name, shape=(4, 4), dtype=int, overwrite=True)
    again = zarr.open(url_of(served, "x.zarr"), storage_options=keys_of(served))
    assert sorted(again.keys()) == sorted(group.keys()) == sorted(names)


def test_pyarrow_empties_a_directory_and_no_root(served: Served) -> None:
    # arrow 7655: the contents of a root are removed only where that is meant.
    pyarrow_fs = pytest.importorskip("pyarrow.fs")
    fs = fs_of(served)
    files = pyarrow_fs.PyFileSystem(pyarrow_fs.FSSpecHandler(fs))
    fs.pipe({"/keep/x": b"1", "/keep/d/y": b"2", "/z": b"3"})
    for root in ("", "/"):
        with pytest.raises((OSError, ValueError)):
            files.delete_dir_contents(root)
    files.delete_dir_contents("/keep")
    assert os.listdir(served.root / "keep") == [] and (served.root / "z").exists()


def test_a_program_that_daemonizes_goes_on(served: Served, tmp_path: Path) -> None:
    # sshfs 53: what used the file system before it forked into the background hangs.
    program = f"""
        import fsspec, os
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **{keys_of(served)!r})
        fs.pipe_file("/before", b"1")
        if os.fork():
            os._exit(0)
        os.setsid()
        fs.pipe_file("/after", fs.cat("/before"))
        os.rename({str(tmp_path / "new")!r}, {str(tmp_path / "done")!r})
    """
    (tmp_path / "new").write_text("")
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], check=True, timeout=60)
    end = time.monotonic() + 60
    while not (tmp_path / "done").exists():
        assert time.monotonic() < end, "the daemon hangs"
        time.sleep(0.05)
    assert (served.root / "after").read_bytes() == b"1"
