"""Random sequences of calls on random trees, beside another file system: the same result, or an error of the same
class.

``FOBS_SEEDS=500`` runs 500 of them; ``FOBS_SEED=17`` repeats one.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEEDS = [int(os.environ["FOBS_SEED"])] if "FOBS_SEED" in os.environ else range(int(os.environ.get("FOBS_SEEDS", "60")))
NAMES = ["a", "b", "c d", "é", "x#1", "q?", "p%41", "s[1]", "s1", "*", ".hidden"]
CALLS = 40


@dataclass
class Side:
    """A tree, the file system that is tried on it, and how that names the tree."""

    fs: Any
    root: Path
    prefix: str
    #: Where files of this host may be made.
    here: Path

    def name(self, path: str) -> str:
        return f"{self.prefix}{path}"

    def plain(self, value: Any) -> Any:
        """A result without what differs by its place."""
        if isinstance(value, str):
            return value.removeprefix(self.prefix) or "/"
        if isinstance(value, dict):
            return {self.plain(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        return value


def plant(random_: random.Random, root: Path) -> None:
    directories = [root]
    for _ in range(random_.randrange(1, 14)):
        parent = random_.choice(directories)
        path = parent / random_.choice(NAMES)
        if os.path.lexists(path):
            continue
        kind = random_.random()
        if kind < 0.4:
            path.mkdir()
            directories.append(path)
        elif kind < 0.85:
            path.write_bytes(random_.randbytes(random_.choice([0, 1, 100, 70_000])))
            path.chmod(random_.choice([0o644, 0o600, 0o755]))
        else:
            path.symlink_to(random_.choice(["nowhere", "a", "..", ".", "b", "../a"]))


def state(root: Path) -> dict[str, Any]:
    """Everything below a directory."""
    found: dict[str, Any] = {}
    for top, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = Path(top) / name
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = ("link", os.readlink(path))
            elif path.is_dir():
                found[key] = "directory"
            else:
                found[key] = path.read_bytes()
    return found


def kind_of(error: BaseException) -> str:
    for kind in (FileNotFoundError, FileExistsError):
        # A part of the path that is no directory is said in more ways than one.
        if isinstance(error, kind) and getattr(error, "errno", 0) != errno.ENOTDIR:
            return kind.__name__
    # What local files refuse in several ways, ours refuse in one: that it is refused counts.
    return "refused" if isinstance(error, (OSError, ValueError)) else type(error).__name__


def pick(random_: random.Random, root: Path) -> str:
    """A name that exists, mostly."""
    paths = [""] + [str(Path(top, name).relative_to(root)) for top, ds, fs in os.walk(root) for name in [*ds, *fs]]
    path = random_.choice(paths)
    if random_.random() < 0.3:
        path = f"{path}/{random_.choice(NAMES)}".strip("/")
    return f"/{path}" if path else ""


def call(random_: random.Random, root: Path) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The next call: its name, its paths, its options."""
    one, two = pick(random_, root), pick(random_, root)
    data = random_.randbytes(random_.choice([0, 5, 70_000]))
    size = random_.randrange(0, 100)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("find", (one,), {}), ("find", (one,), {"withdirs": True}), ("find", (one,), {"maxdepth": 2}),
        ("isdir", (one,), {}), ("isfile", (one,), {}), ("exists", (one,), {}), ("lexists", (one,), {}),
        ("cat_file", (one,), {}), ("cat_file", (one,), {"start": size, "end": size + 10}), ("cat_file", (one,), {"start": -5}),
        ("size", (one,), {}), ("mkdir", (one,), {}), ("makedirs", (one,), {"exist_ok": True}), ("makedirs", (one,), {}),
        ("pipe_file", (one,), {"value": data}), ("read", (one,), {}), ("write", (one,), {"value": data}),
        ("exclusive", (one,), {"value": data}), ("append", (one,), {"value": data}),
        ("rm_file", (one,), {}), ("rm", (one,), {"recursive": True}), ("rm", (one,), {"recursive": False}), ("rmdir", (one,), {}),
        ("mv", (one, two), {}), ("cp_file", (one, two), {}), ("touch", (one,), {"truncate": True}),
        ("walk", (one,), {}), ("names", (one,), {}), ("get", (one,), {}), ("put", (one,), {}),
    ]  # fmt: skip
    return random_.choice(calls)


