"""What a caller wants of a transfer beside the sessions' options: what is kept, compared, left out and deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from .. import _fobs
from .._errors import UsageError
from .._values import Path, paths_of
from ._access import Found

#: Options of ``fobs sync`` that keep more than ``cp -rp`` does.
KEPT = ("owner", "group", "hard_links", "xattrs", "acls", "sparse", "devices", "specials")
#: Further switches of ``fobs sync``.
SWITCHES = ("archive", "numeric_ids", "checksum", "delete", "dry_run")
# What -a has beyond that.
_ARCHIVE = ("owner", "group", "devices", "specials")
# What a listing does not show, so that each entry is compared by the session that moves it.
_UNSEEN = ("owner", "group", "xattrs", "acls")
# Names that are held against the patterns in one call.
_SELECTED_AT_ONCE = 1000


@dataclass(frozen=True)
class Wanted:
    """What is kept of entries, and which there are."""

    kept: frozenset[str] = frozenset()
    numeric_ids: bool = False
    checksum: bool = False
    delete: bool = False
    dry_run: bool = False
    #: Patterns of rsync, and whether each includes; the first that matches decides.
    patterns: tuple[tuple[bool, bytes], ...] = ()

    @staticmethod
    def of(options: dict[str, Any], include: Path | Iterable[Path], exclude: Path | Iterable[Path]) -> Wanted:
        """Takes what is wanted out of the options."""
        switches = {name: _switch(name, options.pop(name, False)) for name in (*KEPT, *SWITCHES)}
        if switches["archive"]:
            switches.update(dict.fromkeys(_ARCHIVE, True))
        patterns = [(True, one) for one in paths_of(include)] + [(False, one) for one in paths_of(exclude)]
        wanted = Wanted(
            frozenset(name for name in KEPT if switches[name]),
            switches["numeric_ids"],
            switches["checksum"],
            switches["delete"],
            switches["dry_run"],
            tuple(patterns),
        )
        try:
            _fobs.left_out(list(wanted.patterns), [])
        except ValueError as error:
            raise UsageError(f"a pattern cannot be used: {error}") from error
        return wanted

    @property
    def keeps(self) -> str:
        """For a session: the members of what it preserves."""
        members: dict[str, Any] = {"modes": True, "times": True, **dict.fromkeys(sorted(self.kept), True)}
        if self.numeric_ids:
            members["ids"] = "numbers"
        return json.dumps(members)

    @cached_property
    def is_unseen(self) -> bool:
        """Whether entries may differ although a listing shows them equal."""
        return self.checksum or any(name in self.kept for name in _UNSEEN)

    def select(self, rows: Iterable[Found]) -> Iterator[tuple[Found, bool]]:
        """Rows in order, and whether the patterns leave them out, directories with all that is in them."""
        rows = iter(rows)
        if not self.patterns:
            yield from ((row, False) for row in rows)
            return
        gone: str | None = None
        while batch := list(islice(rows, _SELECTED_AT_ONCE)):
            names = [(os.fsencode(row.name), row.kind == "directory") for row in batch]
            for row, is_out in zip(batch, _fobs.left_out(list(self.patterns), names), strict=True):
                if gone is not None and row.name.startswith(gone):
                    is_out = True
                elif is_out and row.kind == "directory":
                    gone = f"{row.name}/"
                yield row, is_out

    def of_source(self, rows: Iterable[Found]) -> Iterator[Found]:
        """What there is of the source."""
        return (row for row, is_out in self.select(rows) if not is_out)


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return bool(value)
    if value in ("true", "false"):
        return bool(value == "true")
    raise UsageError(f"{name} is {value!r}; give true or false")


def is_same(source: Found, there: Found) -> bool:
    """Whether a listing shows an entry of the destination to be that of the source, but for its mode."""
    if source.kind != there.kind:
        return False
    if source.kind == "file":
        return (source.size, source.mtime_ns) == (there.size, there.mtime_ns)
    if source.kind == "link":
        return source.target is not None and source.target == there.target
    return source.kind == "directory"
