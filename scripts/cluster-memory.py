#!/usr/bin/env python3
"""Peak memory of the caller of a cluster transfer, with streams of rows that are made and stand nowhere.

Usage: cluster-memory.py [--files N] [--present PERCENT]

Merges both streams, cuts shards, takes them one after the other, notes a record of each file, and makes the root of all.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

from fobs.cluster._access import Found
from fobs.cluster._pending import Pending
from fobs.cluster._plan import Sides, plan
from fobs.cluster._result import Failures
from fobs.cluster._spool import Spool
from fobs.cluster._wanted import Wanted

# Files of a directory.
_EACH = 1000


def rows(count: int, percent: int) -> Iterator[Found]:
    """A tree of this number of files in order, some of each hundred."""
    for number in range(count):
        directory, at = divmod(number, _EACH)
        above = f"experiment-{directory // 100:06}/run-{directory:08}"
        if directory % 100 == 0 and at == 0:
            yield Found(f"experiment-{directory // 100:06}", "directory", 4096, 1, 0o755)
        if at == 0:
            yield Found(above, "directory", 4096, 1, 0o755)
        if number % 100 < percent:
            yield Found(f"{above}/detector-image-{at:06}.dat", "file", 1000 + number % 100_000, 1, 0o644, number + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000_000)
    parser.add_argument("--present", type=int, default=50, help="of each hundred files, how many stand there already")
    given = parser.parse_args()
    began, spool = time.monotonic(), Spool()
    sides = Sides(rows(given.files, 100), rows(given.files, given.present), Wanted(), lambda row, other: None)
    made = plan(sides, 8, None, spool, Failures())
    merged = time.monotonic() - began
    pending = Pending(spool)
    for numbers in (made.numbers, *made.checks):
        pending.add(numbers)
    shards = len(pending)
    root = "5" * 64
    while pending:
        shard = pending.ahead(64)[0]
        pending.remove(shard)
        spool.note((file.name, file.size, file.mtime_ns, root) for file in shard.files)
    assert spool.files == given.files, spool.files
    whole = spool.root()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{given.files:,} files, {shards:,} shards: merged in {merged:.0f} s, all in "
        f"{time.monotonic() - began:.0f} s, root {whole[:16]}, {spool.size() / given.files:.0f} bytes of disk for each file, peak {peak} MiB"
    )


if __name__ == "__main__":
    main()
