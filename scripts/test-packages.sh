#!/usr/bin/env bash
# Installs every package of `make dist` into an empty root, copies a file with it, removes it again, and compares what
# is there with what was there before. A package that cannot be tried on this machine is named.
#   scripts/test-packages.sh [DIR]   (target/dist)
set -Eeuo pipefail
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR
cd "$(dirname "$0")/.."
scripts/install-needs.sh packages
dist=$(cd "${1:-${CARGO_TARGET_DIR:-target}/dist}" && pwd)
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)

arch=$(uname -m)
case "$arch" in x86_64) deb_arch=amd64 ;; aarch64) deb_arch=arm64 ;; *) echo "no package for $arch" >&2 && exit 1 ;; esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
work=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
passed=0
pass() { echo "ok: $1" && passed=$((passed + 1)); }
skip() { echo "skipped: $1" >&2; }
fail() { echo "FAILED: $1" >&2 && exit 1; }

# A file through a daemon and back; every argument is part of the command that runs fobs.
copy_with() {
    local place=$work/copy port=$((20000 + $$ % 10000)) file
    rm -rf "$place" && mkdir -p "$place/served" "$place/home"
    head -c 3000000 /dev/urandom >"$place/file"
    local fobs=(env "HOME=$place/home" "XDG_CONFIG_HOME=$place/home/config" "XDG_STATE_HOME=$place/home/state" "$@")
    "${fobs[@]}" keygen >"$place/public" 2>"$place/said" || fail "$* makes no key: $(cat "$place/said")"
    sed 's/^/read-write /' "$place/public" >"$place/keys"
    "${fobs[@]}" serve --listen "127.0.0.1:$port" --root "$place/served" --authorized-keys "$place/keys" 2>"$place/log" &
    daemon=$!
    for _ in $(seq 100); do
        "${fobs[@]}" cp -q "$place/file" "fobs://127.0.0.1:$port/copy" 2>"$place/said" && break
        sleep 0.1
    done
    "${fobs[@]}" cp -q "fobs://127.0.0.1:$port/copy" "$place/back" || fail "$* does not copy: $(cat "$place/said" "$place/log")"
    kill "$daemon" && { wait "$daemon" || true; }
    daemon=
    for file in served/copy back; do
        cmp "$place/file" "$place/$file" || fail "a copy differs: $(cat "$place/said" "$place/log")"
    done
}

# Everything below a root but what package managers write down about themselves.
listing() {
    (cd "$1" && find . \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./usr/lib/sysimage \
        -o -path ./var/log -o -path ./var/cache -o -name '*.pyc' -o -name __pycache__ \) -prune \
        -o \( -type f -o -type l \) ! -path './etc/*-' -printf '%p %m %s\n' -o -type d -printf '%p %m\n' | LC_ALL=C sort)
}
compare() {
    diff "$work/before" <(listing "$1") >"$work/left" || fail "$2 leaves or changes: $(cat "$work/left")"
}

try_tarball() {
    local prefix=$work/prefix folder=$work/fobs-$version-$arch-linux
    tar -xzf "$dist/fobs-$version-$arch-linux.tar.gz" -C "$work"
    mkdir -p "$prefix/bin" && echo other >"$prefix/bin/other"
    listing "$prefix" >"$work/before"
    "$folder/install.sh" --prefix "$prefix" >/dev/null
    "$folder/install.sh" --prefix "$prefix" >/dev/null # Once more over itself.
    copy_with "$prefix/bin/fobs"
    "$folder/install.sh" --uninstall --prefix "$prefix" >/dev/null
    compare "$prefix" "the tarball"
    "$folder/install.sh" --prefix "$work/new" >/dev/null
    "$folder/install.sh" --uninstall --prefix "$work/new" >/dev/null
    [ ! -e "$work/new" ] || fail "the tarball leaves the directory that it made"
    pass "the tarball: installed twice, copied, removed"
}

try_wheel() {
    python3 -m venv "$work/venv"
    listing "$work/venv" >"$work/before"
    "$work/venv/bin/pip" install --quiet --no-index --no-compile --find-links "$dist" fobs
    copy_with "$work/venv/bin/fobs"
    [ "$("$work/venv/bin/python" -B -c 'import fobs; print(fobs.__version__)')" = "$version" ] || fail "the wheel's package does not load"
    # Nothing that `pip show` has a line for is left open.
    "$work/venv/bin/pip" show fobs >"$work/shown"
    for line in Name Version Summary Author Author-email Location; do
        grep -q "^$line: ..*" "$work/shown" || fail "pip show fobs has no $line: $(cat "$work/shown")"
    done
    grep -Eq '^License(-Expression)?: ..*' "$work/shown" || fail "pip show fobs has no licence: $(cat "$work/shown")"
    for field in 'Project-URL: Homepage, ' 'Project-URL: Source, ' 'Keywords: ' 'Description-Content-Type: '; do
        grep -q "^$field" "$work"/venv/lib/python3*/site-packages/fobs-*.dist-info/METADATA || fail "the wheel has no $field"
    done
    "$work/venv/bin/pip" uninstall --quiet --yes fobs
    # pip leaves the directories of data files, which are empty.
    find "$work/venv/share" -depth -type d -empty -delete 2>/dev/null || true
    compare "$work/venv" "the wheel"
    pass "the wheel: installed into a fresh venv, copied, imported, removed"
}

