#!/usr/bin/env bash
# Builds the Globus XIO driver (bindings/globus) and tries it: two programs of XIO over a name at a daemon, then
# globus-url-copy -dcstack fobs with and between two GridFTP servers. Skipped by name where Debian's packages
# libglobus-xio-dev, globus-gridftp-server-progs and globus-gass-copy-progs are not there.
#
#   test-globus.sh [FOBS [DIRECTORY OF libfobs_c.so]]
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
fobs=$(realpath "${1:-$target/release/fobs}") library=$(realpath "${2:-$target/release}")
for needed in globus-gridftp-server globus-url-copy pkg-config; do
    if ! PATH=$PATH:/usr/sbin command -v "$needed" >/dev/null || ! pkg-config --exists globus-xio; then
        echo "SKIPPED: the Globus XIO driver needs $needed and globus-xio (Debian: libglobus-xio-dev" \
            "globus-gridftp-server-progs globus-gass-copy-progs)"
        exit 0
    fi
done
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null; rm -rf "$work"' EXIT

mkdir "$work/lib" "$work/include" "$work/root" "$work/one" "$work/two"
ln -s "$library/libfobs_c.so" "$work/lib/"
cp bindings/c/include/fobs.h "$work/include/"
cp bindings/globus/* "$work/one"
make --silent -C "$work/one" FOBS_C="$work" test
cp "$work/one/libglobus_xio_fobs_driver.so" "$work/lib/"
mv "$work/one/xio-fobs" "$work/one/cancels" "$work/"
rm -f "$work"/one/*
export LD_LIBRARY_PATH=$work/lib GLOBUS_THREAD_MODEL=pthread

"$fobs" keygen --out "$work/client" | sed -n '/fobs-ed25519/s/^/pipe-names /p' >"$work/authorized_keys"
chmod go-w "$work/authorized_keys"
port=$((20000 + $$ % 10000))
"$fobs" serve --listen "127.0.0.1:$port" --root "$work/root" --authorized-keys "$work/authorized_keys" \
    --identity "$work/server" 2>"$work/log" &
started+=($!)
for _ in $(seq 300); do
    grep -q listening "$work/log" && break
    sleep 0.1
done
export FOBS_XIO="daemon=fobs://127.0.0.1:$port;identity=$work/client;known_hosts=$work/known_hosts;timeout=60"

head -c 30000000 /dev/urandom >"$work/data"
"$work/xio-fobs" fobs listen >"$work/came" 2>"$work/contact" &
listener=$!
started+=("$listener")
for _ in $(seq 300); do
    [ -s "$work/contact" ] && break
    sleep 0.1
done
"$work/xio-fobs" fobs "$(head -n 1 "$work/contact")" <"$work/data"
wait "$listener"
cmp "$work/data" "$work/came"
timeout 60 "$work/cancels" "fobs://127.0.0.1:$port/nobody"
if FOBS_XIO="$FOBS_XIO;wait=1" timeout 60 "$work/xio-fobs" fobs 127.0.0.1:9 2>"$work/said" </dev/null; then
    echo "a contact that no one listens at was opened" && exit 1
fi
grep -q "no pipe listens as 'xio-9'" "$work/said"
echo "programs of XIO: as it should be"

eval "$(scripts/globus-credentials.sh "$work/gsi")"
root=()
[ "$(id -u)" -ne 0 ] || root=(-allow-root)
serve() {
    globus-gridftp-server "${root[@]}" -p "$1" -control-interface 127.0.0.1 -data-interface 127.0.0.1 \
        -threads 4 -dc-whitelist fobs,tcp,gsi -disable-usage-stats "${@:2}" >"$work/$1.log" 2>&1 &
    started+=($!)
    for _ in $(seq 300); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
    done
    echo "the GridFTP server does not listen" && cat "$work/$1.log" && exit 1
}
for side in one two; do
    ftp=$((port + 1 + ${#started[@]}))
    serve "$ftp"
    declare "$side=gsiftp://127.0.0.1:$ftp"
done
# Those that asked for a name, without those that came before the listener.
met() {
    local asked early
    asked=$(grep -c "pipe to 'xio-[0-9]*' (key" "$work/log" || true)
    early=$(grep -c "pipe to 'xio-[0-9]*': no_source" "$work/log" || true)
    echo $((asked - early))
}
# The client has no threads: with them Globus's own mixes up what it sends, and crashes (docs/globus.md).
client=(-u GLOBUS_THREAD_MODEL)
# Copies over this number of streams of FOBS: a stack that is not used is no error of globus-url-copy.
copy() {
    local streams=$1 stack=$2 before
    shift 2
    before=$(met)
    timeout 120 env "${client[@]}" globus-url-copy -p "$streams" -ss /O=fobs/CN=test -ds /O=fobs/CN=test -dcstack "$stack" "$@"
    if [ $(($(met) - before)) -lt "$streams" ]; then
        echo "globus-url-copy -p $streams -dcstack $stack $*: $(($(met) - before)) streams of FOBS" && exit 1
    fi
}
# A file goes up, to the other server over several streams, and back.
copy 1 fobs "file://$work/data" "$one$work/one/data"
cmp "$work/data" "$work/one/data"
copy 1 fobs "$one$work/one/data" "$two$work/two/alone"
cmp "$work/data" "$work/two/alone"
# Longer than any wait of a client for a listener.
copy 4 "fobs:cc=cubic;rate=4M;wait=5" "$one$work/one/data" "$two$work/two/data"
cmp "$work/data" "$work/two/data"
# What it fetches it listens for while it asks: not without threads, and again where it crashed.
client=()
for _ in 1 2 3 4 5; do
    code=0
    (copy 2 fobs "$two$work/two/data" "file://$work/back") || code=$?
    [ "$code" = 139 ] || break
done
[ "$code" = 0 ]
cmp "$work/data" "$work/back"
# Servers whose default it is need no credentials of a client.
default=()
for side in three four; do
    ftp=$((port + 1 + ${#started[@]}))
    serve "$ftp" -aa -anonymous-user "$(id -un)" -dc-default fobs
    default+=("ftp://127.0.0.1:$ftp")
done
before=$(met)
timeout 120 env -u GLOBUS_THREAD_MODEL globus-url-copy -nodcau -p 3 "${default[0]}$work/data" "${default[1]}$work/three"
cmp "$work/data" "$work/three"
[ "$(met)" -gt "$before" ]
echo "globus-url-copy -dcstack fobs: as it should be"
