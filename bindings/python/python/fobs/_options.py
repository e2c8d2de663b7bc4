"""Options of sessions and transfers: one table, the names and units of ``fobs cp``."""

from __future__ import annotations

import difflib
import functools
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, Union

from ._errors import UsageError

#: The value of an option.
Option = Union[
    str, bytes, int, float, bool, timedelta, "os.PathLike[str]", "os.PathLike[bytes]", Sequence[str],
    "tuple[float | str, float | str | timedelta]", None,
]  # fmt: skip


class Options(TypedDict, total=False):
    """What ``fobs cp`` has, with ``_`` for ``-``. Rates and sizes are numbers or text with a unit (``"100M"``,
    ``"64MiB"``), times are seconds, text (``"2m"``) or ``timedelta``; ``min_rate`` is
    ``"1Mbit/30s"`` or a pair of both. ``None`` is as if left out.
    """

    recursive: bool | None
    preserve: bool | None
    compress: bool | None
    fsync: bool | None
    cache: bool | None
    no_partial: bool | None
    append_verify: bool | None
    checksum: bool | None
    delta: bool | None
    cc: str | None
    priority: str | None
    rate: float | str | None
    timeout: float | str | timedelta | None
    min_rate: str | tuple[float | str, float | str | timedelta] | None
    ack_every: int | None
    burst: int | None
    packet_size: int | None
    lanes: int | None
    memory: int | str | None
    resume_window: int | str | None
    transport: str | None
    udp_ports: str | tuple[int, int] | None
    via: str | Sequence[str] | None
    address_family: str | int | None
    identity: str | bytes | os.PathLike[str] | None
    port: int | None
    fobs_path: str | bytes | os.PathLike[str] | None
    push_binary: bool | None
    known_hosts: str | bytes | os.PathLike[str] | None
    strict_host_key: bool | None
    ssh_config: str | bytes | os.PathLike[str] | None
    ssh_jump: str | None
    ssh_option: str | Sequence[str] | None
    ssh_program: str | bytes | os.PathLike[str] | None


_SWITCHES = frozenset(
    {
        "recursive", "preserve", "compress", "fsync", "cache", "no_partial", "append_verify", "checksum", "delta",
        "push_binary", "strict_host_key",
    }
)  # fmt: skip
#: Arguments of :func:`fobs.sync` alone.
OF_SYNC = ("delete", "dry_run", "exclude")
#: What options of the command are here.
_ELSEWHERE = {
    **dict.fromkeys(OF_SYNC, "fobs.sync has it"),
    **dict.fromkeys(("json", "verbose", "quiet"), "the result has the figures"),
    **dict.fromkeys(("explain", "trace"), "start_cp(...).explain has why it is as fast as it is"),
    **dict.fromkeys(("ipv4", "ipv6"), "give address_family=4 or 6"),
    **dict.fromkeys(("loss_cause", "stream_allotment", "tcp_buffer", "tcp_cc"), "the command fobs cp alone has it"),
    "archive": "fobs.sync does what fobs sync -a does",
    "deadline": "the command alone has it; fobs.jobs.submit takes it in the command's words",
    "help": "fobs.Options is the list",
    "jump": "did you mean ssh_jump?",
    "no_push_binary": "give push_binary=False",
    "progress": "each call takes it, a session does not",
    "ssh": "did you mean ssh_program?",
    "through_here": "one side of a copy is this host; get the data, then put it",
}
#: Files of this host: resolved once, so that they mean the same after a chdir and in another process.
_FILES = frozenset({"identity", "known_hosts", "ssh_config"})
#: A program of this host, which is looked for on the PATH if it has no slash.
_PROGRAM = "ssh_program"
_PATHS = _FILES | {"fobs_path", _PROGRAM}
_COUNTS = frozenset({"ack_every", "burst", "lanes", "packet_size", "port"})

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]*)\s*")
_RATE_UNIT = re.compile(r"([kKmMgGtT]i?)?(B|bits?|b|Bit|BIT)?(?:/s|ps)?")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_SECONDS = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def resolved(options: Mapping[str, Any]) -> dict[str, Option]:
    """The same, with files as absolute paths."""
    return {
        name: os.path.abspath(os.path.expanduser(os.fsdecode(value))) if _is_file(name, value) else value
        for name, value in options.items()
    }


def plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with files as absolute paths, and in types that JSON has."""
    return {name: _plain(value) for name, value in resolved(options).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    # numpy has numbers of its own.
    if type(value).__name__ == "bool_":
        return bool(value)
    if isinstance(value, numbers.Real) and type(value).__module__ == "numpy":
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return value


def _is_file(name: str, value: Any) -> bool:
    if value is None:
        return False
    return name in _FILES or (name == _PROGRAM and "/" in os.fsdecode(value))


def _known(name: str, names: Sequence[str]) -> None:
    """Refuses a name that is no option, with what was probably meant."""
    if name in Options.__annotations__:
        return
    plain_name = name.lower().replace("-", "_")
    near = difflib.get_close_matches(plain_name, names, n=1, cutoff=0.7)
    meant = _ELSEWHERE.get(plain_name) or (f"did you mean {near[0]}?" if near else None)
    tip = f"; {meant}" if meant else ""
    raise UsageError(f'there is no option "{name}"{tip}; there are {", ".join(names)}')


def named(options: Mapping[str, Any], also: Sequence[str] = ()) -> list[tuple[str, str]]:
    """As the extension takes them. The call takes those in `also` by itself."""
    for name in options:
        _known(name, (*also, *Options.__annotations__))
    pairs: list[tuple[str, str]] = []
    for name, value in resolved(options).items():
        if value is not None:
            pairs.extend((name, text) for text in _texts(name, value))
    if ("push_binary", "true") in pairs:
        pairs.extend(("_program", path) for path in _installed())
    return pairs


@functools.cache
def _installed() -> list[str]:
    """The program that was installed with the package: it is the one to send to a host that has none."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = files("fobs") or []
    except PackageNotFoundError:
        return []
    return [os.path.abspath(str(file.locate())) for file in found if file.name == "fobs" and file.parent.name == "bin"]


