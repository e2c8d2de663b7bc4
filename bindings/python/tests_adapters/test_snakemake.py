"""Snakemake's own test of storage plugins, and a workflow whose files are at a daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_storage_plugins.registry import StoragePluginRegistry
from snakemake_interface_storage_plugins.tests import TestStorageBase
from snakemake_storage_plugin_fobs import StorageProvider, StorageProviderSettings

from tests.conftest import FOBS, Served


class TestStorage(TestStorageBase):  # type: ignore[misc]
    """What Snakemake demands of a plugin."""

    __test__ = True
    files_only = False

    @pytest.fixture(autouse=True)
    def _at(self, served: Served) -> None:
        self.served = served

    def get_storage_provider_cls(self) -> Any:
        return StorageProvider

    def get_storage_provider_settings(self) -> Any:
        keys = {name: str(value) for name, value in self.served.keys.items()}
        return StorageProviderSettings(**keys)

    def get_query(self, tmp_path: Path) -> str:
        return self.served.url + "deep/in/object"

    def get_query_not_existing(self, tmp_path: Path) -> str:
        return self.served.url + "absent"


def test_snakemake_finds_the_plugin() -> None:
    assert StoragePluginRegistry().is_installed("fobs")


@pytest.mark.parametrize("query", ["fobs://h", "fobs:///x", "https://h/x", "/x", "x"])
def test_other_queries_are_refused(query: str) -> None:
    assert not StorageProvider.is_valid_query(query).valid
    assert StorageProvider.is_valid_query("fobs://h/{sample}.txt").valid


def test_a_workflow_reads_and_writes_files_of_a_daemon(served: Served, tmp_path: Path) -> None:
    (served.root / "samples").mkdir()
    for name in ("one", "two"):
        (served.root / "samples" / f"{name}.txt").write_text(f"{name}\n")
    (tmp_path / "Snakefile").write_text(
        f"""
storage:
    provider="fobs",
    identity="{served.keys["identity"]}",
    known_hosts="{served.keys["known_hosts"]}",

at = "{served.url}"
names = glob_wildcards(storage.fobs(at + "samples/{{name}}.txt")).name

rule all:
    input: storage.fobs(at + "out/joined.txt")

rule upper:
    input: storage.fobs(at + "samples/{{name}}.txt")
    output: storage.fobs(at + "out/{{name}}.txt")
    shell: "tr a-z A-Z <{{input}} >{{output}}"

rule join:
    input: storage.fobs(expand(at + "out/{{name}}.txt", name=sorted(names)))
    output: storage.fobs(at + "out/joined.txt")
    shell: "cat {{input}} >{{output}}"
"""
    )
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--directory", str(tmp_path)]
    command += ["--snakefile", str(tmp_path / "Snakefile")]
    path = f"{Path(FOBS).resolve().parent}:{os.environ['PATH']}"
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path, "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert (served.root / "out" / "joined.txt").read_text() == "ONE\nTWO\n"
