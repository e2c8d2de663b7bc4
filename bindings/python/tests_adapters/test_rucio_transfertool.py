"""Rucio's tool of transfers over a keeper, between a daemon and the keeper's host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rucio.transfertool", reason="SKIPPED: the test of Rucio's transfertool needs its server (pip install rucio)")

from rucio.common import config  # noqa: E402
from rucio.db.sqla.constants import RequestState  # noqa: E402

import fobs.jobs  # noqa: E402
from fobs.adapters.rucio_transfertool import FobsTransfertool  # noqa: E402
from tests.conftest import Served  # noqa: E402
from tests.jobs_keeper import Kept  # noqa: E402


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    kept = Kept(tmp_path, monkeypatch)
    yield kept
    kept.stop()


class Hop:
    """What the tool uses of Rucio's ``DirectTransfer``."""

    def __init__(self, request: str, source: str, destination: str) -> None:
        self.src = self.dst = SimpleNamespace(rse=SimpleNamespace(attributes={}))
        self.rws = SimpleNamespace(request_id=request, scope="user.x", name="file")
        self.dest_url, self._source = destination, source

    def source_url(self, source: Any) -> str:
        return self._source


def test_rucio_submits_polls_and_cancels(served: Served, kept: Kept) -> None:
    (served.root / "file").write_bytes(b"measured" * 10_000)
    settings = config.get_config()
    if not settings.has_section("fobs"):
        settings.add_section("fobs")
    words = " ".join(f"--{name.replace('_', '-')} {path}" for name, path in served.keys.items())
    for name, value in [("options", words), ("keeper", kept.url), ("fingerprint", kept.fingerprint)]:
        settings.set("fobs", name, value)
    token = kept.directory / "token"
    token.write_text(kept.token("submit,read,control"))
    settings.set("fobs", "token_file", str(token))
    here = f"file://storage.example{kept.work}/a%20copy"
    hop = Hop("r1", served.url + "file", here)
    path, builder = FobsTransfertool.submission_builder_for_path([hop])
    assert path == [hop] and builder is not None
    tool = builder.make_transfertool()
    (group,) = tool.group_into_submit_jobs([[hop]])
    submitted = tool.submit(**group)
    # Rucio's submitter was killed before it wrote the number down.
    assert tool.submit(**group) == submitted
    missing = tool.submit([Hop("r2", f"file://{kept.work}/nothing", served.url + "copy2")], {})
    end = time.monotonic() + 120
    while True:
        found = tool.bulk_query({submitted: {"r1": {}}, missing: {"r2": {}}, "77": {"r3": {}}})
        states = [found[submitted]["r1"].state, found[missing]["r2"].state, found["77"]["r3"].state]
        if RequestState.SUBMITTED not in states or time.monotonic() > end:
            break
        time.sleep(0.2)
    assert states == [RequestState.DONE, RequestState.FAILED, RequestState.LOST], [job.log() for job in fobs.jobs.list()]
    assert found[submitted]["r1"].get_db_fields_to_update(None)["external_id"] == submitted
    assert (kept.work / "a copy").read_bytes() == (served.root / "file").read_bytes()
    assert not tool.cancel([missing, "77"])
    for source in ("davs://x/y", served.url + "y"):
        hop = Hop("r4", source, served.url + "z")
        assert FobsTransfertool.submission_builder_for_path([hop]) == ([], None)
