#!/usr/bin/env bash
# Builds the newest release of packaging/releases.toml from its commit and runs the end-to-end tests of copies with
# it at the other end: this tree's client with the old server, and the old client with this tree's server; then those
# of the Python package with the old server.
#   scripts/old-and-new.sh [VERSION]
set -euo pipefail
cd "$(dirname "$0")/.."

# What both releases of a major version can do: the tests that use no option that came later.
tests=(copies:: trees:: resume:: sync:: streams:: wire::)
wanted=${1:-}
# version and commit of each release, a line each
releases=$(sed -n 's/^\(version\|commit\) = "\(.*\)"$/\2/p' packaging/releases.toml | paste -d' ' - -)
read -r version commit < <(awk -v wanted="$wanted" 'NF == 2 && (wanted == "" || $1 == wanted)' <<<"$releases" | tail -1) || {
    echo "skipped: no release ${wanted:-of packaging/releases.toml} has a commit there yet" >&2
    exit 0
}
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "the commit $commit of release $version is not in this clone: git fetch --unshallow" >&2
    exit 1
fi

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
source=$target/releases/$version
old=$target/releases/fobs-$version
if [ ! -x "$old" ]; then
    rm -rf "$source" && mkdir -p "$source"
    git archive "$commit" | tar -x -C "$source"
    (cd "$source" && CARGO_TARGET_DIR=$target/releases/build cargo build --release --locked -p fobs-cli)
    cp "$target/releases/build/release/fobs" "$old"
fi
cargo build --release --locked -p fobs-cli
new=$target/release/fobs

try() {
    echo "== client: $("$1" --version) ($1), server: $("$2" --version) ($2)"
    FOBS_TEST_BIN=$1 FOBS_TEST_PEER_BIN=$2 cargo test --locked -p fobs-cli --test e2e -- "${tests[@]}"
}
try "$new" "$old"
try "$old" "$new"
echo "== Python package: this tree's, server: $("$old" --version) ($old)"
FOBS_TEST_PEER_BIN=$old scripts/test-python-long.sh tests/test_older_servers.py
