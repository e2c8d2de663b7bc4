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

from fsspec.implementations.local import LocalFileSystem

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


def plant(random_: random.Random, root: Path, links: bool = True) -> None:
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
        elif kind < 0.85 or not links:
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


def pattern(random_: random.Random, path: str) -> str:
    """A name with a part that stands for more."""
    parts = path.split("/")
    at = random_.randrange(1, len(parts)) if len(parts) > 1 else 0
    more = random_.choice(["*", "?", "**", "[a-c]*", "*1*", "s[1]", ".*", "a*"])
    return "/".join([*parts[:at], more, *random_.choice([parts[at + 1 :], []])]) if at else f"/{more}"


def call(random_: random.Random, root: Path) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The next call: its name, its paths, its options."""
    one, two = pick(random_, root), pick(random_, root)
    data = random_.randbytes(random_.choice([0, 5, 70_000]))
    size = random_.randrange(0, 100)
    places = {"of": random_.choice(["", "/", "/*"]), "to": random_.choice(["", "/"]), "exists": random_.random() < 0.5}
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
        ("walk", (one,), {"topdown": False}), ("walk", (one,), {"maxdepth": 2}), ("du", (one,), {}), ("kind", (one,), {}),
        ("glob", (pattern(random_, one),), {}), ("glob", (pattern(random_, one),), {"maxdepth": 2}),
        ("head", (one,), {"size": 10}), ("tail", (one,), {"size": 10}), ("lines", (one,), {}),
        *[(name, (one, two), places) for name in ("get_tree", "put_tree", "copy_tree")],
        ("get_list", (one, two), {}), ("copy_list", (one, two), {}),
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
        return sorted((top, sorted(ds), sorted(fs_)) for top, ds, fs_ in fs.walk(full[0], **options))
    if name == "glob":
        return sorted(fs.glob(full[0], **options))
    if name == "kind":
        return fs.info(full[0])["type"]
    if name == "lines":
        with fs.open(full[0], "r", encoding="latin-1", newline="") as file:
            return file.readlines()
    if name.endswith(("_tree", "_list")):
        return several(side, name, full, options)
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


def several(side: Side, name: str, full: list[str], options: dict[str, Any]) -> Any:
    """Trees, patterns and lists; of what comes to this host the tree is the result."""
    fs, here = side.fs, side.here / "tree"
    if isinstance(fs, LocalFileSystem):
        # As ours, it makes what is missing above.
        fs = LocalFileSystem(auto_mkdir=True)
    here.unlink() if here.is_file() else shutil.rmtree(here, ignore_errors=True)
    if name == "get_list":
        here.mkdir()
        fs.get(full, str(here) + "/")
        return state(here)
    if name == "copy_list":
        fs.copy([full[0]], full[1] + "/")
        return None
    if name == "get_tree":
        if options["exists"]:
            here.mkdir()
        fs.get(full[0] + options["of"], str(here) + options["to"], recursive=True)
        return state(here) if here.is_dir() else here.read_bytes() if here.exists() else None
    if name == "put_tree":
        fs.put(str(side.here / "source") + options["of"], full[1] + options["to"], recursive=True)
    else:
        fs.copy(full[0] + options["of"], full[1] + options["to"], recursive=True)
    return None


def is_plain(path: Path) -> bool:
    """Whether no link is there or below: what local files do with those differs by call."""
    inner = (item for top, ds, fs in os.walk(path) for item in (Path(top, name) for name in [*ds, *fs]))
    return not path.is_symlink() and not any(item.is_symlink() for item in inner)


def is_free(path: Path) -> bool:
    """Whether a tree may come there: its directory exists, and nothing in it is in the way."""
    return path.parent.is_dir() and (not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())))


def several_are_of_local_kind(
    name: str, one: Path, two: Path, root: Path, options: dict[str, Any], source: Path
) -> bool:
    from_ = source if name == "put_tree" else one
    if options.get("of") == "/*" and os.path.lexists(from_ / "*"):
        # That is the one that is meant.
        return False
    if any(letter in f"{one}{two}" for letter in "*?["):
        # Local files take a name that exists for a pattern.
        return False
    if name == "get_list":
        # Directories of a list, and names that are equal, come in an order that nobody promises.
        return is_plain(one) and is_plain(two) and not one.is_dir() and not two.is_dir() and one.name != two.name
    if name == "copy_list":
        return is_plain(one) and not one.is_dir() and two.is_dir() and is_plain(two) and not any(two.iterdir())
    if name != "put_tree" and (one == root or not one.is_dir()) and (options["of"] or options["to"] or one == root):
        # The root has another name on each side; a file is no directory, and has nothing in it.
        return False
    if name == "get_tree":
        return is_plain(one)
    if name == "put_tree":
        return is_free(two) and is_plain(two) and two.parent.resolve() == two.parent
    inside = two == one or two.is_relative_to(one)
    return is_plain(one) and is_free(two) and is_plain(two) and not inside


def is_of_local_kind(name: str, paths: tuple[str, ...], side: Side, options: dict[str, Any]) -> bool:
    """What is compared: local files have corners that are no semantics to keep."""
    root = side.root
    one = root / paths[0].lstrip("/")
    links = [part for path in paths for part in (root / path.lstrip("/")).parents if part.is_symlink()]
    if any(part.is_relative_to(root) for part in links):
        # What lies above the two trees differs.
        return False
    if name == "rm" and any(letter in paths[0] for letter in "*?[") and not os.path.lexists(one):
        # Patterns are for ours alone.
        return False
    through_link = any(part.is_symlink() for part in [one, *one.parents] if part.is_relative_to(root))
    if through_link and name in (
        "mkdir", "makedirs", "walk", "find", "names", "size", "put", "get", "cp_file", "mv", "kind", "du",
    ):  # fmt: skip
        return False
    if name.endswith(("_tree", "_list")):
        two = root / paths[1].lstrip("/")
        return not through_link and several_are_of_local_kind(
            name, one, two, root, options, side.here / "source"
        )
    if name == "du":
        return is_plain(one)
    if name == "glob":
        # A pattern begins at a directory; a link there is one to local files.
        literal = paths[0][: min(paths[0].find(letter) for letter in "*?[" if letter in paths[0])].rpartition("/")[0]
        return is_plain(root) or not any(part.is_symlink() for part in [root / literal.lstrip("/")])
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
    shutil.rmtree(theirs.here / "source", ignore_errors=True)
    (theirs.here / "source").mkdir()
    plant(random_, theirs.here / "source", links=False)
    done: list[Any] = []
    for number in range(CALLS):
        name, paths, options = call(random_, theirs.root)
        if not is_of_local_kind(name, paths, theirs, options):
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
