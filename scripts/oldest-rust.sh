#!/usr/bin/env bash
# Checks the workspace with the minimum Rust version of Cargo.toml (rust-version).
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! command -v rustup >/dev/null; then
    echo "skipped: without rustup there is no Rust $version to build with" >&2
    exit 0
fi
if ! rustup toolchain list | grep -q "^$version" && ! rustup toolchain install "$version" --profile minimal; then
    echo "skipped: Rust $version could not be installed; nothing was built with it" >&2
    exit 0
fi
# A separate folder: build outputs of another compiler version cannot be reused.
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/oldest-rust" cargo "+$version" check --workspace --locked
