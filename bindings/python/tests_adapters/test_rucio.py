"""The protocol as Rucio's own manager uses it, without a Rucio server."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rucio.common import exception
from rucio.rse import rsemanager

from tests.conftest import Served


@pytest.fixture
def settings(served: Served) -> dict[str, Any]:
    """A storage element as a Rucio server describes it to its clients."""
    operations = {"read": 1, "write": 1, "delete": 1}
    protocol = {
        "scheme": "fobs",
        "hostname": "127.0.0.1",
        "port": served.port,
        "prefix": "/rucio/",
        "impl": "fobs.adapters.rucio.Default",
        "domains": {"lan": dict(operations), "wan": dict(operations)},
        "extended_attributes": {name: str(value) for name, value in served.keys.items()},
    }
    return {
        "rse": "FOBS",
        "id": "0",
        "deterministic": True,
        "lfn2pfn_algorithm": "hash",
        "domain": ["lan", "wan"],
        "verify_checksum": True,
        "sign_url": None,
        "availability_read": True,
        "availability_write": True,
        "availability_delete": True,
        "protocols": [protocol],
    }


@pytest.fixture
def protocol(settings: dict[str, Any]) -> Iterator[Any]:
    made = rsemanager.create_protocol(settings, "write", scheme="fobs")
    made.connect()
    yield made
    made.close()


def test_rucio_uploads_finds_downloads_and_deletes(
    served: Served, settings: dict[str, Any], tmp_path: Path
) -> None:
    content = b"measured" * 100_000
    (tmp_path / "file").write_bytes(content)
    lfn = {
        "name": "file",
        "scope": "user.me",
        "filesize": len(content),
        "adler32": f"{zlib.adler32(content):08x}",
    }
    rsemanager.upload(settings, [lfn], source_dir=str(tmp_path))
    stored = [path for path in (served.root / "rucio").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in stored] == [content]
    assert rsemanager.exists(settings, [lfn])
    reader = rsemanager.create_protocol(settings, "read", scheme="fobs")
    (pfn,) = reader.lfns2pfns(lfn).values()
    reader.get(pfn, str(tmp_path / "back"))
    reader.close()
    assert (tmp_path / "back").read_bytes() == content
    with pytest.raises(exception.FileReplicaAlreadyExists):
        rsemanager.upload(settings, [lfn], source_dir=str(tmp_path))
    rsemanager.delete(settings, [lfn])
    assert not stored[0].exists()
    with pytest.raises(exception.SourceNotFound):
        rsemanager.delete(settings, [lfn])


def test_names_translate_both_ways(protocol: Any) -> None:
    (pfn,) = protocol.lfns2pfns({"scope": "user.me", "name": "file"}).values()
    assert pfn.startswith(f"fobs://127.0.0.1:{protocol.attributes['port']}/rucio/user/me/")
    assert protocol.parse_pfns(pfn)[pfn]["name"] == "file"
    assert protocol.path2pfn("rucio/x") == pfn.partition("/rucio/")[0] + "/rucio/x"
    assert protocol.path2pfn(pfn) == pfn


def test_a_file_gets_another_name(served: Served, protocol: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    old, new = (protocol.path2pfn(f"rucio/{name}") for name in ("old", "new"))
    protocol.put("file", old, str(tmp_path))
    assert protocol.stat(old) == {"filesize": 1000}
    protocol.rename(old, new)
    assert not protocol.exists(old) and (served.root / "rucio" / "new").read_bytes() == b"x" * 1000


def test_errors_are_those_of_rucio(
    served: Served, settings: dict[str, Any], protocol: Any, tmp_path: Path
) -> None:
    absent = protocol.path2pfn("rucio/absent")
    for act in (lambda: protocol.get(absent, str(tmp_path / "x")), lambda: protocol.stat(absent)):
        with pytest.raises(exception.SourceNotFound):
            act()
    with pytest.raises(exception.SourceNotFound):
        protocol.put("absent", absent, str(tmp_path))
    (tmp_path / "file").write_bytes(b"x")
    served.authorize("read-only")
    with pytest.raises(exception.RSEAccessDenied):
        protocol.put("file", absent, str(tmp_path))
    settings["protocols"][0]["port"] = 9
    unreachable = rsemanager.create_protocol(settings, "read", scheme="fobs")
    with pytest.raises(exception.ServiceUnavailable):
        unreachable.connect()
    shutil.rmtree(tmp_path)
