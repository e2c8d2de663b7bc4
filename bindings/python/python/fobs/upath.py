"""Paths of universal_pathlib: ``UPath("fobs://host/x")``. Registered by the package's entry points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upath import UPath

from ._files.names import encoded
from ._options import resolved
from .fsspec import FobsFileSystem, FobsSshFileSystem


class FobsPath(UPath):  # type: ignore[misc]
    """A path of a daemon."""

    __slots__ = ()
    # Imported, so that universal_pathlib finds how its URLs are taken apart.
    _files: Any = FobsFileSystem

    @classmethod
    def _transform_init_args(cls, args: Any, protocol: str, storage_options: dict[str, Any]) -> Any:
        # Files of this host by their whole paths: another process or a later chdir finds the same ones.
        return super()._transform_init_args(args, protocol, resolved(storage_options))

    def __str__(self) -> str:
        """Its URL, in which a ``%`` of a name is ``%25``; of a relative path the name."""
        text = str(super().__str__())
        if self._relative_base is not None:
            return text
        path = str(self.path)
        return text.removesuffix(path) + path.replace("%", "%25")

    def as_uri(self) -> str:
        """Its URL, in letters that every program takes."""
        text = str(super().as_uri())
        return text.removesuffix(self.path.replace("%", "%25")) + encoded(self.path)

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
    _files = FobsSshFileSystem
