"""Access to the files of a side from where a task runs: its file system, or a session with one of its nodes."""

from __future__ import annotations

import os
import re
import stat
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from .._errors import SourceNotFoundError
from .._session import Session
from ._nodes import Node

# Longest file of state that is read: a shard's record of 1,000 names of 4096 bytes, as JSON of escapes.
_STATE_MAX = 64 << 20
#: Mode of files until they are complete: the sticky bit marks them, as those of any copy.
OWN_MODE = 0o1600
# The names of such files. A name alone makes no file one of ours.
_OWN_NAME = re.compile(r"\..+\.fobs-[a-z0-9]{6}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a directory."""

    name: str
    kind: str
    size: int
    mtime_ns: int


class Access(Protocol):
    """What a task can do with the files of a side; names are relative to its root."""

    def list(self, name: str) -> list[Found]: ...
    def stat(self, name: str) -> Found | None: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None: ...
    def make_directories(self, name: str) -> None: ...
    def remove(self, name: str) -> None: ...


class Local:
    """The file system of the worker."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, name: str) -> str:
        return os.path.join(self.root, name) if name else self.root

    def list(self, name: str) -> list[Found]:
        found = []
        with os.scandir(self.path(name)) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # Another worker has renamed or removed it meanwhile.
                    continue
                # Neither are they listed by a session.
                if not _is_unfinished(entry.name, status):
                    found.append(self._found(entry.name, status))
        return found

    def stat(self, name: str) -> Found | None:
        try:
            return self._found(os.path.basename(name), os.stat(self.path(name)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    @staticmethod
    def _found(name: str, status: os.stat_result) -> Found:
        kinds = {0o100000: "file", 0o040000: "directory", 0o120000: "link"}
        kind = kinds.get(status.st_mode & 0o170000, "other")
        return Found(name, kind, status.st_size, status.st_mtime_ns)

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

    def remove(self, name: str) -> None:
        try:
            os.unlink(self.path(name))
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            os.rmdir(self.path(name))


def _is_unfinished(name: str, status: os.stat_result) -> bool:
    """Whether it is a file of a copy that is not complete."""
    is_marked = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == OWN_MODE
    return is_marked and _OWN_NAME.fullmatch(name) is not None


class Remote:
    """A session with a node."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def list(self, name: str) -> list[Found]:
        return [Found(e.name, e.kind, e.size, e.mtime_ns) for e in self.session.ls(name)]

    def stat(self, name: str) -> Found | None:
        try:
            entry = self.session.stat(name)
        except SourceNotFoundError:
            return None
        return Found(os.path.basename(name), entry.kind, entry.size, entry.mtime_ns)

    def read(self, name: str) -> bytes:
        return self.session.get_bytes(name, _STATE_MAX)

    def write(self, name: str, data: bytes) -> None:
        self.session.put_bytes(name, data)

    def make_directories(self, name: str) -> None:
        self.session.mkdir(name, parents=True, exist_ok=True)

    def remove(self, name: str) -> None:
        try:
            self.session.rm(name)
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


@contextmanager
def access_to(node: Node, at: str) -> Iterator[Access]:
    """Access to what ``node`` serves, from a worker of the node ``at``, or of any node."""
    if node.path is not None and (at == node.name or node.url is None):
        yield Local(node.path)
    else:
        with session_with(node) as session:
            yield Remote(session)