def seconds(name: str, value: Any) -> float:
    """A time in seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        found = _QUANTITY.fullmatch(value)
        if found is None or found[2] not in _SECONDS:
            raise _bad(name, value, "give seconds, or text such as '90s' or '2m'")
        return float(found[1]) * _SECONDS[found[2]]
    return float(_number(name, value))


def _texts(name: str, value: Any) -> list[str]:
    if name in _SWITCHES:
        # numpy has a bool of its own.
        if type(value).__name__ not in ("bool", "bool_"):
            raise _bad(name, value, "give True or False")
        return ["true" if value else "false"]
    if name == "rate":
        return [_rate(name, value)]
    if name in ("memory", "resume_window"):
        return [str(_amount(name, value, bits=False))]
    if name == "timeout":
        return [str(seconds(name, value))]
    if name == "min_rate":
        rate, over = _rate_and_time(name, value)
        return [f"{_rate(name, rate)}/{seconds(name, over)}"]
    if name in _COUNTS:
        return [str(_whole(name, value))]
    if name in _PATHS:
        return [os.fsdecode(value)]
    if name == "udp_ports" and isinstance(value, (tuple, list)):
        return ["-".join(str(_whole(name, port)) for port in value)]
    if isinstance(value, (str, bytes, os.PathLike)):
        return [os.fsdecode(value)]
    if isinstance(value, numbers.Number):
        return [str(value)]
    return [os.fsdecode(item) for item in value]


def _rate_and_time(name: str, value: Any) -> tuple[Any, Any]:
    """The time is what follows the last ``/``: a rate may be ``"1MB/s"``."""
    if isinstance(value, str) and "/" in value:
        rate, over = value.rsplit("/", 1)
        return rate, over
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return value[0], value[1]
    raise _bad(name, value, "give a rate and a time, as in '1Mbit/30s'")


def _number(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        raise _bad(name, value, "give a number")
    if not isinstance(value, numbers.Real):
        # A numpy integer of no dimension is a number too.
        try:
            return value.__index__()
        except AttributeError:
            raise _bad(name, value, "give a number") from None
    return value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    number = _number(name, value)
    if number != int(number) or number < 0:
        raise _bad(name, value, "give a whole number, 0 or more")
    return int(number)


def bits_per_second(name: str, value: Any) -> int:
    """A rate, with a unit or without."""
    return _amount(name, value, bits=True)


def _rate(name: str, value: Any) -> str:
    """In bits per second; with a unit where one was given, for a small number alone is a mistake."""
    bits = bits_per_second(name, value)
    has_unit = isinstance(value, str) and value.strip()[-1:].isalpha()
    return f"{bits}bit" if has_unit else str(bits)


def _amount(name: str, value: Any, bits: bool) -> int:
    """A rate in bits per second, or a size in bytes."""
    if not isinstance(value, str):
        return int(_number(name, value))
    forms = "write it like '100M' or '64MiB'"
    found = _QUANTITY.fullmatch(value)
    unit = _RATE_UNIT.fullmatch(found[2]) if found else None
    if found is None or unit is None or (not bits and unit[2] not in (None, "B")):
        raise _bad(name, value, forms)
    prefix = unit[1] or ""
    scale = (1024 if prefix.endswith("i") else 1000) ** _POWERS.get(prefix[:1].lower(), 0)
    if bits and unit[2] == "B":
        scale *= 8
    whole, _, fraction = found[1].partition(".")
    scale = int(scale)
    return int(whole) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def _bad(name: str, value: Any, form: str) -> UsageError:
    return UsageError(f"{value!r} is no value of the option {name}: {form}")


#: Words of the command in sentences of the library: what is quoted, which is a name, then an option.
_OF_THE_COMMAND = re.compile(
    r"""(?<!\w)'[^']*'|"[^"]*"|(?P<dashes>--?)(?P<name>[a-z][a-z-]*)(?P<value>[ =][A-Z][A-Z/:-]*\b)?"""
)
_LETTERS = {"r": "recursive", "p": "preserve", "i": "identity"}


def _as_here(found: re.Match[str]) -> str:
    dashes, name = found["dashes"], (found["name"] or "").rstrip("-").replace("-", "_")
    if dashes is None or found.start() > 0 and found.string[found.start() - 1].isalnum():
        return found[0]
    name = name if dashes == "--" else _LETTERS.get(name, "")
    if name not in Options.__annotations__:
        return found[0]
    if name in _SWITCHES:
        return f"{name}=True" + (found["value"] or "")
    return f"{name}={(found['value'] or '')[1:]}"


def spelled(message: str) -> str:
    """A sentence of the library with options as they are given here."""
    return _OF_THE_COMMAND.sub(_as_here, message)
