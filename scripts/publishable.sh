#!/usr/bin/env bash
# Packages every crate that is published and builds each package from nothing but itself, as the registry's users will.
# Nothing is uploaded.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo publish --workspace --dry-run --locked --allow-dirty 2>&1 | tee "$log"

# Cargo passes over what is missing in a manifest, and over a crate that is not to be published, with a warning or none.
if grep '^warning: manifest has no' "$log"; then
    echo "publishable: a manifest lacks what the registry shows" >&2
    exit 1
fi
for name in fobs fobs-cli; do
    grep -q "Uploading $name v" "$log" || { echo "publishable: $name would not be published" >&2; exit 1; }
done
