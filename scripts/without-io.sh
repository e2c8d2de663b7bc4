#!/usr/bin/env bash
# Checks that fobs-proto needs no operating system, by having it checked for bare WebAssembly.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
if ! command -v rustup >/dev/null; then
    echo "skipped: without rustup there is no target $target to check fobs-proto for" >&2
    exit 0
fi
if ! rustup target list --installed | grep -qx "$target" && ! rustup target add "$target"; then
    echo "skipped: the target $target could not be installed; fobs-proto was not checked for it" >&2
    exit 0
fi
cargo check --quiet --locked -p fobs-proto --target "$target"
