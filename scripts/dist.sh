#!/usr/bin/env bash
# Builds what a release ships into OUT (target/dist): for x86_64 and aarch64 a static binary, and of it a tarball
# with an install script, a .deb, an .rpm and two wheels, each with man pages, completions, licences and an SBOM; the
# sources of the Python package; and the checksums of all. Two runs of one commit are equal byte for byte, wherever the clone lies.
#   scripts/dist.sh [--arch x86_64|aarch64]... [--only tarball|deb|rpm|manylinux|musllinux|sdist]... [--out OUT]
set -euo pipefail
cd "$(dirname "$0")/.."

architectures=() only=()
target_dir=${CARGO_TARGET_DIR:-target}
out=$target_dir/dist
while [ $# -gt 0 ]; do
    case "$1" in
    --arch) architectures+=("${2:?--arch needs x86_64 or aarch64}") && shift ;;
    --only) only+=("${2:?--only needs tarball, deb, rpm, manylinux, musllinux or sdist}") && shift ;;
    --out) out=${2:?--out needs a directory} && shift ;;
    *) echo "unknown argument $1: give --arch x86_64, --arch aarch64, --only PACKAGE, --out DIR" >&2 && exit 1 ;;
    esac
    shift
done
[ "${#architectures[@]}" -gt 0 ] || architectures=(x86_64 aarch64)
[ "${#only[@]}" -gt 0 ] || only=(tarball deb rpm manylinux musllinux sdist)

scripts/install-needs.sh dist
tools=${FOBS_DIST_TOOLS:-$PWD/target/dist-tools}
export PATH="$tools/python/bin:$tools/cargo/bin:$PATH"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
# No path of this machine and no time of this run gets into what is built.
registry=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$registry=/cargo --remap-path-prefix=$PWD=/fobs"
export CFLAGS="-ffile-prefix-map=$registry=/cargo -ffile-prefix-map=$PWD=/fobs"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out"/fobs[-_]* "$out/SHA256SUMS" "$out/work"
mkdir "$out/work"

target_of() { echo "$1-unknown-linux-musl"; }
# Under this name `--push-binary` finds it.
binary_of() { echo "$out/fobs-$(target_of "$1")"; }

compile() {
    # Without being asked for it, zig's linker makes a program that always lies at one address.
    RUSTFLAGS="$RUSTFLAGS -C link-arg=-pie" cargo auditable zigbuild --locked --profile dist -p fobs-cli --target "$(target_of "$1")" \
        --target-dir "$target_dir"
    install -m 755 "$target_dir/$(target_of "$1")/dist/fobs" "$(binary_of "$1")"
}

