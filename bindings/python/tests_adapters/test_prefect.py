"""Prefect's task: tried again, it waits for the job that it has handed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prefect", reason="SKIPPED: the test of Prefect needs it (pip install prefect)")

from prefect import flow  # noqa: E402
from prefect.testing.utilities import prefect_test_harness  # noqa: E402

import fobs.jobs  # noqa: E402
from fobs.adapters.prefect import run_job  # noqa: E402
from tests.jobs_keeper import Kept  # noqa: E402


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    kept = Kept(tmp_path, monkeypatch)
    yield kept
    kept.stop()


def test_a_task_is_one_job_over_its_retries(kept: Kept) -> None:
    @flow
    def nightly() -> Any:
        state = run_job.with_options(retries=1)(["cp", "in", "out"], {"name": "first"}, return_state=True)
        (kept.work / "in").write_bytes(b"x" * 1000)
        return state.name, run_job(["cp", "in", "out"], {"name": "second"})

    with prefect_test_harness(server_startup_timeout=300):
        name, result = nightly()
    # The first one has failed twice as one job; the second one is another.
    assert (name, result) == ("Failed", {"id": 2, "bytes": 1000})
    first, second = fobs.jobs.list()
    assert (first.phase, first.view["spec"]["name"], first.view["standing"]["runs"]) == ("failed", "first", 2)
    assert second.phase == "done"
