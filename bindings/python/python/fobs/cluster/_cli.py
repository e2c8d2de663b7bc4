"""The command ``fobs-cluster``, which ``fobs cluster`` runs."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from .. import _fobs
from .._errors import Error, NoticeWarning, UsageError
from . import Choices, ClusterProgress, transfer_by
from ._dask import load
from ._result import ClusterError, ClusterResult, Planned, rate, size
from ._wanted import KEPT, SWITCHES

# How often a line of progress is written, seconds: on a terminal it is renewed, elsewhere it is a new line.
_TERMINAL_EVERY = 0.5
_LINE_EVERY = 10.0
#: Exit code after Ctrl-C, as of ``fobs cp``.
_INTERRUPTED = 20


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    shown = _Shown(options.json, options.quiet)
    _silence()
    others = warnings.showwarning
    warnings.showwarning = shown.warning(others)
    try:
        return _run(options, shown, arguments)
    finally:
        warnings.showwarning = others


def _silence() -> None:
    """What Dask logs of a lost scheduler or worker is said in a sentence of ours."""
    with contextlib.suppress(UsageError):
        load()
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _run(options: argparse.Namespace, shown: _Shown, arguments: list[str] | None) -> int:
    keys = {
        name: getattr(options, name) for name in ("identity", "known_hosts", "rate", "transport", "timeout")
    }
    try:
        named = dict(_named(text) for text in options.option)
        switches = {name: True for name in (*KEPT, *SWITCHES) if getattr(options, name)}
        choices = Choices(
            nodes=options.nodes,
            progress=shown.progress,
            report=options.report,
            copies=options.copies or len(options.src) > 1,
            root=options.root,
            include=options.include,
            exclude=options.exclude,
            command=shlex.join(["fobs", "cluster", *(sys.argv[1:] if arguments is None else arguments)]),
        )
        result = transfer_by(
            options.src if len(options.src) > 1 else options.src[0],
            options.dst,
            options.scheduler,
            choices,
            {**{name: value for name, value in keys.items() if value is not None}, **switches, **named},
        )
    except KeyboardInterrupt:
        return shown.failed("interrupted", _INTERRUPTED, "interrupted; the same command goes on", None)
    except Error as error:
        part = error.result if isinstance(error, ClusterError) else None
        return shown.failed(error.code, error.exit_code, error.message, part)
    shown.done(result)
    return 0


# What a switch is given as, as in the file of nodes.
_SWITCHED = {"true": True, "false": False}


def _named(text: str) -> tuple[str, str | bool]:
    name, sign, value = text.partition("=")
    if not sign:
        raise SystemExit(
            f"fobs cluster: --option {text!r}: write NAME=VALUE, as in --option priority=scavenger"
        )
    return name.replace("-", "_"), _SWITCHED.get(value.lower(), value)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        # argparse exits with 2, which stands for another error here.
        self.print_usage(sys.stderr)
        self.exit(1, f"fobs cluster: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fobs cluster",
        description="Moves what is in SRC into DST, in shards over all nodes of both sides, on Dask distributed. "
        "The same command again goes on where it stopped. Exit codes are those of fobs cp.",
    )
    parser.add_argument(
        "src",
        metavar="SRC",
        nargs="+",
        help="a path, host:path or fobs://host/path; with --nodes below what they serve. Several are copies of one "
        "file or tree",
    )
    parser.add_argument("dst", metavar="DST", help="the same; one side may be a path of this host")
    parser.add_argument(
        "--copies",
        action="store_true",
        help="the nodes of the source hold copies of their own; every piece is verified against the hash that they "
        "agree on",
    )
    parser.add_argument(
        "--root", metavar="HEX", help="BLAKE3 hash that the one file of the source must have"
    )
    parser.add_argument("--nodes", metavar="FILE", help="list of nodes (TOML, docs/cluster.md)")
    parser.add_argument(
        "--scheduler", metavar="ADDR", help="address of a Dask scheduler; otherwise workers are threads here"
    )
    parser.add_argument("--report", metavar="FILE", help="write a report as a page of HTML")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("-q", "--quiet", action="store_true", help="errors only")
    parser.add_argument("-i", "--identity", metavar="FILE", help="key for daemons")
    parser.add_argument("--known-hosts", metavar="FILE", help="pinned keys of daemons")
    parser.add_argument(
        "--rate", metavar="RATE", help="highest rate of each session: bits per second, or with a unit as in 100Mbit"
    )
    parser.add_argument("--transport", help="auto, udp, tcp, tcp:N or ssh")
    parser.add_argument(
        "--timeout", metavar="TIME", help="longest silence of a node: seconds, or with a unit as in 90s or 10m"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any option of fobs cp; repeatable",
    )
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="leave out what matches, as rsync does"
    )
    parser.add_argument(
        "--include", action="append", default=[], metavar="PATTERN", help="keep what matches, whatever --exclude says"
    )
    letters = {"archive": "-a", "owner": "-o", "group": "-g", "hard_links": "-H", "xattrs": "-X", "acls": "-A"}
    letters |= {"sparse": "-S", "checksum": "-c", "dry_run": "-n"}
    for name in (*KEPT, *SWITCHES):
        words = [letters[name]] if name in letters else []
        parser.add_argument(*words, f"--{name.replace('_', '-')}", action="store_true", help="as of fobs sync")
    parser.add_argument("--version", action="version", version=f"fobs-cluster {_fobs.VERSION}")
    return parser


class _Shown:
    """What the command writes."""

    def __init__(self, is_json: bool, quiet: bool) -> None:
        self.is_json, self.quiet = is_json, quiet
        self.is_terminal = sys.stderr.isatty()
        self.written = 0.0 if self.is_terminal or is_json else time.monotonic()

    def _line(self, event: str, **members: object) -> None:
        print(json.dumps({"event": event, **members}), flush=True)

    def progress(self, now: ClusterProgress) -> None:
        every = _TERMINAL_EVERY if self.is_terminal or self.is_json else _LINE_EVERY
        if self.quiet or time.monotonic() - self.written < every:
            return
        self.written = time.monotonic()
        if self.is_json:
            self._line("progress", **asdict(now))
            return
        text = (
            f"{size(now.bytes)} of {size(now.bytes_known)}, {now.shards} of {now.shards_known} shards, "
            f"{rate(now.rate_bps)}, {now.seconds:.0f} s"
        )
        print(
            f"\r{text:<78}" if self.is_terminal else text,
            end="" if self.is_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    def warning(self, others: Callable[..., object]) -> Callable[..., None]:
        """Shows a notice of a session, as of a new host, as the other commands do."""

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, NoticeWarning):
                others(message, category, *where, **more)
            elif not self.quiet:
                print(f"fobs cluster: {message}", file=sys.stderr, flush=True)

        return show

    def _notices(self, result: ClusterResult, said: str = "") -> None:
        if self.is_terminal and not self.quiet:
            print(file=sys.stderr)
        if not self.quiet:
            # The error itself has the last of them once more.
            for line in (line for line in result.notices if line not in said):
                print(f"fobs cluster: {line}", file=sys.stderr)

    def done(self, result: ClusterResult) -> None:
        if self.is_json:
            self._line("done", **result.to_dict())
            return
        self._notices(result)
        if self.quiet:
            return
        if result.planned is not None:
            _print_plan(result.planned)
            return
        print(result)
        if result.deleted:
            print(f"deleted: {result.deleted:,} names")
        for node in result.nodes:
            print(f"  {node.name}: {size(node.bytes)}, {rate(node.rate_bps)}")
        if result.slowest:
            print(f"slowest: {result.slowest}, {rate(result.slowest_bps)}. {result.slowest_why}")
        print(f"root: {result.root}")

    def failed(self, code: str, exit_code: int, message: str, result: ClusterResult | None) -> int:
        if self.is_json:
            figures = {} if result is None else {"result": result.to_dict()}
            self._line("error", code=code, exit_code=exit_code, message=message, **figures)
        elif result is not None:
            self._notices(result, message)
        print(f"fobs cluster: {message}", file=sys.stderr)
        return exit_code


def _print_plan(plan: Planned) -> None:
    """What a dry run found."""
    for kind, text, bytes_, names in plan.shards:
        print(f"{kind}: {text}, {size(bytes_)}, {names:,} names")
    for name in plan.deletions:
        print(f"delete: {name}")
    for name, side, bytes_, seconds in plan.nodes:
        busy = "rate unknown" if seconds is None else f"{seconds:.1f} s"
        print(f"  {side} {name}: {size(bytes_)}, {busy}")
    total = "at a rate that is not known (--rate says one)" if plan.seconds is None else f"in about {plan.seconds:.1f} s"
    print(f"{len(plan.shards):,} shards, {size(plan.bytes)} to send {total}; nothing was changed")


if __name__ == "__main__":
    sys.exit(main())
