#!/bin/sh
# Runs the plan of paper 001's headline on a host with the default limits of an ordinary user.
#   [TRACES=DIR] scripts/headline.sh OUT.jsonl [further arguments of fobs-lab run]
# With TRACES every copy writes a trace there, for `fobs-lab analyse spared`.
# Needs root. An ordinary user's socket has at most `net.core.rmem_max` bytes of receive buffer, by default
# 212992; root may exceed it (CAP_NET_ADMIN) and raise its priority (CAP_SYS_NICE). So this script sets the
# kernel's default limit, and fobs runs without the two capabilities.
set -eu
out=$1
shift
target=${CARGO_TARGET_DIR:-target}/release
before=$(sysctl -n net.core.rmem_max)
wrapper=$(mktemp -d)
trap 'sysctl -qw net.core.rmem_max="$before"; rm -r "$wrapper"' EXIT
trap 'exit 1' INT TERM
sysctl -qw net.core.rmem_max=212992
cat >"$wrapper/fobs" <<EOF
#!/bin/sh
traces="${TRACES:+$(realpath "$TRACES")}"
if [ "\$1 \$2" = "cp --json" ] && [ -n "\$traces" ]; then
    shift
    set -- cp --trace "\$traces/\$\$.jsonl" "\$@"
fi
exec setpriv --bounding-set -net_admin,-sys_nice --inh-caps -all "$(realpath "$target/fobs")" "\$@"
EOF
chmod +x "$wrapper/fobs"
"$target/fobs-lab" run lab/plans/001-headline.toml --fobs "$wrapper/fobs" --out "$out" "$@"
