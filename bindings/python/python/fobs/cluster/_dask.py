"""Dask distributed, imported without its words about networks, and a client for whatever a caller gives."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._errors import ConnectError, UsageError
from ._bounded import within
from ._nodes import Node
from ._result import ClusterError
from ._workers import ANSWER_MAX

#: Settings of Dask with which idle workers take a quarter of the processor time: none of what they turn off is used here.
#: A worker's statistical profile of itself, and how often its loop and its host are looked at.
QUIET: dict[str, Any] = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
}
# What distributed says, once it is imported, on a host without a route to the rest of the world.
_NO_ROUTE = "Couldn't detect a suitable IP address"


def load() -> Any:
    """The package ``distributed``."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_NO_ROUTE)
            import distributed
    except ImportError as error:
        raise UsageError("fobs.cluster needs Dask distributed: pip install 'fobs[cluster]'") from error
    return distributed


@contextmanager
def connected(client: Any, nodes: list[Node]) -> Iterator[Any]:
    """A client: the one that was given, one of a scheduler's address, or one whose workers are threads here."""
    distributed = load()
    if client is None:
        with _here(distributed, nodes) as own:
            yield own
    elif isinstance(client, str):
        with _scheduler(distributed, client) as own:
            yield own
    elif getattr(client, "asynchronous", False):
        raise UsageError("the Dask client is asynchronous; give one that is not, in a thread of its own")
    elif not hasattr(client, "submit") and hasattr(client, "scheduler_address"):
        # A cluster itself: LocalCluster, SSHCluster, SLURMCluster.
        with distributed.Client(client) as own:
            yield own
    else:
        yield client


@contextmanager
def _here(distributed: Any, nodes: list[Node]) -> Iterator[Any]:
    here = {node.resource: node.sessions for node in nodes if node.path is not None}
    if not here and not all(node.is_daemon for node in nodes):
        raise UsageError(
            "neither side is a path of this host, and not both are daemons (fobs://); give a Dask client "
            "whose workers run on the nodes of one side"
        )
    # Threads: they wait without the GIL, and scripts need no __main__ guard.
    threads = (sum(here.values()) or sum(node.sessions for node in nodes)) + 1
    import dask

    with warnings.catch_warnings(), dask.config.set(QUIET):
        warnings.filterwarnings("ignore", message=_NO_ROUTE)
        cluster = distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=threads,
            processes=False,
            resources=here,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
    with cluster, distributed.Client(cluster) as own:
        yield own


@contextmanager
def _scheduler(distributed: Any, address: str) -> Iterator[Any]:
    def connect() -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_NO_ROUTE)
            return distributed.Client(address, timeout=ANSWER_MAX)

    try:
        # A client waits without a limit for whatever listens there and says nothing.
        client = within(2 * ANSWER_MAX, connect)
    except ValueError as error:
        raise UsageError(f"{address!r} is no address of a Dask scheduler ({error}); write tcp://host:8786") from error
    except OSError as error:
        cause = ConnectError(str(error))
        raise ClusterError(
            f"no Dask scheduler answers at {address} within {ANSWER_MAX:.0f} s; start one there (dask scheduler), or "
            "give the address that it prints",
            cause,
        ) from error
    except Exception as error:
        # What another program says is taken for lengths and names.
        raise ClusterError(
            f"what answers at {address} is no Dask scheduler that this host's distributed understands "
            f"({type(error).__name__}: {error}); give the address that `dask scheduler` prints, and the same version there",
            ConnectError(str(error)),
        ) from error
    with client:
        yield client
