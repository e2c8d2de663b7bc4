#!/usr/bin/env bash
# The second tier of the Python package: 500 random sequences of calls beside fsspec's local files, as many beside
# sshfs where it can mount, a long life, the calls of other packages by URL, and fobs.cluster in jobs of SLURM. Makes a
# virtual environment of its own. The arguments go to pytest; without any, all of that runs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
"${CARGO:-cargo}" build --locked --workspace --lib --bins
export FOBS=$target/debug/fobs FOBS_SEEDS=${FOBS_SEEDS:-500}
venv=$target/python-long-venv needs=bindings/python/tests_long/requirements.txt
if ! cmp -s "$needs" "$venv/requirements.txt"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$needs"
    cp "$needs" "$venv/requirements.txt"
fi
scripts/into-venv.sh "$venv" "$target/debug"
[ -x /usr/sbin/slurmctld ] || echo "SKIPPED: the tests of SLURM need it (Debian: slurm-wlm, munge)"
cd bindings/python
[ $# -gt 0 ] || set -- tests_long
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --import-mode=importlib "$@"
