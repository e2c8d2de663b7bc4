"""What a transfer has to do, of what stands at both sides: a pure function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ._access import Found
from ._shards import RANGED_MIN, File, Shard, cut, file_of, is_ranged
from ._wanted import Wanted, is_same


@dataclass
class Plan:
    """Shards in their stages, and names that the destination has and the source has not."""

    shards: list[Shard] = field(default_factory=list)
    #: Rows whose attributes are set when all shards are in place, deepest first; further names of large files.
    settle: list[tuple[Found, ...]] = field(default_factory=list)
    #: Devices, fifos and sockets that were not asked for.
    left_out: list[Found] = field(default_factory=list)
    #: The topmost of what is deleted at the end, and what stands in the way of something of another kind.
    delete: list[Found] = field(default_factory=list)
    in_the_way: list[Found] = field(default_factory=list)
    #: Files that an earlier call has verified.
    done: list[File] = field(default_factory=list)
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True)
class Sides:
    """What stands at both sides."""

    source: list[Found]
    there: Mapping[str, Found]
    wanted: Wanted
    #: Whether an earlier call has verified a file.
    is_done: Callable[[File], bool]
    #: Directories of the destination in which something lies that the patterns protect.
    guarded: frozenset[str] = frozenset()
    #: Whether everything of the source could be listed.
    is_whole: bool = True


def plan(sides: Sides, slots: int, ranged_min: int | None) -> Plan:
    """Shards for this number of sessions at once; files of ``ranged_min`` bytes and more in ranges."""
    made = Plan()
    send: list[tuple[Found, ...]] = []
    check: list[tuple[Found, ...]] = []
    changed: set[str] = set()
    above = {os.path.dirname(row.name) for row in sides.source}
    for unit in _units(sides):
        made.files += sum(row.kind == "file" for row in unit)
        made.bytes += sum(row.size for row in unit if row.kind == "file")
        if unit[0].kind == "directory":
            # Those with something in them are made with that.
            if unit[0].name not in above and not _is_there(unit[0], sides):
                send.append(unit)
                changed.add(os.path.dirname(unit[0].name))
            continue
        if unit[0].kind == "other" and not sides.wanted.kept & {"devices", "specials"}:
            made.left_out += unit
            continue
        if _differs(unit, sides):
            send.append(unit)
            changed.update(os.path.dirname(row.name) for row in unit)
        else:
            for row in unit:
                if row.kind != "file":
                    continue
                if sides.is_done(file_of(row)):
                    made.done.append(file_of(row))
                else:
                    check.append((row,))
    made.shards = cut(_early(send, sides), "files", slots, ranged_min) + cut(check, "check", slots)
    if sides.wanted.delete:
        _deletions(made, sides)
        changed.update(os.path.dirname(row.name) for row in (*made.delete, *made.in_the_way))
    made.settle = _last(sides, changed, send, ranged_min)
    return made


def _units(sides: Sides) -> list[tuple[Found, ...]]:
    """Rows by path; names of one file together where hard links are kept."""
    rows = sorted(sides.source, key=lambda row: os.fsencode(row.name))
    if "hard_links" not in sides.wanted.kept:
        return [(row,) for row in rows]
    linked: dict[int, list[Found]] = {}
    units: list[list[Found]] = []
    for row in rows:
        if row.kind == "directory" or not row.inode:
            units.append([row])
        elif row.inode in linked:
            linked[row.inode].append(row)
        else:
            linked[row.inode] = [row]
            units.append(linked[row.inode])
    return [tuple(unit) for unit in units]


def _is_there(row: Found, sides: Sides) -> bool:
    other = sides.there.get(row.name)
    return other is not None and other.kind == row.kind


def _differs(unit: tuple[Found, ...], sides: Sides) -> bool:
    """Whether a session has to look at them."""
    there = [sides.there.get(row.name) for row in unit]
    for row, other in zip(unit, there, strict=True):
        if other is None or sides.wanted.is_unseen or not is_same(row, other):
            return True
        # A link has no mode of its own.
        if row.kind != "link" and row.mode != other.mode:
            return True
    return len({other.inode for other in there if other is not None}) > 1


def _early(send: list[tuple[Found, ...]], sides: Sides) -> list[tuple[Found, ...]]:
    """Further names of a large file wait until its first one is there: that one comes in ranges."""
    return [unit[:1] if _is_large(unit) else unit for unit in send]


def _is_large(unit: tuple[Found, ...]) -> bool:
    return len(unit) > 1 and unit[0].kind == "file" and unit[0].size >= RANGED_MIN


def _last(
    sides: Sides, changed: set[str], send: list[tuple[Found, ...]], ranged_min: int | None
) -> list[tuple[Found, ...]]:
    """Directories that differ, or in which something changes; files of which ranges bring the content alone."""
    units: list[tuple[Found, ...]] = []
    for row in sides.source:
        if row.kind != "directory":
            continue
        other = sides.there.get(row.name)
        if other is None or other.kind != "directory" or sides.wanted.is_unseen or row.name in changed:
            units.append((row,))
        elif (row.mode, row.mtime_ns) != (other.mode, other.mtime_ns):
            units.append((row,))
    for unit in send:
        is_cut = ranged_min is not None and is_ranged(unit[:1], ranged_min)
        if _is_large(unit) or (is_cut and sides.wanted.kept):
            units.append(unit)
    return sorted(units, key=lambda unit: (-unit[0].name.count("/"), os.fsencode(unit[0].name)))


def _deletions(made: Plan, sides: Sides) -> None:
    """The topmost names that the source has not; nothing where it could not be listed whole."""
    if not sides.is_whole:
        return
    source = {row.name: row for row in sides.source}
    gone: set[str] = set()
    for row in sorted(sides.there.values(), key=lambda row: row.name.count("/")):
        above = os.path.dirname(row.name)
        if above in gone:
            gone.add(row.name)
            continue
        wanted = source.get(row.name)
        if wanted is None and row.name in sides.guarded:
            continue
        if wanted is None:
            made.delete.append(row)
        elif (wanted.kind == "directory") != (row.kind == "directory"):
            made.in_the_way.append(row)
        else:
            continue
        gone.add(row.name)
