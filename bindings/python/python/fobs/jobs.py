"""Jobs: transfers that a keeper runs, tries again and takes up after any end, as ``fobs submit`` hands them in.

>>> import fobs.jobs
>>> job = fobs.jobs.submit("cp", "-r", "set/", "host:/data")  # doctest: +SKIP
>>> job.wait().phase  # doctest: +SKIP
'done'

The functions ask this user's keeper over its Unix socket, and start one where none answers. A :class:`Keeper` of
another host is asked over TLS, with a token of ``fobs jobs token create``.
"""

from __future__ import annotations

import asyncio
import base64
import builtins
import functools
import math
import numbers
import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from ._errors import ALL as _KINDS
from ._errors import CancelledError, ConnectError, UsageError, from_code
from ._keeper import Way

__all__ = ["Job", "Keeper", "SubmitOptions", "get", "get_async", "list", "list_async", "submit", "submit_async"]

#: A word of a command: text, or a path.
Word = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# How long one request waits for a job, in seconds.
_WAIT_EACH = 20.0
# Shortest and longest pause between two looks of a task that waits, in seconds.
_LOOK_MIN, _LOOK_MAX = 0.1, 2.0
# How long a keeper may be away while its job is waited for, in seconds.
_AWAY_MAX = 60.0
# What of the environment a job keeps, as `fobs submit` does.
_VARIABLES = frozenset(
    "CVSIGNORE HOME KRB5CCNAME LANG LOGNAME PATH SHELL SSH_AUTH_SOCK TMPDIR TZ USER XDG_CACHE_HOME XDG_CONFIG_HOME "
    "XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME".split()
)
_PREFIXES = ("FOBS_", "LC_", "RSYNC_")
# Least moment, in seconds since 1970, that a number stands for: less is a time span by mistake (2001-09-09).
_MOMENT_MIN = 1e9
# Options that the keeper takes as they are.
_AS_THEY_ARE = ("name", "label", "priority", "between", "retries", "key")
_FINAL = frozenset({"done", "failed", "cancelled"})
# Exit codes of a run that the keeper counts as done: none yet, all was copied, or all that was still there.
_WELL = frozenset({None, 0, 24})


class SubmitOptions(TypedDict, total=False):
    """What :func:`submit` takes beside the command: the options of ``fobs submit``, times as Python has them."""

    name: str
    label: str
    priority: int
    directory: str | os.PathLike[str]
    environment: Mapping[str, str]
    after: Iterable[int | Job]
    at: datetime | timedelta | float
    between: str
    every: timedelta | float
    deadline: datetime | timedelta | float
    retries: int
    notify: str | Iterable[Word]
    key: str


