#!/usr/bin/env bash
# Runs the fuzz targets named (default: all), SECONDS_EACH each (default 60). What is new goes to
# target/fuzz/; what breaks a promise is named at the end of its run: commit it to fuzz/corpus/ with its fix.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
# No sanitizer: the code under test forbids `unsafe`, and runs several times as fast.
options=(--sanitizer none)
# Targets that store files make and remove them by the thousand: in memory, unless TMPDIR says otherwise.
[ -d /dev/shm ] && export TMPDIR="${TMPDIR:-/dev/shm}"
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)
cargo +nightly fuzz build "${options[@]}"
for target in "${targets[@]}"; do
    found=../target/fuzz/$target
    mkdir -p "$found"
    cargo +nightly fuzz run "${options[@]}" "$target" "$found" "corpus/$target" -- \
        -max_total_time="${SECONDS_EACH:-60}" -rss_limit_mb=1500 -timeout=20
done
