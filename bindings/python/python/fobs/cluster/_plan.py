"""What a transfer has to do, of what stands at both sides: the streams of their rows are merged, and neither is held."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ._access import Found
from ._ordered import Key, key
from ._result import Failures
from ._shards import CHECK_BYTES, RANGED_MIN, SHARD_FILES, Cutting, Shard, cut, is_ranged
from ._spool import Spool, Unit
from ._state import Record
from ._wanted import Wanted, is_same


@dataclass
class Plan:
    """What there is to do; the names are in the spool."""

    spool: Spool
    slots: int
    #: Numbers of the shards that send, and of those that are hashed where they are.
    numbers: range = range(0)
    checks: list[range] = field(default_factory=list)
    bytes: int = 0
    files: int = 0
    #: Bytes that are sent, and of names whose attributes are set at the end.
    to_send: int = 0
    to_settle: int = 0
    #: Bytes of files that an earlier call has verified.
    done_bytes: int = 0
    #: Whether anything of the destination is to be another than it is.
    changes: bool = False

    def shards(self) -> Iterator[Shard]:
        for numbers in (self.numbers, *self.checks):
            yield from self.spool.shards(numbers)

    def batches(self, place: str) -> Iterator[list[str]]:
        """Names that the destination loses: ``way`` before the shards, ``delete`` after them."""
        batch: list[str] = []
        for name in self.spool.gone(place):
            batch.append(name)
            if len(batch) == SHARD_FILES:
                yield batch
                batch = []
        if batch:
            yield batch


@dataclass(frozen=True)
class Sides:
    """What stands at both sides, in the order of :func:`key`."""

    source: Iterable[Found]
    there: Iterable[Found]
    wanted: Wanted
    #: The record of a file that an earlier call has verified, and that stands there as it was then.
    done: Callable[[Found, Found | None], Record | None]
    #: Whether everything of both sides could be listed; known when the rows have been taken.
    is_whole: Callable[[], bool] = lambda: True
    #: Told of what the destination is to be changed in, once for each change, before the plan is complete.
    on_change: Callable[[], None] = lambda: None
    #: Given the numbers of shards that are hashed where they are, as they are cut.
    on_check: Callable[[range], None] = lambda numbers: None


@dataclass
class _Frame:
    """A directory of the destination that goes, unless the patterns protect something in it."""

    prefix: str
    place: str
    mark: int
    is_guarded: bool = False


@dataclass
class _Planner:
    sides: Sides
    plan: Plan
    ranged_min: int | None
    failures: Failures
    frames: list[_Frame] = field(default_factory=list)
    #: A directory of which no row has shown yet that something is in it.
    held: tuple[Found, Found | None] | None = None
    checking: Cutting = field(default_factory=lambda: Cutting("check", largest=CHECK_BYTES))
    #: Records of files that stand there, which go to the spool together.
    known: list[Record] = field(default_factory=list)

    def take(self, row: Found | None, other: Found | None, is_protected: bool) -> None:
        """One name, as it stands at each side."""
        if other is not None and self.sides.wanted.delete:
            self._look_whether_gone(row, other, is_protected)
        if row is not None:
            # What patterns protect at the destination is left out of the source as well.
            self._take_row(row, other)

    def _take_row(self, row: Found, other: Found | None) -> None:
        if self.held is not None:
            self._let_go(row.name)
        made = self.plan
        if row.kind == "file":
            made.files += 1
            made.bytes += row.size
            if self._is_kept(row, other):
                self._keep(row, other)
                return
        if row.kind == "directory":
            self.held = (row, other)
            is_due = other is None or other.kind != "directory" or self.sides.wanted.is_unseen
            is_due = is_due or (other is not None and (row.mode, row.mtime_ns) != (other.mode, other.mtime_ns))
            made.spool.add_directory(row, is_due)
            if is_due:
                self._change()
        elif "hard_links" in self.sides.wanted.kept and row.inode:
            made.spool.add_linked(row, other)
        else:
            self._decide((row,), (other,))

    def _is_kept(self, row: Found, other: Found | None) -> bool:
        """Whether a file stands there already, without a look at its other names: as most files do, so this is short."""
        wanted = self.sides.wanted
        is_same = other is not None and row[1:5] == other[1:5]
        return is_same and not wanted.is_unseen and not (row.inode and "hard_links" in wanted.kept)

    def _let_go(self, following: str) -> None:
        """Directories with something in them are made with that; an empty one is sent."""
        if self.held is None:
            return
        (row, other), self.held = self.held, None
        if following.startswith(f"{row.name}/") or (other is not None and other.kind == row.kind):
            return
        self._send((row,))

    def _change(self) -> None:
        self.plan.changes = True
        self.sides.on_change()

    def _send(self, unit: Unit) -> None:
        spool = self.plan.spool
        self._change()
        for row in unit:
            spool.note_change(os.path.dirname(row.name))
        is_cut = self.ranged_min is not None and is_ranged(unit[:1], self.ranged_min)
        if _is_large(unit) or (is_cut and self.sides.wanted.kept):
            # Ranges bring the content alone, of the first name alone.
            spool.add_later(unit)
            self.plan.to_settle += _bytes_of(unit)
        sent = unit[:1] if _is_large(unit) else unit
        spool.add_unit("files", sent)
        self.plan.to_send += _bytes_of(sent)

    def _decide(self, unit: Unit, there: tuple[Found | None, ...]) -> None:
        """Names of one file, and what stands there."""
        if unit[0].kind == "other" and not self.sides.wanted.kept & {"devices", "specials"}:
            for row in unit:
                why = f"{row.name!r} is not a regular file, directory or symbolic link and is left out"
                self.failures.add(row.name, why)
        elif _differs(unit, there, self.sides.wanted):
            self._send(unit)
        else:
            for row, other in zip(unit, there, strict=True):
                if row.kind == "file":
                    self._keep(row, other)

    def _keep(self, row: Found, other: Found | None) -> None:
        """A file that stands there already."""
        record = self.sides.done(row, other)
        if record is not None:
            self.known.append(record)
            self.plan.done_bytes += row.size
            if len(self.known) == SHARD_FILES:
                self._note_known()
        else:
            self.checking.add((row,))
            self._add_checks()

    def _note_known(self) -> None:
        self.plan.spool.note(self.known)
        self.known = []

    def _add_checks(self) -> None:
        """Nothing depends on what comes after them: they need not wait for it."""
        if shards := self.checking.taken():
            numbers = self.plan.spool.add_shards(shards)
            self.plan.checks.append(numbers)
            self.sides.on_check(numbers)

    # What the source has not.

    def _look_whether_gone(self, row: Found | None, other: Found, is_protected: bool) -> None:
        self._leave_frames(other.name)
        if is_protected:
            for frame in self.frames:
                frame.is_guarded = True
            return
        if row is None:
            place = self.frames[-1].place if self.frames else "delete"
        elif (row.kind == "directory") != (other.kind == "directory"):
            place = "way"
        else:
            return
        if other.kind == "directory":
            self.frames.append(_Frame(f"{other.name}/", place, self.plan.spool.mark_gone()))
        else:
            self.plan.spool.add_gone(place, other.name)

    def _leave_frames(self, following: str) -> None:
        while self.frames and not following.startswith(self.frames[-1].prefix):
            frame = self.frames.pop()
            if not frame.is_guarded:
                # The directory goes with all that is in it.
                self.plan.spool.drop_gone(frame.mark)
                self.plan.spool.add_gone(frame.place, frame.prefix[:-1])

    def end(self) -> None:
        """After the last name."""
        self._let_go("")
        self._leave_frames("")
        spool = self.plan.spool
        for pairs in spool.linked():
            self._decide(tuple(row for row, _ in pairs), tuple(other for _, other in pairs))
        if not self.sides.is_whole():
            spool.drop_gone()
        for place in ("way", "delete"):
            for name in spool.gone(place):
                spool.note_change(os.path.dirname(name))
                self._change()
        spool.settle_directories()
        made = self.plan
        self._note_known()
        self.checking.close()
        self._add_checks()
        made.numbers = spool.add_shards(cut(spool.units("files"), made.to_send, "files", made.slots, self.ranged_min))


def plan(sides: Sides, slots: int, ranged_min: int | None, spool: Spool, failures: Failures) -> Plan:
    """Shards for this number of sessions at once; files of ``ranged_min`` bytes and more in ranges."""
    planner = _Planner(sides, Plan(spool, slots), ranged_min, failures)
    there: Iterator[tuple[Found, bool]] = ((row, False) for row in sides.there)
    if sides.wanted.delete:
        there = sides.wanted.select(sides.there)
    for row, other, is_protected in merged(sides.wanted.of_source(sides.source), there):
        planner.take(row, other, is_protected)
    planner.end()
    return planner.plan


def merged(
    source: Iterator[Found], there: Iterator[tuple[Found, bool]]
) -> Iterator[tuple[Found | None, Found | None, bool]]:
    """Each name once, as it stands at each side, and whether it is protected at the destination."""
    left, right = _keyed((row, False) for row in source), _keyed(there)
    one, two = next(left, None), next(right, None)
    while one is not None or two is not None:
        if two is None or (one is not None and one[0] < two[0]):
            assert one is not None
            yield one[1], None, False
            one = next(left, None)
        elif one is None or two[0] < one[0]:
            yield None, two[1], two[2]
            two = next(right, None)
        else:
            yield one[1], two[1], two[2]
            one, two = next(left, None), next(right, None)


def _keyed(rows: Iterable[tuple[Found, bool]]) -> Iterator[tuple[Key, Found, bool]]:
    """A name that comes twice, as of a daemon that lies, counts once."""
    last: Key = b""
    for row, is_protected in rows:
        own = key(row.name)
        if own > last:
            last = own
            yield own, row, is_protected


def _bytes_of(unit: Unit) -> int:
    return sum(row.size for row in unit if row.kind == "file")


def _differs(unit: Unit, there: tuple[Found | None, ...], wanted: Wanted) -> bool:
    """Whether a session has to look at them."""
    for row, other in zip(unit, there, strict=True):
        if other is None or wanted.is_unseen or not is_same(row, other):
            return True
        # A link has no mode of its own.
        if row.kind != "link" and row.mode != other.mode:
            return True
    return len({other.inode for other in there if other is not None}) > 1


def _is_large(unit: Unit) -> bool:
    """Further names of a large file wait until its first one is there: that one comes in ranges."""
    return len(unit) > 1 and unit[0].kind == "file" and unit[0].size >= RANGED_MIN
