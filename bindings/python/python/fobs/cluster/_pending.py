"""Shards that wait: those that go to another node first, then the others as the spool has them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ._shards import Shard


class Pending:
    """The shards that no worker has yet. Their number is known; only the first few are in memory."""

    def __init__(self, shards: Iterator[Shard], count: int) -> None:
        self._left, self._count = shards, count
        self._front: list[Shard] = []

    def __len__(self) -> int:
        return self._count

    def ahead(self, count: int) -> list[Shard]:
        """The first ones, which still wait."""
        if len(self._front) < count:
            self._front += islice(self._left, count - len(self._front))
        return self._front[:count]

    def remove(self, shard: Shard) -> None:
        """One of the first ones waits no more."""
        self._front.remove(shard)
        self._count -= 1

    def again(self, shard: Shard) -> None:
        """One goes on elsewhere, before all others."""
        self._front.insert(0, shard)
        self._count += 1
