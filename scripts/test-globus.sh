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

root=()
[ "$(id -u)" -ne 0 ] || root=(-allow-root -anonymous-user root)
for side in one two; do
    ftp=$((port + 1 + ${#started[@]}))
    globus-gridftp-server -aa "${root[@]}" -p "$ftp" -control-interface 127.0.0.1 -data-interface 127.0.0.1 \
        -threads 4 -dc-whitelist fobs,tcp -disable-usage-stats >"$work/$side.log" 2>&1 &
    started+=($!)
    for _ in $(seq 300); do
        (exec 3<>"/dev/tcp/127.0.0.1/$ftp") 2>/dev/null && break
        sleep 0.1
    done
    declare "$side=ftp://127.0.0.1:$ftp"
done
copy() {
    local stack=$1
    shift
    timeout 120 globus-url-copy -nodcau -dcstack "$stack" "$@"
}
# A file goes up, to the other server over several streams, and back.
copy fobs "file://$work/data" "$one$work/one/data"
cmp "$work/data" "$work/one/data"
copy "fobs:cc=cubic;rate=800M" -p 4 "$one$work/one/data" "$two$work/two/data"
cmp "$work/data" "$work/two/data"
copy fobs "$two$work/two/data" "file://$work/back"
cmp "$work/data" "$work/back"
grep -q "pipe that listens as 'xio-" "$work/log"
echo "globus-url-copy -dcstack fobs: as it should be"