# pip builds it where no wheel fits: everything that its build names is there.
try_sdist() {
    local name=fobs-$version
    mkdir "$work/sdist"
    tar -xzf "$dist/$name.tar.gz" -C "$work/sdist"
    for file in PKG-INFO pyproject.toml Cargo.lock README.md LICENSE-APACHE LICENSE-MIT; do
        [ -f "$work/sdist/$name/$file" ] || fail "the sources of the Python package lack $file"
    done
    (cd "$work/sdist/$name" && cargo metadata --format-version 1 >"$work/metadata") ||
        fail "the sources of the Python package lack a crate"
    ! grep -q "path+file://$PWD" "$work/metadata" || fail "the sources of the Python package need this clone"
    pass "the sources of the Python package: unpacked, and complete for cargo"
}

# What other distributions' own checks say of the packages, and of whom the directories are.
try_lint() {
    local deb=$dist/fobs_$version-1_$deb_arch.deb rpm=$dist/fobs-$version-1.$arch.rpm owned
    owned=$(rpm -qplv "$rpm" 2>/dev/null | awk '/^d/ { print $NF }')
    [ "$owned" = /usr/share/doc/fobs ] || fail "the .rpm owns directories of others: $owned"
    if command -v lintian >/dev/null; then
        lintian --fail-on error,warning --allow-root "$deb" || fail "lintian"
    else
        skip "the .deb's check needs lintian"
    fi
    if command -v rpmlint >/dev/null; then
        rpmlint -r packaging/rpm/fobs.rpmlintrc "$rpm" >"$work/rpmlint" || fail "rpmlint: $(cat "$work/rpmlint")"
        grep -q ' 0 errors, 0 warnings' "$work/rpmlint" || fail "rpmlint: $(cat "$work/rpmlint")"
    else
        skip "the .rpm's check needs rpmlint"
    fi
    pass "the packages: checked as distributions do"
}

# A root of this distribution, made once.
make_root() {
    [ "$(id -u)" -eq 0 ] || { skip "$1 needs root for a root of its own" && return 1; }
    command -v debootstrap >/dev/null || { skip "$1 needs debootstrap" && return 1; }
    if [ ! -d "$work/debian" ]; then
        local mirror release
        # shellcheck disable=SC1091
        release=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
        # shellcheck disable=SC2016
        mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -m1 -v security || true)
        debootstrap --variant=minbase "$release" "$work/base" "${mirror:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 ||
            { skip "$1: debootstrap could not make a root: $(tail -1 "$work/debootstrap.log")" && return 1; }
        cp -a "$work/base" "$work/debian"
    fi
}

try_deb() {
    make_root "the .deb" || return 0
    local root=$work/debian package=fobs_$version-1_$deb_arch.deb
    listing "$root" >"$work/before"
    cp "$root/etc/passwd" "$work/passwd"
    cp "$dist/$package" "$root/$package"
    chroot "$root" dpkg --install "/$package" >"$work/dpkg.log" 2>&1 || fail "the .deb: $(cat "$work/dpkg.log")"
    rm "$root/$package"
    chroot "$root" getent passwd fobs >/dev/null || fail "the .deb makes no user"
    [ "$(chroot "$root" fobs --version)" = "fobs $version" ] || fail "the .deb's program does not run in its root"
    # Static: it runs outside its root as well, where the test's files are.
    copy_with "$root/usr/bin/fobs"
    chroot "$root" dpkg --purge fobs >"$work/dpkg.log" 2>&1 || fail "the .deb: $(cat "$work/dpkg.log")"
    cmp "$root/etc/passwd" "$work/passwd" || fail "the .deb leaves its user"
    compare "$root" "the .deb"
    pass "the .deb: installed into a fresh Debian root, copied, purged"
}

