#!/usr/bin/env bash
# CPU seconds of two builds of fobs, both ends together, in interleaved runs over the loopback in memory: one file of
# 512 MiB, and 10,000 files of 4 KiB. CPU seconds, because they differ less than the time on a busy machine; for rates
# see `fobs-lab bench --baseline`.
#   scripts/compare-binaries.sh FOBS OTHER-FOBS [REPETITIONS]
set -euo pipefail
first=$(realpath "${1:?name two programs}") second=$(realpath "${2:?name two programs}") repetitions=${3:-9}
work=$(mktemp -d -p /dev/shm)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
mkdir "$work/home" "$work/served" "$work/tree"
export HOME=$work/home
unset XDG_CONFIG_HOME XDG_STATE_HOME
head -c $((512 << 20)) /dev/urandom >"$work/file"
for folder in $(seq 100); do
    mkdir "$work/tree/$folder"
    split -b 4096 -a 3 <(tail -c "+$((folder * 409600))" "$work/file" | head -c 409600) "$work/tree/$folder/"
done
"$first" keygen 2>/dev/null | sed 's/^/read-write /' >"$work/keys"
port=$((20000 + $$ % 10000))

# One line: program, source, CPU seconds of client and server, seconds.
run() {
    rm -rf "$work/served" && mkdir "$work/served"
    "$1" serve --listen "127.0.0.1:$port" --root "$work/served" --authorized-keys "$work/keys" 2>"$work/log" &
    daemon=$!
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.05; done
    "$1" cp -r --json "$work/$2" "fobs://127.0.0.1:$port/copy" | tail -1 |
        python3 -c 'import json, sys
done = json.loads(sys.stdin.read())
print(sys.argv[1], sys.argv[2], done["cpu_seconds"] + done["cpu_seconds_peer"], done["seconds"])' "$1" "$2" >>"$work/figures"
    kill "$daemon" && { wait "$daemon" || true; }
    daemon=
}
for _ in $(seq "$repetitions"); do
    for source in file tree; do
        run "$first" "$source"
        run "$second" "$source"
    done
done
python3 - "$work/figures" <<'PYTHON'
import collections, statistics, sys
runs = collections.defaultdict(list)
for line in open(sys.argv[1]):
    program, source, cpu, seconds = line.split()
    runs[source, program].append((float(cpu), float(seconds)))
for (source, program), figures in runs.items():
    cpu, seconds = (statistics.median(column) for column in zip(*figures))
    print(f"{source} {program}: CPU {cpu:.3f} s, {seconds:.3f} s (medians of {len(figures)})")
PYTHON