def act(side: Side, name: str, paths: tuple[str, ...], options: dict[str, Any]) -> Any:
    fs, full = side.fs, [side.name(path) for path in paths]
    if name == "read":
        with fs.open(full[0], "rb") as file:
            return file.read(10) + file.read()
    if name in ("write", "exclusive", "append"):
        with fs.open(full[0], {"write": "wb", "exclusive": "xb", "append": "ab"}[name]) as file:
            file.write(options["value"])
        return None
    if name == "names":
        return sorted(fs.ls(full[0], detail=False))
    if name == "walk":
        return sorted((top, sorted(ds), sorted(fs_)) for top, ds, fs_ in fs.walk(full[0]))
    if name == "get":
        # From the side to this host: what comes is compared.
        target = side.here / "got"
        shutil.rmtree(target, ignore_errors=True)
        fs.get_file(full[0], str(target))
        return target.read_bytes() if target.is_file() else "directory"
    if name == "put":
        source = side.here / "put"
        source.write_bytes(b"put" * 1000)
        fs.put_file(str(source), full[0])
        return None
    if name == "pipe_file":
        return fs.pipe_file(full[0], options["value"])
    return getattr(fs, name)(*full, **options)


def is_of_local_kind(name: str, paths: tuple[str, ...], root: Path) -> bool:
    """What is compared: local files have corners that are no semantics to keep."""
    one = root / paths[0].lstrip("/")
    links = [part for path in paths for part in (root / path.lstrip("/")).parents if part.is_symlink()]
    if any(part.is_relative_to(root) for part in links):
        # What lies above the two trees differs.
        return False
    if name == "rm" and any(letter in paths[0] for letter in "*?[") and not os.path.lexists(one):
        # Patterns are for ours alone.
        return False
    through_link = any(part.is_symlink() for part in [one, *one.parents] if part.is_relative_to(root))
    if through_link and name in ("mkdir", "makedirs", "walk", "find", "names", "size", "put", "get", "cp_file", "mv"):
        return False
    # Missing directories above are made, as object stores have it; local files without auto_mkdir refuse.
    writes = name in ("pipe_file", "write", "exclusive", "append", "touch", "put", "cp_file", "mv")
    target = root / paths[-1].lstrip("/")
    if writes and (not target.parent.is_dir() or target == root or target.is_symlink() or target.is_dir()):
        return False
    if name in ("mv", "cp_file"):
        # Of a link, and onto one name of the same file, local files differ among themselves.
        return not (one.is_symlink() or target == one or target.is_relative_to(one) or one == root)
    # A recursive removal of where the tree begins empties it here, and removes it there.
    return not (name in ("rm", "rmdir", "rm_file", "touch", "exclusive") and one == root)


def play(seed: int, ours: Side, theirs: Side) -> None:
    """One sequence on two trees that are made alike."""
    random_ = random.Random(seed)
    plant(random_, theirs.root)
    shutil.rmtree(ours.root, ignore_errors=True)
    shutil.copytree(theirs.root, ours.root, symlinks=True)
    done: list[Any] = []
    for number in range(CALLS):
        name, paths, options = call(random_, theirs.root)
        if not is_of_local_kind(name, paths, theirs.root):
            continue
        outcomes = []
        for side in (ours, theirs):
            try:
                outcomes.append(side.plain(act(side, name, paths, options)))
            except Exception as error:
                outcomes.append(("raised", kind_of(error), error))
        shown = {key: value if not isinstance(value, bytes) else len(value) for key, value in options.items()}
        done.append((name, *paths, shown))
        here, there = outcomes
        if isinstance(here, tuple) and isinstance(there, tuple):
            same = here[1] == there[1] or "refused" in (here[1], there[1])
        else:
            same = here == there
        assert same, f"FOBS_SEED={seed}, call {number}: {done[-1]}: {here!r} beside {there!r}\nafter {done}"
        assert state(ours.root) == state(theirs.root), f"FOBS_SEED={seed}, call {number}: {done[-1]}\nafter {done}"
    shutil.rmtree(ours.root)
