#!/bin/sh
# Records loss windows of a receiver with too little CPU time, between two network namespaces on one machine:
#   scripts/record-signatures.sh OUT.jsonl.gz SEED [TRIALS] [SECONDS]
# Needs root, two CPUs and `cargo build --release -p fobs-lab`. The sender runs on CPU 0, the receiver and its
# competitors on CPU 1. SEED determines all random choices.
set -eu
out=$1 seed=$2 trials=${3:-10} seconds=${4:-5}
program=${FOBS_LAB:-target/release/fobs-lab}
a=d-src-$$ b=d-dst-$$
trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null' EXIT INT TERM
ip netns add "$a"
ip netns add "$b"
ip link add d-veth-a netns "$a" type veth peer name d-veth-b netns "$b"
ip -n "$a" addr add 10.213.0.1/30 dev d-veth-a
ip -n "$b" addr add 10.213.0.2/30 dev d-veth-b
ip -n "$a" link set d-veth-a up
ip -n "$b" link set d-veth-b up
# The sending device segments bursts, as on a real link, so that the receiver does not get them unsegmented.
ip netns exec "$a" ethtool -K d-veth-a tx-udp-segmentation off >/dev/null 2>&1 || true

state=$seed
pick() { # sets $picked to one of the arguments
    state=$(( (state * 1103515245 + 12345) % 2147483648 ))
    shift $(( state / 65536 % $# ))
    picked=$1
}
trial=0
while [ "$trial" -lt "$trials" ]; do
    pick paper light light spark spark stall quota slowrx slowrx; scenario=$picked
    pick 250 400 500 600 700 800 1000; rate=$picked
    pick 1 1 1 1 16 32 44 64; burst=$picked
    pick one gso; way=$picked
    pick plain plain plain gro; gro=$picked
    pick 106496 212992 262144 393216 524288 786432 1048576 2097152; buffer=$picked
    [ "$burst" -gt 1 ] || way=one
    run=$(( seed * 1000 + trial ))
    ip netns exec "$b" taskset -c 1 "$program" diagnose record recv 10.213.0.2:45999 "$scenario" "$rate" \
        "$burst" "$buffer" "$gro" $(( seconds + 1 )) "$run" "$run" &
    receiver=$!
    sleep 0.3
    ip netns exec "$a" taskset -c 0 "$program" diagnose record send 10.213.0.2:45999 "$rate" "$burst" "$way" "$seconds"
    wait $receiver
    trial=$(( trial + 1 ))
done | gzip -n >"$out"
