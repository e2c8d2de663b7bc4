"""Snakemake's storage of files at ``fobs serve`` daemons: ``storage.fobs("fobs://host:port/path")``.

Snakemake finds the plugin by the name of the package.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from snakemake_interface_storage_plugins.io import IOCacheStorageInterface, Mtime, get_constant_prefix
from snakemake_interface_storage_plugins.settings import StorageProviderSettingsBase
from snakemake_interface_storage_plugins.storage_object import (
    StorageObjectGlob,
    StorageObjectRead,
    StorageObjectWrite,
)
from snakemake_interface_storage_plugins.storage_provider import (
    ExampleQuery,
    Operation,
    QueryType,
    StorageProviderBase,
    StorageQueryValidationResult,
)

from fobs._files.names import Authority, split_url
from fobs.fsspec import FobsFileSystem


@dataclass
class StorageProviderSettings(StorageProviderSettingsBase):  # type: ignore[misc]
    """What reaches the daemons."""

    identity: str | None = field(default=None, metadata={"help": "Key for the daemons (a path).", "env_var": False})
    known_hosts: str | None = field(
        default=None, metadata={"help": "Pinned keys of the daemons (a path).", "env_var": False}
    )
    sessions: int = field(default=4, metadata={"help": "Most connections to one daemon.", "env_var": False})


class StorageProvider(StorageProviderBase):  # type: ignore[misc]
    """Daemons."""

    def __post_init__(self) -> None:
        self._files: dict[str, FobsFileSystem] = {}

    def files(self, query: str) -> FobsFileSystem:
        """The files of a daemon."""
        netloc, _ = _parts(query)
        if netloc not in self._files:
            settings = self.settings or StorageProviderSettings()
            named = {"identity": settings.identity, "known_hosts": settings.known_hosts}
            options: dict[str, Any] = {name: value for name, value in named.items() if value}
            at = Authority.parse(netloc)
            self._files[netloc] = FobsFileSystem(
                host=at.host, port=at.port, sessions=settings.sessions, **options
            )
        return self._files[netloc]

    @classmethod
    def example_queries(cls) -> list[ExampleQuery]:
        """A query."""
        url, text = "fobs://host:port/path/file.txt", "A file or a directory of a fobs daemon."
        return [ExampleQuery(query=url, type=QueryType.ANY, description=text)]

    def rate_limiter_key(self, query: str, operation: Operation) -> Any:
        """The daemon."""
        return _parts(query)[0]

    def default_max_requests_per_second(self) -> float:
        """Requests are a round trip each."""
        return 100.0

    def use_rate_limiter(self) -> bool:
        """A daemon limits its clients itself."""
        return False

    @classmethod
    def is_valid_query(cls, query: str) -> StorageQueryValidationResult:
        """Whether it is the URL of something at a daemon."""
        netloc, path = _parts(query)
        valid = bool(netloc) and path.strip("/") != ""
        reason = "" if valid else "write fobs://host:port/path"
        return StorageQueryValidationResult(query=query, valid=valid, reason=reason)

    def list_objects(self, query: Any) -> Iterable[str]:
        """All files below a directory."""
        return _below(self.files(query), query)


def _below(files: FobsFileSystem, query: str) -> list[str]:
    netloc, _ = _parts(query)
    # As a user writes it: only a "%" has another form in a URL.
    return [f"fobs://{netloc}{path.replace('%', '%25')}" for path in files.find(query)]


def _parts(query: str) -> tuple[str, str]:
    """Host and path by the rule of URLs of the package; empty for what is no URL of a daemon."""
    try:
        return split_url(query, ("fobs",)) or ("", "")
    except ValueError:
        return "", ""


class StorageObject(StorageObjectRead, StorageObjectWrite, StorageObjectGlob):  # type: ignore[misc]
    """A file or a directory at a daemon."""

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.provider.files(self.query).info(self.query)
        return info

    async def inventory(self, cache: IOCacheStorageInterface) -> None:
        """What one round trip tells."""
        key = self.cache_key()
        if key in cache.exists_in_storage:
            return
        cache.exists_in_storage[key] = self.exists()
        if cache.exists_in_storage[key]:
            info = self._info()
            cache.mtime[key], cache.size[key] = Mtime(storage=info["mtime"]), info["size"]

    def get_inventory_parent(self) -> str | None:
        """Nothing is known of all files of a directory at once."""
        return None

    def local_suffix(self) -> str:
        """Host and path."""
        netloc, path = _parts(self.query)
        return f"{netloc}{path}"

    def cleanup(self) -> None:
        """Nothing is left."""

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self.provider.files(self.query).exists(self.query))

    def mtime(self) -> float:
        """Its time."""
        return float(self._info()["mtime"])

    def size(self) -> int:
        """Its bytes."""
        info = self._info()
        return int(info["size"]) if info["type"] == "file" else 0

    def retrieve_object(self) -> None:
        """Fetches it."""
        os.makedirs(self.local_path().parent, exist_ok=True)
        is_directory = self._info()["type"] == "directory"
        source = self.query.rstrip("/") + "/" if is_directory else self.query
        self.provider.files(self.query).get(source, str(self.local_path()), recursive=is_directory)

    def store_object(self) -> None:
        """Delivers it."""
        here, is_directory = str(self.local_path()), self.local_path().is_dir()
        here = here + "/" if is_directory else here
        self.provider.files(self.query).put(here, self.query, recursive=is_directory)

    def remove(self) -> None:
        """Removes it."""
        self.provider.files(self.query).rm(self.query, recursive=True)

    def list_candidate_matches(self) -> Iterable[str]:
        """Files that a pattern could stand for."""
        prefix = get_constant_prefix(self.query)
        return _below(self.provider.files(self.query), prefix.rpartition("/")[0])
