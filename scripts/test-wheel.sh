#!/usr/bin/env bash
# Tests the Python package as it is shipped: the wheel that dist.sh built, with the program that is in it, and no local
# build, under the oldest Python that it names and the newest one here. The arguments go to pytest.
#   scripts/test-wheel.sh [PYTEST ARGUMENTS]   FOBS_DIST (target/dist), FOBS_PYTHONS ("python3.11 python3.13")
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
dist=$(realpath "${FOBS_DIST:-$target/dist}")
oldest=$(sed -n 's/^requires-python = ">=\(.*\)"$/\1/p' bindings/python/pyproject.toml)
[ $# -gt 0 ] || set -- tests

works() { "$1" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# The oldest one, and the newest with which the wheel is not tried yet.
pythons() {
    local newest="" minor version
    for minor in $(seq 20 -1 "${oldest#3.}"); do
        version=$(works "python3.$minor") || continue
        [ -n "$newest" ] || newest=$version
        [ "$version" = "$newest" ] || [ "$version" = "$oldest" ] || continue
        echo "python$version"
    done
}

# With two unwinders in a process, a thread that ends within the extension crashes.
one_unwinder() {
    local library=$1
    readelf -dW "$library" | grep -q 'NEEDED.*\[libgcc_s.so.1\]' ||
        { echo "FAILED: $library has an unwinder of its own" >&2 && exit 1; }
    ! readelf --dyn-syms -W "$library" | grep '_Unwind_' | grep -qv ' UND ' ||
        { echo "FAILED: $library defines functions of an unwinder" >&2 && exit 1; }
}

read -ra chosen <<<"${FOBS_PYTHONS:-$(pythons | tr '\n' ' ')}"
[ "${#chosen[@]}" -gt 0 ] || { echo "SKIPPED: the wheel needs python $oldest or newer with venv" && exit 0; }
[[ " ${chosen[*]} " == *" python$oldest "* ]] || echo "SKIPPED: python $oldest, the oldest that the wheel names"
for python in "${chosen[@]}"; do
    venv=$target/wheel-venv-$python
    [ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r bindings/python/tests/requirements.txt \
        -r bindings/python/tests_long/requirements.txt
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
        --find-links "$dist" fobs
    library=$("$venv/bin/python" -c 'import fobs._fobs; print(fobs._fobs.__file__)')
    ! ldd "$library" 2>/dev/null | grep -q 'libc.so.6' || one_unwinder "$library"
    echo "the wheel under $("$venv/bin/python" --version):"
    (cd bindings/python && FOBS=$venv/bin/fobs "$venv/bin/python" -m pytest -q -p no:cacheprovider \
        --import-mode=importlib "$@")
done
