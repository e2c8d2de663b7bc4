"""One transfer: scans, cuts, hands out shards, follows them, and adds up. The truth is at the destination."""

from __future__ import annotations

import os
import platform
import queue
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from .._errors import ConnectError, Error, PartialError, UsageError
from ._access import Found, access_to, close_sessions
from ._agree import Hashed
from ._flights import Flight, Flights
from ._hold import Hold
from ._memory import Memory
from ._move import Assignment, Moved, finish, remove
from ._nodes import Node
from ._ordered import end_streams
from ._pairs import Pair, Pairs
from ._pending import Pending
from ._plan import Plan, Sides, plan
from ._predict import predicted
from ._result import ClusterError, ClusterResult, of_side
from ._result import size as shown_size
from ._shards import RANGED_MIN, File, Shard, cut
from ._spool import Spool
from ._state import give_back
from ._survey import Survey
from ._tally import ClusterProgress, Tally
from ._wanted import Wanted
from ._workers import ANSWER_MAX, LOST, NodeLostError, Workers, no_task

# How often the loop looks at workers and tells progress, seconds.
_TICK = 0.5
# Failures of one shard after which it is given up.
_SHARD_FAILURES_MAX = 6
# How long shards wait for a worker when none is left, seconds: a nanny starts another one.
_WORKER_WAIT = 15.0
# Shards that are looked at for free nodes at once.
_LOOK_AHEAD = 64


OnProgress = Callable[[ClusterProgress], object]


