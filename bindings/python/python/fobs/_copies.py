"""Copies without a session."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Unpack

from . import _fobs
from ._job import Job, OnProgress, transferred
from ._options import OF_SYNC, Options, named
from ._types import Result
from ._values import Path, encode, local, paths_of


def _places(paths: Path | Iterable[Path]) -> list[bytes]:
    """Sources or a destination of a copy: here, or ``host:path``. The shell's ``~`` is of this host."""
    return paths_of(paths, lambda path: local(path) if os.fsencode(path).startswith(b"~") else encode(path))


def start_cp(source: Path | Iterable[Path], destination: Path, **options: Unpack[Options]) -> Job[Result]:
    """Starts :func:`cp`."""
    raw = _fobs.copy(_places(source), _places(destination)[0], named(options), None)
    return Job(raw, transferred)


def cp(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    progress: OnProgress | None = None,
    **options: Unpack[Options],
) -> Result:
    """Copies between this host and another one, as ``fobs cp`` does: one side is ``"host:path"`` or a URL."""
    return start_cp(source, destination, **options).wait(progress=progress)


async def cp_async(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    progress: OnProgress | None = None,
    **options: Unpack[Options],
) -> Result:
    """As :func:`cp`; cancelling the task cancels the transfer."""
    return await start_cp(source, destination, **options)._wait_async(progress)


def sync(
    source: Path | Iterable[Path],
    destination: Path,
    *,
    delete: bool = False,
    dry_run: bool = False,
    checksum: bool = False,
    exclude: Path | Iterable[Path] = (),
    progress: OnProgress | None = None,
    **options: Any,
) -> Result:
    """Brings a tree up to date, as ``fobs sync -a`` does: only what changed is sent. ``delete`` removes what the
    source does not have, ``exclude`` is one pattern of rsync or several.
    """
    # One pattern may be given by itself.
    how = (delete, dry_run, checksum, paths_of(exclude))
    raw = _fobs.copy(_places(source), _places(destination)[0], named(options, OF_SYNC), how)
    return Job(raw, transferred).wait(progress=progress)
