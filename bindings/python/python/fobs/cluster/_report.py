"""The report of a cluster transfer as a page of HTML: for a desktop and a phone, light and dark, without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._result import ClusterResult, NodeRate, ShardLine

_STYLE = """
.fobs { color-scheme: light dark; --text: #1b1f24; --page: #fff; --line: #d5d9de; --lane: #eef0f3; --bad: #a40000;
  --pull: #2f7199; --push: #b8691a; --ticket: #5f7d2b;
  font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 60rem }
@media (prefers-color-scheme: dark) { .fobs { --text: #e4e7eb; --page: #15181c; --line: #3a4047; --lane: #24292f;
  --bad: #ff8f87; --pull: #58a4d0; --push: #e09a50; --ticket: #9dbb62 } }
.fobs h1 { font-size: 1.5rem; margin: 0 0 .5rem } .fobs h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.fobs code { overflow-wrap: anywhere } .fobs li, .fobs p { overflow-wrap: anywhere }
.fobs ul { padding-left: 1.2rem }
.fobs .scroll { overflow-x: auto }
.fobs table { border-collapse: collapse; width: 100% }
.fobs th, .fobs td { text-align: left; padding: .25rem .5rem; border-top: 1px solid var(--line); white-space: nowrap }
.fobs thead th { border: 0 } .fobs tbody th { padding-top: .8rem }
.fobs .n { text-align: right; font-variant-numeric: tabular-nums }
.fobs td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 4.5rem }
.fobs td.why { border: 0; white-space: normal; padding-top: 0 } .fobs .bad { color: var(--bad) }
.fobs .row { display: flex; align-items: center; gap: .5rem; margin: 2px 0 }
.fobs .name { flex: 0 0 var(--label); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: .85rem }
.fobs .lane { position: relative; flex: 1; height: 14px; background: var(--lane) }
.fobs .lane i { position: absolute; box-sizing: border-box; top: 0; bottom: 0; min-width: 2px; border-right: 1px solid var(--page) }
.fobs .pull { background: var(--pull) } .fobs .push { background: var(--push) } .fobs .ticket { background: var(--ticket) }
.fobs .axis { display: flex; justify-content: space-between; font-size: .85rem; padding-left: calc(var(--label) + .5rem) }
.fobs .key { font-size: .85rem } .fobs .key span { white-space: nowrap; margin-right: 1em }
.fobs .key b { display: inline-block; width: .8em; height: .8em; margin-right: .3em }
@media (max-width: 36rem) { .fobs table { font-size: .85rem } .fobs th, .fobs td { padding: .25rem .2rem }
  .fobs .row { flex-wrap: wrap; gap: 0 } .fobs .name, .fobs .lane { flex-basis: 100% } .fobs .name:empty { display: none }
  .fobs .axis { padding-left: 0 } }
"""
_WAYS = {"pull": "pulled by the destination", "push": "pushed by the source", "ticket": "with a ticket"}


def page(result: ClusterResult) -> str:
    """The whole page."""
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'><title>fobs cluster</title>"
        "<style>:root { color-scheme: light dark } body { margin: 0 }"
        " @media (prefers-color-scheme: dark) { body { background: #15181c } }"
        " .fobs { margin: 0 auto; padding: 1.5rem 1rem }</style>"
        f"<body>{body(result)}</body></html>\n"
    )


def body(result: ClusterResult) -> str:
    """What a page or a notebook shows."""
    parts = [
        f"<h1>fobs cluster</h1>{_what(result)}<p>{escape(str(result))}.</p>"
        f"<p>Root: <code>{escape(result.root)}</code></p>",
        f"<h2>Nodes</h2>{_nodes(result)}",
    ]
    if result.lines:
        parts.append(f"<h2>Shards by source node</h2>{_chart(result)}")
    if result.slowest:
        at = f"{escape(result.slowest)}: {_rate(result.slowest_bps)}."
        parts.append(f"<h2>Slowest shard</h2><p>{at} {escape(result.slowest_why)}</p>")
    for title, lines in (
        ("Moved by another node after a failure, or because one was slow", result.moved_elsewhere),
        ("Notices", result.notices),
        ("Not moved", tuple(f"{name}: {why}" for name, why in result.errors)),
    ):
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            parts.append(f"<h2>{title}</h2><ul>{items}</ul>")
    return f"<style>{_STYLE}</style><div class=fobs>{''.join(parts)}</div>"


def _what(result: ClusterResult) -> str:
    """From where to where, when, and by which command."""
    rows = (
        ("Source", ", ".join(result.source)),
        ("Destination", ", ".join(result.destination)),
        ("Began", result.date),
        ("Command", result.command),
    )
    lines = "".join(f"<li>{name}: <code>{escape(text)}</code></li>" for name, text in rows if text)
    return f"<ul>{lines}</ul>" if lines else ""


def _rate(bps: float) -> str:
    from ._result import rate

    return rate(bps)


def _nodes(result: ClusterResult) -> str:
    head = "".join(f"<th class=n>{name}</th>" for name in ("shards", "bytes", "rate", "failures"))
    groups = []
    for side in ("source", "destination"):
        rows = "".join(_node(node) for node in result.nodes if node.side == side)
        groups.append(f"<tbody><tr><th colspan=5>{side}</th></tr>{rows}</tbody>")
    return f"<div class=scroll><table><thead><tr><th>node</th>{head}</tr></thead>{''.join(groups)}</table></div>"


def _node(node: NodeRate) -> str:
    from ._result import size

    figures = (f"{node.shards}", size(node.bytes), _rate(node.rate_bps), f"{node.failures}")
    cells = "".join(f"<td class=n>{figure}</td>" for figure in figures)
    row = f"<tr><td>{escape(node.name)}</td>{cells}</tr>"
    if node.last and not node.dropped:
        row += f"<tr><td colspan=5 class=why>last failure: {escape(node.last)}</td></tr>"
    if node.dropped:
        row += f"<tr><td colspan=5 class='why bad'>left out: {escape(node.dropped)}</td></tr>"
    return row


def _chart(result: ClusterResult) -> str:
    """A bar for each shard, below each other by source node, as many lanes as the node moved shards at once."""
    lanes: dict[tuple[str, int], list[ShardLine]] = {}
    for line in sorted(result.lines, key=lambda line: (line.source, line.began)):
        number = 0
        while (lane := lanes.setdefault((line.source, number), [])) and lane[-1].ended > line.began:
            number += 1
        lane.append(line)
    rows = []
    for (node, number), lines in sorted(lanes.items()):
        label = escape(node) if number == 0 else ""
        bars = "".join(_bar(line, max(result.seconds, 1e-9)) for line in lines)
        name = f"<span class=name title='{label}'>{label}</span>"
        rows.append(f"<div class=row>{name}<div class=lane>{bars}</div></div>")
    used = {line.way for line in result.lines}
    key = " ".join(f"<span><b class={way}></b>{text}</span>" for way, text in _WAYS.items() if way in used)
    axis = f"<div class=axis><span>0 s</span><span>{result.seconds:.1f} s</span></div>"
    # Names of up to 40 letters are shown whole.
    letters = min(max(len(node) for node, _ in lanes), 40) + 1
    return f"<div style='--label:{letters}ch'>{''.join(rows)}{axis}</div><p class=key>{key}</p>"


def _bar(line: ShardLine, seconds: float) -> str:
    from ._result import size

    left, width = 100 * line.began / seconds, 100 * (line.ended - line.began) / seconds
    title = f"{line.shard}: {line.source} to {line.destination}, {_WAYS.get(line.way, line.way)}, {size(line.bytes)}"
    return f"<i class={line.way} style='left:{left:.2f}%;width:{width:.2f}%' title='{escape(title)}'></i>"
