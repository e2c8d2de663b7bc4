"""Shards that wait: those that go to another node first, then the others as the spool has them."""

from __future__ import annotations

from collections import deque

from ._shards import Shard
from ._spool import Spool


class Pending:
    """The shards that no worker has yet. Only the first few are in memory."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        #: Numbers in the spool, in runs.
        self._left: deque[range] = deque()
        self._front: list[Shard] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, numbers: range) -> None:
        """More of them, behind the others."""
        self._count += len(numbers)
        if self._left and self._left[-1].stop == numbers.start:
            numbers = range(self._left.pop().start, numbers.stop)
        if numbers:
            self._left.append(numbers)

    def ahead(self, count: int) -> list[Shard]:
        """The first ones, which still wait."""
        while self._left and len(self._front) < count:
            numbers = self._left.popleft()
            self._front.append(self._spool.shard(numbers[0]))
            if numbers := numbers[1:]:
                self._left.appendleft(numbers)
        return self._front[:count]

    def remove(self, shard: Shard) -> None:
        """One of the first ones waits no more."""
        self._front.remove(shard)
        self._count -= 1

    def again(self, shard: Shard) -> None:
        """One goes on elsewhere, before all others."""
        self._front.insert(0, shard)
        self._count += 1
