#!/usr/bin/env bash
# Builds and tests the Python package and the C library: bindings/python in a virtual environment below the
# target directory, bindings/c with gcc's sanitizers. Without python3 (3.11 or newer) or a C compiler that part
# is skipped by name. Notebooks of the laboratory run with them. The arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
built=$target/debug
# With the tests of the whole workspace, so that dependencies have the features with which those were built.
"${CARGO:-cargo}" build --locked --workspace --lib --bins --tests
export FOBS=$built/fobs

python_tests() {
    if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "SKIPPED: the Python tests need python3 of 3.11 or newer with venv (Debian: python3-venv)"
        return 0
    fi
    local venv=$target/python-venv needs=bindings/python/tests/requirements.txt
    if ! cmp -s "$needs" "$venv/requirements.txt"; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$needs"
        cp "$needs" "$venv/requirements.txt"
    fi
    scripts/into-venv.sh "$venv" "$built"
    (
        cd bindings/python
        "$venv/bin/mypy" --cache-dir "$target/mypy" --python-version 3.11 -p fobs \
            -p snakemake_storage_plugin_fobs
        "$venv/bin/stubtest" fobs._fobs
        "$venv/bin/pytest" -q -p no:cacheprovider --import-mode=importlib tests "$@"
    )
    FOBS_LAB=$built/fobs-lab "$venv/bin/python" -B -m pytest -q -p no:cacheprovider lab/tests
    "$venv/bin/python" scripts/python-api.py --check docs/python.md
}

c_tests() {
    if ! command -v gcc >/dev/null; then
        echo "SKIPPED: the C tests need gcc (Debian: build-essential)"
        return 0
    fi
    local work
    work=$(mktemp -d)
    trap 'rm -rf "$work"; [ -z "${server:-}" ] || kill "$server"' RETURN
    "$FOBS" keygen --out "$work/client" | sed -n '/fobs-ed25519/s/^/read-write,pipe-names /p' >"$work/authorized_keys"
    chmod go-w "$work/authorized_keys"
    mkdir "$work/root"
    local port=$((30000 + $$ % 10000))
    "$FOBS" serve --listen "127.0.0.1:$port" --root "$work/root" --authorized-keys "$work/authorized_keys" \
        --identity "$work/server" 2>"$work/log" &
    server=$!
    for _ in $(seq 300); do
        grep -q listening "$work/log" && break
        sleep 0.1
    done
    local flags=(-std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -g -fsanitize=address,undefined -fno-sanitize-recover=all
        -Ibindings/c/include "-L$built" "-Wl,-rpath,$built")
    for source in bindings/c/examples/roundtrip.c bindings/c/tests/{bad_input,streams,broken_streams}.c; do
        gcc "${flags[@]}" "$source" -lfobs_c -o "$work/program"
        "$work/program" "fobs://127.0.0.1:$port/" "identity=$work/client" "known_hosts=$work/known_hosts"
        echo "$source: as it should be, under the sanitizers"
    done
    gcc "${flags[@]}" bindings/c/examples/join.c -lfobs_c -o "$work/join"
    local keys=("identity=$work/client" "known_hosts=$work/known_hosts") listener
    "$work/join" listen "fobs://127.0.0.1:$port/" numbers "${keys[@]}" </dev/null >"$work/numbers" &
    listener=$!
    until seq 300000 | "$work/join" call "fobs://127.0.0.1:$port/numbers" "${keys[@]}" 2>"$work/said"; do
        # Until the other end listens, nothing has the name.
        grep -q 'no pipe listens' "$work/said" || { cat "$work/said" && return 1; }
    done
    wait "$listener"
    seq 300000 | cmp - "$work/numbers"
    echo "bindings/c/examples/join.c: as it should be, under the sanitizers"
}

c_tests
python_tests "$@"
