"""What a failure is: its class and number come of the reason, whatever library, locale and name say it."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fobs
from fobs._errors import from_code

from .conftest import Served

REASONS = {
    "Permission denied": errno.EACCES,
    "Operation not permitted": errno.EPERM,
    "No such file or directory": errno.ENOENT,
    "Not a directory": errno.ENOTDIR,
    "Is a directory": errno.EISDIR,
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "Quota exceeded": errno.EDQUOT,
    "Input/output error": errno.EIO,
    "I/O error": errno.EIO,
    "Too many open files": errno.EMFILE,
    "Too many open files in system": errno.ENFILE,
    "No file descriptors available": errno.EMFILE,
    "Cannot allocate memory": errno.ENOMEM,
    "Out of memory": errno.ENOMEM,
    "Stale file handle": errno.ESTALE,
    "File name too long": errno.ENAMETOOLONG,
    "Filename too long": errno.ENAMETOOLONG,
    "Invalid cross-device link": errno.EXDEV,
    "Cross-device link": errno.EXDEV,
}


@pytest.mark.parametrize("code", ["no_source", "destination", "file_io", "denied"])
def test_a_reason_is_a_number_and_only_what_is_missing_is_not_found(code: str) -> None:
    for text, number in REASONS.items():
        for name in ("c/3", "': No such file or directory", "it's: Permission denied"):
            error = from_code(code, f"h via tls: cannot read '{name}': {text}; do something")
            assert error.errno == number, (text, error.errno)
            if code == "no_source":
                assert isinstance(error, FileNotFoundError) == (number in (errno.ENOENT, errno.ENOTDIR)), text
                assert isinstance(error, PermissionError) == (number in (errno.EACCES, errno.EPERM)), text
                assert isinstance(error, (fobs.SourceError, fobs.AccessDeniedError))
    for text in ("Etwas anderes", "Keine Berechtigung", "an unheard-of reason"):
        assert not isinstance(from_code("no_source", f"cannot read 'x': {text}"), FileNotFoundError)
    assert isinstance(from_code("no_source", "nothing matches '/x*'; check the pattern"), FileNotFoundError)


def test_a_locale_changes_no_class(served: Served) -> None:
    # What a program has that speaks another language: the C library's words are not English there.
    program = f"""
        import os
        os.strerror = lambda number: f"Fehler {{number}}"
        import fobs
        session = fobs.Session({served.url!r}, **{({name: str(path) for name, path in served.keys.items()})!r})
        for call in (lambda: session.get_bytes("none"), lambda: session.get_bytes("file/in"), lambda: session.stat("d/loop")):
            try:
                call()
            except OSError as error:
                print(type(error).__name__, error.errno)
    """
    (served.root / "file").write_bytes(b"")
    (served.root / "d").mkdir()
    (served.root / "d/loop").symlink_to("loop")
    seen = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    missing, part, loop = seen.stdout.splitlines()
    assert missing == f"SourceNotFoundError {errno.ENOENT}", seen.stderr
    assert part == f"SourceNotFoundError {errno.ENOTDIR}" and loop.startswith("AccessDeniedError"), seen.stdout


def test_a_limit_of_open_files_is_what_is_blamed(served: Served, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    with served.open() as session:
        session.put_bytes("x", b"x")
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, before[1]))
            with pytest.raises(OSError):
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            for call in (lambda: served.open(), lambda: session.put(tmp_path / "here", "y")):
                with pytest.raises(fobs.Error, match="raise the limit of open files") as seen:
                    call()
                assert seen.value.errno == errno.EMFILE
                assert not isinstance(seen.value, (FileNotFoundError, PermissionError))
        finally:
            for descriptor in held:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert session.get_bytes("x") == b"x"
