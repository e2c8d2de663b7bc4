"""A client that is generated from the keeper's own description of its API hands in a job and follows it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs.jobs

from .jobs_keeper import Kept

httpx = pytest.importorskip("httpx")
pytest.importorskip("openapi_python_client")
validator = pytest.importorskip("openapi_spec_validator")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    kept = Kept(tmp_path, monkeypatch)
    yield kept
    kept.stop()


@pytest.fixture
def generated(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Any:
    document = fobs.jobs.Keeper()._ask("GET", "/openapi.json")
    validator.validate(document)
    (kept.directory / "openapi.json").write_text(json.dumps(document))
    # Of the types of text it knows two.
    config = kept.directory / "config.json"
    config.write_text('{"content_type_overrides": {"application/openmetrics-text": "text/plain"}}')
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--config", str(config), "--path", str(kept.directory / "openapi.json")]
    command += ["--output-path", str(kept.directory / "keeper_client")]
    # Its formatter is beside the interpreter.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    made = subprocess.run(
        [*command, "--fail-on-warning"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert made.returncode == 0, made.stdout
    monkeypatch.syspath_prepend(str(kept.directory))
    return lambda name: importlib.import_module(f"keeper_client.{name}")


def test_a_generated_client_works(kept: Kept, generated: Any) -> None:
    (kept.work / "in").write_bytes(b"x")
    models = generated("models")
    transport = httpx.HTTPTransport(uds=str(kept.directory / "fobs/jobs.socket"))
    client = generated("client").Client(base_url="http://jobs", httpx_args={"transport": transport})
    spec = models.Spec(words=["cp", "in", "out"], directory=str(kept.work), name="generated")
    taken = generated("api.jobs.submit_job").sync(client=client, body=spec, idempotency_key="once")
    assert (taken.id, taken.new) == (1, True)
    again = generated("api.jobs.submit_job").sync(client=client, body=spec, idempotency_key="once")
    assert (again.id, again.new) == (1, False)
    view = generated("api.jobs.show_job").sync(1, client=client, wait_s=30)
    assert (view.standing.phase.value, view.spec.name) == ("done", "generated")
    assert generated("api.jobs.list_jobs").sync(client=client)[0].id == 1
    lines = generated("api.jobs.job_log").sync(1, client=client)
    assert any(line.text.startswith("done: ") for line in lines)
    refused = generated("api.jobs.show_job").sync(7, client=client)
    assert refused.status == 404 and "no job 7" in refused.detail
    # Over the network the same with a token.
    far = generated("client").AuthenticatedClient(
        base_url=kept.url, token=kept.token("read"), verify_ssl=str(kept.directory / "state/fobs/jobs/tls/certificate.pem")
    )
    assert generated("api.keeper.limits").sync(client=far).total == 4
    change = models.Change("cancel")
    assert generated("api.jobs.change_job").sync(1, change, client=far).status == 403
