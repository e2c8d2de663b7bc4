"""Names and URLs, by one rule that the command has too.

- A URL has a scheme at its start. Its path is percent-decoded; ``?`` and ``#`` stand for themselves.
- A name is a path at the server and is not decoded. Slashes that are too many and ``.`` count for nothing.
- Where fsspec wants a URL without its scheme (``url_to_fs``, chains, caches), the name keeps the host:
  ``host:port/path``, and ``user@host:/path`` over ssh. A file system takes both forms, and what it returns has the
  form of what it was given. The colon tells it from a name below the root.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from .._errors import UsageError

#: Port of a daemon whose URL has none.
DAEMON_PORT = 45600

_HEX = re.compile(rb"%([0-9A-Fa-f]{2})")
_AUTHORITY = re.compile(r"(?:(?P<user>[^@/]*)@)?(?P<host>\[[^\]/]*\]|[^:/@\[\]]*)(?::(?P<port>\d*))?")


class UrlPort(int):
    """A port that a URL has, and no option: another URL without one means another port."""


@dataclass(frozen=True)
class Authority:
    """Who is meant: of a URL, or of a file system."""

    user: str | None
    host: str
    port: int | None

    @staticmethod
    def parse(text: str) -> Authority:
        """``[user@]host[:port]``; letters stay as they are."""
        found = _AUTHORITY.fullmatch(text)
        if found is None or not found["host"]:
            raise UsageError(f"{text!r} names no host; write host, host:port or user@host")
        port = int(found["port"]) if found["port"] else None
        return Authority(found["user"] or None, found["host"].strip("[]"), port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")


class Qualified(str):
    """``host:port/path``, as it was made of a URL: another host's is refused, and never a name below the root."""

    __slots__ = ()

    def rstrip(self, chars: str | None = None, /) -> str:
        return Qualified(str.rstrip(self, chars))


def names_server(head: str) -> bool:
    """Whether the first part of a name has the form that the host of a URL keeps: with a port, or over ssh with a user
    and a colon.
    """
    found = _AUTHORITY.fullmatch(head)
    if found is None or not found["host"]:
        return False
    return bool(found["port"]) or (found["port"] == "" and bool(found["user"]))


def split_url(url: str, schemes: tuple[str, ...]) -> tuple[str, str] | None:
    """Authority and decoded path of a URL of these schemes; ``None`` for a name."""
    for scheme in schemes:
        if url.startswith(f"{scheme}://"):
            authority, slash, path = url[len(scheme) + 3 :].partition("/")
            head, _, rest = path.partition("/")
            if not authority and ":" in head and _AUTHORITY.fullmatch(head):
                # As UPath writes a name that keeps its host.
                authority, path = head, rest
            return authority, decoded(slash + path)
        if url.startswith(f"{scheme}::"):
            return split_url(url[len(scheme) + 2 :], schemes)
    return None


def decoded(path: str) -> str:
    """A URL's path as a name."""
    if "%" not in path:
        return path
    raw = os.fsencode(path)
    if _HEX.sub(b"", raw).count(b"%"):
        raise UsageError(f"{path!r}: two hexadecimal digits follow a '%' in a URL; write a '%' itself as %25")
    return os.fsdecode(_HEX.sub(lambda found: bytes([int(found[1], 16)]), raw))


def encoded(name: str) -> str:
    """A name as a URL's path. What other programs cut a URL at is encoded too."""
    safe = frozenset(b"%?#")
    return "".join(
        f"%{byte:02X}" if byte in safe or byte < 33 or byte > 126 else chr(byte) for byte in os.fsencode(name)
    )


def normal(path: str) -> str:
    """Without slashes that are too many, ``.`` and a slash at the end."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def text_of(path: Any) -> str:
    """A path of any kind as text; what is none has one in ``path``, as fsspec has it."""
    if isinstance(path, str):
        return path
    if isinstance(path, bytes) or hasattr(path, "__fspath__"):
        return os.fsdecode(path)
    if isinstance(getattr(path, "path", None), str):
        return str(path.path)
    raise TypeError(f"{path!r} is no path; give text, bytes or os.PathLike")


def local(path: Any) -> str:
    """A path of this host from its root, with ``~`` for the home directory: what is waited for must not change it."""
    expanded = os.path.expanduser(text_of(path))
    return expanded if not expanded or os.path.isabs(expanded) else os.path.join(os.getcwd(), expanded)


def has_magic(path: str) -> bool:
    """Whether it could be a pattern."""
    return any(letter in path for letter in "*?[")


def below(path: str, name: str) -> str:
    """A name in a directory."""
    return f"{path.rstrip('/')}/{name}" if path else name


def parent(path: str) -> str:
    """The directory of a name; the root is its own."""
    head, slash, _ = path.rstrip("/").rpartition("/")
    return head if head else slash
