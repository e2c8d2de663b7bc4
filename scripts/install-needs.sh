#!/usr/bin/env bash
# Installs what the tests (and, with the argument `bench`, the benchmarks) run beside the toolchain: Debian packages, and
# only those whose program is missing. Without root it names them and goes on: tests that need them say so themselves.
set -euo pipefail

if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust 1.88 or newer (https://rustup.rs), then run this again" >&2
    exit 1
fi
for component in fmt clippy; do
    if ! cargo "$component" --version >/dev/null 2>&1; then
        if command -v rustup >/dev/null; then
            rustup component add "${component/fmt/rustfmt}"
        else
            echo "cargo $component is missing: install it beside cargo (Debian: rustfmt, rust-clippy)" >&2
            exit 1
        fi
    fi
done

# program:package
wanted="sshd:openssh-server ssh:openssh-client rsync:rsync ip:iproute2 iptables:iptables tcpdump:tcpdump ethtool:ethtool \
python3:python3 setpriv:util-linux cc:build-essential"
if [ "${1:-}" = bench ]; then
    wanted="$wanted iperf3:iperf3 tar:tar sysctl:procps"
fi
PATH="$PATH:/usr/sbin:/sbin"
missing=()
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed, and this is no root shell with apt-get: ${missing[*]}" >&2
    exit 0
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null; }
# The lists may be missing or old: fetch them only where the first try says so.
if ! install 2>/dev/null && ! { apt-get update >/dev/null && install; }; then
    echo "apt-get could not install ${missing[*]}" >&2
fi
