#!/usr/bin/env bash
# Has programs that call rsync call `fobs sync` in its place: rsnapshot makes backups, and Ansible's `synchronize`
# deploys, each once with rsync and once with fobs, over a private sshd on the loopback; the trees must be equal. The
# programs are those of Debian's packages rsnapshot, ansible-core and ansible, taken into a directory of their own.
#   scripts/test-rsync-users.sh [FOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
fobs=${1:-$target/debug/fobs}
[ -n "${1:-}" ] || "${CARGO:-cargo}" build --locked -p fobs-cli
fobs=$(realpath "$fobs")
for need in rsync sshd ssh perl python3 apt-get dpkg; do
    PATH=$PATH:/usr/sbin command -v "$need" >/dev/null || { echo "SKIPPED: $need is missing"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: a private sshd that changes users needs root"; exit 0; }

programs=$target/rsync-users
if [ ! -e "$programs/complete" ]; then
    rm -rf "$programs" && mkdir -p "$programs/packages"
    (cd "$programs/packages" && apt-get download -q rsnapshot ansible ansible-core python3-resolvelib \
        python3-packaging python3-yaml python3-jinja2 python3-markupsafe) ||
        { echo "SKIPPED: the packages of Debian cannot be fetched"; exit 0; }
    for package in "$programs"/packages/*.deb; do
        case $package in
        # 400 MB of collections; one is needed.
        */ansible_*) dpkg --fsys-tarfile "$package" | tar -C "$programs" -x --wildcards \
            './usr/lib/python3/dist-packages/ansible_collections/ansible/posix/*' ;;
        *) dpkg -x "$package" "$programs" ;;
        esac
    done
    rm -r "$programs/packages"
    touch "$programs/complete"
fi

work=$(mktemp -d)
sshd=
finish() {
    [ -z "$sshd" ] || kill "$sshd" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
port=$((20000 + RANDOM % 10000))
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
cp "$work/key.pub" "$work/authorized"
mkdir -p /run/sshd
"$(PATH=$PATH:/usr/sbin command -v sshd)" -D -f /dev/null -o "ListenAddress=127.0.0.1:$port" -o "HostKey=$work/host" \
    -o "AuthorizedKeysFile=$work/authorized" -o StrictModes=no -o UsePAM=no -o PidFile=none \
    -o PermitRootLogin=yes -o "Subsystem=sftp internal-sftp" -E "$work/sshd.log" &
sshd=$!
options=(-i "$work/key" -p "$port" -o StrictHostKeyChecking=no -o "UserKnownHostsFile=$work/known" -o LogLevel=ERROR)
for _ in $(seq 100); do
    ssh "${options[@]}" 127.0.0.1 true 2>/dev/null && break
    sleep 0.1
done
ssh "${options[@]}" 127.0.0.1 true

# What stands in rsync's place; the other end has fobs where this one has it.
mkdir -p "$work/rsync" "$work/fobs"
ln -s "$(command -v rsync)" "$work/rsync/rsync"
printf '#!/bin/sh\nexec "%s" sync --fobs-path "%s" "$@"\n' "$fobs" "$fobs" >"$work/fobs/rsync"
chmod 755 "$work/fobs/rsync"

# A tree, and what is changed in it between two runs.
tree() {
    mkdir -p "$1/etc/conf.d" "$1/var/empty" "$1/home/cache"
    printf 'one\n' >"$1/etc/one"
    printf 'two\n' >"$1/etc/conf.d/two words"
    head -c 300000 /dev/zero | tr '\0' x >"$1/var/large"
    ln "$1/etc/one" "$1/etc/linked"
    ln -s one "$1/etc/link"
    printf 'cached\n' >"$1/home/cache/file"
    chmod 750 "$1/etc/conf.d"
    find "$1" -exec touch -h -d '2026-01-02 03:04:05' {} +
}
change() {
    printf 'changed\n' >"$1/etc/conf.d/two words"
    printf 'new\n' >"$1/var/new"
    rm "$1/home/cache/file"
    find "$1" -newer "$work/key" -exec touch -h -d '2026-02-03 04:05:06' {} +
}
# Names, kinds, modes, sizes, numbers of names and links of all below a directory, and what is in the files; times of
# what lies deeper than the program's own directories.
listing() {
    (cd "$1" && find . -mindepth 1 -printf '%P %y %m %s %n %l %U:%G\n' | sort &&
        find . -mindepth "$2" -printf '%P %TY-%Tm-%Td %TT\n' | sort &&
        find . -type f -print0 | sort -z | xargs -0 -r sha256sum)
}
compare() {
    if ! diff <(listing "$work/$1-rsync" "$2") <(listing "$work/$1-fobs" "$2"); then
        echo "FAILED: $1 makes other trees with fobs"
        exit 1
    fi
    echo "$1: equal trees, $(listing "$work/$1-fobs" "$2" | wc -l) lines"
}

for program in rsync fobs; do
    tree "$work/source-$program"
    root=$work/rsnapshot-$program config=$work/rsnapshot-$program.conf
    mkdir "$root"
    printf '%s\t%s\n' config_version 1.2 snapshot_root "$root/" cmd_cp /bin/cp cmd_rm /bin/rm \
        cmd_rsync "$work/$program/rsync" cmd_ssh "$(command -v ssh)" ssh_args "${options[*]}" \
        verbose 2 loglevel 3 lockfile "$work/lock" link_dest 1 exclude cache/ >"$config"
    printf 'retain\t%s\t%s\n' alpha 3 beta 2 >>"$config"
    printf 'backup\t%s\t%s\n' "root@127.0.0.1:$work/source-$program/./etc" box/ \
        "root@127.0.0.1:$work/source-$program/./var/" box/ "$work/source-$program/./home" here/ >>"$config"
    for run in alpha change alpha beta; do
        case $run in
        change) change "$work/source-$program" ;;
        *) perl "$programs/usr/bin/rsnapshot" -c "$config" "$run" ;;
        esac
    done
