"""The files of a tree as a mapping, as zarr 2 and others use one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsspec.mapping import FSMap


class Mapper(FSMap):  # type: ignore[misc]
    """Keys are what can be read, and only what is not there is missing."""

    def _names(self) -> list[str]:
        found = self.fs.find(self.root, detail=True)
        # A link that leads nowhere has no value.
        return [name for name, info in found.items() if info["type"] == "file"]

    def __iter__(self) -> Iterator[str]:
        return map(self._str_to_key, self._names())

    def __len__(self) -> int:
        return len(self._names())

    def clear(self) -> None:
        """Removes all files; raises what keeps it from that."""
        if self.fs.exists(self.root):
            self.fs.rm(self.root, recursive=True)
        self.fs.makedirs(self.root, exist_ok=True)

    def getitems(self, keys: Any, on_error: str = "raise") -> dict[str, Any]:
        """Several at once. ``"omit"`` leaves out what is missing; what cannot be read is raised."""
        if on_error != "omit":
            return dict(super().getitems(keys, on_error=on_error))
        found = super().getitems(keys, on_error="return")
        for value in found.values():
            if isinstance(value, BaseException) and not isinstance(value, KeyError):
                raise value
        return {key: value for key, value in found.items() if not isinstance(value, BaseException)}
