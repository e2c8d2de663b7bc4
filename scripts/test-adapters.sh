#!/usr/bin/env bash
# Tests the adapters of bindings/python for Rucio, Parsl, Snakemake, Prefect, Airflow and fpsync against the
# real programs, in virtual environments of their own. Needs python3 of 3.11 or newer, pip and, for fpsync, Debian's fpart. The arguments
# go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
"${CARGO:-cargo}" build --locked --workspace
export FOBS=$target/debug/fobs
# Programs that need other versions of the same libraries are apart: tests_in NAME ARGUMENTS of pytest.
tests_in() {
    local venv=$target/adapters-venv$1 needs=bindings/python/tests_adapters/requirements$1.txt
    shift
    if ! cmp -s "$needs" "$venv/requirements.txt"; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$needs"
        cp "$needs" "$venv/requirements.txt"
    fi
    scripts/into-venv.sh "$venv" "$target/debug"
    (cd bindings/python && "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@")
}
command -v fpsync >/dev/null || echo "SKIPPED: the test of fpsync needs it (Debian: fpart)"
tests_in "" tests_adapters "$@"
tests_in -prefect tests_adapters/test_prefect.py "$@"
tests_in -airflow tests_adapters/test_airflow.py "$@"
tests_in -rucio tests_adapters/test_rucio_transfertool.py "$@"
