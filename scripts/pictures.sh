#!/usr/bin/env bash
# Makes the picture of the page of `fobs explain --html`, from a copy over the loopback, in headless Chromium.
#   scripts/pictures.sh FOBS      writes docs/figures/explain.png; look at it before you commit it
set -Eeuo pipefail
cd "$(dirname "$0")/.."
fobs=$(realpath "${1:?the program}")
command -v chromium >/dev/null || { echo "skipped: needs chromium" >&2 && exit 0; }
work=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
port=$((20000 + $$ % 10000))
export HOME=$work FOBS_SYSTEM_CONFIG=/dev/null
unset XDG_CONFIG_HOME XDG_STATE_HOME
mkdir "$work/served"
"$fobs" keygen 2>/dev/null | sed 's/^/read-write /' >"$work/keys"
"$fobs" serve --listen "127.0.0.1:$port" --root "$work/served" --authorized-keys "$work/keys" 2>/dev/null &
daemon=$!
head -c 60000000 /dev/urandom >"$work/big.tar"
for _ in $(seq 50); do
    (cd "$work" && "$fobs" cp -q --rate 100Mbit --trace trace big.tar "fobs://127.0.0.1:$port/") 2>/dev/null && break
    sleep 0.2
done
"$fobs" explain --html "$work/page.html" "$work/trace" >/dev/null
sed -i "s/127.0.0.1:$port/host/g; s/run on [^<]*/run on desk/" "$work/page.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1000,560 \
    --screenshot=docs/figures/explain.png "file://$work/page.html" 2>/dev/null
ls -l docs/figures/explain.png
