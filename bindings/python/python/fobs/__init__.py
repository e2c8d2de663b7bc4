"""FOBS: fast, encrypted, verified, resumable data transfer over long fat networks.

>>> import fobs
>>> with fobs.Session(url, **keys) as session:
...     result = session.put_bytes("greeting", b"hello")
...     result.bytes, session.get_range("greeting", 1, 3), session.exists("nothing")
(5, b'ell', False)
"""

from ._copies import cp, cp_async, start_cp, sync
from ._errors import (
    AccessDeniedError,
    CancelledError,
    ConnectError,
    DeleteLimitError,
    DestinationDeniedError,
    DestinationError,
    Error,
    ExistsError,
    FileError,
    IntegrityError,
    InternalError,
    NoticeWarning,
    PartialError,
    ProtocolError,
    RemoteMissingError,
    SocketError,
    SourceError,
    SourceNotFoundError,
    SshError,
    TransferTimeoutError,
    UsageError,
)
from ._fobs import VERSION as __version__
from ._job import Job
from ._options import Options
from ._session import Session
from ._stream_tasks import stream_async
from ._streams import Stream, stream
from ._types import Entry, Explanation, FailedFile, Progress, Result, Stage, Ticket

__all__ = [
    "AccessDeniedError",
    "CancelledError",
    "ConnectError",
    "DeleteLimitError",
    "DestinationDeniedError",
    "DestinationError",
    "Entry",
    "Error",
    "ExistsError",
    "Explanation",
    "FailedFile",
    "FileError",
    "IntegrityError",
    "InternalError",
    "Job",
    "NoticeWarning",
    "Options",
    "PartialError",
    "Progress",
    "ProtocolError",
    "RemoteMissingError",
    "Result",
    "Session",
    "SocketError",
    "SourceError",
    "SourceNotFoundError",
    "SshError",
    "Stage",
    "Stream",
    "Ticket",
    "TransferTimeoutError",
    "UsageError",
    "__version__",
    "cp",
    "cp_async",
    "start_cp",
    "stream",
    "stream_async",
    "sync",
]
