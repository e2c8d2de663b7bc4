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


class SourceError(Error):
    """What was named cannot be read."""

    code, exit_code = "no_source", 3


class SourceNotFoundError(SourceError, FileNotFoundError):
    """What was named does not exist."""

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
    SourceError,
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

# Reasons that a sentence may give: the words of glibc, which a server says whatever its library and locale are; then
# what a static server of 0.2 says, whose library is musl.
_REASONS: tuple[tuple[str, int], ...] = (
    ("Permission denied", _errno.EACCES),
    ("Operation not permitted", _errno.EPERM),
    ("No such file or directory", _errno.ENOENT),
    ("Not a directory", _errno.ENOTDIR),
    ("Is a directory", _errno.EISDIR),
    ("File exists", _errno.EEXIST),
    ("Directory not empty", _errno.ENOTEMPTY),
    ("No space left on device", _errno.ENOSPC),
    ("Disk quota exceeded", _errno.EDQUOT),
    ("Quota exceeded", _errno.EDQUOT),
    ("File too large", _errno.EFBIG),
    ("Read-only file system", _errno.EROFS),
    ("File name too long", _errno.ENAMETOOLONG),
    ("Filename too long", _errno.ENAMETOOLONG),
    ("Invalid cross-device link", _errno.EXDEV),
    ("Cross-device link", _errno.EXDEV),
    ("Too many levels of symbolic links", _errno.ELOOP),
    ("Symbolic link loop", _errno.ELOOP),
    ("Input/output error", _errno.EIO),
    ("I/O error", _errno.EIO),
    # The longer one first: the other is its beginning.
    ("Too many open files in system", _errno.ENFILE),
    ("Too many open files", _errno.EMFILE),
    ("No file descriptors available", _errno.EMFILE),
    ("Device or resource busy", _errno.EBUSY),
    ("Resource busy", _errno.EBUSY),
    ("Cannot allocate memory", _errno.ENOMEM),
    ("Out of memory", _errno.ENOMEM),
    ("No such device or address", _errno.ENXIO),
    ("No such device", _errno.ENODEV),
    ("Invalid argument", _errno.EINVAL),
    ("Invalid or incomplete multibyte or wide character", _errno.EILSEQ),
    ("Operation not supported", _errno.EOPNOTSUPP),
    ("Not supported", _errno.EOPNOTSUPP),
    ("Text file busy", _errno.ETXTBSY),
    ("Stale file handle", _errno.ESTALE),
)
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
# What is not there.
_MISSING = frozenset({_errno.ENOENT, _errno.ENOTDIR})


def _errno_in(message: str) -> int | None:
    # The reason follows the name, whose last quote is the last one before it: a name may hold any words.
    reason = message.rpartition("': ")[2]
    for text, number in _REASONS:
        if reason.startswith(text):
            return number
    if message.endswith(("does not exist; create it first", "'; check the pattern")):
        return _errno.ENOENT
    return next((number for text, number in _OURS if reason.startswith(text)), None)


def from_code(code: str, message: str) -> Error:
    """The exception for an error of the library."""
    # It knows this module's classes.
    from ._options import spelled

    kind = _BY_CODE.get(code, InternalError)
    number = _errno_in(message)
    # Only what is known not to be there is not found: a file that may not be read is a denial, and one that a disk or
    # a limit keeps from being read is an error.
    if kind is SourceError and number in _MISSING:
        kind = SourceNotFoundError
    if kind is SourceError and number in _DENIED:
        kind = AccessDeniedError
    if kind is DestinationError and number in _DENIED:
        kind = DestinationDeniedError
    if kind is DestinationError and number == _errno.EEXIST:
        kind = ExistsError
    return kind(spelled(message))
