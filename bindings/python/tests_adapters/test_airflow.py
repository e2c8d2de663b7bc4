"""Airflow's operator: one job over the tries of a task, waited for by a worker or by a trigger."""

from __future__ import annotations

import asyncio
import os
import runpy
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow.sdk", reason="SKIPPED: the test of Airflow needs it (pip install apache-airflow)")

from airflow.sdk.module_loading import import_string  # noqa: E402
from airflow.utils.db import initdb  # noqa: E402

import fobs.jobs  # noqa: E402
from fobs.adapters.airflow import FobsJobOperator, FobsJobTrigger  # noqa: E402
from tests.jobs_keeper import Kept  # noqa: E402

# Airflow runs what it has read from a file of its own directory.
TEXT = """
from datetime import datetime, timezone
from airflow.sdk import DAG
from fobs.adapters.airflow import FobsJobOperator

with DAG({name!r}, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
    FobsJobOperator(task_id="move", command=["cp", "in", "{{{{ dag.dag_id }}}}"], **{options!r})
"""
DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module", autouse=True)
def database() -> None:
    initdb()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    kept = Kept(tmp_path, monkeypatch)
    yield kept
    kept.stop()


def played(name: str, **options: Any) -> tuple[str, Any]:
    """The state and the XCom of a run of one DAG, which is the same run each time."""
    dags = Path(os.environ["AIRFLOW_HOME"]) / "dags"
    dags.mkdir(exist_ok=True)
    (dags / f"{name}.py").write_text(TEXT.format(name=name, options=options))
    dag = runpy.run_path(str(dags / f"{name}.py"))["dag"]
    task = dag.test(logical_date=DAY, run_after=DAY).get_task_instance("move")
    return str(task.state), task.xcom_pull(task_ids="move")


@pytest.mark.parametrize("deferrable", [False, True], ids=["worker", "trigger"])
def test_a_task_is_one_job_over_its_tries(kept: Kept, deferrable: bool) -> None:
    name = "by_trigger" if deferrable else "by_worker"
    keeper = {"url": kept.url, "fingerprint": kept.fingerprint, "token_file": str(kept.directory / "token")}
    (kept.directory / "token").write_text(kept.token("submit,read,control"))
    options: dict[str, Any] = {"job": {"directory": str(kept.work)}, "keeper": keeper, "deferrable": deferrable}
    assert played(name, **options)[0] == "failed"
    (kept.work / "in").write_bytes(b"x" * 1000)
    assert played(name, **options) == ("success", {"id": 1, "bytes": 1000})
    assert (kept.work / name).read_bytes() == b"x" * 1000
    (job,) = fobs.jobs.list()
    assert (job.phase, job.view["standing"]["runs"]) == ("done", 2)


def test_a_task_that_is_killed_cancels_its_job(kept: Kept) -> None:
    (kept.work / "in").write_bytes(b"x" * (8 << 20))
    # What a worker does with a task, without the worker.
    operator = FobsJobOperator(task_id="move", command=["cp", "--rate", "1Mbit", "in", "out"], deferrable=False)
    operator._running = fobs.jobs.submit(*operator.command)
    operator.on_kill()
    with pytest.raises(fobs.CancelledError):
        operator._running.wait(timeout=60)

    async def kill() -> Any:
        job = await fobs.jobs.submit_async("cp", "--rate", "1Mbit", "in", "other")
        path, options = FobsJobTrigger(job.id, {}).serialize()
        trigger = import_string(path)(**options)
        events = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(0.2)
        assert not events.done()
        await trigger.on_kill()
        return (await asyncio.wait_for(events, 60)).payload

    assert asyncio.run(kill()) == {"id": 2}
    assert fobs.jobs.get(2).phase == "cancelled"


def test_a_job_that_repeats_is_refused() -> None:
    operator = FobsJobOperator(task_id="move", command=["cp", "in", "out"], job={"every": 60.0})
    with pytest.raises(fobs.UsageError, match="schedule"):
        operator.execute({})
