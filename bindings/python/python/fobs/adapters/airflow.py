"""Airflow: an operator whose task is a job of a keeper:
``FobsJobOperator(task_id="set", command=["sync", "-a", "set/", "host:set"])``.

The keeper runs it when the worker is gone, too: a task that is tried again finds its job and waits for it. With
``deferrable=True`` a trigger waits, and no worker. A task that is killed cancels its job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from .._errors import Error, UsageError
from ..jobs import Job, Keeper, SubmitOptions
from ._once import submit_once


class FobsJobOperator(BaseOperator):  # type: ignore[misc, unused-ignore]
    """Hands ``command`` (``cp`` or ``sync`` with its arguments) to a keeper and waits for it. ``job`` are options of
    ``fobs.jobs.submit``, ``keeper`` those of ``fobs.jobs.Keeper`` where it is another host's: with ``token_file``,
    because Airflow keeps them. Its XCom has the job's ``id`` and ``bytes``.
    """

    template_fields: Sequence[str] = ("command", "job", "keeper")

    def __init__(
        self,
        *,
        command: Sequence[str],
        job: SubmitOptions | None = None,
        keeper: Mapping[str, Any] | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.command = command
        self.job = job
        self.keeper = keeper
        usual = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = usual if deferrable is None else deferrable
        self._running: Job | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Waits for the job of this task of this run, whichever try it is."""
        options: SubmitOptions = {**(self.job or {})}
        if "every" in options:
            raise UsageError("a job that repeats never ends: the DAG has the schedule")
        keeper = dict(self.keeper or {})
        task = context["ti"]
        step = ("airflow", task.dag_id, task.run_id, task.task_id, task.map_index)
        self._running = submit_once(Keeper(**keeper), [str(word) for word in self.command], step, options)
        self.log.info("job %s of the keeper", self._running.id)
        if self.deferrable:
            self.defer(trigger=FobsJobTrigger(self._running.id, keeper), method_name="execute_complete")
        return _moved(self._running.wait())

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """What the job has come to, once the trigger has seen its end."""
        return _moved(Keeper(**(self.keeper or {})).get(event["id"]).wait())

    def on_kill(self) -> None:
        """Cancels the job that a worker waits for."""
        if self._running is not None:
            self._running.cancel()


class FobsJobTrigger(BaseTrigger):  # type: ignore[misc, unused-ignore]
    """Waits for the end of a job."""

    def __init__(self, id: int, keeper: dict[str, Any]) -> None:
        super().__init__()
        self.id, self.keeper = id, keeper

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """For the triggerer, which may be another host: its keeper has to be one with a URL then."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"id": self.id, "keeper": self.keeper}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, when the job is over."""
        job = await Keeper(**self.keeper).get_async(self.id)
        try:
            await job.wait_async()
        except Error:
            # How a job has ended is the task's to say; a keeper that stays away fails the trigger.
            if not job.is_over:
                raise
        yield TriggerEvent({"id": self.id})

    async def on_kill(self) -> None:
        """Cancels the job of a task that a user has ended."""
        await (await Keeper(**self.keeper).get_async(self.id)).cancel_async()


def _moved(job: Job) -> dict[str, Any]:
    return {"id": job.id, "bytes": sum(one["bytes"] for one in job.view["attempts"])}
