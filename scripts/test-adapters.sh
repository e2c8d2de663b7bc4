#!/usr/bin/env bash
# Tests the adapters of bindings/python for Rucio, Parsl, Snakemake and fpsync against the real programs, in a
# virtual environment of its own. Needs python3 of 3.11 or newer, pip and, for fpsync, Debian's fpart. The arguments
# go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
"${CARGO:-cargo}" build --locked --workspace
export FOBS=$target/debug/fobs
venv=$target/adapters-venv needs=bindings/python/tests_adapters/requirements.txt
if ! cmp -s "$needs" "$venv/requirements.txt"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$needs"
    cp "$needs" "$venv/requirements.txt"
fi
scripts/into-venv.sh "$venv" "$target/debug"
command -v fpsync >/dev/null || echo "SKIPPED: the test of fpsync needs it (Debian: fpart)"
cd bindings/python
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider tests_adapters "$@"
