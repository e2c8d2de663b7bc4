"""Exceptions: one class for each exit code of the command ``fobs``, derived from what Python has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._types import Result


class Error(OSError):
    """What a transfer or a request failed with: one sentence that says what failed, why, and what to do."""

    #: The word for it in ``fobs --json``.
    code: str = "internal"
    #: The exit code of the command for it.
    exit_code: int = 9

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(Error, ValueError):
    """The request is not possible: options, paths, a session that is closed."""

    code, exit_code = "usage", 1


class ProtocolError(Error):
    """The other side speaks another version, or violated the protocol."""

    code, exit_code = "protocol", 2


class SourceNotFoundError(Error, FileNotFoundError):
    """What was named does not exist or cannot be read."""

    code, exit_code = "no_source", 3


class DestinationError(Error):
    """The destination cannot be written, or exists already."""

    code, exit_code = "destination", 4


class AccessDeniedError(Error, PermissionError):
    """Keys: an unknown one, a changed one, or a missing right."""

    code, exit_code = "denied", 5


class RemoteMissingError(Error):
    """The other side has no ``fobs``, or one that is too old."""

    code, exit_code = "remote_missing", 6


class IntegrityError(Error):
    """A chunk failed verification three times; do not trust the copy."""

    code, exit_code = "integrity", 7


class InternalError(Error):
    """A bug in fobs."""

    code, exit_code = "internal", 9


class SocketError(Error):
    """A socket could not be made, bound or used."""

    code, exit_code = "socket", 10


class FileError(Error):
    """Reading or writing files failed in a way that stops the whole transfer."""

    code, exit_code = "file_io", 11


class CancelledError(Error, InterruptedError):
    """The job was cancelled; what was complete is in place."""

    code, exit_code = "interrupted", 20


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


class ConnectError(Error, ConnectionError):
    """The other host is unreachable: name resolution, connection, or UDP blocked."""

    code, exit_code = "connect", 35


class SshError(Error, ConnectionError):
    """``ssh`` itself failed."""

    code, exit_code = "ssh", 255


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


def from_code(code: str, message: str) -> Error:
    """The exception for an error of the library."""
    return _BY_CODE.get(code, InternalError)(message)
