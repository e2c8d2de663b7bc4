#!/usr/bin/env python3
"""Plays the tests of rsync's own suite with `fobs sync` in rsync's place.

    scripts/rsync-suite.py SOURCE [--fobs FOBS] [--all] [NAME...]

SOURCE is a checkout of rsync (https://github.com/RsyncProject/rsync). Each test runs once with the installed rsync and
once with fobs; one that rsync does not pass here says nothing. Without names, those that are about a transfer are
played, and not those of rsync's daemon, its protocol or its build. EXPECTED has those that are to fail, with the
reasons; a test that ends otherwise than it says fails this program. Nothing of rsync is built: what the tests need of
it, `tls`, is below."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# What is about rsync itself: its daemon, wire, build, wrappers and batch files.
APART = (
    "authenticate- batch- bare-do- basis-xname- chroot- clean-fname connect-prog- compress-zlib daemon early-input "
    "git-set hashsearch hashtable inband- install- io- iwildmatch ki62- macos- malicious- match- msg- password- peer- "
    "proto- proxy- reverse-daemon rrsync rsync-ssl safe-arg scanner- secure-relpath simd- skiplist stdio trimslash "
    "unsafe-byname uidlist- wildmatch write-batch xattr-wire checksum-zero highfd idn recv- sender- max-alloc "
    "alt-dest-symlink-race chdir- copy-dest-symlink-readleak link-dest-module link-dest-pathroot"
).split()

TLS = r'''#!/usr/bin/env python3
import os, stat, sys, time
flags = [word for word in sys.argv[1:] if word.startswith("-") and word != "-"]
for path in (word for word in sys.argv[1:] if word not in flags):
    try:
        found = os.lstat(path)
    except OSError as error:
        sys.exit(f"tls: {path}: {error.strerror}")
    link = stat.S_ISLNK(found.st_mode)
    shown = lambda ns: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ns // 10**9))
    times = " " * 19 if link and "-l" not in flags else shown(found.st_mtime_ns)
    if "--atimes" in flags or "-U" in flags:
        times += " " + (" " * 19 if stat.S_ISDIR(found.st_mode) else shown(found.st_atime_ns))
    mode = "lrwxrwxrwx" if link else stat.filemode(found.st_mode)
    owner = "0.0" if link and "-L" not in flags else f"{found.st_uid}.{found.st_gid}"
    if stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode):
        size = f"{os.major(found.st_rdev)},{os.minor(found.st_rdev)}"
    else:
        size = "0" if stat.S_ISDIR(found.st_mode) else str(found.st_size)
    names = 1 if stat.S_ISDIR(found.st_mode) else found.st_nlink
    print(mode, f"{size:>12}", f"{owner:>12}", f"{names:>6}", times, path, *(["->", os.readlink(path)] if link else []))
'''
# Tests that fail with fobs, each with its reason: one that passes all the same fails this program, and so does another
# that fails.
OTHER_DAEMON = "it needs rsync's own daemon (rsync://), which fobs does not speak to"
INSIDE = "it reads what rsync says of its own inside (--debug), or watches its calls of the kernel"
EXPECTED = {
    OTHER_DAEMON: "acl-symlink-race chmod-option copy-dest-source-symlink deep-path delete-missing-args-files-from "
    "fake-super-backup-fifo-regression insecure-links-admin-optout link-dest-relative-basis nonroot-restrictive-perms "
    "operator-path-insecure-links-refused rename-mixed-parent-transfer symlink-exclude symlink-exclude-chdir-alias variety "
    "symlink-exclude-component symlink-exclude-deep symlink-exclude-leaf symlink-exclude-meta symlink-exclude-xattr",
    INSIDE: "compress-options fuzzy fuzzy-basis misc-coverage partial-protected-regular-retry-linux "
    "source-change-size-continues",
    "there are no batch files": "operator-path-write-batch",
    "a filter file of a directory has no merge rule, and names no file elsewhere": "filter-merge-content-echo "
    "filter-merge-recursion",
    "--append verifies what is there": "append",
    "an unfinished file lies under a name of its own, and its place stays as it was": "partial",
    "--copy-dest takes no content that was not compared": "operator-path-copy-dest",
    "with -K and names a link leads only to what was asked for: an earlier sender may have made it": "symlink-dirlink-basis",
    "no link of the destination is followed for --no-implied-dirs": "no-implied-dirs-symlink",
    "-R ./PATH leaves the destination directory itself": "relative",
    "a file with a further name at the destination is made anew where its time differs": "itemize",
    "what is appended to a file during the copy comes with the next one": "growing-file",
}
# Its exit codes.
PASSED, SKIPPED, XFAIL = 0, 77, 78


def tools(place: Path, fobs: str) -> None:
    """What the tests run beside the two programs."""
    # A --rsync-path must end in rsync. What -VV says of it is what the tests expect of this host.
    real = shutil.which("rsync")
    (place / "rsync").write_text(
        f'#!/bin/sh\n[ "$1" != -VV ] || exec "{real}" -VV\nexec "{fobs}" sync --fobs-path "{fobs}" "$@"\n'
    )
    (place / "tls").write_text(TLS)
    (place / "getgroups").write_text("#!/bin/sh\nexec id -G\n")
    for path in place.iterdir():
        path.chmod(0o755)
    (place / "config.h").write_text(
        "".join(f"#define {name} 1\n" for name in ("SUPPORT_LINKS", "SUPPORT_HARD_LINKS", "SUPPORT_XATTRS"))
    )
    (place / "shconfig").write_text("ECHO_N='-n'\nHOST_OS=linux-gnu\n")


def play(test: Path, source: Path, place: Path, program: str, timeout: int) -> tuple[int, str]:
    scratch = place / "scratch"
    subprocess.run(["chmod", "-R", "u+rwX", scratch], stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    (scratch / "src").symlink_to(source)
    environment = os.environ | {
        "scratchdir": str(scratch),
        "srcdir": str(source),
        "TOOLDIR": str(place),
        "RSYNC": program,
        "RSYNC_PEER": program,
        "TLS_ARGS": "-l -L",
        "suitedir": str(source / "testsuite"),
        "PYTHONPATH": str(source / "testsuite"),
        "setfacl_nodef": "setfacl -k",
        "race_timeout": "1",
    }
    try:
        done = subprocess.run(
            [sys.executable, str(test)],
            cwd=scratch,
            env=environment,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired as late:
        return 124, f"not over after {timeout} s: {(late.stdout or b'')[-2000:].decode(errors='replace')}"
    return done.returncode, done.stdout[-4000:].decode(errors="replace")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--fobs", default=shutil.which("fobs"))
    parser.add_argument("--all", action="store_true", help="also what is about rsync itself")
    parser.add_argument("--timeout", type=int, default=240)
    parser.add_argument("--logs", type=Path, help="where what the tests say goes")
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    source, fobs = given.source.resolve(), str(Path(given.fobs).resolve())
    tests = sorted((source / "testsuite").glob("*_test.py"))
    name = lambda test: test.name.removesuffix("_test.py")
    if given.names:
        tests = [test for test in tests if name(test) in given.names]
    elif not given.all:
        tests = [test for test in tests if not name(test).startswith(tuple(APART)) and "daemon" not in name(test)]
    kinds = ("passed", "failed", "failed as expected", "passed, though it is to fail", "not for rsync here")
    counts: dict[str, list[str]] = {kind: [] for kind in kinds}
    reasons = {test: why for why, names in EXPECTED.items() for test in names.split()}
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        # Some tests run as a plain user.
        place.chmod(0o755)
        tools(place, fobs)
        for test in tests:
            code, said = play(test, source, place, shutil.which("rsync") or "rsync", given.timeout)
            kind = "not for rsync here"
            if code == PASSED:
                code, said = play(test, source, place, str(place / "rsync"), given.timeout)
                is_listed = name(test) in reasons
                if code in (PASSED, SKIPPED, XFAIL):
                    kind = "passed, though it is to fail" if is_listed else "passed"
                else:
                    kind = "failed as expected" if is_listed else "failed"
            counts[kind].append(name(test))
            why = f": {reasons[name(test)]}" if kind == "failed as expected" else ""
            print(f"{kind:20} {name(test)} ({code}){why}", flush=True)
            if given.logs and kind.startswith("failed"):
                given.logs.mkdir(exist_ok=True)
                (given.logs / f"{name(test)}.log").write_text(said)
    for kind, names in counts.items():
        print(f"{len(names)} {kind}: {' '.join(names)}")
    return 1 if counts["failed"] or counts["passed, though it is to fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
