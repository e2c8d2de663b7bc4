"""URLs and names: one rule, for the command, the library and fsspec."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs

fsspec = pytest.importorskip("fsspec")

from fobs.fsspec import FobsFileSystem, FobsSshFileSystem  # noqa: E402

from .conftest import Served  # noqa: E402
from .test_file_names import files_of  # noqa: E402


@pytest.fixture
def fs(served: Served) -> Iterator[Any]:
    fs = files_of(served)
    yield fs
    fs.close()


def test_a_port_that_is_missing_is_the_usual_one() -> None:
    other = FobsFileSystem("h", skip_instance_cache=True)
    assert other._strip_protocol("fobs://h:45600/a") == other._strip_protocol("fobs://h/a") == "/a"
    given = FobsFileSystem("h", 7, skip_instance_cache=True)
    assert given._strip_protocol("fobs://h/a") == "/a"
    of_url = FobsFileSystem(**FobsFileSystem._get_kwargs_from_urls("fobs://h:7/a"), skip_instance_cache=True)
    with pytest.raises(ValueError):
        of_url._strip_protocol("fobs://h/a")
    ssh = FobsSshFileSystem("Alias", user="me", skip_instance_cache=True)
    assert ssh._strip_protocol("fobs+ssh://me@Alias/a") == ssh._strip_protocol("fobsssh://Alias/a") == "/a"
    assert ssh.unstrip_protocol("/a#1") == "fobs+ssh://me@Alias/a%231"
    for url in ("fobs+ssh://you@Alias/a", "fobs+ssh://me@alias/a", "fobs+ssh://me@Alias:22/a"):
        with pytest.raises(ValueError):
            ssh._strip_protocol(url)


NAMES = ["run_1#2.cram", "a?b", "100%", "%41", "%2F", "a%2Fb", "%25", "%zz", "a b", "é", "\udcff", "a[1]", "x*y", "a;b=c", "a&b"]


@pytest.mark.parametrize("name", NAMES)
def test_one_rule_of_urls_for_command_library_and_adapters(
    fs: Any, served: Served, tmp_path: Path, ssh: dict[str, Any], name: str
) -> None:
    content = os.fsencode(name)
    (served.root / name).write_bytes(content)
    keys = {key: str(path) for key, path in served.keys.items()}
    url = fs.unstrip_protocol(f"/{name}")
    plain = f"fobs://127.0.0.1:{served.port}/{name}"
    # What the URL means if the name is put into it as it is, by the rule; None where that is refused.
    meant: bytes | None = content
    if "%" in name:
        meant = None if name in ("100%", "%zz") else b"another"
    for other in ("A", "a/b", "%"):
        if meant == b"another" and other != name:
            (served.root / other).parent.mkdir(exist_ok=True)
            (served.root / other).write_bytes(b"another")
    command = [os.environ.get("FOBS", "fobs"), "cp", "-q", "-i", keys["identity"], "--known-hosts", keys["known_hosts"]]
    for at, found in ((url, content), (plain, meant)):
        reads = [
            lambda at=at: fsspec.open(at, **keys).open().read(), lambda at=at: fs.cat_file(at),
        ]  # fmt: skip
        if not any(letter in name for letter in "*?["):
            # It takes those for a pattern.
            reads.append(lambda at=at: fsspec.open_files([at], **keys)[0].open().read())
        for read in reads:
            if found is None or name == "%2F" and at == plain:
                with pytest.raises((ValueError, OSError)):
                    read()
            else:
                assert read() == found, at
        here = tmp_path / "here"
        if found is None:
            with pytest.raises(fobs.UsageError):
                fobs.cp(at, here, **served.keys)
        elif not (name == "%2F" and at == plain):
            fobs.cp(at, here, **served.keys)
            assert here.read_bytes() == found
            subprocess.run([*command, os.fsencode(at), tmp_path / "again"], check=True)
            assert (tmp_path / "again").read_bytes() == found
    assert fs.cat_file(f"/{name}") == content
    # The other carrier, by fsspec, the library and the command.
    far = FobsSshFileSystem("far", skip_instance_cache=True, **{key: str(value) for key, value in ssh.items()})
    over = far.unstrip_protocol(str(served.root / name))
    assert far.cat_file(over) == content
    fobs.cp(over, tmp_path / "over", **ssh)
    assert (tmp_path / "over").read_bytes() == content
    far.close()
