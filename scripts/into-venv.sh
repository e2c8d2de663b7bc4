#!/usr/bin/env bash
# Puts what maturin would put into the wheel into a virtual environment: into-venv.sh VENV DIRECTORY, where DIRECTORY
# is that of the build. Used by test-bindings.sh and test-adapters.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 built=$2
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$site/fobs" "$site/snakemake_storage_plugin_fobs" "$site"/fobs-*.dist-info
cp -r bindings/python/python/fobs bindings/python/python/snakemake_storage_plugin_fobs "$site"
cp "$built/lib_fobs.so" "$site/fobs/_fobs.abi3.so"
"$venv/bin/python" scripts/python-metadata.py bindings/python/pyproject.toml "$site"
