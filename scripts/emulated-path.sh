# For scripts that measure programs on the two sides of an emulated path of 1 Gbit/s, 65 ms and 0.1% loss each way: sourced,
# with a word in $name and fobs-lab in $lab. Gives a directory in memory as $work, and of both hosts the namespaces and addresses as
# $sides and $addresses. The processes in $started end with the script, and the path after them.
# shellcheck shell=bash
parent=/tmp
[ -d /dev/shm ] && parent=/dev/shm
work=$(mktemp -d "$parent/fobs-$name-XXXXXX")
started=() link=''

clean_up() {
    status=$?
    trap - EXIT
    for pid in "${started[@]}" $link; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT

cat >"$work/path.toml" <<SPEC
name = "$name"
rate = "1Gbit"
rtt = "65ms"
forward = { loss = "0.1%" }
backward = { loss = "0.1%" }
SPEC
"$lab" link "$work/path.toml" >"$work/link.log" 2>&1 &
link=$!
for _ in $(seq 100); do
    grep -q '"ready"' "$work/link.log" 2>/dev/null && break
    sleep 0.1
done
of_host() { head -1 "$work/link.log" | python3 -c "import json,sys; print(json.load(sys.stdin)['hosts'][$1]['$2'])"; }
sides=("$(of_host 0 namespace)" "$(of_host 1 namespace)")
addresses=("$(of_host 0 address)" "$(of_host 1 address)")
# Buffers for the path.
for side in "${sides[@]}"; do
    ip netns exec "$side" sysctl -qw net.ipv4.tcp_rmem="4096 131072 67108864" net.ipv4.tcp_wmem="4096 131072 67108864"
    ip -n "$side" link set lo up
done
