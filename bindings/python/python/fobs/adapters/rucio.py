"""Rucio's protocol for a storage element with a ``fobs serve`` daemon: ``impl: fobs.adapters.rucio.Default``.

In the RSE's protocol ``scheme`` is ``fobs``, ``hostname`` and ``port`` are the daemon's, ``prefix`` is below its
root. ``extended_attributes`` are options of a session: ``{"identity": "/etc/rucio/fobs_key"}``. What a transfer
stores is verified by BLAKE3 and has its name only when it is whole, so there is no temporary name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rucio.common.exception import (
    DestinationNotAccessible,
    RSEAccessDenied,
    ServiceUnavailable,
    SourceNotFound,
)
from rucio.rse.protocols.protocol import RSEProtocol

from .._errors import AccessDeniedError, DestinationError, Error, SourceNotFoundError
from ..fsspec import FobsFileSystem


@contextmanager
def _as_rucio() -> Iterator[None]:
    """Errors as Rucio knows them."""
    try:
        yield
    except (SourceNotFoundError, FileNotFoundError) as error:
        raise SourceNotFound(str(error)) from error
    except AccessDeniedError as error:
        raise RSEAccessDenied(str(error)) from error
    except DestinationError as error:
        raise DestinationNotAccessible(str(error)) from error
    except (Error, OSError) as error:
        raise ServiceUnavailable(str(error)) from error


class Default(RSEProtocol):  # type: ignore[misc]
    """Files of a daemon, for Rucio."""

    def __init__(self, protocol_attr: Any, rse_settings: Any, logger: Any = logging.log) -> None:
        super().__init__(protocol_attr, rse_settings, logger=logger)
        self.renaming = False
        self._files: FobsFileSystem | None = None

    def connect(self) -> None:
        """Reaches the daemon."""
        at, options = self.attributes, self.attributes.get("extended_attributes") or {}
        self._files = FobsFileSystem(
            host=at["hostname"], port=at["port"] or None, skip_instance_cache=True, **options
        )
        with _as_rucio():
            self._files.exists(at["prefix"])

    def close(self) -> None:
        """Ends the connections."""
        if self._files is not None:
            self._files.close()
            self._files = None

    @property
    def files(self) -> FobsFileSystem:
        """The daemon's files."""
        if self._files is None:
            self.connect()
        assert self._files is not None
        return self._files

    def path2pfn(self, path: str) -> str:
        """The physical name of a path at the daemon."""
        if path.startswith(f"{self.attributes['scheme']}://"):
            return path
        return f"{self.attributes['scheme']}://{self.attributes['hostname']}:{self.attributes['port']}/{path.lstrip('/')}"

    def exists(self, path: str | None) -> bool:
        """Whether there is such a file."""
        with _as_rucio():
            return bool(self.files.exists(path))

    def stat(self, path: str) -> dict[str, Any]:
        """Its size. No checksum of Rucio's kinds is known: what was moved is verified by BLAKE3."""
        with _as_rucio():
            return {"filesize": self.files.info(path)["size"]}

    def get(self, path: str, dest: str, transfer_timeout: int | None = None) -> None:
        """Fetches a file."""
        with _as_rucio():
            self.files.get_file(path, dest)

    def put(
        self, source: str, target: str, source_dir: str | None = None, transfer_timeout: int | None = None
    ) -> None:
        """Stores a file, and makes the directories above it."""
        here = os.path.join(source_dir, source) if source_dir else source
        if not os.path.isfile(here):
            raise SourceNotFound(f"{here!r} is no file of this host")
        with _as_rucio():
            self.files.put_file(here, target)

    def delete(self, path: str) -> None:
        """Removes a file."""
        with _as_rucio():
            self.files.rm_file(path)

    def rename(self, path: str, new_path: str) -> None:
        """Gives a file another name, at the daemon."""
        with _as_rucio():
            self.files.mv(path, new_path)
