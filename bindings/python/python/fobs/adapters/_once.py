"""A step of a workflow as one job of a keeper, however often the step is begun."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ..jobs import Job, Keeper, SubmitOptions


def submit_once(keeper: Keeper, command: Sequence[Any], step: Sequence[object], options: SubmitOptions) -> Job:
    """The job of a step: a new one, the one that a step which was interrupted has begun, or that one once more, where
    it is over and the step is begun again.
    """
    key = hashlib.sha256(repr([str(part) for part in step]).encode()).hexdigest()
    chosen: SubmitOptions = {"key": key, **options}
    job = keeper.submit(*command, **chosen)
    if not job.is_new and job.is_over:
        job.retry()
    return job
