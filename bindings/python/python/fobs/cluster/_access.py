"""Access to the files of a side from where a task runs: its file system, or a session with one of its nodes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from .._errors import SourceNotFoundError
from .._session import Session
from .._types import Entry
from .._values import depth_of, encode
from ._nodes import Node

# Longest file of state that is read: a shard's record of 1,000 names of 4096 bytes, as JSON of escapes.
_STATE_MAX = 64 << 20
#: Mode of files until they are complete: the sticky bit marks them, as those of any copy.
OWN_MODE = 0o1600
# The names of such files. A name alone makes no file one of ours.
_OWN_NAME = re.compile(r"\..+\.fobs-[a-z0-9]{6}", re.DOTALL)


class Found(NamedTuple):
    """An entry of a directory, or of a tree with its path below the top."""

    name: str
    #: ``file``, ``directory``, ``link`` or ``other``.
    kind: str
    size: int
    mtime_ns: int
    mode: int = 0
    #: 0 where that is not known.
    inode: int = 0
    #: Text of a link; ``None`` where that is not known.
    target: str | None = None


#: What the bits of a mode say of the kind.
_KINDS = {0o100000: "file", 0o040000: "directory", 0o120000: "link"}

Rows = list[Found]
#: Directories that could not be read, with the reason.
Failed = list[tuple[str, str]]


class Access(Protocol):
    """What a task can do with the files of a side; names are relative to its root."""

    def list(self, name: str) -> list[Found]: ...
    def stat(self, name: str) -> Found | None: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None: ...
    def make_directories(self, name: str) -> None: ...
    def remove(self, name: str, tree: bool = False) -> None: ...


class Local:
    """The file system of the worker."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, name: str) -> str:
        return os.path.join(self.root, name) if name else self.root

    def list(self, name: str) -> list[Found]:
        with os.scandir(self.path(name)) as entries:
            names = [entry.name for entry in entries]
        return [row._replace(name=os.path.basename(row.name)) for row in self.rows(name, names)]

    def rows(self, directory: str, names: Iterable[str]) -> Iterator[Found]:
        """What names of a directory stand for; nothing of a copy that is not complete, as of a session."""
        above, before = os.path.join(self.path(directory), ""), f"{directory}/" if directory else ""
        for name in names:
            try:
                status = os.lstat(above + name)
                if _is_unfinished(name, status):
                    continue
                row = self._found(before + name, status)
                yield row._replace(target=os.readlink(above + name)) if row.kind == "link" else row
            except FileNotFoundError:
                # Another worker has renamed or removed it meanwhile.
                continue

    def stat(self, name: str) -> Found | None:
        try:
            return self._found(os.path.basename(name), os.stat(self.path(name)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    @staticmethod
    def _found(name: str, status: os.stat_result) -> Found:
        kind = _KINDS.get(status.st_mode & 0o170000, "other")
        return Found(name, kind, status.st_size, status.st_mtime_ns, status.st_mode & 0o7777, status.st_ino)

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb") as file:
            return file.read(_STATE_MAX)

    def write(self, name: str, data: bytes) -> None:
        """Whole or not at all, also after a crash."""
        path = self.path(name)
        temporary = f"{path}.{uuid.uuid4().hex}"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)

    def make_directories(self, name: str) -> None:
        os.makedirs(self.path(name), exist_ok=True)

    def remove(self, name: str, tree: bool = False) -> None:
        path = self.path(name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            if tree:
                shutil.rmtree(path)
            else:
                os.rmdir(path)


def _found(entry: Entry) -> Found:
    return Found(entry.name, entry.kind, entry.size, entry.mtime_ns, entry.mode & 0o7777, entry.inode, entry.target)


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _is_unfinished(name: str, status: os.stat_result) -> bool:
    """Whether it is a file of a copy that is not complete."""
    return status.st_mode == stat.S_IFREG | OWN_MODE and _OWN_NAME.fullmatch(name) is not None


class Remote:
    """A session with a node."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def list(self, name: str) -> list[Found]:
        return [_found(entry) for entry in self.session.ls(name)]

    def below(self, directory: str) -> Rows:
        """Everything below a directory, in one request and in the order of rows."""
        raw = self.session._job(self.session._core.walk(encode(directory), depth_of(None)), list).wait()
        raw.sort(key=lambda entry: entry[0].replace(b"/", b"\0"))
        above, decode = f"{directory}/" if directory else "", os.fsdecode
        return [
            Found(above + decode(name), kind, size, mtime_ns, mode & 0o7777, inode, link and decode(link[0]))
            for name, kind, size, mtime_ns, mode, inode, link in raw
        ]

    def stat(self, name: str) -> Found | None:
        try:
            entry = self.session.stat(name)
        except SourceNotFoundError:
            return None
        return _found(entry)._replace(name=os.path.basename(name))

    def read(self, name: str) -> bytes:
        # A range: servers of 0.2 know no bound of a whole file.
        return self.session.get_range(name, 0, _STATE_MAX)

    def write(self, name: str, data: bytes) -> None:
        self.session.put_bytes(name, data)

    def make_directories(self, name: str) -> None:
        self.session.mkdir(name, parents=True, exist_ok=True)

    def remove(self, name: str, tree: bool = False) -> None:
        try:
            self.session.rm(name, recursive=tree)
        except SourceNotFoundError:
            pass


# Sessions of this process that nobody uses now, by node.
_resting: dict[tuple[str, str], list[Session]] = {}
_lock = threading.Lock()


def _key(node: Node) -> tuple[str, str]:
    return node.url or "", repr(sorted(node.options.items()))


@contextmanager
def session_with(node: Node) -> Iterator[Session]:
    """A session with a node, kept open for the next shard; one that failed is closed."""
    with _lock:
        resting = _resting.setdefault(_key(node), [])
        session = resting.pop() if resting else None
    if session is None:
        session = Session(node.url or "", **node.options)
    try:
        yield session
    except BaseException:
        session.close()
        raise
    with _lock:
        _resting.setdefault(_key(node), []).append(session)


def close_sessions() -> None:
    """Ends the sessions of this process that rest."""
    with _lock:
        sessions = [session for resting in _resting.values() for session in resting]
        _resting.clear()
    for session in sessions:
        session.close()


def of_task() -> tuple[Callable[[], bool], Callable[[str, object], None]]:
    """Whether the task that runs now is waited for, and what logs an event; without a worker always, and nothing."""
    try:
        from distributed import get_worker

        worker = get_worker()
    except (ImportError, ValueError):
        return (lambda: True), (lambda topic, message: None)
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    return is_wanted, worker.log_event


def address_of_task() -> str:
    """The worker that runs this; empty without one."""
    try:
        from distributed import get_worker

        return str(get_worker().address)
    except (ImportError, ValueError):
        return ""


@contextmanager
def access_to(node: Node, at: str) -> Iterator[Access]:
    """Access to what ``node`` serves, from a worker of the node ``at``, or of any node."""
    if node.path is not None and (at == node.name or node.url is None):
        yield Local(node.path)
    else:
        with session_with(node) as session:
            yield Remote(session)