try_rpm() {
    make_root "the .rpm" || return 0
    command -v rpm >/dev/null || { skip "the .rpm needs rpm" && return 0; }
    local root=$work/debian
    # Debian's rpm would keep its database in a home directory.
    local in_root=(rpm --root "$root" --dbpath /var/lib/rpm)
    "${in_root[@]}" --initdb
    # What a distribution with rpm has, of its packages `filesystem` and `systemd`.
    mkdir -p "$root"/usr/lib/{systemd/{system,user},sysctl.d} \
        "$root"/usr/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,man/man1}
    listing "$root" >"$work/before"
    cp "$root/etc/passwd" "$work/passwd"
    # Debian calls the package of useradd otherwise.
    "${in_root[@]}" --nodeps -i "$dist/fobs-$version-1.$arch.rpm" >"$work/rpm.log" 2>&1 || fail "the .rpm: $(cat "$work/rpm.log")"
    chroot "$root" getent passwd fobs >/dev/null || fail "the .rpm makes no user: $(cat "$work/rpm.log")"
    copy_with "$root/usr/bin/fobs"
    "${in_root[@]}" -e fobs >"$work/rpm.log" 2>&1 || fail "the .rpm: $(cat "$work/rpm.log")"
    cmp "$root/etc/passwd" "$work/passwd" || fail "the .rpm leaves its user"
    compare "$root" "the .rpm"
    pass "the .rpm: installed into a root of its own, copied, removed"
}

# As on Alpine or in a rescue system: no C library, and busybox for a shell.
try_bare_root() {
    { [ "$(id -u)" -eq 0 ] && command -v busybox >/dev/null; } || { skip "the root without a C library needs root and busybox" && return 0; }
    local root=$work/bare
    mkdir -p "$root"/{bin,dev,tmp,root}
    mknod -m 666 "$root/dev/null" c 1 3 || { skip "the root without a C library needs the right to make /dev/null" && return 0; }
    cp "$(command -v busybox)" "$root/bin/busybox"
    chroot "$root" /bin/busybox --install -s /bin 2>/dev/null || { skip "busybox here is not static" && return 0; }
    tar -xzf "$dist/fobs-$version-$arch-linux.tar.gz" -C "$root/tmp"
    listing "$root" >"$work/before"
    chroot "$root" /bin/sh -c "/tmp/fobs-$version-$arch-linux/install.sh --prefix /root/.local && /root/.local/bin/fobs --version" \
        >"$work/bare.log" 2>&1 || fail "the root without a C library: $(cat "$work/bare.log")"
    copy_with "$root/root/.local/bin/fobs"
    chroot "$root" /bin/sh -c "/tmp/fobs-$version-$arch-linux/install.sh --uninstall --prefix /root/.local" >/dev/null
    compare "$root" "the tarball in a root without a C library"
    pass "the tarball: a root with busybox alone, copied, removed"
}

# README's first command, as a user of a fresh Debian.
try_user() {
    make_root "the tarball on Debian" || return 0
    local root=$work/debian name=fobs-$version-$arch-linux
    mkdir -m 1777 "$root/tmp/user"
    cp "$dist/$name.tar.gz" "$root/tmp/user/"
    listing "$root" >"$work/before"
    chroot --userspec=65534:65534 "$root" /bin/sh -ec "cd /tmp/user; HOME=/tmp/user; export HOME
        tar xzf $name.tar.gz && $name/install.sh && .local/bin/fobs --version" >"$work/user.log" 2>&1 ||
        fail "the tarball on Debian: $(cat "$work/user.log")"
    copy_with "$root/tmp/user/.local/bin/fobs"
    chroot --userspec=65534:65534 "$root" /bin/sh -ec "cd /tmp/user; HOME=/tmp/user; export HOME
        $name/install.sh --uninstall && rm -r $name" >/dev/null
    compare "$root" "the tarball on Debian"
    rm -r "$root/tmp/user"
    pass "the tarball: a user of a fresh Debian root, copied, removed"
}

try_foreign() {
    local other=aarch64 file
    [ "$arch" = x86_64 ] || other=x86_64
    file=$dist/fobs-$other-unknown-linux-musl
    command -v "qemu-$other-static" >/dev/null || { skip "$file needs qemu-user-static to run here" && return 0; }
    [ -f "$file" ] || { skip "$file was not built" && return 0; }
    # qemu knows no UDP_GRO, so nothing can be copied under it.
    [ "$("qemu-$other-static" "$file" --version)" = "fobs $version" ] || fail "the binary for $other does not run"
    "qemu-$other-static" "$file" man fobs-cp | cmp - <("$dist/fobs-$arch-unknown-linux-musl" man fobs-cp) ||
        fail "the binary for $other prints other pages"
    pass "the binary for $other: runs under qemu, where nothing can be copied"
}

file "$dist/fobs-$arch-unknown-linux-musl" | grep -q 'static-pie' ||
    fail "the binary is not static, or lies at one address"
for binary in "$dist"/fobs-{x86_64,aarch64}-unknown-linux-musl; do
    # It had 12.7 MB before SQLite and an HTTP server came in with the keeper of jobs.
    [ ! -f "$binary" ] || [ "$(stat -c %s "$binary")" -lt 18000000 ] || fail "$binary has 18 MB or more"
done
try_lint
try_tarball
try_wheel
try_sdist
try_bare_root
try_user
try_deb
try_rpm
try_foreign
echo "$passed trials passed"
