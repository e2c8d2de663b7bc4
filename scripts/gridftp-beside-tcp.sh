#!/usr/bin/env bash
# A file between two GridFTP servers on the two sides of an emulated path (third-party), over TCP and over FOBS, by turns: the
# table of docs/globus.md. Needs root, Python, Debian's libglobus-xio-dev, globus-gridftp-server-progs and
# globus-gass-copy-progs, and built fobs, fobs-lab and libfobs_c.so.
#
# Usage: scripts/gridftp-beside-tcp.sh FOBS FOBS-LAB DIRECTORY-OF-libfobs_c.so [BYTES [SECONDS [STREAMS...]]]
#        (SECONDS: when a run is stopped)
set -euo pipefail
cd "$(dirname "$0")/.."
fobs=$(realpath "$1") lab=$(realpath "$2") library=$(realpath "$3")
bytes=${4:-1000000000} limit=${5:-60}
streams=("${@:6}")
[ ${#streams[@]} -gt 0 ] || streams=(1 4 8 16)
PATH=$PATH:/usr/sbin
name=gridftp
# shellcheck source=scripts/emulated-path.sh
source scripts/emulated-path.sh

mkdir -p "$work/lib" "$work/include" "$work/driver" "$work/root"
ln -s "$library/libfobs_c.so" "$work/lib/"
cp bindings/c/include/fobs.h "$work/include/"
cp bindings/globus/* "$work/driver/"
make --silent -C "$work/driver" FOBS_C="$work" libglobus_xio_fobs_driver.so
cp "$work/driver/libglobus_xio_fobs_driver.so" "$work/lib/"
export LD_LIBRARY_PATH=$work/lib HOME=$work
eval "$(scripts/globus-credentials.sh "$work/gsi")"
"$fobs" keygen --out "$work/client" | sed -n '/fobs-ed25519/s/^/pipe-names /p' >"$work/authorized_keys"
chmod go-w "$work/authorized_keys"

# Globus wants a name for each address; those of this host stay as they are.
printf '127.0.0.1 localhost\n%s one\n%s two\n' "${addresses[@]}" >"$work/hosts"
# Replaces the shell, so that a number of a job is that of the program.
inside() {
    export GLOBUS_HOSTNAME=${addresses[$1]}
    # shellcheck disable=SC2016
    exec ip netns exec "${sides[$1]}" bash -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts" "${@:2}"
}
wait_for_port() {
    for _ in $(seq 300); do
        (inside "$1" bash -c "exec 3<>/dev/tcp/$2/$3") 2>/dev/null && return
        sleep 0.1
    done
    echo "nothing listens at $2, port $3" && tail -n 5 "$work"/*.log && exit 1
}
# On each side: a daemon, a server for TCP as Debian's runs, and one with threads for the driver.
for side in 0 1; do
    host=${addresses[side]}
    inside "$side" "$fobs" serve --listen "$host:4600" --root "$work/root" --authorized-keys "$work/authorized_keys" \
        --identity "$work/server$side" >"$work/daemon$side.log" 2>&1 &
    started+=($!)
    ftp=(globus-gridftp-server -allow-root -control-interface "$host" -data-interface "$host" -disable-usage-stats)
    inside "$side" "${ftp[@]}" -p 2811 >"$work/tcp$side.log" 2>&1 &
    started+=($!)
    FOBS_XIO="daemon=fobs://$host:4600;identity=$work/client;known_hosts=$work/known_hosts$side;timeout=60" \
        GLOBUS_THREAD_MODEL=pthread inside "$side" "${ftp[@]}" -p 2812 -threads 4 -dc-whitelist fobs,tcp,gsi \
        >"$work/fobs$side.log" 2>&1 &
    started+=($!)
    for port in 4600 2811 2812; do wait_for_port "$side" "$host" "$port"; done
done

head -c "$bytes" /dev/urandom >"$work/data"
# Streams of FOBS so far: those that asked for a name, without those that came before the listener.
met() {
    local asked early
    asked=$(grep -c "pipe to 'xio-[0-9]*' (key" "$work/daemon1.log" || true)
    early=$(grep -c "pipe to 'xio-[0-9]*': no_source" "$work/daemon1.log" || true)
    echo $((asked - early))
}
# Prints Mbit/s of a run, or what it had moved when it was stopped.
run() {
    local name=$1 control=$2 count=$3 port=$4 code=0 before began ended moved
    shift 4
    # By route: a namespace may not choose every one by itself.
    ip -n "${sides[0]}" route replace "${addresses[1]}/32" dev link0 congctl "$control"
    ip -n "${sides[1]}" route replace "${addresses[0]}/32" dev link0 congctl "$control"
    rm -f "$work/got"
    began=$(date +%s.%N)
    before=$(met)
    (inside 0 timeout "$limit" globus-url-copy -p "$count" -ss /O=fobs/CN=test -ds /O=fobs/CN=test "$@" \
        "gsiftp://${addresses[0]}:$port$work/data" "gsiftp://${addresses[1]}:$port$work/got" >"$work/said" 2>&1) || code=$?
    ended=$(date +%s.%N)
    # Blocks, for streams leave holes.
    moved=$(($(stat -c '%b*%B' "$work/got" 2>/dev/null || echo 0)))
    # A stack that is not used is no error of globus-url-copy.
    if [ "$name" = FOBS ] && [ $(($(met) - before)) -lt "$count" ]; then
        cat "$work/said" "$work/fobs1.log" && echo "$name -p $count: not over FOBS" && exit 1
    fi
    if [ "$code" = 0 ]; then
        cmp "$work/data" "$work/got"
        moved=$bytes
    elif [ "$code" != 124 ]; then
        cat "$work/said" && exit 1
    fi
    python3 -c 'import sys
name, count, code, moved, began, ended = sys.argv[1:]
seconds = float(ended) - float(began)
stopped = "" if code == "0" else f"  (stopped after {seconds:.0f} s)"
print(f"{name:10} -p {count:3} {int(moved) * 8 / seconds / 1e6:6.0f} Mbit/s  {seconds:6.1f} s{stopped}", flush=True)' \
        "$name" "$count" "$code" "$moved" "$began" "$ended"
}

for count in "${streams[@]}"; do
    run "TCP, CUBIC" cubic "$count" 2811
    run "TCP, BBR" bbr "$count" 2811
    run "FOBS" cubic "$count" 2812 -dcstack fobs
done
