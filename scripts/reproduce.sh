#!/usr/bin/env bash
# Builds this commit's packages once more, from a clone in another place, and compares every byte with target/dist.
#   scripts/reproduce.sh [DIR] [ARGUMENTS OF scripts/dist.sh]
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/dist}")
[ $# -eq 0 ] || shift
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
    echo "there are changes that are not committed: commit them, then make dist again" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --shared . "$work/elsewhere"
export FOBS_DIST_TOOLS=${FOBS_DIST_TOOLS:-$PWD/target/dist-tools}
(cd "$work/elsewhere" && unset CARGO_TARGET_DIR && scripts/dist.sh --out "$work/again" "$@" >/dev/null)
(cd "$work/again" && sha256sum --quiet --check "$dist/SHA256SUMS" && cmp SHA256SUMS "$dist/SHA256SUMS")
echo "$(wc -l <"$dist/SHA256SUMS") files are equal, byte for byte"
