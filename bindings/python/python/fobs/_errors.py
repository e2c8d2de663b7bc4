"""Exceptions: one class for each exit code of the command ``fobs``, derived from what Python has for it."""

from __future__ import annotations

import errno as _errno
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._types import Result


class NoticeWarning(UserWarning):
    """Something that a person should know: the key of a daemon that is new here was pinned. As any warning it can
    be made an error: ``warnings.simplefilter("error", fobs.NoticeWarning)``.
    """


class Error(OSError):
    """What a transfer or a request failed with: one sentence that says what failed, why, and what to do. ``errno``
    is the system's number for the reason, where there is one.
    """

    #: The word for it in ``fobs --json``.
    code: str = "internal"
    #: The exit code of the command for it.
    exit_code: int = 9

    #: The number for the reason where the sentence names no other.
    usual_errno: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.errno = _errno_in(message) or self.usual_errno


class UsageError(Error, ValueError):
    """The request is not possible: options, paths, a session that is closed."""

    code, exit_code = "usage", 1
    usual_errno = _errno.EINVAL


class ProtocolError(Error):
    """The other side speaks another version, or violated the protocol."""

    code, exit_code = "protocol", 2
    usual_errno = _errno.EPROTO


class SourceNotFoundError(Error, FileNotFoundError):
    """What was named does not exist or cannot be read."""

    code, exit_code = "no_source", 3
    usual_errno = _errno.ENOENT


class DestinationError(Error):
    """The destination cannot be written, or exists already."""

    code, exit_code = "destination", 4


class ExistsError(DestinationError, FileExistsError):
    """What was to be made exists already."""

    usual_errno = _errno.EEXIST


class DestinationDeniedError(DestinationError, PermissionError):
    """The destination may not be written: permissions there, or a file system that is read-only."""

    usual_errno = _errno.EACCES


class AccessDeniedError(Error, PermissionError):
    """Keys: an unknown one, a changed one, or a missing right."""

    code, exit_code = "denied", 5
    usual_errno = _errno.EACCES


class RemoteMissingError(Error):
    """The other side has no ``fobs``, or one that is too old."""

    code, exit_code = "remote_missing", 6


class IntegrityError(Error):
    """A chunk failed verification three times; do not trust the copy."""

    code, exit_code = "integrity", 7
    usual_errno = _errno.EBADMSG


class InternalError(Error):
    """A bug in fobs."""

    code, exit_code = "internal", 9


class SocketError(Error):
    """A socket could not be made, bound or used."""

    code, exit_code = "socket", 10


class FileError(Error):
    """Reading or writing files failed in a way that stops the whole transfer."""

    code, exit_code = "file_io", 11
    usual_errno = _errno.EIO


class CancelledError(Error, InterruptedError):
    """The job was cancelled; what was complete is in place."""

    code, exit_code = "interrupted", 20
    usual_errno = _errno.ECANCELED


class PartialError(Error):
    """Some files were not moved; the rest was. ``result`` has the figures and the reasons."""

    code, exit_code = "partial", 23

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.result))


class DeleteLimitError(Error):
    """A sync reached its limit of deletions; everything else was done."""

    code, exit_code = "delete_limit", 25


class TransferTimeoutError(Error, TimeoutError):
    """No progress for too long."""

    code, exit_code = "timeout", 30
    usual_errno = _errno.ETIMEDOUT


class ConnectError(Error, ConnectionError):
    """The other host is unreachable: name resolution, connection, or UDP blocked."""

    code, exit_code = "connect", 35
    usual_errno = _errno.EHOSTUNREACH


class SshError(Error, ConnectionError):
    """``ssh`` itself failed."""

    code, exit_code = "ssh", 255
    usual_errno = _errno.EHOSTUNREACH


ALL: tuple[type[Error], ...] = (
    UsageError,
    ProtocolError,
    SourceNotFoundError,
    DestinationError,
    AccessDeniedError,
    RemoteMissingError,
    IntegrityError,
    InternalError,
    SocketError,
    FileError,
    CancelledError,
    PartialError,
    DeleteLimitError,
    TransferTimeoutError,
    ConnectError,
    SshError,
)

_BY_CODE: dict[str, type[Error]] = {kind.code: kind for kind in ALL}

# Reasons that a sentence may give in the system's words.
_NUMBERS = (
    "EACCES", "EBUSY", "EDQUOT", "EEXIST", "EFBIG", "EIO", "EISDIR", "ELOOP", "EMFILE", "ENAMETOOLONG", "ENFILE",
    "ENOENT", "ENOMEM", "ENOSPC", "ENOTDIR", "ENOTEMPTY", "EPERM", "EROFS", "ETXTBSY", "EXDEV", "ESTALE",
)  # fmt: skip
_REASONS: dict[str, int] = {os.strerror(getattr(_errno, name)): getattr(_errno, name) for name in _NUMBERS}
# Sentences with words of their own for a reason.
_OURS = (
    ("it exists already", _errno.EEXIST),
    ("the directory is not empty", _errno.ENOTEMPTY),
    ("the directory there is not empty", _errno.ENOTEMPTY),
    ("they are on different file systems", _errno.EXDEV),
    ("a directory does not move into itself", _errno.EINVAL),
    ("it leads through a symbolic link", _errno.EACCES),
    ("it is where names begin", _errno.EBUSY),
)
# What the system denies, whatever the request was.
_DENIED = frozenset({_errno.EACCES, _errno.EPERM, _errno.EROFS})


def _errno_in(message: str) -> int | None:
    # The reason follows the name, whose last quote is the last one before it: a name may hold any words.
    reason = message.rpartition("': ")[2]
    for text, number in _REASONS.items():
        if reason.startswith(text):
            return number
    if message.endswith("does not exist; create it first"):
        return _errno.ENOENT
    return next((number for text, number in _OURS if reason.startswith(text)), None)


def from_code(code: str, message: str) -> Error:
    """The exception for an error of the library."""
    kind = _BY_CODE.get(code, InternalError)
    number = _errno_in(message)
    # Only what is not there is not found: a file that may not be read is a denial.
    if kind is SourceNotFoundError and number in _DENIED:
        kind = AccessDeniedError
    if kind is DestinationError and number in _DENIED:
        kind = DestinationDeniedError
    if kind is DestinationError and number == _errno.EEXIST:
        kind = ExistsError
    return kind(message)
