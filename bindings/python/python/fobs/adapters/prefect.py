"""Prefect: a task that is a job of a keeper: ``run_job(["cp", "-r", "set/", "host:"])`` in a flow.

The keeper runs it when the flow's process is gone, too: a task that is tried again finds its job and waits for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from prefect import task
from prefect.runtime import task_run

from ..jobs import Keeper, SubmitOptions
from ._once import submit_once


@task(name="fobs job")  # type: ignore[untyped-decorator, unused-ignore]
def run_job(
    command: Sequence[str], job: SubmitOptions | None = None, keeper: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Hands ``cp`` or ``sync`` with its arguments to a keeper and waits for it. ``job`` are options of
    ``fobs.jobs.submit``, ``keeper`` those of ``fobs.jobs.Keeper`` where it is another host's. Returns the job's ``id``
    and ``bytes``.
    """
    # Outside a run there is nothing that could be tried again.
    step = ("prefect", task_run.id or uuid.uuid4())
    running = submit_once(Keeper(**(keeper or {})), list(command), step, job or {})
    view = running.wait().view
    return {"id": running.id, "bytes": sum(one["bytes"] for one in view["attempts"])}
