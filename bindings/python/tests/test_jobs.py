"""Jobs from Python: over the Unix socket of a real keeper, and over TLS with tokens."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fobs
import fobs.jobs

from .jobs_keeper import Kept


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    kept = Kept(tmp_path, monkeypatch)
    yield kept
    kept.stop()


def test_a_job_is_handed_in_and_waited_for(kept: Kept) -> None:
    (kept.work / "in").write_bytes(os.urandom(100_000))
    job = fobs.jobs.submit("cp", "in", "out", name="first", label="lab", priority=3)
    assert job.wait(timeout=60) is job
    assert (job.phase, job.exit_code, job.is_over) == ("done", 0, True)
    assert (kept.work / "out").read_bytes() == (kept.work / "in").read_bytes()
    assert (job.view["spec"]["name"], job.view["spec"]["priority"]) == ("first", 3)
    # What the keeper's own parser has found.
    assert job.view["spec"]["destinations"] == ["this host"]
    assert any(line.startswith("done: ") for line in job.log())
    assert [one.id for one in fobs.jobs.list()] == [job.id]
    assert fobs.jobs.get(job.id).phase == "done"
    assert [one.id for one in asyncio.run(fobs.jobs.list_async())] == [job.id]
    assert asyncio.run(fobs.jobs.get_async(job.id)).phase == "done"


def test_names_that_are_no_text_are_handed_in_whole(kept: Kept) -> None:
    name = b"in\xff"
    Path(os.fsdecode(bytes(kept.work) + b"/" + name)).write_bytes(b"x")
    fobs.jobs.submit("cp", name, "out").wait(timeout=60)
    assert (kept.work / "out").read_bytes() == b"x"


def test_what_is_no_job_is_refused_at_once(kept: Kept) -> None:
    for command, why in [
        (("serve", "--root", "x"), "submit cp or sync"),
        (("cp", "--bogus", "in", "out"), "--bogus"),
        (("cp", "in"), "needs a source and a destination"),
        (("cp", "-", "host:out"), "no standard input"),
        ((), "submit cp or sync"),
    ]:
        with pytest.raises(fobs.UsageError, match=why):
            fobs.jobs.submit(*command)
    with pytest.raises(fobs.UsageError, match="priority"):
        fobs.jobs.submit("cp", "in", "out", priority=11)
    with pytest.raises(fobs.UsageError, match="has no option colour"):
        fobs.jobs.submit("cp", "in", "out", colour="red")  # type: ignore[call-arg]
    with pytest.raises(fobs.SourceNotFoundError, match="no job 77"):
        fobs.jobs.submit("cp", "in", "out", after=[77])
    with pytest.raises(fobs.SourceNotFoundError, match="no job 5"):
        fobs.jobs.get(5)
    assert fobs.jobs.list() == []


def test_a_number_that_is_no_moment_is_refused(kept: Kept) -> None:
    # An hour from now is meant, and 1970 would be taken: a job that runs at once, or fails at once.
    moments: list[Any] = [3600, 0, -1.0, float("nan"), float("inf"), True, "06:00"]
    for name in ("at", "deadline"):
        for wrong in moments:
            with pytest.raises(fobs.UsageError, match=f"{name}=.* is no moment"):
                fobs.jobs.submit("cp", "in", "out", **{name: wrong})
    spans: list[Any] = [0, -1, float("nan"), float("inf"), True, "1d", datetime.now()]
    for wrong in spans:
        with pytest.raises(fobs.UsageError, match="every=.* is no length of time"):
            fobs.jobs.submit("cp", "in", "out", every=wrong)
    assert fobs.jobs.list() == []
    later = fobs.jobs.submit("cp", "in", "out", at=datetime.now() + timedelta(hours=1), every=86400)
    assert later.phase == "waiting" and later.view["spec"]["every_ms"] == 86_400_000
    later.cancel()


def test_a_failed_job_raises_what_its_attempt_failed_with(kept: Kept) -> None:
    job = fobs.jobs.submit("cp", "not-there", "out")
    with pytest.raises(fobs.SourceNotFoundError, match="not-there"):
        job.wait(timeout=60)
    assert (job.phase, job.exit_code) == ("failed", 3)
    (kept.work / "not-there").write_bytes(b"now it is")
    job.retry().wait(timeout=60)
    assert (kept.work / "out").read_bytes() == b"now it is"


@pytest.mark.parametrize(("code", "ends_well"), [(0, True), (24, True), (23, False), (35, False)])
def test_a_run_of_a_repeated_job_ends_as_that_of_another(code: int, ends_well: bool) -> None:
    # 24: files were gone before they were read, as happens each night where somebody works.
    view = {"standing": {"phase": "waiting", "runs": 1, "exit_code": code, "message": "m"}, "attempts": []}
    job = fobs.jobs.Job(fobs.jobs.Keeper(socket="/nowhere"), 1, view)
    if ends_well:
        assert job._outcome() is job
    else:
        with pytest.raises(fobs.Error) as caught:
            job._outcome()
        assert caught.value.exit_code == code


def test_the_same_key_is_one_job(kept: Kept) -> None:
    (kept.work / "in").write_bytes(b"x")
    first = fobs.jobs.submit("cp", "in", "out", key="k")
    again = fobs.jobs.submit("cp", "in", "out", key="k")
    assert (again.id, first.is_new, again.is_new) == (first.id, True, False)
    with pytest.raises(fobs.UsageError, match="stands for job"):
        fobs.jobs.submit("cp", "in", "elsewhere", key="k")


def test_a_job_is_paused_resumed_and_cancelled(kept: Kept) -> None:
    job = fobs.jobs.submit("cp", "in", "out", at=timedelta(hours=1))
    assert job.pause().phase == "paused"
    with pytest.raises(TimeoutError, match="goes on"):
        job.wait(timeout=0.2)
    assert job.resume().phase == "waiting"
    assert job.cancel().phase == "cancelled"
    with pytest.raises(fobs.CancelledError):
        job.wait()
    with pytest.raises(fobs.UsageError, match="resum|retry"):
        job.resume()


def test_tasks_wait_for_many_jobs_beside_each_other(kept: Kept) -> None:
    (kept.work / "in").write_bytes(b"x")

    async def run() -> list[str]:
        jobs = [await fobs.jobs.submit_async("cp", "in", f"out{number}") for number in range(20)]
        ended = await asyncio.gather(*(job.wait_async(timeout=120) for job in jobs))
        return [job.phase for job in ended]

    assert asyncio.run(run()) == ["done"] * 20

    async def give_up() -> str:
        job = await fobs.jobs.submit_async("cp", "in", "later", at=timedelta(hours=1))
        task = asyncio.create_task(job.wait_async())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await job.refresh_async()).phase

    assert asyncio.run(give_up()) == "waiting"


def test_a_wait_outlives_its_keeper(kept: Kept) -> None:
    (kept.work / "in").write_bytes(b"x")
    job = fobs.jobs.submit("cp", "in", "out", at=time.time() + 2)
    kept.stop()
    kept.start()
    assert job.wait(timeout=60).phase == "done"


def test_a_keeper_of_another_host_is_asked_with_a_token(kept: Kept) -> None:
    (kept.work / "in").write_bytes(b"x")
    far = kept.far("submit,read,control")
    with pytest.raises(fobs.UsageError, match="needs a directory"):
        far.submit("cp", "in", "out")
    job = far.submit("cp", "in", "out", directory=kept.work)
    assert job.wait(timeout=60).phase == "done"
    assert (kept.work / "out").read_bytes() == b"x"
    # The keeper's own environment, where the client sends none; it is not shown over the network.
    assert "PATH" in dict(fobs.jobs.get(job.id).view["spec"]["environment"])
    assert job.view["spec"]["environment"] == []
    assert [one.id for one in far.list()] == [job.id]


def test_scopes_and_certificates_are_looked_at(kept: Kept) -> None:
    reader, submitter = kept.far("read"), kept.far("submit")
    with pytest.raises(fobs.AccessDeniedError, match="scope submit"):
        reader.submit("cp", "in", "out", directory=kept.work)
    job = submitter.submit("cp", "in", "out", directory=kept.work, at=timedelta(hours=1))
    with pytest.raises(fobs.AccessDeniedError, match="scope read"):
        submitter.list()
    with pytest.raises(fobs.AccessDeniedError, match="scope control"):
        reader.get(job.id).cancel()
    nobody = fobs.jobs.Keeper(kept.url, token="fobs_jobs_x", fingerprint=kept.fingerprint)
    with pytest.raises(fobs.AccessDeniedError, match="malformed"):
        nobody.list()
    token = kept.token("read")
    with pytest.raises(fobs.ConnectError, match="SHA-256"):
        fobs.jobs.Keeper(kept.url, token=token, fingerprint="0" * 64).list()
    with pytest.raises(fobs.ConnectError, match="(?i)certificate"):
        fobs.jobs.Keeper(kept.url, token=token).list()


def test_bad_ways_to_a_keeper_are_refused() -> None:
    ways: list[tuple[dict[str, object], str]] = [
        ({"url": "http://host", "token": "x"}, "https"),
        ({"url": "https://"}, "https"),
        ({"url": "https://host"}, "token"),
        ({"url": "https://host", "token": "a b"}, "one word"),
        ({"url": "https://host", "token": "x", "fingerprint": "ab"}, "64"),
        ({"url": "https://host", "token": "x", "socket": "/x"}, "one of them"),
        ({"token": "x"}, "go with a url"),
    ]
    for options, why in ways:
        with pytest.raises(fobs.UsageError, match=why):
            fobs.jobs.Keeper(**options)  # type: ignore[arg-type]


def test_a_keeper_is_started_where_none_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes(b"x")
    job = fobs.jobs.submit("cp", "in", "out")
    assert job.wait(timeout=60).phase == "done"
    about = job.keeper._ask("GET", "/v1/about")
    os.kill(about["process"], 9)
    with pytest.raises(fobs.ConnectError, match="no keeper of jobs answers"):
        fobs.jobs.Keeper(socket=tmp_path / "nothing").list()
