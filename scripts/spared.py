#!/usr/bin/env python3
"""How many lost packets the verdicts kept from the controller, from traces of `fobs cp --trace`.

    scripts/spared.py TRACE.jsonl...

Counts are exact up to 1024 judged windows a trace, of more a trace keeps some. `counted` is what the receiver's kernel
dropped at the socket, merged datagrams once; `ledger` the same in packets, as far as judged windows claimed it.
"""

import json
import sys

WINDOWS_MAX = 1024


def count(path):
    """Figures of one trace."""
    windows = {"receiver": 0, "network": 0, "inconclusive": 0}
    spared = told = claimed = 0
    last = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            last[record["record"]] = record
            if record["record"] == "loss":
                windows[record["verdict"]] += 1
                spared += record["receiver_lost"]
                told += record["network_lost"]
                claimed += record["host_drops"] or 0
    sender, receiver = last.get("sender", {}), last.get("receiver", {})
    return {
        "windows": windows,
        "all_kept": sum(windows.values()) < WINDOWS_MAX,
        "lost": sender.get("packets_lost", 0),
        "spared": spared,
        "told": told,
        "ledger": claimed,
        "counted": receiver.get("socket_drops", 0),
        "sent": sender.get("packets_sent", 0),
    }


def main():
    """One line a trace, and their sum."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    total = {"lost": 0, "spared": 0, "told": 0, "ledger": 0, "counted": 0, "sent": 0}
    for path in sys.argv[1:]:
        figures = count(path)
        print(json.dumps({"trace": path, **figures}))
        for key in total:
            total[key] += figures[key]
    print(json.dumps({"traces": len(sys.argv) - 1, **total}))


main()
