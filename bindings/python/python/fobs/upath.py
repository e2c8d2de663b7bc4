"""Paths of universal_pathlib: ``UPath("fobs://host/x")``. Registered by the package's entry points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upath import UPath

from ._options import resolved


class FobsPath(UPath):  # type: ignore[misc]
    """A path of a daemon."""

    __slots__ = ()

    @classmethod
    def _transform_init_args(cls, args: Any, protocol: str, storage_options: dict[str, Any]) -> Any:
        # Files of this host by their whole paths: another process or a later chdir finds the same ones.
        return super()._transform_init_args(args, protocol, resolved(storage_options))

    def glob(self, pattern: str, **_: Any) -> Iterator[FobsPath]:
        """What a pattern stands for below this path. Names keep their host, with a slash before it or without."""
        base = self.path.strip("/")
        for name in self.fs.glob(self.joinpath(pattern).path):
            yield self.joinpath(name.lstrip("/").removeprefix(base).lstrip("/"))

    def rglob(self, pattern: str, **_: Any) -> Iterator[FobsPath]:
        """Likewise, in every directory below."""
        return self.glob(f"**/{pattern}")


class FobsSshPath(FobsPath):
    """A path of a host that is reached by ssh."""

    __slots__ = ()
