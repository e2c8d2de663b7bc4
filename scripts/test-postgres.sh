#!/usr/bin/env bash
# A base backup of a real PostgreSQL goes through `fobs pipe` into a tar at a daemon; the copy is started and has what
# the original has. Skipped by name where Debian's package postgresql is not there.
#
#   test-postgres.sh [FOBS [MEGABYTES OF ROWS]]
set -euo pipefail
cd "$(dirname "$0")/.."
fobs=$(realpath "${1:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/fobs}") megabytes=${2:-200}
programs=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
if [ -z "$programs" ] || [ ! -x "$programs/initdb" ] || ! command -v pg_basebackup >/dev/null; then
    echo "SKIPPED: the base backup through a pipe needs PostgreSQL (Debian: postgresql)"
    exit 0
fi
work=$(mktemp -d)
# PostgreSQL does not run as root.
as=()
if [ "$(id -u)" -eq 0 ]; then
    as=(runuser -u nobody --)
    chown nobody "$work"
    chmod 711 "$work"
fi
started=
clean_up() {
    for data in one two; do
        "${as[@]}" "$programs/pg_ctl" -D "$work/$data" -m immediate stop >/dev/null 2>&1 || true
    done
    [ -z "$started" ] || kill "$started" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
port=$((20000 + $$ % 10000))

begin() {
    "${as[@]}" "$programs/pg_ctl" -D "$work/$1" -w -t 60 -l "$work/$1.log" start \
        -o "-p $2 -k $work -c listen_addresses='' -c fsync=off" >/dev/null
}
ask() { "${as[@]}" psql -X -q -A -t -h "$work" -p "$1" -d postgres -c "$2"; }

"${as[@]}" "$programs/initdb" -D "$work/one" -A trust --no-sync >/dev/null
begin one "$port"
# 1 MB is about 8,000 of these rows.
ask "$port" "create table seen as select n, md5(n::text) as one, md5((n * 7)::text) as two
    from generate_series(1, $((megabytes * 8000))) n"
sum="select count(*), md5(string_agg(one || two, '' order by n)) from seen where n % 97 = 0"
before=$(ask "$port" "$sum")

mkdir "$work/root" "$work/two"
"$fobs" keygen --out "$work/client" | sed -n "/fobs-ed25519/s|^|pipe=\"tar xf - -C $work/two\" |p" >"$work/authorized_keys"
chmod go-w "$work/authorized_keys"
"$fobs" serve --listen "127.0.0.1:$((port + 1))" --root "$work/root" --authorized-keys "$work/authorized_keys" \
    --identity "$work/server" 2>"$work/log" &
started=$!
for _ in $(seq 300); do
    grep -q listening "$work/log" && break
    sleep 0.1
done
"${as[@]}" pg_basebackup -h "$work" -p "$port" -D - -Ft -X fetch -c fast |
    "$fobs" pipe -i "$work/client" --known-hosts "$work/known_hosts" "fobs://127.0.0.1:$((port + 1))"
"${as[@]}" "$programs/pg_ctl" -D "$work/one" -m fast -w stop >/dev/null
[ "${#as[@]}" -eq 0 ] || chown -R nobody "$work/two"
chmod 700 "$work/two"
begin two "$((port + 2))"
after=$(ask "$((port + 2))" "$sum")
[ "$before" = "$after" ] || { echo "the copy has '$after', the original had '$before'" && exit 1; }
echo "a base backup through a pipe is restored and starts: as it should be"
