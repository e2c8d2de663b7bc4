#!/usr/bin/env bash
# Builds the .deb of the Globus XIO driver for this host's architecture into OUT (target/dist): the driver, the C library
# that it uses, and its header (docs/globus.md). Needs Debian's libglobus-xio-dev and dpkg-dev.
#
#   deb-globus.sh [DIRECTORY OF libfobs_c.so [OUT]]      without a directory the library is built
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$(realpath -m "${2:-$target/dist}")
for needed in dpkg-deb dpkg-shlibdeps pkg-config; do
    if ! command -v "$needed" >/dev/null || ! pkg-config --exists globus-xio; then
        echo "SKIPPED: the .deb of the Globus XIO driver needs $needed and globus-xio (Debian: libglobus-xio-dev dpkg-dev)"
        exit 0
    fi
done
if [ $# -eq 0 ]; then
    "${CARGO:-cargo}" build --release --locked -p fobs-c
fi
library=$(realpath "${1:-$target/release}")/libfobs_c.so
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
name=libglobus-xio-fobs-driver arch=$(dpkg --print-architecture)
libraries=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

root=$work/root doc=$work/root/usr/share/doc/$name
mkdir -p "$root/$libraries/fobs" "$root/usr/include/globus" "$root/usr/share/lintian/overrides" "$doc" \
    "$work/sources" "$work/c/lib" "$work/c/include" "$work/debian"
cp "$library" "$work/c/lib/"
cp bindings/c/include/fobs.h "$work/c/include/"
cp bindings/globus/* "$work/sources/"
# The library is found beside the driver, in a directory of ours.
make --silent -C "$work/sources" FOBS_C="$work/c" FOBS_C_AT="/$libraries/fobs" libglobus_xio_fobs_driver.so
install -m 644 "$work/sources/libglobus_xio_fobs_driver.so" "$root/$libraries/"
install -m 644 "$library" "$root/$libraries/fobs/libfobs_c.so"
strip --strip-unneeded --remove-section=.comment "$root/$libraries/libglobus_xio_fobs_driver.so" \
    "$root/$libraries/fobs/libfobs_c.so"
install -m 644 bindings/globus/globus_xio_fobs.h "$root/usr/include/globus/"
install -m 644 packaging/deb-globus/lintian-overrides "$root/usr/share/lintian/overrides/$name"
cp docs/globus.md bindings/globus/example.c LICENSE-MIT "$doc/"
cp packaging/deb/copyright "$doc/"
"${CARGO:-cargo}" xtask licences "$(rustc -vV | sed -n 's/^host: //p')" \
    --also "Rust's standard library=LICENSE-APACHE" >"$doc/THIRD-PARTY-LICENCES.txt"
cp CHANGELOG.md "$doc/changelog"
printf '%s (%s-1) unstable; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- %s  %s\n' "$name" "$version" \
    "$(sed -n 's/^Maintainer: //p' packaging/deb-globus/control)" "$(date -R -d "@$SOURCE_DATE_EPOCH")" >"$doc/changelog.Debian"
gzip -n9 "$doc/changelog" "$doc/changelog.Debian"

printf 'Source: fobs\n\nPackage: %s\nArchitecture: any\n' "$name" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info -l"$root/$libraries/fobs" -xlibfobs-c \
    "$root/$libraries/libglobus_xio_fobs_driver.so" "$root/$libraries/fobs/libfobs_c.so" 2>/dev/null |
    sed -n 's/^shlibs:Depends=//p')
mkdir "$root/DEBIAN" && mkdir -p "$out"
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@DEPENDS@/$depends/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f1)/" packaging/deb-globus/control >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
deb=$out/${name}_$version-1_$arch.deb
dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$deb" >/dev/null
if command -v lintian >/dev/null; then
    lintian --fail-on error,warning --allow-root "$deb"
else
    echo "SKIPPED: the check of $name needs lintian"
fi
echo "$deb"
