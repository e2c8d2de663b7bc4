"""The survey of a cluster transfer: two streams in order, merged, and neither held."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fobs
import pytest
from fobs.cluster._access import Found, access_to
from fobs.cluster._nodes import Node
from fobs.cluster._ordered import Stream, key, read_rows
from fobs.cluster._plan import Sides, plan
from fobs.cluster._result import Failures
from fobs.cluster._shards import RANGED_MIN, Shard
from fobs.cluster._spool import Spool
from fobs.cluster._wanted import Wanted

from .cluster_trees import make_any
from .conftest import Served

SCRIPT = Path(__file__).parents[3] / "scripts/cluster-memory.py"


def names_below(root: Path) -> list[str]:
    found = [
        os.path.relpath(os.path.join(top, name), root)
        for top, below, files in os.walk(root)
        for name in [*below, *files]
    ]
    return sorted(found, key=key)


@pytest.mark.parametrize("kind", ["path", "url"])
def test_a_stream_goes_on_after_any_name_in_another_process(kind: str, served: Served) -> None:
    make_any(served.root, files=30)
    # Names around the separator: "a-b" sorts before "a/b" as text, and after it as a path.
    for name in ("a/b", "a-b", "a.b/c", "a0"):
        (served.root / name).parent.mkdir(exist_ok=True)
        (served.root / name).write_bytes(b"x")
    node = Node("s", path=str(served.root)) if kind == "path" else Node("s", url=served.url, options=served.keys)
    expected = names_below(served.root)
    with access_to(node, "") as access:
        assert [row.name for row in Stream(access).rows()] == expected
        for after in expected:
            left = [row.name for row in Stream(access, after).rows()]
            assert left == expected[expected.index(after) + 1 :], after


def test_batches_are_the_whole_at_any_reader(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from fobs.cluster import _ordered

    make_any(served.root)
    monkeypatch.setattr(_ordered, "BATCH_ROWS", 7)
    node, expected = Node("s", path=str(served.root)), names_below(served.root)
    draw, taken, after = random.Random(3), [], ""
    while True:
        if draw.random() < 0.3:
            # Another worker has no place.
            _ordered.end_streams()
        batch = read_rows(node, "s", "stream", after, False)
        taken += [row.name for row in batch.rows]
        if batch.is_last:
            break
        after = taken[-1]
    assert taken == expected


def test_a_top_that_is_missing_is_an_error_unless_it_may_be(tmp_path: Path) -> None:
    node = Node("s", path=str(tmp_path / "none"))
    with pytest.raises(fobs.SourceNotFoundError, match="none"):
        read_rows(node, "s", "x", "", False)
    assert read_rows(node, "s", "x", "", True).rows == []


# The plan against one that holds both lists.

KINDS = ("file", "file", "file", "link", "directory", "directory", "other")


def some_tree(draw: random.Random) -> dict[str, Found]:
    """Rows by name; what lies in a directory has one."""
    tree: dict[str, Found] = {}
    places, files = [""], {}
    for _ in range(draw.randrange(25)):
        above, name = draw.choice(places), draw.choice(["a", "b", "a-", "a.o", "keep", "z"])
        path = f"{above}/{name}" if above else name
        if path in tree:
            continue
        kind, inode = draw.choice(KINDS), draw.randrange(1, 9)
        size = draw.choice([0, 5, RANGED_MIN]) if kind == "file" else 0
        target = draw.choice("xy") if kind == "link" else None
        row = Found(path, kind, size, draw.choice([1, 2]), draw.choice([0o644, 0o755]), inode, target)
        if kind == "directory":
            row = row._replace(inode=100 + len(tree))
            places.append(path)
        # Names of one file say the same of it.
        tree[path] = files.setdefault(row.inode, row)._replace(name=path)
    return tree


def left_out(wanted: Wanted, tree: dict[str, Found]) -> set[str]:
    """By fnmatch's meaning of the two patterns that the test has."""
    out = set()
    for name in sorted(tree, key=key):
        base, above = os.path.basename(name), os.path.dirname(name)
        if wanted.patterns and (base == "keep" or base.endswith(".o") or above in out):
            out.add(name)
    return out


def expected_deletions(wanted: Wanted, source: dict[str, Found], there: dict[str, Found]) -> set[str]:
    """The topmost names that go."""
    taken = {name: row for name, row in source.items() if name not in left_out(wanted, source)}
    protected = left_out(wanted, there)
    gone: set[str] = set()

    def guards(name: str) -> bool:
        return any(one.startswith(f"{name}/") for one in protected)

    for name in sorted(there, key=key):
        row, other = there[name], taken.get(name)
        in_gone = any(name.startswith(f"{one}/") for one in gone)
        if name in protected or in_gone:
            continue
        is_in_way = other is not None and (other.kind == "directory") != (row.kind == "directory")
        if (other is None or is_in_way) and not (row.kind == "directory" and guards(name)):
            gone.add(name)
    return gone


