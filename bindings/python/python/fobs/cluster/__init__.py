"""One transfer over many data nodes, on Dask distributed: ``pip install 'fobs[cluster]'``.

>>> from fobs.cluster import transfer
>>> result = transfer("data/", "fobs://archive/data")          # doctest: +SKIP
>>> print(result, result.root)                                 # doctest: +SKIP
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from .._errors import UsageError
from ._agree import is_root
from ._nodes import HERE, SESSIONS_MAX, Node, Place, both_sides, read_nodes
from ._result import ClusterError, ClusterResult, NodeRate, ShardLine
from ._run import ClusterProgress, OnProgress, Run
from ._state import BusyError

__all__ = [
    "BusyError",
    "ClusterError",
    "ClusterProgress",
    "ClusterResult",
    "Node",
    "NodeRate",
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
    **options: Any,
) -> ClusterResult:
    """Moves what is in ``src`` into ``dst``, in shards over all nodes of both sides.

    Each side is a path of the workers, a URL, a :class:`Node`, or several of these that see the same files; or,
    with a list of ``nodes``, a path below what they serve. ``client`` is a Dask client or the address of a
    scheduler; without one, workers are threads of this process. ``options`` are those of ``fobs cp`` for all sessions,
    ``report`` is where a page of HTML goes. With ``copies`` the nodes of the source hold copies of their own: they
    agree on each file's hash first, each piece is verified against it, and a node that has or serves other bytes is
    left out by name. ``root`` is the BLAKE3 hash that the one file of the source must have; it implies ``copies``.

    A second call goes on where the first one stopped. Raises :class:`ClusterError`, whose ``result`` has the figures
    so far.
    """
    if root is not None:
        root = root.lower()
        if not is_root(root):
            raise UsageError(f"{root!r} is no root; give the 64 hexadecimal digits that b3sum prints")
    source, destination = both_sides(src, dst, nodes)
    copies = copies or root is not None
    if copies:
        destination = tuple(_with_room(node, sum(one.sessions for one in source)) for node in destination)
    with _connected(client, [*source, *destination]) as connected:
        run = Run(connected, source, destination, options, progress, copies, root)
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


@contextmanager
def _connected(client: Any, nodes: list[Node]) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError("fobs.cluster needs Dask distributed: pip install 'fobs[cluster]'") from error
    if client is None:
        here = {node.resource: node.sessions for node in nodes if node.path is not None}
        if not here and not all(node.is_daemon for node in nodes):
            raise UsageError(
                "neither side is a path of this host, and not both are daemons (fobs://); give a Dask client "
                "whose workers run on the nodes of one side"
            )
        # Threads: they wait without the GIL, and scripts need no __main__ guard.
        threads = (sum(here.values()) or sum(node.sessions for node in nodes)) + 1
        cluster = LocalCluster(
            n_workers=1,
            threads_per_worker=threads,
            processes=False,
            resources=here,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
        with cluster, Client(cluster) as own:
            yield own
    elif isinstance(client, str):
        with Client(client) as own:
            yield own
    elif getattr(client, "asynchronous", False):
        raise UsageError("the Dask client is asynchronous; give one that is not, in a thread of its own")
    else:
        yield client
