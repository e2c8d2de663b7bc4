#!/usr/bin/env bash
# Copies a file and a tree each way through a fobs daemon, with live progress, and compares the copies.
# As root between two network namespaces, otherwise over the loopback. Cleans up on any exit.
#
# As root it then runs fobs and the kernel's TCP over the same emulated path of 65 ms with random loss.
#
# Usage: scripts/demo.sh [FOBS [FOBS-LAB]]   (the binaries; built if omitted)
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
fobs=${1:-}
if [ -z "$fobs" ]; then
    (cd "$here" && cargo build --release --locked -p fobs-cli -p fobs-lab)
    fobs=${CARGO_TARGET_DIR:-$here/target}/release/fobs
fi
fobs=$(realpath "$fobs")
lab=$(realpath "${2:-$(dirname "$fobs")/fobs-lab}")

# Use memory instead of disk if two copies of everything fit, so that the network is the bottleneck.
room_kib=4000000
parent=${TMPDIR:-/tmp}
if [ -d /dev/shm ] && [ "$(df -k --output=avail /dev/shm | tail -1)" -gt "$room_kib" ]; then
    parent=/dev/shm
fi
work=$(mktemp -d "$parent/fobs-demo-XXXXXX")
daemon=
namespaces=()

clean_up() {
    status=$?
    trap - EXIT
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
    [ "$status" -eq 0 ] || { echo "--- the daemon said:"; cat "$work/daemon.log" 2>/dev/null || true; } >&2
    for namespace in "${namespaces[@]}"; do
        ip netns del "$namespace" 2>/dev/null || true
    done
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

address=127.0.0.1
at_client=() at_server=()
if [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null; then
    client=fobs-demo-$$-c server=fobs-demo-$$-s
    if ip netns add "$client" 2>/dev/null; then
        namespaces=("$client")
        ip netns add "$server"
        namespaces=("$client" "$server")
        ip link add veth0 netns "$client" type veth peer name veth0 netns "$server"
        ip -n "$client" addr add 10.99.0.1/24 dev veth0
        ip -n "$server" addr add 10.99.0.2/24 dev veth0
        for namespace in "${namespaces[@]}"; do
            ip -n "$namespace" link set lo up
            ip -n "$namespace" link set veth0 up
        done
        address=10.99.0.2
        at_client=(ip netns exec "$client") at_server=(ip netns exec "$server")
    fi
fi
if [ "${#namespaces[@]}" -gt 0 ]; then
    step "Two hosts: network namespaces joined by a veth pair"
else
    step "One host: two processes over the loopback (as root there would be two network namespaces)"
fi

step "A file of 512 MiB, half random and half text; and a tree"
head -c 256M /dev/urandom > "$work/mix"
# The closing pipe ends `yes`: not a failure.
(yes "FOBS moves what is large, and this is large enough to see it move." || true) | head -c 256M >> "$work/mix"
tree=/usr/include
if command -v rustc >/dev/null && [ -d "$(rustc --print sysroot)/lib" ]; then
    tree=$(rustc --print sysroot)/lib
fi
du -shL "$work/mix" "$tree"

step "Keys, and a daemon over an empty directory"
mkdir "$work/served" "$work/back"
public=$("$fobs" keygen --out "$work/client-key" 2>/dev/null)
(umask 077 && echo "read-write $public demo" > "$work/authorized_keys")
cat "$work/authorized_keys"
"${at_server[@]}" "$fobs" serve --listen "$address:45600" --root "$work/served" --authorized-keys "$work/authorized_keys" \
    --identity "$work/server-key" 2> "$work/daemon.log" &
daemon=$!
for _ in $(seq 500); do
    # State 0A is LISTEN; B220 is port 45600.
    grep -q ':B220 [0-9A-F:]* 0A' "/proc/$daemon/net/tcp" && break
    kill -0 "$daemon"
    sleep 0.02
done

copy() {
    echo "\$ fobs cp $*" | sed "s#$work/##g"
    "${at_client[@]}" "$fobs" cp -i "$work/client-key" --known-hosts "$work/known_hosts" "$@"
}
there=fobs://$address:45600

step "The file, there and back"
copy "$work/mix" "$there/mix"
copy "$there/mix" "$work/back/mix"
step "The tree, there and back"
copy -rp "$tree/" "$there/tree"
copy -rp "$there/tree/" "$work/back/tree"

# The hash of a tree covers the sorted names, link targets and file hashes.
hash_of() {
    if [ -f "$1" ]; then sha256sum < "$1"; return; fi
    (cd "$1" && { find . -type l -printf '%p -> %l\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum; }) | sha256sum
}

step "Compared"
failed=0
for what in "mix:$work/mix" "tree:$tree"; do
    name=${what%%:*}
    sent=$(hash_of "${what#*:}") there_hash=$(hash_of "$work/served/$name") back=$(hash_of "$work/back/$name")
    for row in "sent   $sent" "there  $there_hash" "back   $back"; do echo "$name  ${row%  -}"; done
    [ "$sent" = "$there_hash" ] && [ "$sent" = "$back" ] || failed=1
done
[ "$failed" -eq 0 ] || { echo "what arrived differs from what was sent" >&2; exit 1; }
echo "all the same"

step "The same copy over a path of 100 Mbit/s and 65 ms that loses one packet in 200, and the kernel's TCP over it"
if [ "$(id -u)" -ne 0 ]; then
    echo "skipped: the emulated path needs root"
elif ! command -v iperf3 >/dev/null; then
    echo "skipped: iperf3 is not installed (as root, \`scripts/install-needs.sh bench\` installs it)"
else
    "$lab" run "$here/lab/plans/demo.toml" --fobs "$fobs" --out "$work/demo.jsonl"
fi
