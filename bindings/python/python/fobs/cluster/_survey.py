"""What precedes the first shard: the source is listed, the destination taken, and copies agreed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._errors import UsageError
from ._access import Found
from ._agree import Announced, Hashed, agree, announce, as_agreed, has_root
from ._move import Standing, glance_at_destination, look_at_destination, look_at_source
from ._nodes import Node
from ._pairs import Pairs
from ._result import ClusterError
from ._shards import File, file_of
from ._state import BusyError
from ._workers import NodeLostError, Workers


class Survey:
    """What is at both sides."""

    def __init__(
        self, workers: Workers, pairs: Pairs, sides: tuple[tuple[Node, ...], tuple[Node, ...]], owner: str
    ) -> None:
        self.workers, self.pairs, self.owner = workers, pairs, owner
        self.source, self.destination = sides
        #: The hash that the one file must have.
        self.root: str | None = None
        #: Files as their copies have them in common.
        self.agreed: dict[str, Hashed] = {}

    def first_that_can(
        self, places: list[tuple[Node, Node]], what: str, act: Callable[[Node, Node], Any]
    ) -> Any:
        """Tries the nodes of a side one after the other; one that cannot be reached is noted."""
        last: tuple[Node, BaseException] | None = None
        tried: set[str] = set()
        lost: set[str] = set()
        for node, at in places:
            if node.name in tried or at.name in lost:
                continue
            try:
                return act(node, at)
            except NodeLostError as error:
                # It says nothing of the node that was looked at: another worker may reach it.
                lost.add(at.name)
                last = last or (at, error)
                self.pairs.blame(at.name, f"{what} failed: {error}")
                self.workers.notices.append(f"node {at.name}: {what} failed: {error}")
            except BusyError as error:
                raise ClusterError(f"node {node.name}: {error}", error, node=node.name) from error
            except OSError as error:
                tried.add(node.name)
                last = (node, error)
                self.pairs.blame(node.name, f"{what} failed: {error}")
                self.workers.notices.append(f"node {node.name}: {what} failed: {error}")
        if last is None:
            raise UsageError(
                f"no worker can reach the {what}: give its nodes a url, or workers of their own and a path"
            )
        bad, why = last
        raise ClusterError(f"node {bad.name}: {what} failed: {why}", why, node=bad.name) from why

    def scan(self) -> Standing:
        """The tree of the source."""

        def act(node: Node, at: Node) -> Standing | File:
            found: Standing | File = self.workers.call(look_at_source, at, node, at.name)
            return found

        found: Standing | File = self.first_that_can(
            self.workers.places(self.source, self.destination), "source", act
        )
        if isinstance(found, File):
            return Standing([self._one_file(found)])
        return found

    def _one_file(self, file: File) -> Found:
        """The directory above takes the place of a source that is a file."""
        names = set()
        for state in self.pairs.sources:
            state.node, name = state.node.above()
            names.add(name)
        self.source = tuple(state.node for state in self.pairs.sources)
        if len(names) != 1:
            raise UsageError(f"the nodes of the source name the file differently: {', '.join(sorted(names))}")
        return Found(names.pop(), "file", file.size, file.mtime_ns, file.mode)

    def take(self) -> Standing:
        """Takes the destination; what is there already."""

        def act(node: Node, at: Node) -> Standing:
            standing: Standing = self.workers.call(look_at_destination, at, node, at.name, self.owner)
            return standing

        return self._look(act)

    def glance(self) -> Standing:
        """What is at the destination, which is left alone."""

        def act(node: Node, at: Node) -> Standing:
            standing: Standing = self.workers.call(glance_at_destination, at, node, at.name)
            return standing

        return self._look(act)

    def _look(self, act: Callable[[Node, Node], Standing]) -> Standing:
        places = self.workers.places(self.destination, self.source)
        found: Standing = self.first_that_can(places, "destination", act)
        return found

    def agree(self, rows: list[Found], standing: Standing) -> list[Found]:
        """Has the nodes of the source agree on the files that are to be moved, before any of them is."""
        files = [row for row in rows if row.kind == "file"]
        if self.root is not None and len(files) != 1:
            raise UsageError(f"a root is that of one file, and the source has {len(files)}; name one of them")
        there = {row.name: row for row in standing.rows}
        names = [row.name for row in files if row.size and not self.is_done(file_of(row), there, standing)]
        unreachable = [state.node.name for state in self.pairs.sources if state.node.url is None]
        if unreachable:
            raise UsageError(f"the node {unreachable[0]} has no url, and copies are pulled; give it one")
        places = [at for at in self.destination if at.path is not None and self.workers.has(at)]
        if not places:
            raise UsageError("copies are verified at the destination; start workers at its nodes")
        if not names:
            return rows
        agreement = agree(names, self._announced(names, places), self.root)
        for state in self.pairs.sources:
            if state.node.name in agreement.dropped:
                state.dropped = agreement.dropped[state.node.name]
                self.workers.notices.append(f"node {state.node.name} was left out: {state.dropped}")
        self.agreed = agreement.files
        return as_agreed(rows, self.agreed)

    def _announced(self, names: list[str], places: list[Node]) -> dict[str, Announced | OSError]:
        """What the nodes announce: all at once, or one after the other until one has the given root."""
        nodes = [state.node for state in self.pairs.sources]
        if self.root is None:
            asked = {
                node.name: (places[index % len(places)], node) for index, node in enumerate(nodes)
            }
            started = {
                name: (at, self.workers.submit(announce, at, node, names)) for name, (at, node) in asked.items()
            }
            return {name: self._outcome(future, at) for name, (at, future) in started.items()}
        announced_by: dict[str, Announced | OSError] = {}
        for node in nodes:
            one = self._outcome(self.workers.submit(announce, places[0], node, names), places[0])
            announced_by[node.name] = one
            if not isinstance(one, OSError) and has_root(one[names[0]], self.root):
                # The pieces of the others are verified against these, so they need not hash.
                break
        return announced_by

    def is_done(self, file: File, there: Mapping[str, Found], standing: Standing) -> bool:
        """Whether an earlier call has verified it."""
        record, found = standing.done.get(file.name), there.get(file.name)
        if record is None or record[1:3] != (file.size, file.mtime_ns) or found is None:
            return False
        if (found.kind, found.size, found.mtime_ns) != ("file", file.size, file.mtime_ns):
            return False
        return self.root in (None, record[3])

    def _outcome(self, future: Any, at: Node) -> Announced | OSError:
        """What a task returned, or the error of a node."""
        try:
            announced: Announced = self.workers.wait(future, at)
            return announced
        except OSError as error:
            return error
