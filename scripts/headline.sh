#!/bin/sh
# Runs the plan of paper 001's headline with the host that it is about: one whose administrator has changed nothing.
#   [TRACES=DIR] scripts/headline.sh OUT.jsonl [further arguments of fobs-lab run]
# With TRACES every copy leaves its trace there, which `fobs-lab analyse spared` counts.
# Needs root. A socket of an ordinary user may have `net.core.rmem_max` bytes of receive buffer, by default 212992; root
# may exceed it (CAP_NET_ADMIN) and take a higher priority (CAP_SYS_NICE). So the limit is the kernel's default while this
# runs, and fobs runs without the two capabilities.
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
