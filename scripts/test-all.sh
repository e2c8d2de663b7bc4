#!/usr/bin/env bash
# The lints and tests of `make test`: those of Rust, and beside them those of the bindings, because most of both
# wait for paths and timeouts. What the bindings say is printed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
log=$(mktemp)
"$cargo" fmt --all --check
# Clippy looks at what is compiled for the tests: one build instead of two.
RUSTC_WORKSPACE_WRAPPER=$(rustup which clippy-driver 2>/dev/null || command -v clippy-driver)
export RUSTC_WORKSPACE_WRAPPER
# First, so that neither waits for the other's build. With `build` examples are built as they are used; with `test`
# they would be built once more as tests.
"$cargo" build --workspace --all-targets --locked 2>&1 | tee "$log"
if grep -q '^warning' "$log"; then
    echo "warnings are errors: see above, or run make lint"
    exit 1
fi
# The one of this build: by itself it would have other features of 50 crates, which takes 80 s of CPU.
"$target/debug/xtask" tidy
scripts/without-io.sh
# A process group of its own, so that all of it ends with this script.
set -m
scripts/test-bindings.sh >"$log" 2>&1 &
bindings=$!
set +m
trap 'kill -- "-$bindings" 2>/dev/null || true; rm -f "$log"' EXIT
rust_status=0 bindings_status=0
"$cargo" test --workspace --locked --no-fail-fast || rust_status=$?
wait "$bindings" || bindings_status=$?
cat "$log"
if [ "$rust_status" -ne 0 ]; then
    echo "the tests of Rust failed ($rust_status); what they said is above what the bindings said"
fi
exit $((rust_status != 0 ? rust_status : bindings_status))
