"""Nodes: the hosts of the two sides of a cluster transfer, and the file that lists them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, Literal, Union

from .._errors import UsageError

Side = Literal["source", "destination"]

#: What a node without a name of its own is called: the host of the workers.
HERE = "here"
# Shards that a node moves at once unless it says otherwise: a second one fills the pauses of the first.
SESSIONS = 2
# More sessions than this of one node are a mistake: a daemon has 64 UDP ports by default.
SESSIONS_MAX = 64
# What begins a source or destination that is not a path of this host.
_REMOTE = re.compile(r"^([a-z][a-z+.-]*://|[^/]+:)")
# The host of a URL or of host:path, and the path there.
_HOST = re.compile(r"^([a-z][a-z+.-]*://[^/]*|[^/:]*:)(.*)$", re.DOTALL)
_KEYS = {"name", "url", "path", "sessions", "options"}


@dataclass(frozen=True)
class Node:
    """A host of one side. Its workers reach the data at ``path``, others by ``url``; one of both must be given.

    Nodes of one side see the same files: a parallel file system, or, at the source, copies of the same tree.
    ``sessions`` is the highest number of shards that the node moves at once, ``options`` are those of ``fobs cp`` for
    sessions with it. A Dask worker belongs to the node for which it has the resource ``fobs:NAME``.
    """

    name: str
    url: str | None = None
    path: str | None = None
    sessions: int = SESSIONS
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or not re.fullmatch(r"[A-Za-z0-9._-]+", self.name):
            raise UsageError(f"{self.name!r} is no name of a node; use letters, digits, '.', '_' and '-'")
        if self.url is None and self.path is None:
            raise UsageError(f"the node {self.name} has neither a url nor a path; give one of them, or both")
        if self.url is not None and not _HOST.match(self.url):
            raise UsageError(
                f"the node {self.name} has the url {self.url!r}; write fobs://host/path or host:path"
            )
        if not 1 <= self.sessions <= SESSIONS_MAX:
            raise UsageError(f"the node {self.name} has {self.sessions} sessions; give 1 to {SESSIONS_MAX}")

    def __str__(self) -> str:
        where = " and ".join(text for text in (self.url, self.path) if text is not None)
        return where if self.name == HERE else f"{self.name} ({where})"

    @property
    def is_daemon(self) -> bool:
        """Whether others reach it as a daemon, which knows tickets."""
        return self.url is not None and self.url.startswith("fobs://")

    @property
    def resource(self) -> str:
        """The Dask resource that its workers have."""
        return f"fobs:{self.name}"

    def below(self, name: str) -> Node:
        """The same node, with what it serves below ``name``."""
        path = None if self.path is None else os.path.join(self.path, name)
        url = None if self.url is None else self.url.rstrip("/") + "/" + name.lstrip("/")
        return replace(self, path=path, url=url)

    def above(self) -> tuple[Node, str]:
        """The node of the directory above what it serves, and the name there."""
        path, url, name = self.path, self.url, ""
        if path is not None:
            path, name = os.path.split(path.rstrip("/"))
        if url is not None:
            host, inner = _HOST.match(url).groups()  # type: ignore[union-attr]
            head, _, name = inner.rstrip("/").rpartition("/")
            url = host + (head or ("/" if "://" in host else "."))
        return replace(self, path=path, url=url), name


#: Stands for any worker: what needs no file system of a node can run there.
ANYWHERE = Node("-", path="/")

#: A source or a destination: a path of the workers, a URL, a node, or several of these.
Place = Union[str, "os.PathLike[str]", Node, Iterable[Union[str, "os.PathLike[str]", Node]]]


def read_nodes(file: str | os.PathLike[str]) -> tuple[list[Node], list[Node]]:
    """The nodes of the source and of the destination that a TOML file lists."""
    try:
        raw = tomllib.loads(FilePath(file).read_text())
    except OSError as error:
        raise UsageError(f"cannot read the list of nodes {os.fspath(file)!r}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{os.fspath(file)!r} is no list of nodes: {error}; see docs/cluster.md") from error
    unknown = raw.keys() - {"source", "destination", "options"}
    if unknown:
        raise UsageError(
            f"{os.fspath(file)!r} has {sorted(unknown)[0]!r}; give source, destination and options"
        )
    shared = raw.get("options", {})
    source, destination = (_listed(raw.get(side, []), side, shared) for side in ("source", "destination"))
    _check_names([*source, *destination])
    return source, destination


def _listed(entries: Any, side: str, shared: Mapping[str, Any]) -> list[Node]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"the nodes of a side are tables: write [[{side}]] above each")
    nodes = []
    for number, entry in enumerate(entries, 1):
        unknown = entry.keys() - _KEYS
        if unknown:
            raise UsageError(
                f"{side} {number} has the key {sorted(unknown)[0]!r}; there are {', '.join(sorted(_KEYS))}"
            )
        options = {**shared, **entry.get("options", {})}
        name = entry.get("name", f"{side[0]}{number}")
        sessions = entry.get("sessions", SESSIONS)
        if not isinstance(sessions, int):
            raise UsageError(f"the node {name} has {sessions!r} sessions; give a number")
        nodes.append(Node(name, entry.get("url"), entry.get("path"), sessions, options))
    return nodes


def as_nodes(place: Place, side: Side) -> list[Node]:
    """The nodes that a source or a destination stands for."""
    if isinstance(place, (str, os.PathLike, Node)):
        place = [place]
    nodes: list[Node] = []
    for number, one in enumerate(place, 1):
        if isinstance(one, Node):
            nodes.append(one)
            continue
        text = os.fspath(one)
        if isinstance(one, str) and _REMOTE.match(text) and not text.startswith(("./", "../")):
            nodes.append(Node(f"{side[0]}{number}", url=text))
        else:
            nodes.append(Node(HERE, path=os.path.abspath(text)))
    if not nodes:
        raise UsageError(f"the {side} has no nodes; give at least one")
    return nodes


def both_sides(
    src: Place, dst: Place, nodes: str | os.PathLike[str] | None
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The nodes of source and destination. With a list of nodes ``src`` and ``dst`` are paths below what they serve."""
    if nodes is None:
        source, destination = as_nodes(src, "source"), as_nodes(dst, "destination")
        if any(node.name == HERE for node in source) and any(node.name == HERE for node in destination):
            raise UsageError(
                f"{_paths(source)} and {_paths(destination)} are both paths of the workers, and a shard goes between a "
                "worker and a daemon; give one side a URL (fobs://host/path), or copy on one host with fobs cp -rp"
            )
        _check_names([*source, *destination])
        return tuple(source), tuple(destination)
    source, destination = read_nodes(nodes)
    if not source or not destination:
        missing = "destination" if source else "source"
        raise UsageError(f"{os.fspath(nodes)!r} lists no {missing}; write [[{missing}]] with a url or a path")
    names = []
    for place in (src, dst):
        if not isinstance(place, (str, os.PathLike)):
            raise UsageError("with a list of nodes, source and destination are paths below what they serve")
        names.append(os.fspath(place))
    return tuple(n.below(names[0]) for n in source), tuple(n.below(names[1]) for n in destination)


def _paths(nodes: Iterable[Node]) -> str:
    return " and ".join(repr(node.path) for node in nodes if node.name == HERE)


def _check_names(nodes: Iterable[Node]) -> None:
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            raise UsageError(f"two nodes are called {node.name!r}; give each a name of its own")
        seen.add(node.name)
