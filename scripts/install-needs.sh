#!/usr/bin/env bash
# Installs the programs that the tests need besides the toolchain: Debian packages, only missing ones. Without
# root it prints their names and continues; tests that need them report it. The argument adds more:
#   bench      the tools that `make bench` compares with
#   mounts     what `make file-systems` mounts
#   lab        the tools that the laboratory (lab/) compares with, and the compiler for its UDT contestant
#   lab-peers  as lab, and qcp, which cargo builds in some minutes
#   dist       what `make dist` builds packages with, in target/dist-tools or FOBS_DIST_TOOLS; fails if it cannot
#   packages   what the tests of packages install them into
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

# program:package, or file:package where there is no program
wanted="sshd:openssh-server ssh:openssh-client rsync:rsync ip:iproute2 iptables:iptables tcpdump:tcpdump ethtool:ethtool \
setpriv:util-linux cc:build-essential mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs losetup:mount"
case "${1:-}" in
"") ;;
bench) wanted="$wanted iperf3:iperf3 tar:tar" ;;
mounts) wanted="$wanted mkfs.btrfs:btrfs-progs bindfs:bindfs mergerfs:mergerfs gocryptfs:gocryptfs" ;;
lab | lab-peers)
    wanted="$wanted scp:openssh-client iperf3:iperf3 globus-url-copy:globus-gass-copy-progs \
globus-gridftp-server:globus-gridftp-server-progs /usr/include/udt/udt.h:libudt-dev g++:g++ make:make"
    ;;
dist) wanted="dpkg-deb:dpkg rpmbuild:rpm readelf:binutils python3:python3-venv" ;;
packages) wanted="$wanted rpm:rpm debootstrap:debootstrap busybox:busybox-static file:file python3:python3-venv \
lintian:lintian rpmlint:rpmlint qemu-aarch64-static:qemu-user-static" ;;
*)
    echo "unknown argument $1: give bench, mounts, lab, lab-peers, dist, packages or none" >&2
    exit 1
    ;;
esac
PATH="$PATH:/usr/sbin:/sbin"

has() {
    case "$1" in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

install_packages() {
    local missing=()
    for pair in $wanted; do
        has "${pair%%:*}" || missing+=("${pair##*:}")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "not installed, and this is no root shell with apt-get: ${missing[*]}" >&2
        return 0
    fi
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    install() { apt-get install -y --no-install-recommends "$@" >/dev/null; }
    # The package lists may be missing or old: fetch them only if the first attempt fails.
    if install "${missing[@]}" 2>/dev/null || { apt-get update >/dev/null && install "${missing[@]}"; }; then
        return 0
    fi
    # A package that this release lacks must not prevent the others.
    for package in "${missing[@]}"; do
        install "$package" 2>/dev/null || echo "apt-get could not install $package" >&2
    done
}

# No distribution has qcp. The laboratory works without it, so an error here is not fatal.
install_qcp() {
    if has qcp; then
        return 0
    fi
    echo "building qcp with cargo, which takes some minutes"
    if ! cargo install --locked qcp; then
        echo "cargo could not install qcp: the laboratory will skip it by name" >&2
    elif ! has qcp; then
        echo "qcp is where PATH does not look: add cargo's folder of programs (~/.cargo/bin) to PATH" >&2
    fi
}

# Versions are fixed, because other ones may make other bytes.
install_dist_tools() {
    local tools=${FOBS_DIST_TOOLS:-$PWD/target/dist-tools}
    rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl 2>/dev/null ||
        { echo "rustup cannot install the musl targets: the standard library for them is missing" >&2 && exit 1; }
    if [ ! -x "$tools/python/bin/maturin" ]; then
        python3 -m venv "$tools/python"
        "$tools/python/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.1 maturin==1.16.0 wheel==0.48.0
    fi
    if [ ! -x "$tools/cargo/bin/cargo-auditable" ]; then
        cargo install --locked --root "$tools/cargo" cargo-auditable@0.7.7
    fi
}

install_packages
if [ "${1:-}" = dist ]; then
    install_dist_tools
fi
if [ "${1:-}" = lab-peers ]; then
    install_qcp
fi
