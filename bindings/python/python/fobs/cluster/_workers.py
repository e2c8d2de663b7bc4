"""The workers of a Dask cluster: which of them belong to which node, and how a task gets to one."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from .. import _fobs
from .._errors import ConnectError, UsageError
from ._access import access_to
from ._move import Greeting, greet
from ._nodes import ANYWHERE, HERE, Node
from ._result import ClusterError
from ._state import beat

# Difference of clocks that is worth a notice, seconds: files keep the times of the source whatever the clocks
# say.
CLOCK_MAX = 60.0
# How long a scheduler that does not answer is waited for, seconds.
ANSWER_MAX = 5.0
# How often a task that is waited for is looked after, and how long it may take at most, seconds: a listing of tens of
# millions of files, or hashes of a copy.
LOOK_EVERY, LOOK_MAX = 0.25, 86_400.0
# How long the first worker of a scheduler is waited for, seconds: those over ssh and of a batch system join late.
FIRST_MAX = 60.0
# How long something short beside a worker's tasks may take, seconds.
BESIDE_MAX = 120.0
#: Names of Dask's exceptions that say that a worker is gone.
LOST = ("KilledWorker", "CancelledError", "FutureCancelledError")


class NodeLostError(ConnectError):
    """A node has no worker any more."""


class Workers:
    """The workers of a client."""

    def __init__(self, client: Any, nodes: Iterable[Node]) -> None:
        self.client = client
        self.nodes = list(nodes)
        self.addresses: dict[str, list[str]] = {}
        self.refused: dict[str, str] = {}
        self.notices: list[str] = []
        self.silent_since: float | None = None
        self.refresh()

    def refresh(self) -> None:
        """Looks which workers there are."""
        if not self.is_connected():
            self.silent_since = self.silent_since or time.monotonic()
            if time.monotonic() - self.silent_since < ANSWER_MAX:
                return
            raise _no_scheduler("its connection is lost")
        self.silent_since = None
        try:
            info = self.client.sync(self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_MAX)
        except Exception as error:
            raise _no_scheduler(str(error)) from error
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        everyone = [address for address in info["workers"] if address not in self.refused]
        for address in everyone:
            for name in info["workers"][address].get("resources", {}):
                if name.startswith("fobs:"):
                    found.setdefault(name.removeprefix("fobs:"), []).append(address)
        if HERE in found and not found[HERE]:
            found[HERE] = everyone
        found[ANYWHERE.name] = everyone
        self.addresses = found

    def is_connected(self) -> bool:
        """Whether the scheduler is there."""
        return bool(self.client.status == "running")

    def has(self, node: Node) -> bool:
        """Whether a node has a worker."""
        return bool(self.addresses.get(node.name))

    def resources(self, node: Node) -> dict[str, int]:
        """What a task at a node asks for."""
        if node is ANYWHERE or node.name == HERE and not self._declared(node):
            return {}
        return {node.resource: 1}

    def _declared(self, node: Node) -> bool:
        info = self.client.scheduler_info(n_workers=-1).get("workers", {})
        return any(node.resource in worker.get("resources", {}) for worker in info.values())

    def greet(self) -> None:
        """Refuses workers that have another version of fobs, or none; notes clocks that differ."""
        end = time.monotonic() + FIRST_MAX
        while not self.addresses[ANYWHERE.name] and time.monotonic() < end:
            time.sleep(LOOK_EVERY)
            self.refresh()
        ours = {address: node for node in self.nodes for address in self.addresses[node.name]}
        if not ours and all(node.is_daemon for node in self.nodes):
            # The daemons move the data among themselves.
            ours = dict.fromkeys(self.addresses[ANYWHERE.name], ANYWHERE)
        if not ours:
            names = ", ".join(node.resource for node in self.nodes)
            raise UsageError(
                f"no Dask worker belongs to a node; start some with the resource of one ({names}), as in "
                f"dask worker SCHEDULER --resources {self.nodes[0].resource}={self.nodes[0].sessions}"
            )
        greetings = self._run(greet, workers=list(ours), on_error="return")
        for address, greeting in greetings.items():
            name = ours[address].name
            if not isinstance(greeting, Greeting):
                self.refused[address] = (
                    f"its worker {address} cannot use fobs ({greeting}); install fobs[cluster] there"
                )
            elif greeting.version != _fobs.VERSION:
                self.refused[address] = (
                    f"its worker {address} has fobs {greeting.version}, this host {_fobs.VERSION}; install the same"
                )
            elif abs(greeting.clock - time.time()) > CLOCK_MAX:
                hours = (greeting.clock - time.time()) / 3600
                self.notices.append(
                    f"the clock of node {name} is {hours:+.1f} hours off; set it (nothing depends on it)"
                )
            if address in self.refused:
                self.notices.append(f"node {name}: {self.refused[address]}")
        self.refresh()

    def places(self, side: Iterable[Node], other: Iterable[Node]) -> list[tuple[Node, Node]]:
        """From where a side can be looked at: its node, and the node whose worker looks."""
        nodes = list(side)
        found = [(node, node) for node in nodes if node.path is not None and self.has(node)]
        found += [(node, at) for node in nodes if node.url for at in other if self.has(at)]
        return found or [(node, ANYWHERE) for node in nodes if node.url and self.has(ANYWHERE)]

    def call(self, function: Callable[..., Any], at: Node, *arguments: Any) -> Any:
        """Runs a function once at a node, as a task, and waits for it."""
        return self.wait(self.submit(function, at, *arguments), at)

    def wait(self, future: Any, at: Node, worker: str = "") -> Any:
        """What a task at a node, or at one ``worker`` of it, returns. One whose node has no worker any more would wait for
        ever: its node is lost.
        """
        end = time.monotonic() + LOOK_MAX
        landed = threading.Event()
        future.add_done_callback(lambda _: landed.set())
        while not landed.wait(LOOK_EVERY):
            self.refresh()
            if not self.has(at) or (worker and worker not in self.addresses[at.name]):
                future.cancel()
                raise NodeLostError(f"the worker at node {at.name} is gone; start another one there")
            if time.monotonic() > end:
                future.cancel()
                raise NodeLostError(
                    f"the worker at node {at.name} has not answered for {LOOK_MAX / 3600:.0f} h; look what its file "
                    "system does"
                )
        try:
            return future.result(timeout=ANSWER_MAX)
        except Exception as error:
            if isinstance(error, OSError) or type(error).__name__ not in LOST:
                raise
            raise NodeLostError(f"the worker at node {at.name} was killed ({error}); start another one there") from error

    def submit(self, function: Callable[..., Any], at: Node, *arguments: Any, worker: str = "") -> Any:
        """Runs a function once at a node, as a task, or at one worker of it."""
        where: dict[str, Any] = {"workers": [worker]} if worker else {}
        return self.hand_over(function, *arguments, resources=self.resources(at), **where)

    def hand_over(self, function: Callable[..., Any], *arguments: Any, **where: Any) -> Any:
        """Gives the scheduler a task. All tasks go this way: a client without a scheduler has exceptions of its own."""
        try:
            return self.client.submit(function, *arguments, pure=False, retries=0, **where)
        except Exception as error:
            if self.is_connected():
                raise
            raise _no_scheduler(str(error)) from error

    def beside(self, node: Node, at: Node, act: Callable[[], Any]) -> Any:
        """Does something short at a node at once, whatever its worker is busy with."""
        addresses = self.addresses.get(at.name)
        if not addresses:
            raise NodeLostError(f"the worker at node {at.name} is gone; start another one there")
        return self._run(_in_thread, act, workers=[addresses[0]])[addresses[0]]

    def _run(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Runs a function on workers beside their tasks. A worker that is stopped does not answer: the wait is bounded."""
        outcome: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def ask() -> None:
            try:
                outcome.put((True, self.client.run(function, *arguments, **more)))
            except BaseException as error:
                outcome.put((False, error))

        threading.Thread(target=ask, name="fobs-cluster-ask", daemon=True).start()
        try:
            is_answer, value = outcome.get(timeout=BESIDE_MAX)
        except queue.Empty:
            raise NodeLostError(f"a worker has not answered for {BESIDE_MAX:.0f} s; look whether its host is up") from None
        if not is_answer:
            if isinstance(value, OSError):
                raise NodeLostError(f"a worker does not answer ({value})") from value
            raise value if self.is_connected() else _no_scheduler(str(value)) from value
        return value

    def beat(self, node: Node, at: Node, owner: str, count: int) -> None:
        """A sign of life at the destination."""
        self.beside(node, at, partial(_beat, node, at.name, owner, count))


def _beat(node: Node, at: str, owner: str, count: int) -> None:
    with access_to(node, at) as access:
        beat(access, owner, count)


async def _in_thread(act: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(act)


def _no_scheduler(why: str) -> ClusterError:
    return ClusterError(
        f"the Dask scheduler does not answer ({why}); what is verified stays: start a scheduler and call again"
    )
