"""Users of fsspec over an emulated path, fobs beside sftp (paramiko), in one run.

    users.py --lab target/release/fobs-lab --fobs target/release/fobs [--rtt 65ms] [--rate 300Mbit] [--only WORD,...]

--only plays those whose names have one of the words; a snapshot by SFTP takes 13 minutes. Needs root (network
namespaces), sshd, and pandas, pyarrow, zarr, xarray and paramiko; torch for its checkpoint.
Prints one JSON object a line: what, tool, seconds, bytes; then a table. Exit code 1 where fobs does not reach ten
times SFTP's throughput for a whole object, or is slower for a range.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import far

# Sizes: long enough for a rate, short enough for SFTP.
WHOLE_BYTES = 64 << 20
RANGE_BYTES = 1 << 20
RANGES = 8
FILES = 2000
FILE_BYTES = 4096


# URL of the far end's root, and the options of fsspec for it.
Address = tuple[str, dict[str, Any]]


def address_of(tool: str, at: dict[str, Any]) -> Address:
    if tool == "fobs":
        return f"fobs://{at['host']}:{at['fobs_port']}", at["keys"]
    return f"sftp://root@{at['host']}:{at['ssh_port']}", {"key_filename": at["ssh_key"]}


def file_system(tool: str, at: dict[str, Any]) -> Any:
    import fsspec

    url, options = address_of(tool, at)
    return fsspec.core.url_to_fs(f"{url}/", **options)[0]


def whole(fs: Any, root: str, here: Path, address: Address) -> int:
    data = os.urandom(WHOLE_BYTES)
    fs.pipe_file(f"{root}/whole", data)
    assert fs.cat_file(f"{root}/whole") == data
    return 2 * WHOLE_BYTES


def whole_file(fs: Any, root: str, here: Path, address: Address) -> int:
    (here / "file").write_bytes(os.urandom(WHOLE_BYTES))
    fs.put_file(str(here / "file"), f"{root}/file")
    fs.get_file(f"{root}/file", str(here / "back"))
    assert (here / "back").read_bytes() == (here / "file").read_bytes()
    return 2 * WHOLE_BYTES


def ranges(fs: Any, root: str, here: Path, address: Address) -> int:
    for number in range(RANGES):
        start = (number * 7 + 3) << 20
        assert len(fs.cat_file(f"{root}/prepared", start, start + RANGE_BYTES)) == RANGE_BYTES
    return RANGES * RANGE_BYTES


def snapshot(fs: Any, root: str, here: Path, address: Address) -> int:
    fs.get(f"{root}/tree", str(here / "snapshot"), recursive=True)
    assert sum(1 for path in (here / "snapshot").rglob("*") if path.is_file()) == FILES
    return FILES * FILE_BYTES


def parquet(fs: Any, root: str, here: Path, address: Address) -> int:
    import pandas

    frame = pandas.read_parquet(f"{root}/frame.parquet", filesystem=fs, columns=["a", "b"])
    assert len(frame) == 1_000_000
    return fs.info(f"{root}/frame.parquet")["size"]


def zarr_slice(fs: Any, root: str, here: Path, address: Address) -> int:
    import zarr

    array = zarr.open_array(zarr.storage.FsspecStore(fs, read_only=True, path=f"{root}/array.zarr"), mode="r")
    assert array[:250, :250].sum() > 0
    return 250 * 250 * 8


def xarray_open(fs: Any, root: str, here: Path, address: Address) -> int:
    import xarray
    import zarr

    store = zarr.storage.FsspecStore(fs, read_only=True, path=f"{root}/set.zarr")
    with xarray.open_zarr(store, consolidated=False) as data:
        assert float(data["value"][:100].sum()) > 0
    return 100 * 500 * 8


def checkpoint(fs: Any, root: str, here: Path, address: Address) -> int:
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter

    url, options = address[0] + root + "/checkpoint", address[1]
    state = {"weights": torch.arange(2_000_000.0)}
    dcp.save(state, storage_writer=FsspecWriter(url, **options), no_dist=True)
    loaded = {"weights": torch.zeros(2_000_000)}
    dcp.load(loaded, storage_reader=FsspecReader(url, **options), no_dist=True)
    assert torch.equal(loaded["weights"], state["weights"])
    return 2 * 8_000_000


USERS: dict[str, Callable[[Any, str, Path, Address], int]] = {
    "whole object, put and get": whole,
    "file, put_file and get_file": whole_file,
    "ranges of 1 MiB": ranges,
    "snapshot of 2,000 files": snapshot,
    "pandas.read_parquet": parquet,
    "zarr, open and slice": zarr_slice,
    "xarray, open and slice": xarray_open,
    "torch.distributed.checkpoint": checkpoint,
}


def client(at: dict[str, Any]) -> None:
    for what, act in USERS.items():
        if not any(word in what for word in at["only"].split(",")):
            continue
        for tool in ("fobs", "sftp"):
            here = Path(tempfile.mkdtemp())
            root = "/data" if tool == "fobs" else at["root"] + "/data"
            line: dict[str, Any] = {"what": what, "tool": tool}
            try:
                fs = file_system(tool, at)
                fs.exists(root)
                began = time.monotonic()
                line["bytes"] = act(fs, root, here, address_of(tool, at))
                line["seconds"] = time.monotonic() - began
            except Exception as error:
                line["failed"] = f"{type(error).__name__}: {error}"
            print(json.dumps(line), flush=True)
            shutil.rmtree(here)


def prepare(data: Path) -> None:
    data.mkdir()
    (data / "prepared").write_bytes(os.urandom(WHOLE_BYTES))
    for number in range(FILES):
        path = data / "tree" / str(number % 20) / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(FILE_BYTES))
    import numpy
    import pandas
    import xarray
    import zarr

    random = numpy.random.default_rng(7)
    columns = {name: random.random(1_000_000) for name in "abcd"}
    pandas.DataFrame(columns).to_parquet(data / "frame.parquet")
    values = random.random((1000, 1000))
    zarr.create_array(str(data / "array.zarr"), data=values, chunks=(125, 125))
    xarray.Dataset({"value": (("t", "x"), values[:, :500])}).to_zarr(str(data / "set.zarr"))


def report(lines: list[dict[str, Any]]) -> int:
    missed = 0
    print("| what | fobs, s | sftp, s | sftp / fobs |\n|---|---:|---:|---:|")
    for what in USERS:
        found = {line["tool"]: line for line in lines if line["what"] == what}
        if not found:
            continue
        seconds = {tool: line.get("seconds") for tool, line in found.items()}
        ours, theirs = seconds.get("fobs"), seconds.get("sftp")
        if ours is None or theirs is None:
            reasons = "; ".join(f"{tool}: {line['failed']}" for tool, line in found.items() if "failed" in line)
            shown = ("-" if took is None else f"{took:.2f}" for took in (ours, theirs))
            print(f"| {what} | {' | '.join(shown)} | {reasons} |")
            continue
        print(f"| {what} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |")
        needed = {"whole object, put and get": 10.0, "ranges of 1 MiB": 1.0}.get(what, 0.0)
        missed += theirs / ours < needed
    return 1 if missed else 0


def main() -> int:
    parser = far.arguments()
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    if given.client:
        client(json.loads(given.client))
        return 0
    return report(far.played(__file__, given, lambda root: prepare(root / "data"), only=given.only))


if __name__ == "__main__":
    sys.exit(main())
