"""What calls are given, as the extension takes it, and what they return, as users get it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Union

from ._errors import DestinationError, ExistsError, UsageError
from ._types import Entry, Ticket

#: A path here or a name there; of any bytes.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# Levels that a walk goes down without another bound.
_DEPTH_MAX = (1 << 32) - 1


def local(path: Path) -> bytes:
    """A path of this host: ``~`` is the home directory, as it is for a shell."""
    return encode(os.path.expanduser(os.fsencode(path)))


def encode(name: Path) -> bytes:
    """A name in bytes, which need not be UTF-8."""
    raw = os.fsencode(name)
    if b"\0" in raw:
        raise UsageError(f"the path {name!r} has a NUL byte in it; leave it out")
    return raw


def paths_of(paths: Path | Iterable[Path], encode: Callable[[Path], bytes] = encode) -> list[bytes]:
    """One path or several."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [encode(paths)]
    if not isinstance(paths, Iterable):
        raise TypeError(f"expected str, bytes or os.PathLike, or several of them, not {type(paths).__name__}")
    return [encode(path) for path in paths]


def buffer_of(data: Any) -> memoryview:
    """Its memory. Found here, because the extension runs no code of Python."""
    # A torch tensor has no buffer of its own; its numpy view of bytes is the same memory.
    if hasattr(data, "untyped_storage") and hasattr(data, "detach"):
        if data.device.type != "cpu":
            raise UsageError("the tensor is not in this host's memory; move it with .cpu()")
        if not data.is_contiguous():
            raise UsageError("the tensor is not contiguous; make it so with .contiguous()")
        import torch

        flat = data.detach().reshape(-1)
        data = flat.view(torch.uint8).numpy() if flat.numel() else b""
    elif getattr(getattr(data, "dtype", None), "kind", "") in ("m", "M"):
        # Times of numpy have no buffer; they are numbers of 64 bits.
        data = data.view("i8")
    try:
        return memoryview(data)
    except (TypeError, ValueError, BufferError) as error:
        raise UsageError(
            f"the object has no buffer ({error}); give bytes, a bytearray, a memoryview or a numpy array"
        ) from None


def nothing(_: Any) -> None:
    """Of a call that returns nothing."""
    return None


def raw_bytes(value: Any) -> bytes:
    """The content."""
    # It is one already, and there is no second copy of it.
    return value  # type: ignore[no-any-return]


def count(value: Any) -> int:
    """How many bytes."""
    return int(value)


def flag(value: Any) -> bool:
    """Whether it is so."""
    return bool(value)


def above(name: bytes) -> bytes:
    """The directory of a name."""
    # What has no slash lies where names begin.
    return os.path.dirname(name.rstrip(b"/")) or b"."


def taken(error: DestinationError) -> DestinationError:
    """That a name exists already, of a directory that was to be made."""
    # Where names begin, or where one is in use, something exists too.
    return error if isinstance(error, FileExistsError) else ExistsError(error.message)


def depth_of(depth: int | None) -> int:
    """How many levels a walk goes down."""
    if depth is not None and depth < 1:
        raise UsageError("a walk goes down one level at least; give 1 or more")
    return _DEPTH_MAX if depth is None else min(int(depth), _DEPTH_MAX)


def start_of(start: int | None) -> int | None:
    """Where a range begins."""
    if start is not None and start < 0:
        raise UsageError("a range does not begin before the file; give 0 or more")
    return None if start is None else int(start)


def entries(raw: Any) -> list[Entry]:
    """A directory, sorted by name."""
    return sorted((Entry._of(entry) for entry in raw), key=lambda entry: entry.name)


def ticket(raw: Any) -> Ticket:
    """A signed ticket."""
    return Ticket(*raw)


def fetched(raw: Any) -> list[tuple[str, int, str]]:
    """Path, size and hash of files that are in place."""
    return [(os.fsdecode(name), size, (root or b"").hex()) for name, size, root, is_file in raw if is_file]


def entry(raw: Any) -> Entry:
    """What one name stands for."""
    return Entry._of(raw[0])
