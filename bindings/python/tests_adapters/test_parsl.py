"""Parsl runs apps whose files are at a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import parsl
import pytest
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import ThreadPoolExecutor

from fobs.adapters.parsl import FobsStaging
from tests.conftest import Served


@pytest.fixture
def runs(served: Served, tmp_path: Path) -> Iterator[Any]:
    keys = {name: str(value) for name, value in served.keys.items()}
    executor = ThreadPoolExecutor(
        max_threads=2, working_dir=str(tmp_path / "work"), storage_access=[FobsStaging(**keys)]
    )
    with parsl.load(Config(executors=[executor], run_dir=str(tmp_path / "runs"))) as loaded:
        yield loaded
    parsl.clear()


def join(inputs: Any = (), outputs: Any = ()) -> int:
    """Writes its inputs, one behind the other, in capitals."""
    text = "".join(Path(one).read_text() for one in inputs).upper()
    return Path(outputs[0]).write_text(text)


def test_an_app_reads_and_writes_files_of_a_daemon(served: Served, runs: Any) -> None:
    for name in ("a", "b"):
        (served.root / name).mkdir()
        # Equal names in two directories do not meet.
        (served.root / name / "text").write_text(f"text of {name}\n")
    app = parsl.python_app(join, data_flow_kernel=runs)
    out = File(served.url + "made/new/joined")
    done = app(inputs=[File(served.url + "a/text"), File(served.url + "b/text")], outputs=[out])
    assert done.result() == 20
    done.outputs[0].result()
    assert (served.root / "made" / "new" / "joined").read_text() == "TEXT OF A\nTEXT OF B\n"
    # What one app has delivered is the next one's input.
    again = app(inputs=[done.outputs[0]], outputs=[File(served.url + "again")])
    again.outputs[0].result()
    assert (served.root / "again").read_text() == "TEXT OF A\nTEXT OF B\n"


@pytest.mark.parametrize(("path", "name"), [("x#1", "x#1"), ("a?b", "a?b"), ("%2541", "%41"), ("d%2Fnew", "d/new"), ("%41", "A")])
def test_names_follow_the_rule_of_urls(served: Served, runs: Any, path: str, name: str) -> None:
    (served.root / "in").write_text("text")
    app = parsl.python_app(join, data_flow_kernel=runs)
    made = app(inputs=[File(served.url + "in")], outputs=[File(served.url + path)])
    made.outputs[0].result()
    assert (served.root / name).read_text() == "TEXT"
    again = app(inputs=[File(served.url + path)], outputs=[File(served.url + "again")])
    again.outputs[0].result()
    assert (served.root / "again").read_text() == "TEXT"


def test_a_file_that_is_not_there_fails_the_app(served: Served, runs: Any) -> None:
    app = parsl.python_app(join, data_flow_kernel=runs)
    failed = app(inputs=[File(served.url + "absent")], outputs=[File(served.url + "out")])
    with pytest.raises(FileNotFoundError, match="absent"):
        failed.result()
    assert not (served.root / "out").exists()


def test_other_files_are_left_to_others(served: Served) -> None:
    staging = FobsStaging(identity="key")
    for url, ours in (("fobs://h/x", True), ("file:///x", False), ("https://h/x", False)):
        assert staging.can_stage_in(File(url)) is staging.can_stage_out(File(url)) is ours
    assert repr(staging) == "FobsStaging(identity='key')"
