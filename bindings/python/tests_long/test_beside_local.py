"""Random sequences of calls beside fsspec's file system of this host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.local import LocalFileSystem  # noqa: E402

from tests.conftest import Served  # noqa: E402

from .sequences import SEEDS, Side, play  # noqa: E402


@pytest.fixture(scope="module")
def far(shared: Served) -> Iterator[Any]:
    keys = {name: str(path) for name, path in shared.keys.items()}
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=shared.port, skip_instance_cache=True, **keys)
    yield fs
    fs.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_have_the_results_of_local_files(seed: int, far: Any, shared: Served, tmp_path: Path) -> None:
    prefix, here = f"/seed-{seed}", tmp_path / "local"
    here.mkdir()
    play(seed, Side(far, shared.root / prefix[1:], prefix, tmp_path), Side(LocalFileSystem(), here, str(here), tmp_path))
