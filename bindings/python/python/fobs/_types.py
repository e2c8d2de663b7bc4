"""Results: frozen dataclasses."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that was not moved, and why."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a finished transfer."""

    bytes: int
    resumed_bytes: int
    files: int
    seconds: float
    seconds_total: float
    goodput_bps: float
    packets_needed: int
    packets_sent: int
    waste: float
    rtt_ms_min: float | None
    loss_rate: float
    packet_size: int
    cc: str
    transport: str
    streams: int
    cipher: str
    root: str
    deletions_left: int
    errors: tuple[FailedFile, ...]

    @staticmethod
    def _of(raw: Mapping[str, Any]) -> Result:
        errors = tuple(FailedFile(os.fsdecode(path), message) for path, message in raw["errors"])
        return Result(**{**raw, "errors": errors})


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a transfer stands; it is renewed five times a second."""

    path: str | None
    bytes: int
    bytes_known: int
    scan_complete: bool
    files: int
    rate_bps: float
    rtt_ms: float | None
    loss_rate: float
    waste: float

    @staticmethod
    def _of(raw: Mapping[str, Any]) -> Progress:
        path = raw["path"]
        return Progress(**{**raw, "path": None if path is None else os.fsdecode(path)})


@dataclass(frozen=True, slots=True)
class Entry:
    """A file (``kind`` is ``"file"``), ``"directory"``, ``"link"`` or ``"other"`` at the server.

    Of a link, where that was asked for, ``target`` is its text and ``leads_to`` what it leads to, ``None`` where
    that is nowhere. ``inode`` is 0 from a server that does not tell.
    """

    name: str
    kind: str
    size: int
    mtime_ns: int
    mode: int
    inode: int = 0
    target: str | None = None
    leads_to: Entry | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "file"

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.kind == "link"

    @property
    def modified(self) -> datetime:
        """The time of the last change."""
        return datetime.fromtimestamp(self.mtime_ns / 1e9, tz=timezone.utc)

    @property
    def _stamp(self) -> tuple[int, int, int]:
        return (self.size, self.mtime_ns, self.inode)

    @staticmethod
    def _of(raw: tuple[Any, ...]) -> Entry:
        name, kind, size, mtime_ns, mode, inode, link = raw
        target, leads_to = (None, None) if link is None else link
        return Entry(
            os.fsdecode(name),
            kind,
            size,
            mtime_ns,
            mode,
            inode,
            None if target is None else os.fsdecode(target),
            None if leads_to is None else Entry._of(leads_to),
        )


@dataclass(frozen=True, slots=True)
class Ticket:
    """A permission to pull from a daemon, once, and where that daemon is."""

    text: str
    host: str
    port: int
    key: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Time of a stage, in seconds, and its share of the whole."""

    stage: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a transfer was not faster: its limit, with evidence, what would help, and where the time went."""

    limit: str | None
    share: float
    sentence: str
    fix: str
    predicted_bps: float | None
    goodput_bps: float
    evidence: tuple[str, ...]
    budget: tuple[Stage, ...]

    @staticmethod
    def _of(text: str) -> Explanation:
        raw = json.loads(text)
        return Explanation(
            limit=raw["limit"],
            share=raw["share"],
            sentence=raw["sentence"],
            fix=raw["fix"],
            predicted_bps=raw["predicted_bps"],
            goodput_bps=raw["goodput_bps"],
            evidence=tuple(raw["evidence"]),
            budget=tuple(Stage(str(s["stage"]), s["seconds"], s["share"]) for s in raw["budget"]),
        )

    def __str__(self) -> str:
        return " ".join(part for part in (self.sentence, self.fix) if part)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(s.stage)}</td><td>{s.seconds:.3f} s</td><td>{s.share:.0%}</td></tr>"
            for s in self.budget
        )
        evidence = "".join(f"<li>{html.escape(line)}</li>" for line in self.evidence)
        return (
            f"<p><b>{html.escape(self.sentence)}</b> {html.escape(self.fix)}</p>"
            f"<ul>{evidence}</ul><table><tr><th>stage</th><th>time</th><th>share</th></tr>{rows}</table>"
        )
