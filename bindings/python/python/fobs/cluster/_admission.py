"""Which workers may be used: each is asked once, when it joins, what it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _fobs
from ._move import Greeting
from ._nodes import ANYWHERE

# Difference of clocks that is worth a notice, seconds: files keep the times of the source whatever the clocks
# say.
CLOCK_MAX = 60.0
# What a shard takes of a node's resource. Dask lets a task wait for ever for more than its workers have.
TAKEN = 1


class Admission:
    """Workers by what they answered. ``ask`` has some of them answer, as a mapping of addresses; it may take long."""

    def __init__(self, ask: Callable[[list[str]], Mapping[str, Any]]) -> None:
        self.ask = ask
        self.admitted: set[str] = set()
        self.refused: set[str] = set()
        #: Why workers cannot be used; among what is told of the transfer.
        self.problems: list[str] = []
        self.notices: list[str] = []
        #: Set when some have answered.
        self.heard = threading.Event()
        self._asked: set[str] = set()
        self._small: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    @property
    def is_asking(self) -> bool:
        """Whether some have not answered yet."""
        return bool(self._asked)

    def of(self, addresses: Mapping[str, str]) -> None:
        """Asks those of these workers, with the names of their nodes, that have not been asked."""
        with self._lock:
            fresh = {
                address: node
                for address, node in addresses.items()
                if address not in self.admitted and address not in self.refused and address not in self._asked
            }
            self._asked.update(fresh)
        if fresh:
            threading.Thread(target=self._hear, args=(fresh,), name="fobs-cluster-greet", daemon=True).start()

    def _hear(self, nodes: Mapping[str, str]) -> None:
        greetings: Mapping[str, Any] = {}
        try:
            greetings = self.ask(list(nodes))
        except Exception:  # noqa: S110 - one that has gone meanwhile; those that stay are asked again
            pass
        with self._lock:
            for address, greeting in greetings.items():
                self._judge(nodes[address], address, greeting)
            self._asked.difference_update(nodes)
        self.heard.set()

    def _judge(self, node: str, address: str, greeting: Any) -> None:
        if isinstance(greeting, OSError):
            return
        if not isinstance(greeting, Greeting):
            self._refuse(node, address, f"cannot use fobs ({greeting}); install fobs[cluster] there")
        elif greeting.version != _fobs.VERSION:
            self._refuse(node, address, f"has fobs {greeting.version}, this host {_fobs.VERSION}; install the same")
        else:
            self.admitted.add(address)
            ahead = greeting.clock - time.time()
            if abs(ahead) > CLOCK_MAX:
                off = f"{ahead:+.0f} s" if abs(ahead) < 3600 else f"{ahead / 3600:+.1f} hours"
                self.notices.append(f"the clock of node {node} is {off} off; set it (nothing depends on it)")

    def _refuse(self, node: str, address: str, why: str) -> None:
        self.refused.add(address)
        self._complain(node, f"worker {address} {why}")

    def has_room(self, address: str, node: str, amount: float, sessions: int) -> bool:
        """Whether a worker has enough of its node's resource for one shard."""
        if amount >= TAKEN:
            return True
        if (address, node) not in self._small:
            self._small.add((address, node))
            self._complain(
                node,
                f"worker {address} has {amount:g} of the resource fobs:{node}, and a shard takes {TAKEN}; start it with "
                f"--resources fobs:{node}={sessions}",
            )
        return False

    def has_refused(self, addresses: Iterable[str]) -> bool:
        """Whether none of these can be used."""
        return all(address in self.refused for address in addresses)

    def _complain(self, node: str, what: str) -> None:
        line = what if node == ANYWHERE.name else f"node {node}: its {what}"
        self.problems.append(line)
        self.notices.append(line)
