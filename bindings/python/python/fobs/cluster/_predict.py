"""What a transfer would do, and how long each node would be busy with it."""

from __future__ import annotations

import time
from typing import Any

from .._errors import Error
from .._options import bits_per_second
from ._access import session_with
from ._nodes import Node
from ._pairs import Pairs
from ._plan import Plan
from ._result import Planned
from ._shards import Shard
from ._workers import Workers

# Bytes that are read to learn the rate of a path: past its ramp-up on most, seconds on a slow one.
PROBE_BYTES = 8 << 20
# Smallest probe that says something of a rate, bytes.
_PROBE_MIN = 1 << 20


def read_rate(node: Node, name: str) -> float:
    """Bytes per second of the beginning of a file, by one session; runs on a worker."""
    with session_with(node) as session:
        session.stat(name)
        began = time.monotonic()
        count = len(session.get_range(name, 0, PROBE_BYTES))
        return count / max(time.monotonic() - began, 1e-6)


def predicted(plan: Plan, pairs: Pairs, workers: Workers, rate: Any) -> Planned:
    """Shards, bytes, and what each node would do. A rate is that of the options, or that of a range read now."""
    rates = _rates(plan, pairs, workers, rate)
    busy = {state.node.name: [0.0] * state.node.sessions for state in pairs.all()}
    bytes_of = {state.node.name: 0 for state in pairs.all()}
    lines = []
    for shard in plan.shards():
        lines.append((shard.kind, str(shard), shard.bytes, len(shard.names)))
        if shard.kind == "check":
            continue
        found = _soonest(shard, pairs, busy, rates)
        if found is None:
            continue
        source, destination, ends = found
        for name in (source, destination):
            slots = busy[name]
            slots[slots.index(min(slots))] = ends
            bytes_of[name] += shard.bytes
    known = all(rates.get(state.node.name) for state in pairs.sources)
    nodes = tuple(
        (state.node.name, state.side, bytes_of[state.node.name], max(busy[state.node.name]) if known else None)
        for state in pairs.all()
    )
    total = max((max(slots) for slots in busy.values()), default=0.0)
    gone = tuple(sorted([*plan.spool.gone("way"), *plan.spool.gone("delete")]))
    return Planned(tuple(lines), plan.to_send, gone, nodes, total if known else None)


def _soonest(
    shard: Shard, pairs: Pairs, busy: dict[str, list[float]], rates: dict[str, float]
) -> tuple[str, str, float] | None:
    best: tuple[str, str, float] | None = None
    for source in pairs.sources:
        for destination in pairs.destinations:
            if not pairs.ways(source, destination, shard):
                continue
            names = source.node.name, destination.node.name
            begins = max(min(busy[name]) for name in names)
            ends = begins + shard.bytes / (rates.get(names[0]) or 1e9)
            if best is None or ends < best[2]:
                best = (*names, ends)
    return best


def _rates(plan: Plan, pairs: Pairs, workers: Workers, rate: Any) -> dict[str, float]:
    """Bytes per second of one session with each node of the source, as far as it can be known."""
    if rate is not None:
        return {state.node.name: bits_per_second("rate", rate) / 8 for state in pairs.sources}
    sent = (shard for shard in plan.shards() if shard.kind != "check")
    largest = max((file for shard in sent for file in shard.files), key=lambda file: file.size, default=None)
    rates: dict[str, float] = {}
    if largest is None or largest.size < _PROBE_MIN:
        return rates
    nodes = [state.node for state in pairs.destinations]
    for state in pairs.sources:
        at = next((node for node in nodes if workers.has(node)), None)
        if state.node.url is None or at is None:
            continue
        try:
            rates[state.node.name] = workers.call(read_rate, at, state.node, largest.name)
        except Error:
            # The transfer itself will say what is wrong with it.
            continue
    return rates
