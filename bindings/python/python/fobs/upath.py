"""Paths of universal_pathlib: ``UPath("fobs://host/x")``. Registered by the package's entry points."""

from __future__ import annotations

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


class FobsSshPath(FobsPath):
    """A path of a host that is reached by ssh."""

    __slots__ = ()
