"""One transfer over many data nodes, on Dask distributed: ``pip install 'fobs[cluster]'``.

>>> from fobs.cluster import transfer
>>> result = transfer("data/", "fobs://archive/data")          # doctest: +SKIP
>>> print(result, result.root)                                 # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from .._errors import UsageError
from .._values import Path
from ._agree import is_root
from ._dask import QUIET, connected
from ._nodes import HERE, SESSIONS_MAX, Node, Place, both_sides, read_nodes
from ._result import ClusterError, ClusterResult, NodeRate, Planned, ShardLine
from ._run import OnProgress, Run
from ._state import BusyError
from ._tally import ClusterProgress
from ._wanted import Wanted

__all__ = [
    "QUIET",
    "BusyError",
    "ClusterError",
    "ClusterProgress",
    "ClusterResult",
    "Node",
    "NodeRate",
    "Planned",
    "ShardLine",
    "read_nodes",
    "transfer",
]


def transfer(
    src: Place,
    dst: Place,
    client: Any = None,
    *,
    nodes: str | os.PathLike[str] | None = None,
    progress: OnProgress | None = None,
    report: str | os.PathLike[str] | None = None,
    copies: bool = False,
    root: str | None = None,
    include: Path | Iterable[Path] = (),
    exclude: Path | Iterable[Path] = (),
    **options: Any,
) -> ClusterResult:
    """Moves what is in ``src`` into ``dst``, in shards over all nodes of both sides.

    Each side is a path of the workers, a URL, a :class:`Node`, or several of these that see the same files; or,
    with a list of ``nodes``, a path below what they serve. ``client`` is a Dask client, a cluster of Dask's or the
    address of a scheduler; without one, workers are threads of this process. ``options`` are those of ``fobs cp`` for all
    sessions, and of ``fobs sync`` ``owner``, ``group``, ``hard_links``, ``xattrs``, ``acls``, ``sparse``, ``devices``,
    ``specials``, ``archive``, ``numeric_ids``, ``checksum``, ``delete`` and ``dry_run``. ``exclude`` and ``include`` are
    patterns of rsync; what an ``include`` matches stays. ``report`` is where a page of HTML goes. With ``copies`` the nodes
    of the source hold copies of their own: they agree on each file's hash first, each piece is verified against it, and
    a node that has or serves other bytes is left out by name. ``root`` is the BLAKE3 hash that the one file of the source
    must have; it implies ``copies``.

    A second call goes on where the first one stopped. Raises :class:`ClusterError`, whose ``result`` has the figures
    so far.
    """
    shown = {**({} if nodes is None else {"nodes": os.fspath(nodes)}), **options}
    words = [repr(src), repr(dst), *(f"{name}={value!r}" for name, value in shown.items())]
    command = f"transfer({', '.join(words)})"
    choices = Choices(nodes, progress, report, copies, root, include, exclude, command)
    return transfer_by(src, dst, client, choices, options)


@dataclass(frozen=True)
class Choices:
    """What a call of :func:`transfer` chooses beside its options."""

    nodes: str | os.PathLike[str] | None = None
    progress: OnProgress | None = None
    report: str | os.PathLike[str] | None = None
    copies: bool = False
    root: str | None = None
    include: Path | Iterable[Path] = ()
    exclude: Path | Iterable[Path] = ()
    command: str = ""


def transfer_by(src: Place, dst: Place, client: Any, choices: Choices, options: dict[str, Any]) -> ClusterResult:
    """As :func:`transfer`, for the command."""
    root, report = choices.root, choices.report
    if root is not None:
        root = root.lower()
        if not is_root(root):
            raise UsageError(f"{root!r} is no root; give the 64 hexadecimal digits that b3sum prints")
    wanted = Wanted.of(options, choices.include, choices.exclude)
    source, destination = both_sides(src, dst, choices.nodes)
    copies = choices.copies or root is not None
    if copies:
        destination = tuple(_with_room(node, sum(one.sessions for one in source)) for node in destination)
    with connected(client, [*source, *destination]) as dask:
        run = Run(dask, source, destination, options, choices.progress, copies, root, wanted, choices.command)
        try:
            result = run.run()
        except ClusterError as error:
            if report is not None and error.result is not None:
                error.result.write_report(report)
            raise
    if report is not None:
        result.write_report(report)
    return result


def _with_room(node: Node, sessions: int) -> Node:
    """This host as a destination, with the sessions of all copies."""
    return replace(node, sessions=min(max(node.sessions, sessions), SESSIONS_MAX)) if node.name == HERE else node