def planned(source: dict[str, Found], there: dict[str, Found], wanted: Wanted, **more: Any) -> tuple[Spool, list[Shard], Any]:
    spool, failures = Spool(), Failures()
    rows = [sorted(tree.values(), key=lambda row: key(row.name)) for tree in (source, there)]
    made = plan(Sides(rows[0], rows[1], wanted, lambda row, other: None, **more), 3, None, spool, failures)
    return spool, list(made.shards()), failures


@pytest.mark.parametrize("seed", range(200))
def test_a_plan_is_that_of_the_whole_lists(seed: int) -> None:
    draw = random.Random(seed)
    source, there = some_tree(draw), some_tree(draw)
    patterns = draw.choice([(), ((False, b"keep"), (False, b"*.o"))])
    kept = draw.choice([frozenset(), frozenset({"hard_links"})])
    wanted = Wanted(kept=kept, delete=True, patterns=patterns)
    spool, shards, failures = planned(source, there, wanted)
    assert {*spool.gone("way"), *spool.gone("delete")} == expected_deletions(wanted, source, there)

    taken = {name: row for name, row in source.items() if name not in left_out(wanted, source)}
    sent = {name for shard in shards if shard.kind == "files" for name in shard.names}
    checked = {name for shard in shards if shard.kind == "check" for name in shard.names}
    others = {name for name, row in taken.items() if row.kind == "other"}
    assert {name for name, _ in failures.lines} == others
    later = {row.name for unit in spool.later() for row in unit}
    for name, row in taken.items():
        if row.kind == "directory":
            is_there = name in there and there[name].kind == "directory"
            is_empty = not any(one.startswith(f"{name}/") for one in taken)
            assert (name in sent) == (is_empty and not is_there), name
            assert is_there or name in later, name
        elif row.kind == "file":
            assert name in sent | checked | later, name
    assert sent | checked <= set(taken) and not sent & checked
    for name in sent:
        assert os.path.dirname(name) in later | {""}, "a directory in which something is made gets its time again"
    # The deepest first.
    depths = [unit[0].name.count("/") for unit in spool.later()]
    assert depths == sorted(depths, reverse=True)


def test_nothing_is_deleted_when_a_side_could_not_be_listed() -> None:
    there = {"gone": Found("gone", "file", 1, 1)}
    spool, _, _ = planned({}, there, Wanted(delete=True), is_whole=lambda: False)
    assert list(spool.gone("delete")) == []
    spool, _, _ = planned({}, there, Wanted(delete=True))
    assert list(spool.gone("delete")) == ["gone"]


def test_names_of_one_file_go_together_wherever_they_lie() -> None:
    names = [f"d{number}/{number}" for number in range(40)]
    tree = {name: Found(name, "file", 5, 1, inode=1 + (2**64 - 2) * (index % 2)) for index, name in enumerate(names)}
    spool, shards, _ = planned(tree, {}, Wanted(kept=frozenset({"hard_links"})))
    assert len(shards) == 1
    # The second inode needs all 64 bits.
    assert [{row.name for row in unit} for unit in spool.units("files")] == [set(names[0::2]), set(names[1::2])]


def test_the_root_of_the_spool_is_that_of_the_protocol() -> None:
    spool, draw = Spool(), random.Random(1)
    # More than one piece of 4 MiB.
    records = [(f"d-{n % 7}/{n:060}", n, 1, draw.randbytes(32).hex()) for n in range(45_000)]
    draw.shuffle(records)
    spool.note(records)
    spool.note(records[:10])
    entries = b"".join(
        b"f" + len(name).to_bytes(4, "little") + name.encode() + bytes.fromhex(root)
        for name, _, _, root in sorted(records, key=lambda record: record[0].encode())
    )
    assert spool.root() == fobs._fobs.root_of(entries)
    assert (spool.files, spool.bytes) == (45_000, sum(range(45_000)))


def peaks(count: int) -> Iterator[int]:
    """Peak memory of a caller with this number of files, MiB, in a process of its own."""
    made = subprocess.run(
        [sys.executable, SCRIPT, "--files", str(count)], check=True, capture_output=True, text=True
    )
    yield int(made.stdout.split(" MiB")[0].split()[-1])


def test_the_memory_of_the_caller_does_not_grow_with_files() -> None:
    few, many = (next(peaks(count)) for count in (60_000, 300_000))
    assert many - few < 40, f"{few} MiB for 60,000 files, {many} MiB for 300,000"