# What all packages of an architecture hold, below share/; the pages come from a binary that runs here.
share() {
    local arch=$1 runs=$2 share=$out/work/$1/share
    mkdir -p "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc/fobs}
    "$runs" man --out "$share/man/man1"
    "$runs" completions bash >"$share/bash-completion/completions/fobs"
    "$runs" completions zsh >"$share/zsh/site-functions/_fobs"
    "$runs" completions fish >"$share/fish/vendor_completions.d/fobs.fish"
    gzip -n9 "$share"/man/man1/*.1
    cp README.md CHANGELOG.md LICENSE LICENSE-APACHE LICENSE-MIT docs/install.md docs/guide.md packaging/monitoring/* "$share/doc/fobs/"
    local zig
    zig=$(python3 -c 'import ziglang, os; print(os.path.dirname(ziglang.__file__))')
    (
        # cargo runs for the host here. Of Rust's standard library we take the Apache licence, whose text is ours.
        unset RUSTFLAGS CFLAGS
        cargo xtask licences "$(target_of "$arch")" --also "musl=$zig/lib/libc/musl/COPYRIGHT" \
            --also "Rust's standard library=LICENSE-APACHE" >"$share/doc/fobs/THIRD-PARTY-LICENCES.txt"
    )
    sbom "$(binary_of "$arch")" >"$share/doc/fobs/sbom.json"
}

# The list of crates that cargo-auditable has put into a binary.
sbom() {
    local offset size
    read -r offset size < <(readelf -SW "$1" | sed 's/^ *\[ *[0-9]*\]//' | awk '$1 == ".dep-v0" { print $4, $5 }')
    python3 -c 'import json, sys, zlib
with open(sys.argv[1], "rb") as binary:
    binary.seek(int(sys.argv[2], 16))
    crates = zlib.decompress(binary.read(int(sys.argv[3], 16)))
print(json.dumps(json.loads(crates), indent=1, sort_keys=True))' "$1" "$offset" "$size"
}

tarball() {
    local name=fobs-$version-$1-linux folder
    folder=$out/work/$1/$name
    mkdir -p "$folder/bin"
    cp -r "$out/work/$1/share" "$folder/share"
    cp "$(binary_of "$1")" "$folder/bin/fobs"
    cp -r packaging/systemd packaging/sysctl packaging/tarball/install.sh "$folder/"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$out/work/$1" -cf - "$name" |
        gzip -n9 >"$out/$name.tar.gz"
}

# The tree of .deb and .rpm; $2 is where zsh looks for completions.
root() {
    local root=$out/work/$1/$3
    mkdir -p "$root"/usr/{bin,lib/systemd/system,lib/sysctl.d}
    cp "$(binary_of "$1")" "$root/usr/bin/fobs"
    cp -r "$out/work/$1/share" "$root/usr/share"
    [ "$2" = site-functions ] || mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/$2"
    cp packaging/sysctl/60-fobs.conf "$root/usr/lib/sysctl.d/"
    for unit in fobs.service fobs.socket; do
        sed 's|/usr/local/bin/fobs|/usr/bin/fobs|' "packaging/systemd/$unit" >"$root/usr/lib/systemd/system/$unit"
    done
    mkdir -p "$root/usr/lib/systemd/user"
    sed 's|/usr/local/bin/fobs|/usr/bin/fobs|' packaging/systemd/fobs-jobs.service >"$root/usr/lib/systemd/user/fobs-jobs.service"
    sed 's|/usr/local/bin/fobs|/usr/bin/fobs|' packaging/systemd/fobs-jobs-system.service >"$root/usr/lib/systemd/system/fobs-jobs.service"
    echo "$root"
}

deb() {
    local root arch
    case "$1" in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
    root=$(root "$1" vendor-completions deb)
    local doc=$root/usr/share/doc/fobs
    mv "$doc/CHANGELOG.md" "$doc/changelog"
    printf 'fobs (%s-1) unstable; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- %s  %s\n' "$version" \
        "$(sed -n 's/^Maintainer: //p' packaging/deb/control)" "$(date -R -d "@$SOURCE_DATE_EPOCH")" >"$doc/changelog.Debian"
    gzip -n9 "$doc/changelog" "$doc/changelog.Debian"
    rm "$doc/LICENSE" "$doc/LICENSE-APACHE"
    cp packaging/deb/copyright "$doc/"
    install -D -m 644 packaging/deb/lintian-overrides "$root/usr/share/lintian/overrides/fobs"
    mkdir "$root/DEBIAN"
    sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" \
        -e "s/@SIZE@/$(du -sk --apparent-size "$root/usr" | cut -f1)/" packaging/deb/control >"$root/DEBIAN/control"
    install -m 755 packaging/deb/{postinst,prerm,postrm} "$root/DEBIAN/"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "$out/fobs_$version-1_$arch.deb" >/dev/null
}

rpm() {
    local root
    root=$(root "$1" site-functions rpm)
    rpmbuild -bb --quiet --target "$1-linux" --define "_topdir $out/work/$1/rpmbuild" --define "_rpmdir $out" \
        --define "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm" --define "fobs_version $version" \
        --define "fobs_root $root" --define "fobs_scripts $PWD/packaging/rpm" \
        --define "fobs_date $(date -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" packaging/rpm/fobs.spec
}

# A stand-in for glibc's unwinder to link with, at $1: zig has LLVM's instead. A thread that ends within an extension
# with another unwinder than glibc's crashes: `pthread_exit` of one reads the frames of the other.
unwinder() {
    mkdir -p "$1"
    awk -v map="$1/map" '{
        printf "GCC_%s { global:", $1 > map
        for (at = 2; at <= NF; at++) {
            print "void _Unwind_" $at "(void) {}"
            printf " _Unwind_%s;", $at > map
        }
        print " };" > map
    }' >"$1/stub.c" <<'NAMES'
3.0 DeleteException ForcedUnwind GetDataRelBase GetGR GetIP GetLanguageSpecificData GetRegionStart GetTextRelBase RaiseException Resume SetGR SetIP
3.3 Backtrace FindEnclosingFunction GetCFA Resume_or_Rethrow
4.2.0 GetIPInfo
NAMES
    python3 -m ziglang cc -target "$2-linux-gnu" -shared -nostdlib -Wl,-soname,libgcc_s.so.1 \
        -Wl,--version-script="$1/map" -o "$1/libgcc_s.so.1" "$1/stub.c"
}

# The Python package and, beside it, the static program; one for the C library of most distributions, one for musl.
wheel() {
    local arch=$1 libc=$2 tag=$3 folder=$out/work/$1/wheel-$2 name=fobs-$version linked=()
    rustup target add "$arch-unknown-linux-$libc" 2>/dev/null
    if [ "$libc" = gnu ]; then
        # Below the clone and named from there: what cargo builds depends on the text.
        unwinder "target/unwinder/$arch" "$arch"
        linked=(-- -C "link-arg=target/unwinder/$arch/libgcc_s.so.1")
    fi
    maturin build --quiet --locked --profile dist --zig --manifest-path bindings/python/Cargo.toml \
        --target "$arch-unknown-linux-$libc" --compatibility "$tag" --target-dir "$target_dir" --out "$folder" \
        "${linked[@]}"
    python3 -m wheel unpack --dest "$folder" "$folder"/*.whl >/dev/null
    mkdir -p "$folder/$name/$name.data"/{scripts,data} "$folder/$name/$name.dist-info"/{licenses,sboms}
    cp "$(binary_of "$arch")" "$folder/$name/$name.data/scripts/fobs"
    cp -r "$out/work/$arch/share" "$folder/$name/$name.data/data/share"
    local doc=$out/work/$arch/share/doc/fobs
    cp LICENSE LICENSE-APACHE LICENSE-MIT "$doc/THIRD-PARTY-LICENCES.txt" "$folder/$name/$name.dist-info/licenses/"
    cp "$doc/sbom.json" "$folder/$name/$name.dist-info/sboms/fobs.auditable.json"
    # maturin's own list names this clone's directory.
    sed -i "s|path+file://$PWD|path+file:///fobs|g" "$folder/$name/$name.dist-info/sboms"/*.json
    find "$folder/$name" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    python3 -m wheel pack --dest-dir "$out" "$folder/$name" >/dev/null
}

# The sources of the Python package with those of the crates below it: what pip builds where no wheel fits.
sdist() { maturin sdist --manifest-path bindings/python/Cargo.toml --out "$out"; }

native=$(uname -m)
for arch in "${architectures[@]}"; do compile "$arch"; done
runs=$(binary_of "$native")
[ -x "$runs" ] || { cargo build --locked --release -p fobs-cli && runs=$target_dir/release/fobs; }
for arch in "${architectures[@]}"; do
    share "$arch" "$runs"
    for package in "${only[@]}"; do
        case "$package" in
        tarball | deb | rpm) "$package" "$arch" ;;
        manylinux) wheel "$arch" gnu manylinux_2_28 ;;
        musllinux) wheel "$arch" musl musllinux_1_2 ;;
        sdist) ;;
        *) echo "unknown package $package: give tarball, deb, rpm, manylinux, musllinux or sdist" >&2 && exit 1 ;;
        esac
    done
done
[[ " ${only[*]} " != *" sdist "* ]] || sdist
rm -rf "$out/work"
(cd "$out" && sha256sum fobs* >SHA256SUMS)
ls -l "$out"
