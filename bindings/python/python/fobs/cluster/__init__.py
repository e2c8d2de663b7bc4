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
from typing import Any

from .._errors import UsageError
from ._nodes import Node, Place, both_sides, read_nodes
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
    **options: Any,
) -> ClusterResult:
    """Moves what is in ``src`` into ``dst``, in shards over all nodes of both sides.

    Each side is a path of the workers, a URL, a :class:`Node`, or several of these that see the same files; or,
    with a list of ``nodes``, a path below what they serve. ``client`` is a Dask client or the address of a
    scheduler; without one, workers are threads of this process. ``options`` are those of ``fobs cp`` for all sessions,
    ``report`` is where a page of HTML goes. A second call goes on where the first one stopped. Raises
    :class:`ClusterError`, whose ``result`` has the figures so far.
    """
    source, destination = both_sides(src, dst, nodes)
    with _connected(client, [*source, *destination]) as connected:
        run = Run(connected, source, destination, options, progress)
        try:
            result = run.run()
        except ClusterError as error:
            if report is not None and error.result is not None:
                error.result.write_report(report)
            raise
    if report is not None:
        result.write_report(report)
    return result


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
