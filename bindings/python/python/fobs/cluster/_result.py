"""What a cluster transfer returns, and its report as a page of HTML."""

from __future__ import annotations

import html
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._errors import Error, FileError, SourceNotFoundError


class ClusterError(Error):
    """A cluster transfer that could not be completed; what is verified stays, and the same call goes on.

    ``node`` and ``shard`` say where, ``result`` has the figures so far.
    """

    def __init__(
        self, message: str, cause: BaseException | None = None, node: str = "", shard: str = ""
    ) -> None:
        super().__init__(message)
        self.node, self.shard = node, shard
        self.result: ClusterResult | None = None
        if isinstance(cause, Error):
            self.code, self.exit_code = cause.code, cause.exit_code
        elif isinstance(cause, (FileNotFoundError, NotADirectoryError, PermissionError)):
            self.code, self.exit_code = SourceNotFoundError.code, SourceNotFoundError.exit_code
        elif isinstance(cause, OSError):
            self.code, self.exit_code = FileError.code, FileError.exit_code


@dataclass(frozen=True)
class NodeRate:
    """What one node moved."""

    name: str
    side: str
    bytes: int
    shards: int
    #: Bits per second over the whole transfer.
    rate_bps: float
    failures: int
    #: Why it was left out; empty for one that was not.
    dropped: str


@dataclass(frozen=True)
class ShardLine:
    """One shard that was moved: between which nodes, from when to when, in seconds from the beginning."""

    shard: str
    source: str
    destination: str
    way: str
    bytes: int
    files: int
    began: float
    ended: float


@dataclass(frozen=True)
class ClusterResult:
    """The figures of a cluster transfer. ``root`` is one hash over all files (docs/cluster.md)."""

    bytes: int
    resumed_bytes: int
    files: int
    seconds: float
    rate_bps: float
    root: str
    nodes: tuple[NodeRate, ...]
    #: The slowest shard: between which nodes, how fast in bits per second, and why.
    slowest: str
    slowest_bps: float
    slowest_why: str
    shards: int
    #: Shards that went to another node after a failure, and why, newest last.
    moved_elsewhere: tuple[str, ...]
    notices: tuple[str, ...]
    #: Files that were not moved, and why.
    errors: tuple[tuple[str, str], ...]
    lines: tuple[ShardLine, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        whole = asdict(self)
        del whole["lines"]
        return whole

    def __str__(self) -> str:
        return (
            f"{self.files} files, {size(self.bytes)} ({size(self.resumed_bytes)} of them were there) in "
            f"{self.seconds:.1f} s, {rate(self.rate_bps)}"
        )

    def _repr_html_(self) -> str:
        return _body(self)

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: nodes, a chart of the shards, what was slow and what failed."""
        Path(path).write_text(
            "<!doctype html><html lang='en'><meta charset='utf-8'><title>fobs cluster</title>"
            f"<style>{_STYLE}</style><body>{_body(self)}</body></html>\n"
        )


def size(count: float) -> str:
    """Bytes for a person."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    raise AssertionError


def rate(bps: float) -> str:
    """Bits per second for a person."""
    return f"{bps / 1e9:.2f} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:.1f} Mbit/s"


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #1b1f24 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; background: #f7f8fa } code { word-break: break-all }
.bad { color: #a40000 }
"""
# Height of a row of the chart and width of the whole, in its own units.
_ROW, _WIDTH, _LABEL = 18, 1000, 90


def _body(result: ClusterResult) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(n.name)}</td><td>{n.side}</td><td class=n>{n.shards}</td><td class=n>{size(n.bytes)}</td>"
        f"<td class=n>{rate(n.rate_bps)}</td><td class=n>{n.failures}</td><td class=bad>{html.escape(n.dropped)}</td></tr>"
        for n in result.nodes
    )
    parts = [
        f"<h1>fobs cluster</h1><p>{html.escape(str(result))}.</p><p>Root: <code>{html.escape(result.root)}</code></p>",
        "<h2>Nodes</h2><table><tr><th>node</th><th>side</th><th class=n>shards</th><th class=n>bytes</th>"
        f"<th class=n>rate</th><th class=n>failures</th><th>left out because</th></tr>{rows}</table>",
    ]
    if result.lines:
        parts.append(f"<h2>Shards by source node</h2>{_chart(result)}")
    if result.slowest:
        why = html.escape(result.slowest_why)
        parts.append(
            f"<h2>Slowest shard</h2><p>{html.escape(result.slowest)}: {rate(result.slowest_bps)}. {why}</p>"
        )
    for title, lines in (
        ("Moved by another node after a failure", result.moved_elsewhere),
        ("Notices", result.notices),
        ("Not moved", tuple(f"{name}: {why}" for name, why in result.errors)),
    ):
        if lines:
            parts.append(
                f"<h2>{title}</h2><ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"
            )
    return "".join(parts)


def _chart(result: ClusterResult) -> str:
    """A bar for each shard, below each other by source node."""
    free: dict[tuple[str, int], float] = {}
    order: list[tuple[str, int]] = []
    placed: list[tuple[tuple[str, int], ShardLine]] = []
    for line in sorted(result.lines, key=lambda line: (line.source, line.began)):
        lane = 0
        while free.get((line.source, lane), -1.0) > line.began:
            lane += 1
        key = (line.source, lane)
        if key not in free:
            order.append(key)
        free[key] = line.ended
        placed.append((key, line))
    order.sort()
    scale = (_WIDTH - _LABEL) / max(result.seconds, 1e-9)
    height = _ROW * (len(order) + 1)
    bars = []
    for index, (node, lane) in enumerate(order):
        if lane == 0:
            bars.append(f"<text x='4' y='{index * _ROW + 13}' font-size='12'>{html.escape(node)}</text>")
    for key, line in placed:
        x, y = _LABEL + line.began * scale, order.index(key) * _ROW + 2
        width = max((line.ended - line.began) * scale, 1.0)
        colour = "#3a7ca5" if line.way == "pull" else "#d98c3f"
        title = html.escape(
            f"{line.shard}: {line.source} to {line.destination}, {line.way}, {size(line.bytes)}"
        )
        bars.append(
            f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{_ROW - 4}' fill='{colour}' stroke='white'>"
            f"<title>{title}</title></rect>"
        )
    end = f"<text x='{_WIDTH - 60}' y='{height - 4}' font-size='12'>{result.seconds:.1f} s</text>"
    legend = (
        f"<text x='{_LABEL}' y='{height - 4}' font-size='12' fill='#3a7ca5'>pulled by the destination</text>"
        f"<text x='{_LABEL + 180}' y='{height - 4}' font-size='12' fill='#b06a20'>pushed by the source</text>"
    )
    return f"<svg viewBox='0 0 {_WIDTH} {height}' role='img'>{''.join(bars)}{legend}{end}</svg>"
