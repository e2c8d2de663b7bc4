"""Shards in transfer: handed to Dask, landed, let go of; and those that another source would bring sooner."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from typing import Any

from ._move import Assignment, move
from ._pairs import Pair, Pairs
from ._shards import File, Shard
from ._workers import Asked, Workers

# A slow range is fetched from another source as well where that halves the wait at least and saves this time, seconds:
# its bytes come twice until one of both is there, and beginning takes some round trips.
_WORTH, _GAIN_MIN = 2.0, 1.0


# How long a flight that was let go is waited for, seconds: its worker looks five times a second.
_ENDING_MAX = 5.0


@dataclass
class Flight:
    """A shard in transfer."""

    shard: Shard
    pair: Pair
    asked: Asked
    began: float
    #: Bytes that are there, and those among them that were when it began.
    moved: int = 0
    resumed: int = 0
    #: Whether it is the second one of its shard.
    is_second: bool = False

    @property
    def future(self) -> Any:
        return self.asked.future


class Flights:
    """All shards in transfer."""

    def __init__(self, client: Any, pairs: Pairs, workers: Workers) -> None:
        self.client, self.pairs, self.workers = client, pairs, workers
        self.of: dict[str, Flight] = {}
        self.landed: queue.Queue[str] = queue.Queue()
        self.count = 0
        #: Flights that were let go and may still write: their files, and until when they are waited for.
        self.ending: dict[str, tuple[str, float]] = {}

    def start(self, order: Assignment, pair: Pair, began: float, is_second: bool = False) -> None:
        """Hands a shard to a worker."""
        asked = self.workers.submit(move, pair.place, order, key=order.key)
        self.pairs.take(pair)
        self.of[order.key] = Flight(order.shard, pair, asked, began, is_second=is_second)
        asked.future.add_done_callback(lambda _: self.landed.put(order.key))

    def next_key(self, run: str, shard: Shard) -> str:
        self.count += 1
        return f"fobs-{run}-{shard.id}-{self.count}"

    def take(self, key: str) -> Flight | None:
        """A flight that has ended or is given up, once."""
        flight = self.of.pop(key, None)
        if flight is not None:
            self.pairs.give_back(flight.pair)
        return flight

    def let_go(self, key: str) -> None:
        """Nobody waits for a flight any more: its worker ends it."""
        flight = self.take(key)
        if flight is not None:
            if flight.shard.kind == "range":
                self.ending[key] = (flight.shard.files[0].id, time.monotonic() + _ENDING_MAX)
            flight.future.cancel()

    def ended(self, key: str) -> None:
        """The worker of a flight writes no more."""
        if self.ending.pop(key, None) is not None:
            self.landed.put(key)

    def may_write(self, file: File) -> bool:
        """Whether a flight that was let go may still write to a file. A worker that is gone sends no sign."""
        now = time.monotonic()
        return any(name == file.id and now < until for name, until in list(self.ending.values()))

    def others(self, shard: Shard) -> list[str]:
        """Flights of the same shard."""
        return [key for key, flight in self.of.items() if flight.shard.id == shard.id]

    def bytes(self) -> int:
        """Bytes that are there of all shards in transfer, of one that is fetched twice the further ones."""
        most: dict[str, int] = {}
        for flight in list(self.of.values()):
            most[flight.shard.id] = max(flight.moved, most.get(flight.shard.id, 0))
        return sum(most.values())

    def lost(self) -> list[Flight]:
        """Flights whose workers are gone, given up."""
        gone = [
            key
            for key, flight in self.of.items()
            if self.workers.is_lost(flight.asked) and not flight.future.done()
        ]
        flights = [self.of[key] for key in gone]
        for key in gone:
            self.let_go(key)
        return flights

    def slow(self, now: float) -> tuple[Flight, Pair] | None:
        """The flight that gains most from being fetched elsewhere as well, and from where."""
        best: tuple[float, Flight, Pair] | None = None
        for flight in self.of.values():
            if flight.shard.kind != "range" or len(self.others(flight.shard)) > 1:
                continue
            pair = self.pairs.choose(flight.shard, but=flight.pair.source)
            if pair is None or not pair.source.session_rate:
                continue
            left, spent = flight.shard.bytes - flight.moved, now - flight.began
            there, here = left / pair.source.session_rate, left * spent / max(flight.moved, 1)
            # Not before the other one would have had the whole of it.
            is_late = spent > flight.shard.bytes / pair.source.session_rate
            is_worth = here > _WORTH * there and here - there > _GAIN_MIN
            if is_late and is_worth and (best is None or here > best[0]):
                best = (here, flight, pair)
        return best[1:] if best else None