done
compare rsnapshot 3

export PYTHONPATH=$programs/usr/lib/python3/dist-packages ANSIBLE_HOST_KEY_CHECKING=False HOME=$work
export ANSIBLE_COLLECTIONS_PATH=$PYTHONPATH ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_NOCOLOR=1
for program in rsync fobs; do
    rm -r "$work/source-$program" && tree "$work/source-$program"
    # Which of two names is linked to the older tree differs by design.
    rm "$work/source-$program/etc/linked"
    place=$work/ansible-$program
    mkdir "$place"
    printf 'box ansible_host=127.0.0.1 ansible_port=%s ansible_user=root ansible_ssh_private_key_file=%s %s\n' \
        "$port" "$work/key" "ansible_python_interpreter=$(command -v python3)" >"$work/inventory"
    cat >"$work/play.yml" <<PLAY
- hosts: box
  gather_facts: false
  tasks:
    - ansible.posix.synchronize: {src: $work/source-$program/, dest: $place/pushed, delete: true}
    - ansible.posix.synchronize: {src: $place/pushed/etc, dest: $place/pulled/, mode: pull, rsync_opts: ["--exclude=link*"]}
    - ansible.posix.synchronize:
        src: $work/source-$program/
        dest: $place/linked
        delete: true
        compress: false
        link_dest: ["$place/pushed"]
    - ansible.posix.synchronize: {src: $work/source-$program/, dest: $place/plain, archive: false, recursive: true, checksum: true}
PLAY
    mkdir "$place/pulled"
    for run in first again changed; do
        [ $run != changed ] || change "$work/source-$program"
        PATH=$work/$program:$PATH python3 "$programs/usr/bin/ansible-playbook" -i "$work/inventory" "$work/play.yml" \
            >"$work/$program-$run.log" 2>&1 || { cat "$work/$program-$run.log"; exit 1; }
        grep -o '^changed\|^ok' "$work/$program-$run.log" >"$work/$program-$run.states"
    done
    # Where times are not kept, they are those of the run.
    find "$place/plain" -exec touch -h -d '2026-01-02 03:04:05' {} +
done
compare ansible 2
for run in first again changed; do
    diff "$work/rsync-$run.states" "$work/fobs-$run.states" || { echo "FAILED: what changed, run $run"; exit 1; }
done
echo "ansible: equal states of all tasks, in three runs"