class Job:
    """A job of a keeper, as it was seen last: :meth:`refresh` looks again."""

    def __init__(self, keeper: Keeper, id: int, view: dict[str, Any] | None = None) -> None:
        self.keeper = keeper
        #: Its number.
        self.id = id
        #: Whether the call that returned it handed it in; else it found the job that has its key.
        self.is_new = False
        self._view = view

    def __repr__(self) -> str:
        phase = "" if self._view is None else f", {self._view['standing']['phase']}"
        return f"<fobs.jobs.Job {self.id}{phase}>"

    @property
    def view(self) -> dict[str, Any]:
        """All that the keeper says of it, as ``fobs jobs show --json`` prints it."""
        if self._view is None:
            self.refresh()
        assert self._view is not None
        return self._view

    @property
    def phase(self) -> str:
        """``waiting``, ``running``, ``paused``, ``done``, ``failed`` or ``cancelled``."""
        return str(self.view["standing"]["phase"])

    @property
    def exit_code(self) -> int | None:
        """The exit code of its last attempt that has ended."""
        code = self.view["standing"]["exit_code"]
        return None if code is None else int(code)

    @property
    def message(self) -> str | None:
        """What it said last, or why it does not run."""
        standing = self.view["standing"]["message"]
        message = standing if standing is not None else self.view.get("why")
        return None if message is None else str(message)

    @property
    def is_over(self) -> bool:
        """Whether nothing happens to it any more by itself."""
        return self.phase in _FINAL

    def refresh(self) -> Job:
        """Looks at it again, and returns it."""
        self._view = self.keeper._ask("GET", f"/v1/jobs/{self.id}")
        return self

    async def refresh_async(self) -> Job:
        """As :meth:`refresh`."""
        return await asyncio.to_thread(self.refresh)

    def wait(self, timeout: float | None = None) -> Job:
        """Waits until it is over, of a repeated job until the end of a run, and returns it. Raises what its last
        attempt failed with, ``CancelledError`` where it was cancelled, ``TimeoutError`` where ``timeout`` seconds are
        over: it goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        runs = self._runs()
        away = _Away()
        while True:
            wait = _WAIT_EACH if end is None else max(0.0, min(_WAIT_EACH, end - time.monotonic()))
            path = f"/v1/jobs/{self.id}?wait_s={int(wait)}&runs={runs}"
            pause = away.look(functools.partial(self._look, path, wait))
            if self._has_ended(runs):
                return self._outcome()
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s; it goes on")
            # Of less than a second the keeper waits for nothing.
            time.sleep(max(pause, min(wait, _LOOK_MIN) if wait < 1 else 0.0))

    async def wait_async(self, timeout: float | None = None) -> Job:
        """As :meth:`wait`. A task that is cancelled leaves the job alone."""
        end = None if timeout is None else time.monotonic() + timeout
        runs = await asyncio.to_thread(self._runs)
        away = _Away()
        pause = _LOOK_MIN
        while True:
            # Short requests: thousands of tasks may wait, and there are few threads.
            failed = await asyncio.to_thread(away.look, lambda: self._look(f"/v1/jobs/{self.id}", 0))
            if self._has_ended(runs):
                return self._outcome()
            pause = min(_LOOK_MAX, pause * 1.5, *([] if end is None else [max(0.0, end - time.monotonic())]))
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s; it goes on")
            await asyncio.sleep(max(pause, failed))

    def cancel(self) -> Job:
        """Ends it; what it has copied stays."""
        return self._change("cancel")

    async def cancel_async(self) -> Job:
        """As :meth:`cancel`."""
        return await asyncio.to_thread(self.cancel)

    def pause(self) -> Job:
        """Lets it rest, also over a restart of the host."""
        return self._change("pause")

    async def pause_async(self) -> Job:
        """As :meth:`pause`."""
        return await asyncio.to_thread(self.pause)

    def resume(self) -> Job:
        """Lets a paused job go on."""
        return self._change("resume")

    async def resume_async(self) -> Job:
        """As :meth:`resume`."""
        return await asyncio.to_thread(self.resume)

    def retry(self) -> Job:
        """Begins one that is over again, and at once one that waits for its next attempt."""
        return self._change("retry")

    async def retry_async(self) -> Job:
        """As :meth:`retry`."""
        return await asyncio.to_thread(self.retry)

    def log(self) -> builtins.list[str]:
        """What its attempts have said, oldest line first."""
        return [str(line["text"]) for line in self.keeper._ask("GET", f"/v1/jobs/{self.id}/log")]

    async def log_async(self) -> builtins.list[str]:
        """As :meth:`log`."""
        return await asyncio.to_thread(self.log)

    def _change(self, verb: str) -> Job:
        self._view = self.keeper._ask("POST", f"/v1/jobs/{self.id}/{verb}")
        return self

    def _runs(self) -> int:
        return int(self.refresh().view["standing"]["runs"])

    def _look(self, path: str, wait: float) -> None:
        self._view = self.keeper._ask("GET", path, wait=wait)

    def _has_ended(self, runs: int) -> bool:
        standing = self.view["standing"]
        return standing["phase"] in _FINAL or standing["runs"] > runs

    def _outcome(self) -> Job:
        standing = self.view["standing"]
        message = self.message or "it did not succeed"
        if standing["phase"] == "cancelled":
            raise CancelledError(f"job {self.id} was cancelled")
        ending = next((one["ending"] for one in reversed(self.view["attempts"]) if one["ending"]), None)
        if standing["phase"] == "failed" or (standing["phase"] != "done" and standing["exit_code"] not in _WELL):
            kind = (ending or {}).get("kind")
            codes = {kind.exit_code: kind.code for kind in _KINDS}
            raise from_code(kind or codes.get(standing["exit_code"] or -1, "timeout"), f"job {self.id}: {message}")
        return self


class _Away:
    """Bears a keeper that is gone for a while: the next one knows the job, too."""

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, look: Callable[[], None]) -> float:
        """Looks; how long to wait before the next time."""
        try:
            look()
        except ConnectError:
            now = time.monotonic()
            self._since = self._since if self._since is not None else now
            if now - self._since > _AWAY_MAX:
                raise
            return 1.0
        self._since = None
        return 0.0


class Keeper:
    """A keeper of jobs: this user's, or with ``url`` and a token another one.

    ``fingerprint`` is the SHA-256 that a keeper with a certificate of its own prints; without it an authority must
    have signed the certificate. ``timeout`` bounds each request, in seconds, beside what it waits for.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        fingerprint: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._way = Way(url, token, token_file, fingerprint, socket, timeout)

    def submit(self, *command: Word, **options: Unpack[SubmitOptions]) -> Job:
        """Hands in ``cp`` or ``sync`` with its arguments; as :func:`submit`."""
        return self._taken(self._ask("POST", "/v1/jobs", self._spec(command, options)))

    async def submit_async(self, *command: Word, **options: Unpack[SubmitOptions]) -> Job:
        """As :meth:`submit`."""
        # What it takes of this thread and directory is taken now.
        spec = self._spec(command, options)
        return self._taken(await asyncio.to_thread(self._ask, "POST", "/v1/jobs", spec))

    def list(self) -> builtins.list[Job]:
        """All jobs that are kept, by number."""
        return [Job(self, int(view["id"]), view) for view in self._ask("GET", "/v1/jobs")]

    async def list_async(self) -> builtins.list[Job]:
        """As :meth:`list`."""
        return await asyncio.to_thread(self.list)

    def get(self, id: int) -> Job:
        """The job of this number; ``SourceNotFoundError`` where there is none."""
        return Job(self, id).refresh()

    async def get_async(self, id: int) -> Job:
        """As :meth:`get`."""
        return await asyncio.to_thread(self.get, id)

    def _ask(self, method: str, path: str, body: Any = None, wait: float = 0.0) -> Any:
        return self._way.ask(method, path, body, wait)

    def _taken(self, taken: dict[str, Any]) -> Job:
        job = Job(self, int(taken["id"]))
        job.is_new = bool(taken["new"])
        return job

    def _spec(self, command: tuple[Word, ...], options: SubmitOptions) -> dict[str, Any]:
        unknown = set(options) - set(SubmitOptions.__annotations__)
        if unknown:
            raise UsageError(f"a job has no option {', '.join(sorted(unknown))}")
        given: dict[str, Any] = dict(options)
        spec = {name: given[name] for name in _AS_THEY_ARE if name in given}
        spec["words"] = [_word(word) for word in command]
        if "directory" in options:
            directory = options["directory"]
            spec["directory"] = _word(os.path.abspath(directory) if self._way.is_here else directory)
        elif self._way.is_here:
            spec["directory"] = _word(os.getcwd())
        else:
            raise UsageError("a job at another host needs a directory, in which relative paths begin there")
        if "environment" in options:
            spec["environment"] = [[name, _word(value)] for name, value in sorted(options["environment"].items())]
        elif self._way.is_here:
            kept = ((name, value) for name, value in sorted(os.environ.items()) if _keeps(name))
            spec["environment"] = [[name, _word(value)] for name, value in kept]
        if self._way.is_here:
            spec["umask"] = _umask()
        if "after" in options:
            spec["after"] = [one.id if isinstance(one, Job) else int(one) for one in options["after"]]
        for name in ("at", "deadline"):
            if name in given:
                spec[f"{name}_ms"] = _moment(name, given[name])
        if "every" in options:
            spec["every_ms"] = _span("every", options["every"])
        if "notify" in options:
            notify = options["notify"]
            spec["notify"] = [_word(word) for word in ([notify] if isinstance(notify, str) else notify)]
        return spec


