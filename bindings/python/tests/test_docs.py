"""What the documents show is what happens. Each block of Python says behind ```` ```python ```` how it is run: ``runs``
as it stands, ``runs with a keeper``, ``engine`` (test_cluster_engines.py), or ``not run: REASON``."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs

from .conftest import FOBS, Served
from .jobs_keeper import Kept

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/python.md"
CLUSTER = ROOT / "docs/cluster.md"
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
#: Blocks that run, by document: one that is added is run, too.
RUNNING = {"README.md": 1, "cluster.md": 6, "python.md": 6}


def blocks(document: Path, language: str = "python") -> Iterator[tuple[str, str]]:
    """The blocks of a document: each with its mark."""
    found = re.findall(rf"^ *```{language}\b *(.*)\n((?:.*\n)*?) *```$", document.read_text(), re.MULTILINE)
    yield from found


def marked(document: Path, mark: str) -> list[str]:
    return [text for found, text in blocks(document) if found == mark]


def run(text: str, names: dict[str, Any]) -> None:
    """Plays what is behind ``>>>``, which has the results that stand below it."""
    test = doctest.DocTestParser().get_doctest(text, names, str(DOCUMENT), str(DOCUMENT), 0)
    outcome = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_every_block_of_python_is_run_or_says_why_not() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "bindings/python/README.md"]
    running: dict[str, int] = {}
    for document in documents:
        for mark, text in blocks(document):
            reason = mark.removeprefix("not run: ")
            how = {"runs", "runs with a keeper", "engine"}
            assert mark in how or (mark != reason and len(reason) > 8), f"{document}: ```python {mark}: how?\n{text}"
            running[document.name] = running.get(document.name, 0) + (mark in how)
    assert running == RUNNING


def test_the_document_runs(served: Served) -> None:
    pytest.importorskip("numpy")
    served.authorize("read-write,pipe-names")
    # One after the other: a name of one block is used in the next.
    run("".join(marked(DOCUMENT, "runs")), {"url": served.url, "keys": served.keys})


def test_the_jobs_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, monkeypatch)
    try:
        (kept.work / "data").mkdir()
        (kept.work / "data/file").write_bytes(b"a file")
        (text,) = marked(DOCUMENT, "runs with a keeper")
        # No other host is needed for a job.
        assert '"host:data"' in text
        run(text.replace('"host:data"', '"there"'), {})
        assert (kept.work / "there/file").read_bytes() == b"a file"
    finally:
        kept.stop()


class Desk:
    """A home directory, and daemons in place of the hosts that docs/cluster.md names."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.started = directory / "home", list[Served]()
        self.directory = directory / "desk"
        self.directory.mkdir()
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(self.home / ".config"))
        monkeypatch.setenv("XDG_STATE_HOME", str(self.home / ".local/state"))
        monkeypatch.chdir(self.directory)
        subprocess.run([FOBS, "keygen"], check=True, stdout=subprocess.PIPE)
        self.key = self.home / ".config/fobs/identity"
        shutil.copy(self.key, "key")

    def serve(self, name: str) -> Served:
        served = Served(self.directory / name)
        self.started.append(served)
        shown = subprocess.run([FOBS, "keygen", "--show", self.key], check=True, stdout=subprocess.PIPE, text=True)
        served.public = shown.stdout.strip()
        served.authorize("read-write")
        return served

    def run(self, text: str, places: dict[str, str], **names: Any) -> dict[str, Any]:
        """Runs a block with its places in this directory."""
        for place, here in places.items():
            assert place in text, f"the document names no {place}"
            text = text.replace(place, here)
        exec(compile(text, str(CLUSTER), "exec"), names)
        return names

    def stop(self) -> None:
        for served in self.started:
            served.stop()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    desk = Desk(tmp_path, monkeypatch)
    yield desk
    desk.stop()


def test_the_transfers_of_the_cluster_document_run(
    desk: Desk, content: Callable[[int], bytes], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    first, _ = marked(CLUSTER, "runs")
    source, archive = desk.serve("s1"), desk.serve("archive")
    for root in (desk.directory / "data", source.root):
        (root / "run7/below").mkdir(parents=True)
        (root / "run7/below/file").write_bytes(content(100_000))
    (desk.directory / "d1").mkdir()
    ((_, nodes),) = blocks(CLUSTER, "toml")
    for place, here in {
        "fobs://s1.lab.example/": source.url,
        "/scratch": str(source.root),
        "/archive": str(desk.directory / "d1"),
        "/etc/fobs/key": str(desk.key),
    }.items():
        assert place in nodes
        nodes = nodes.replace(place, here)
    Path("nodes.toml").write_text(nodes)
    places = {"/data/": f"{desk.directory}/data/", "fobs://archive/": archive.url}
    resources = {"fobs:d1": 2}
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=3, processes=False, resources=resources, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        result = desk.run(first, places, client=client)["result"]
    for there in (archive.root, desk.directory / "d1/incoming"):
        assert (there / "run7/below/file").read_bytes() == content(100_000)
    assert result.files == 1 and Path("report.html").stat().st_size > 1000


def test_the_copies_of_the_cluster_document_run(desk: Desk, content: Callable[[int], bytes]) -> None:
    pytest.importorskip("distributed")
    _, second = marked(CLUSTER, "runs")
    places = {'"/data"': f'"{desk.directory}/data"'}
    for host, name in (("a", "data/x.h5"), ("b", "mirror/x.h5"), ("c", "x.h5")):
        served = desk.serve(host)
        (served.root / name).parent.mkdir(exist_ok=True)
        (served.root / name).write_bytes(content(9_000_000))
        places[f"fobs://{host}/"] = served.url
    from fobs.cluster import transfer

    desk.run(second, places, transfer=transfer)
    assert (desk.directory / "data/x.h5").read_bytes() == content(9_000_000)


def test_the_package_docstring_runs(served: Served) -> None:
    names = {"url": served.url, "keys": served.keys}
    assert doctest.testmod(fobs, extraglobs=names).failed == 0
