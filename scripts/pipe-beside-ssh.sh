#!/usr/bin/env bash
# A stream into a command on the other side of an emulated path, through `ssh` and through `fobs pipe`, by turns: the table of
# docs/guide.md ("Between programs: fobs pipe"). Needs root, sshd, Python and a built fobs-lab.
#
# Usage: scripts/pipe-beside-ssh.sh FOBS FOBS-LAB [BYTES [SECONDS]]   (SECONDS: when a run is stopped)
set -euo pipefail

fobs=$(realpath "$1")
lab=$(realpath "$2")
bytes=${3:-1000000000}
limit=${4:-60}
name=pipe
# shellcheck source=scripts/emulated-path.sh
source "$(dirname "$0")/emulated-path.sh"
here=${sides[0]} there=${sides[1]} from=${addresses[0]} address=${addresses[1]}

for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$work/$key"; done
mkdir -p /run/sshd
cat > "$work/sshd_config" <<CONFIG
ListenAddress $address
Port 2222
HostKey $work/host
AuthorizedKeysFile $work/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
CONFIG
ip netns exec "$there" "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f "$work/sshd_config" > "$work/sshd.log" 2>&1 &
started+=($!)
cat > "$work/config" <<CONFIG
Host there
  HostName $address
  Port 2222
  IdentityFile $work/user
  IdentitiesOnly yes
  StrictHostKeyChecking accept-new
  UserKnownHostsFile $work/known
  LogLevel ERROR
CONFIG
sleep 1

mkdir "$work/tree" "$work/home"
for n in $(seq 10); do head -c $((bytes / 10)) /dev/urandom > "$work/tree/$n"; done
tar cf "$work/stream" -C "$work/tree" .
size=$(stat -c %s "$work/stream")

# Prints Mbit/s of a run, or what it had moved when it was stopped.
run() {
    local name=$1 into=$2 control=$3
    shift 3
    # By route: a namespace may not choose every one by itself.
    ip -n "$here" route replace "$address/32" dev link0 congctl "$control"
    ip -n "$there" route replace "$from/32" dev link0 congctl "$control"
    rm -rf "$work/out" "$work/taken"
    mkdir "$work/out"
    local began ended code=0
    began=$(date +%s.%N)
    HOME=$work/home timeout "$limit" ip netns exec "$here" "$@" "$into" < <(tee >(wc -c > "$work/taken") < "$work/stream") \
        2> "$work/said" || code=$?
    ended=$(date +%s.%N)
    sleep 0.3
    python3 - "$name" "$into" "$code" "$size" "$(cat "$work/taken")" "$began" "$ended" <<'PYTHON'
import sys
name, into, code, size, taken, began, ended = sys.argv[1:]
seconds = float(ended) - float(began)
moved = int(size) if code == "0" else int(taken or 0)
stopped = "" if code == "0" else f"  (stopped; exit code {code})"
print(f"{name:18} {into.split()[0]:5} {moved * 8 / seconds / 1e6:8.0f} Mbit/s  {seconds:6.1f} s{stopped}", flush=True)
PYTHON
    if [ "$into" != "cat > /dev/null" ] && [ "$code" = 0 ]; then diff -rq "$work/tree" "$work/out"; fi
}

for into in "cat > /dev/null" "tar x -C $work/out"; do
    run "ssh, CUBIC" "$into" cubic ssh -F "$work/config" there
    run "ssh, BBR" "$into" bbr ssh -F "$work/config" there
    run "fobs pipe" "$into" cubic "$fobs" pipe --json -F "$work/config" --fobs-path "$fobs" there --
    python3 - "$work/said" <<'PYTHON'
import json, sys
done = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")][-1]
sent = done["sent"]
print(f"  memory: {sent['max_rss_bytes'] / 2**20:.0f} MiB here, {sent['max_rss_bytes_peer'] / 2**20:.0f} MiB there; "
      f"while data moves {sent['goodput_bps'] / 1e6:.0f} Mbit/s")
PYTHON
done