def _word(word: Any) -> str | dict[str, str]:
    data = os.fsencode(word)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _keeps(name: str) -> bool:
    return not name.startswith("FOBS_JOB_") and (name in _VARIABLES or name.startswith(_PREFIXES))


def _umask() -> int:
    # os.umask would change it for all threads.
    with open("/proc/self/status") as status:
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o077)


def _moment(name: str, when: datetime | timedelta | float) -> int:
    """Ms since 1970. A naive datetime is local time, a timedelta begins now."""
    if isinstance(when, timedelta):
        return round((time.time() + when.total_seconds()) * 1000)
    moment = when.timestamp() if isinstance(when, datetime) else when
    if not (isinstance(moment, numbers.Real) and _MOMENT_MIN <= moment < math.inf):
        raise UsageError(
            f"{name}={when!r} is no moment of a job: give a datetime, a timedelta from now (timedelta(hours=1)), "
            "or seconds since 1970 (time.time() + 3600)"
        )
    return round(float(moment) * 1000)


def _span(name: str, span: timedelta | float) -> int:
    """Ms of a length of time."""
    length = span.total_seconds() if isinstance(span, timedelta) else span
    if not isinstance(length, numbers.Real) or isinstance(length, bool) or not 0 < length < math.inf:
        raise UsageError(f"{name}={span!r} is no length of time: give a timedelta or seconds")
    return round(float(length) * 1000)


def submit(*command: Word, **options: Unpack[SubmitOptions]) -> Job:
    """Hands ``cp`` or ``sync`` with its arguments to this user's keeper, and returns at once:
    ``submit("sync", "-a", "data/", "host:data", key="nightly")``. A wrong argument is a ``UsageError`` here.
    """
    return Keeper().submit(*command, **options)


async def submit_async(*command: Word, **options: Unpack[SubmitOptions]) -> Job:
    """As :func:`submit`."""
    return await Keeper().submit_async(*command, **options)


def get(id: int) -> Job:
    """The job of this number; ``SourceNotFoundError`` where there is none."""
    return Keeper().get(id)


async def get_async(id: int) -> Job:
    """As :func:`get`."""
    return await Keeper().get_async(id)


def list() -> builtins.list[Job]:
    """All jobs that this user's keeper has, by number."""
    return Keeper().list()


async def list_async() -> builtins.list[Job]:
    """As :func:`list`."""
    return await Keeper().list_async()
