#!/bin/sh
# Installs fobs from this folder, without root below ~/.local, or removes it again.
#   ./install.sh [--prefix DIR]              as root below /usr/local
#   ./install.sh --uninstall [--prefix DIR]  everything that an installation put there, and nothing else
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
action=install
while [ $# -gt 0 ]; do
    case "$1" in
    --prefix)
        [ $# -ge 2 ] || { echo "install.sh: --prefix needs a directory" >&2; exit 1; }
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    *)
        echo "usage: install.sh [--uninstall] [--prefix DIR]" >&2
        exit 1
        ;;
    esac
    shift
done
case "$prefix" in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
# What was installed, one a line and files before their directories: only these are removed.
list=$prefix/share/fobs/installed

uninstall() {
    [ -f "$list" ] || { echo "install.sh: fobs is not installed below $prefix ($list is missing)" >&2; exit 1; }
    entries=$(cat "$list")
    printf '%s\n' "$entries" | while IFS= read -r entry; do
        if [ -d "$prefix/$entry" ] && [ ! -L "$prefix/$entry" ]; then
            # Somebody else's files keep it.
            rmdir "$prefix/$entry" 2>/dev/null || true
        else
            rm -f "$prefix/$entry"
        fi
    done
    # If this installation had to make it.
    if printf '%s\n' "$entries" | grep -qx .; then rmdir "$prefix" 2>/dev/null || true; fi
    echo "removed fobs from $prefix"
}

# The directories that a file needs and that are not there, outermost first.
missing_directories() {
    directory=$(dirname "$1")
    while [ ! -d "$prefix/$directory" ]; do
        echo "$directory"
        [ "$directory" = . ] && break
        directory=$(dirname "$directory")
    done | sort
}

install_files() {
    if [ -f "$list" ]; then uninstall >/dev/null; fi
    made=$(mktemp)
    trap 'rm -f "$made"' EXIT
    (cd "$here" && find bin share -type f | LC_ALL=C sort) | while IFS= read -r file; do
        missing_directories "$file" >>"$made"
        mkdir -p "$prefix/$(dirname "$file")"
        # A running fobs keeps its own: the new one takes its name.
        cp "$here/$file" "$prefix/$file.new"
        mv -f "$prefix/$file.new" "$prefix/$file"
        echo "$file" >>"$made"
    done
    missing_directories share/fobs/installed >>"$made"
    mkdir -p "$prefix/share/fobs"
    echo share/fobs/installed >>"$made"
    LC_ALL=C sort -ru "$made" >"$list"
    chmod 755 "$prefix/bin/fobs"
    echo "installed $("$prefix/bin/fobs" --version) as $prefix/bin/fobs"
    case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "$prefix/bin is not on your PATH: add it in ~/.profile, or name it on the other host with --fobs-path" ;;
    esac
}

case "$action" in
install) install_files ;;
uninstall) uninstall ;;
esac
