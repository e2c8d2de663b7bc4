"""The workers of a Dask cluster: which of them belong to which node, and how a task gets to one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._errors import ConnectError, Error, RemoteMissingError, UsageError
from ._access import access_to
from ._admission import TAKEN, Admission
from ._bounded import within
from ._move import greet
from ._nodes import ANYWHERE, HERE, Node
from ._result import ClusterError
from ._state import beat

# How long a scheduler that does not answer is waited for, seconds.
ANSWER_MAX = 5.0
# How often a task that is waited for is looked after, and how long it may take at most, seconds: a listing of tens of
# millions of files, or hashes of a copy.
LOOK_EVERY, LOOK_MAX = 0.25, 86_400.0
# How long the first worker of a scheduler is waited for, seconds: those over ssh and of a batch system join late.
FIRST_MAX = 60.0
# How long a result may take from its worker, seconds.
RESULT_MAX = 20.0
# How long something short beside a worker's tasks may take, seconds.
BESIDE_MAX = 120.0
#: Names of Dask's exceptions that say that a worker is gone.
LOST = ("KilledWorker", "CancelledError", "FutureCancelledError")


class NodeLostError(ConnectError):
    """A node has no worker any more."""


@dataclass(frozen=True)
class Asked:
    """A task, and the workers of a node that may run it."""

    future: Any
    at: Node
    addresses: tuple[str, ...]


def no_task(at: Node, error: BaseException) -> ClusterError:
    """What a task ended with that no code of ours raises."""
    text = " ".join(str(error).split())
    if "deserializ" in text:
        why = f"the scheduler cannot read tasks of fobs ({text}); install fobs[cluster] and the same distributed there"
    else:
        why = f"its worker failed with {type(error).__name__}: {text}; look into the worker's log"
    return ClusterError(f"node {at.name}: {why}", RemoteMissingError(why), node=at.name)


class Workers:
    """The workers of a client."""

    def __init__(self, client: Any, nodes: Iterable[Node]) -> None:
        self.client = client
        self.nodes = list(nodes)
        self.addresses: dict[str, list[str]] = {}
        #: Workers that belong to a node, whether they can be used or not, and to which.
        self.candidates: dict[str, str] = {}
        #: Whether some worker has the resource of the node ``here``; without, all are its workers.
        self.is_declared = False
        #: Whether any worker is there, of a node or not.
        self.has_joined = False
        self.admission = Admission(lambda some: self._run(greet, workers=some, on_error="return"))
        self.notices = self.admission.notices
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
        resources = {address: worker.get("resources", {}) for address, worker in info["workers"].items()}
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            declared = {a: given[node.resource] for a, given in resources.items() if node.resource in given}
            if node.name == HERE and not declared:
                self.is_declared, found[HERE] = False, list(resources)
                continue
            self.is_declared = self.is_declared or node.name == HERE
            found[node.name] = [
                a for a, amount in declared.items() if self.admission.has_room(a, node.name, amount, node.sessions)
            ]
        found[ANYWHERE.name], self.has_joined = list(resources), bool(resources)
        self._admit(found)

    def _admit(self, found: dict[str, list[str]]) -> None:
        """Takes those that have said what they are; the others are asked."""
        self.candidates = {address: node.name for node in self.nodes for address in found[node.name]}
        if not self.candidates and all(node.is_daemon for node in self.nodes):
            # The daemons move the data among themselves.
            self.candidates = dict.fromkeys(found[ANYWHERE.name], ANYWHERE.name)
        self.admission.of(self.candidates)
        admitted = self.admission.admitted
        self.addresses = {name: [a for a in addresses if a in admitted] for name, addresses in found.items()}

    def is_connected(self) -> bool:
        """Whether the scheduler is there."""
        return bool(self.client.status == "running")

    def has(self, node: Node) -> bool:
        """Whether a node has a worker."""
        return bool(self.addresses.get(node.name))

    def resources(self, node: Node) -> dict[str, int]:
        """What a task at a node asks for."""
        if node is ANYWHERE or node.name == HERE and not self.is_declared:
            return {}
        return {node.resource: TAKEN}

    def greet(self) -> None:
        """Waits for the first worker that can be used, and for what those that are there say of themselves."""
        end = time.monotonic() + FIRST_MAX
        while time.monotonic() < end:
            if self._of_use() and not self.admission.is_asking:
                return
            if self.has_joined and self.admission.has_refused(self.candidates):
                break
            self.admission.heard.wait(LOOK_EVERY / 5)
            self.admission.heard.clear()
            self.refresh()
        if self._of_use():
            return
        if why := "; ".join(self.admission.problems):
            raise ClusterError(f"no worker can be used: {why}", RemoteMissingError(why))
        names = ", ".join(node.resource for node in self.nodes)
        raise UsageError(
            f"no Dask worker belongs to a node; start some with the resource of one ({names}), as in "
            f"dask worker SCHEDULER --resources {self.nodes[0].resource}={self.nodes[0].sessions}"
        )

    def _of_use(self) -> bool:
        """Whether a worker is there that can move something, or have daemons move it."""
        at_nodes = any(self.addresses[node.name] for node in self.nodes)
        return at_nodes or (all(node.is_daemon for node in self.nodes) and bool(self.addresses[ANYWHERE.name]))

    def places(self, side: Iterable[Node], other: Iterable[Node]) -> list[tuple[Node, Node]]:
        """From where a side can be looked at: its node, and the node whose worker looks."""
        nodes = list(side)
        found = [(node, node) for node in nodes if node.path is not None and self.has(node)]
        found += [(node, at) for node in nodes if node.url for at in other if self.has(at)]
        return found or [(node, ANYWHERE) for node in nodes if node.url and self.has(ANYWHERE)]

    def call(self, function: Callable[..., Any], at: Node, *arguments: Any) -> Any:
        """Runs a function once at a node, as a task, and waits for it."""
        return self.wait(self.submit(function, at, *arguments))

    def wait(self, asked: Asked) -> Any:
        """What a task returns. One whose workers are all gone would wait for ever: its node is lost."""
        at, future = asked.at, asked.future
        end = time.monotonic() + LOOK_MAX
        landed = threading.Event()
        future.add_done_callback(lambda _: landed.set())
        while not landed.wait(LOOK_EVERY):
            self.refresh()
            if self.is_lost(asked):
                future.cancel()
                raise NodeLostError(f"the worker at node {at.name} is gone; start another one there")
            if time.monotonic() > end:
                future.cancel()
                raise NodeLostError(
                    f"the worker at node {at.name} has not answered for {LOOK_MAX / 3600:.0f} h; look what its file "
                    "system does"
                )
        return self.result_of(asked)

    def result_of(self, asked: Asked) -> Any:
        """What a task that has ended returns. That lies at its worker: where it is gone Dask runs the task again, and waits
        for ever if no other may run it.
        """
        at, end = asked.at, time.monotonic() + RESULT_MAX
        try:
            while True:
                try:
                    return asked.future.result(timeout=1.0)
                except TimeoutError as error:
                    if isinstance(error, Error):
                        raise
                self.refresh()
                if self.is_lost(asked) or time.monotonic() > end:
                    asked.future.cancel()
                    raise NodeLostError(f"the worker at node {at.name} is gone with what it found; start another one there")
        except Exception as error:
            if isinstance(error, OSError):
                raise
            if type(error).__name__ in LOST:
                why = f"the worker at node {at.name} was killed ({error}); start another one there"
                raise NodeLostError(why) from error
            raise no_task(at, error) from error

    def is_lost(self, asked: Asked) -> bool:
        """Whether all workers that may run a task are gone."""
        return not any(address in self.addresses[asked.at.name] for address in asked.addresses)

    def submit(self, function: Callable[..., Any], at: Node, *arguments: Any, worker: str = "", **more: Any) -> Asked:
        """Gives the scheduler a task for a node, or for one worker of it. All tasks go this way: only workers that may be
        used get one, and a client without a scheduler has exceptions of its own.
        """
        addresses = (worker,) if worker else tuple(self.addresses[at.name])
        if not addresses and self.is_connected():
            raise NodeLostError(f"the worker at node {at.name} is gone; start another one there")
        more |= {"resources": self.resources(at), "workers": list(addresses), "pure": False, "retries": 0}
        try:
            return Asked(self.client.submit(function, *arguments, **more), at, addresses)
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
        try:
            return within(BESIDE_MAX, lambda: self.client.run(function, *arguments, **more))
        except TimeoutError:
            raise NodeLostError(f"a worker has not answered for {BESIDE_MAX:.0f} s; look whether its host is up") from None
        except OSError as error:
            raise NodeLostError(f"a worker does not answer ({error})") from error
        except Exception as error:
            if self.is_connected():
                raise
            raise _no_scheduler(str(error)) from error

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
        f"the Dask scheduler does not answer ({why}); what is verified stays: start a scheduler and call again",
        ConnectError(why),
    )