class Run:
    """One call of ``transfer``."""

    def __init__(
        self,
        client: Any,
        source: tuple[Node, ...],
        destination: tuple[Node, ...],
        options: Mapping[str, Any],
        progress: OnProgress | None,
        copies: bool = False,
        root: str | None = None,
        wanted: Wanted | None = None,
        command: str = "",
    ) -> None:
        self.client, self.options, self.progress = client, dict(options), progress
        self.wanted, self.spool = wanted or Wanted(), Spool()
        self.tally = Tally(self.spool, command)
        self.copies = copies
        self.id = uuid.uuid4().hex[:12]
        self.owner = f"{platform.node()} (process {os.getpid()}, run {self.id})"
        give = [
            tuple(replace(n, options={**options, **n.options}) for n in side)
            for side in (source, destination)
        ]
        self.source, self.destination = give
        self.workers = Workers(client, [*self.source, *self.destination])
        self.pairs = Pairs.of(self.source, self.destination, self.workers.has)
        self.pending = Pending(self.spool)
        self.pairs.verified = copies
        self.flights = Flights(client, self.pairs, self.workers)
        self.survey = Survey(self.workers, self.pairs, (self.source, self.destination), self.owner)
        self.survey.root = root
        self.survey.memory = None if copies else Memory(self.source, self.destination)
        self.attempts: dict[str, int] = {}
        self.ranges_left: dict[str, int] = {}
        #: Files whose ranges are all there, and their modes.
        self.complete: list[tuple[File, int]] = []
        self.slots = 1
        self.no_worker_since: float | None = None
        self.ticked = 0.0
        self.hold = Hold(self.survey, self.workers, self._places, self.owner)

    def run(self) -> ClusterResult:
        """All of it."""
        try:
            return self._run()
        finally:
            if self.survey.memory is not None:
                self.survey.memory.close()
            self.spool.close()

    def _run(self) -> ClusterResult:
        self.workers.greet()
        self.survey.begin()
        self.survey.scan()
        self.source = self.survey.source
        self.survey.look_at_destination()
        if self.wanted.dry_run:
            made = self._plan()
            planned = predicted(made, self.pairs, self.workers, self.options.get("rate"))
            return replace(self._result(), planned=planned)
        topic = f"fobs-{self.id}"
        self.client.subscribe_topic(topic, self._hear)
        try:
            if self.copies or self.survey.is_left_open:
                self.hold.wait()
            made = self._plan()
            if not (self.hold.is_begun or made.changes) and self.survey.is_same_top:
                return self._compare()
            self.hold.wait()
            self.survey.keep()
            self._remove(made, "way")
            self._loop()
            self._remove(made, "delete")
            self._settle(made)
            self._tell()
            return self._end(self.survey.top)
        except BaseException as error:
            self._abandon()
            if isinstance(error, ClusterError) and error.result is None:
                error.result = self._result()
            raise
        finally:
            self.hold.stop()
            self._leave(topic)

    def _places(self) -> list[tuple[Node, Node]]:
        """From where the destination can be looked at."""
        return self.workers.places(self.destination, self.source)

    def _compare(self) -> ClusterResult:
        """Where everything stands already: only hashes are asked for, and nobody else need keep away."""
        self._loop()
        self._tell()
        return self._outcome()

    def _plan(self) -> Plan:
        survey, spool = self.survey, self.spool
        rows, there = survey.rows_of_source(), survey.rows_of_destination()
        for records in survey.verified():
            spool.add_verified(records)
        if self.copies:
            rows, there = map(iter, survey.agree(self.wanted.of_source(rows), there, spool))
        sides = Sides(
            rows, there, self.wanted, partial(survey.done, spool), lambda: not survey.failed and self.hold.error is None
        )
        if not self.wanted.dry_run:
            sides = replace(sides, on_change=self.hold.begin, on_check=self._begin_checks)
        self.slots = max(
            1, min(sum(n.sessions for n in self.source), sum(n.sessions for n in self.destination))
        )
        pulls = any(d.path is not None and self.workers.has(d) for d in self.destination)
        pulls = pulls and any(s.url is not None for s in self.source)
        made = plan(sides, self.slots, (1 if self.copies else RANGED_MIN) if pulls else None, spool, self.tally.errors)
        self.hold.check()
        self.tally.errors.add_all(survey.failed)
        self.tally.bytes_known, self.tally.files_known = made.bytes, made.files
        self.tally.moved_bytes += made.done_bytes
        self.tally.remembered = 0 if survey.memory is None else survey.memory.used
        self.tally.resumed_bytes += made.done_bytes
        self._await(made.numbers)
        for shard in spool.shards(made.numbers):
            if shard.kind == "range":
                self.ranges_left[shard.files[0].id] = self.ranges_left.get(shard.files[0].id, 0) + 1
        return made

    def _await(self, numbers: range) -> None:
        self.pending.add(numbers)
        self.tally.known_shards += len(numbers)

    def _begin_checks(self, numbers: range) -> None:
        """Of a plan that is being made."""
        self._await(numbers)
        while self._turn(0.0):
            pass

    def _remove(self, made: Plan, place: str) -> None:
        """Deletes names at the destination, a batch after the other."""
        places = self._places()
        for names in made.batches(place):
            failed = self.survey.first_that_can(places, "destination", partial(self._remove_at, names))
            self.tally.errors.add_all(failed)
            self.tally.deleted += len(names) - len(failed)

    def _remove_at(self, names: list[str], node: Node, at: Node) -> Any:
        return self.workers.call(remove, at, node, at.name, names)

    def _settle(self, made: Plan) -> None:
        """Attributes of directories, once nothing is made in them any more; further names of large files."""
        if self.tally.given_up:
            return
        has = self.spool.has
        units = (
            tuple(row._replace(kind="other") if row.kind == "file" and has(row.name) else row for row in unit)
            for unit in self.spool.later()
        )
        self._await(self.spool.add_shards(cut(units, made.to_settle, "settle", self.slots)))
        self._loop()

    # While shards are moved.

    def _loop(self) -> None:
        while len(self.pending) or self.flights.of or self.complete:
            self._turn(_TICK)

    def _turn(self, wait: float) -> bool:
        """Hands out what can be, and takes what has landed, if anything does within these seconds."""
        self._hand_out()
        try:
            key = self.flights.landed.get(block=wait > 0, timeout=wait or None)
        except queue.Empty:
            key = None
        if key is not None:
            self._land(key)
        self._finish_complete()
        self.hold.check()
        if time.monotonic() - self.ticked >= _TICK:
            self.ticked = time.monotonic()
            self.workers.refresh()
            self._find_lost()
            self._check_hope()
            self._tell()
        return key is not None

    def _hand_out(self) -> None:
        for shard in self.pending.ahead(_LOOK_AHEAD):
            pair = self.pairs.choose(shard)
            if pair is None:
                if not any(s.free > 0 for s in self.pairs.sources) or not any(
                    d.free > 0 for d in self.pairs.destinations
                ):
                    return
                continue
            self.pending.remove(shard)
            self.attempts[shard.id] = self.attempts.get(shard.id, 0) + 1
            self._start(shard, pair)
        slow = self.flights.slow(self.tally.seconds) if self.copies else None
        if slow is not None:
            self._start(slow[0].shard, slow[1], is_second=True)

    def _start(self, shard: Shard, pair: Pair, is_second: bool = False) -> None:
        key = self.flights.next_key(self.id, shard)
        known = self.survey.agreed
        agreed = {file.name: known[file.name] for file in shard.files if file.name in known}
        agreed = {name: hashed.part(shard.start, shard.end) for name, hashed in agreed.items()}
        order = self._order(key, shard, pair, agreed)
        self.flights.start(order, pair, self.tally.seconds, is_second)

    def _order(self, key: str, shard: Shard, pair: Pair, agreed: Mapping[str, Hashed]) -> Assignment:
        nodes = pair.source.node, pair.destination.node
        keeps, content = self.wanted.keeps, self.wanted.checksum
        return Assignment(self.id, key, shard, *nodes, pair.way, keeps, content, agreed)

    def _land(self, key: str) -> None:
        flight = self.flights.take(key)
        if flight is None:
            return
        status = flight.future.status
        if status == "finished":
            try:
                moved = self.workers.result_of(flight.asked)
            except NodeLostError as error:
                self._lost(flight, str(error))
                return
            self._add_up(flight, moved, self._give_up_others(flight, moved))
        elif status == "error":
            self._fail(flight, flight.future.exception(timeout=ANSWER_MAX))
        else:
            self._lost(flight, "the scheduler has let go of it")

    def _give_up_others(self, flight: Flight, moved: Moved) -> int:
        """The first flight of a shard that is verified wins; the bytes in it that the other one brought."""
        kept = 0
        for key in self.flights.others(flight.shard):
            slow = self.flights.of[key]
            if flight.is_second:
                seconds = self.tally.seconds - slow.began
                kept = max(moved.resumed_bytes - slow.resumed, 0)
                slow.pair.source.bytes += kept
                slow.pair.destination.bytes += kept
                self.tally.note_elsewhere(
                    f"node {slow.pair.source.node.name}, {slow.shard}, {slow.pair}: slow, {shown_size(slow.moved)} in "
                    f"{seconds:.1f} s; fetched from {flight.pair.source.node.name} meanwhile"
                )
            self.flights.let_go(key)
        return kept

    def _add_up(self, flight: Flight, moved: Moved, kept: int) -> None:
        shard, pair = flight.shard, flight.pair
        self.pairs.succeeded(pair, moved.bytes - moved.resumed_bytes, moved.seconds)
        self.tally.add(shard, pair, moved, flight.began, kept)
        if shard.kind == "range":
            file = shard.files[0]
            self.ranges_left[file.id] -= 1
            if self.ranges_left[file.id] == 0:
                self.complete.append((file, moved.mode))

    def _finish_complete(self) -> None:
        """Gives files their names whose ranges are there, once nothing writes to them any more."""
        writable = [entry for entry in self.complete if self.flights.may_write(entry[0])]
        for file, mode in self.complete:
            if (file, mode) not in writable:
                self._finish(file, mode)
        self.complete = writable

    def _finish(self, file: File, mode: int) -> None:
        places = [(n, at) for n, at in self.workers.places(self.destination, ()) if n is at]
        agreed = self.survey.agreed.get(file.name)
        record = self.survey.first_that_can(
            places,
            "destination",
            lambda node, at: self.workers.beside(node, at, partial(finish, node, file, mode, agreed)),
        )
        self.spool.note([record])

    def _fail(self, flight: Flight, error: BaseException) -> None:
        if type(error).__name__ in LOST:
            self._lost(flight, "its worker was killed")
            return
        if not isinstance(error, OSError):
            raise no_task(flight.pair.place, error) from error
        if not isinstance(error, Error):
            # Of the worker's own files.
            error = of_side(error, flight.pair.at.side)
        state = self.pairs.failed(flight.pair, flight.shard, error)
        where = f"node {state.node.name}, {flight.shard}, {flight.pair}"
        if self.flights.others(flight.shard):
            self.tally.note_elsewhere(f"{where}: {error}")
        elif self.attempts[flight.shard.id] >= _SHARD_FAILURES_MAX:
            failed = ClusterError(
                f"{where}: {error}; call again to go on", error, state.node.name, flight.shard.id
            )
            self.tally.given_up.append(failed)
        else:
            self._again(flight.shard, f"{where}: {error}")
        left_out = f"node {state.node.name} was left out: {state.dropped}"
        if state.dropped and left_out not in self.workers.notices:
            self.workers.notices.append(left_out)

    def _lost(self, flight: Flight, why: str) -> None:
        line = f"node {flight.pair.at.node.name}, {flight.shard}: {why}"
        self.pairs.blame(flight.pair.place.name, f"{flight.shard}: {why}")
        if self.flights.others(flight.shard):
            self.tally.note_elsewhere(line)
        else:
            self._again(flight.shard, line)

    def _again(self, shard: Shard, why: str) -> None:
        self.pending.again(shard)
        self.tally.note_elsewhere(why)

    def _find_lost(self) -> None:
        """Shards whose node has no worker any more go to others."""
        for flight in self.flights.lost():
            self._lost(flight, "its node has no worker any more")

    def _check_hope(self) -> None:
        """Ends when no two nodes are left that could move what is left."""
        if (
            self.flights.of
            or not len(self.pending)
            or any(self.pairs.can_ever(shard) for shard in self.pending.ahead(_LOOK_AHEAD))
        ):
            self.no_worker_since = None
            return
        now = time.monotonic()
        self.no_worker_since = self.no_worker_since or now
        dropped = [state for state in self.pairs.all() if state.dropped]
        if not dropped and now - self.no_worker_since < _WORKER_WAIT:
            return
        shard, names = self.pending.ahead(1)[0], ", ".join(state.node.name for state in dropped)
        why = (
            "; ".join(f"node {state.node.name}: {state.dropped}" for state in dropped) or "no worker is left"
        )
        raise ClusterError(
            f"{len(self.pending)} shards are left, and no nodes that could move them, {shard} first: {why}. "
            "Mend that and call again: what is verified is not sent again",
            (dropped[0].last_error if dropped else None) or ConnectError(why),
            names,
            shard.id,
        )

    def _hear(self, event: Any) -> None:
        message = event[1] if isinstance(event, tuple) else event
        flight = self.flights.of.get(str(message.get("key"))) if isinstance(message, dict) else None
        if isinstance(message, dict) and "ended" in message:
            self.flights.ended(str(message["key"]))
        elif flight is not None:
            flight.moved, flight.resumed = int(message["bytes"]), int(message["resumed"])

    def _tell(self) -> None:
        if self.progress is None:
            return
        self.progress(self.tally.progress(self.flights.bytes()))

    # After the last shard.

    def _abandon(self) -> None:
        """Lets go of what is under way and of the destination, as far as somebody still listens."""
        self.hold.stop()
        if not self.workers.is_connected():
            return
        try:
            self.client.cancel([flight.future for flight in self.flights.of.values()])
            for node, at in self._places()[:1] if self.hold.is_held else ():
                self.workers.beside(node, at, partial(_release, node, at.name, self.owner, True))
        except Exception:  # noqa: S110 - a later call finds a lock without a sign of life
            pass

    def _leave(self, topic: str) -> None:
        try:
            self.client.unsubscribe_topic(topic)
            if self.workers.is_connected():
                self.client.run(_let_go)
        except Exception:  # noqa: S110 - the scheduler may be gone
            pass
        _let_go()

    def _set_top(self, top: Found | None) -> None:
        """Mode and time of the destination itself: nothing is made in it any more."""
        if top is None or self.tally.given_up:
            return
        self._await(self.spool.add_shards([Shard("settle", (), ("",))]))
        self._loop()
        # A server of 0.2 picks no top; nothing else depends on it.
        self.workers.notices += [
            f"mode and time of the destination itself are left: {why}" for why in self.tally.errors.take("")
        ]

    def _end(self, top: Found | None) -> ClusterResult:
        self.hold.stop()
        left_open = bool(self.tally.errors.count or self.tally.given_up)
        self.survey.first_that_can(self._places(), "destination", partial(self._give_back, left_open))
        self._set_top(top)
        return self._outcome()

    def _give_back(self, left_open: bool, node: Node, at: Node) -> None:
        self.workers.call(_release, at, node, at.name, self.owner, left_open)

    def _outcome(self) -> ClusterResult:
        """The result, or the error that has it."""
        result = self._result()
        if self.survey.memory is not None and not self.tally.given_up:
            self.survey.memory.keep(self.spool.files, self.spool.records())
        if self.tally.given_up:
            error = self.tally.given_up[0]
            error.result = result
            raise error
        if self.tally.errors.count:
            summary = self.tally.errors.summary()
            failed = ClusterError(summary, PartialError(summary))
            failed.result = result
            raise failed
        return result

    def _result(self) -> ClusterResult:
        return self.tally.result(self.pairs, (self.source, self.destination), self.workers.notices)


def _let_go() -> None:
    end_streams()
    close_sessions()


def _release(node: Node, at: str, owner: str, left_open: bool) -> None:
    with access_to(node, at) as access:
        give_back(access, owner, left_open)
