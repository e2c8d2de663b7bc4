"""Names through fsspec: whose they are, what they stand for, and what must not be touched by them."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs

fsspec = pytest.importorskip("fsspec")

from fobs.fsspec import FobsFileSystem  # noqa: E402

from .conftest import Served, free_port  # noqa: E402


def files_of(served: Served, **more: Any) -> Any:
    keys = {name: str(path) for name, path in served.keys.items()}
    return fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys, **more)


@pytest.fixture
def fs(served: Served) -> Iterator[Any]:
    fs = files_of(served)
    yield fs
    fs.close()


@pytest.fixture
def far(ssh: dict[str, Any]) -> Iterator[Any]:
    options = {name: str(value) for name, value in ssh.items()}
    fs = fsspec.filesystem("fobs+ssh", host="far", skip_instance_cache=True, **options)
    yield fs
    fs.close()


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "second")
    yield served
    served.stop()


def tree_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("to", ["a", "//a", "/./a", "/a/", "URL", "/x/../a"])
def test_a_name_moved_to_itself_stays(fs: Any, served: Served, to: str) -> None:
    for tree in (False, True):
        fs.pipe_file("/a/b/file" if tree else "/a", b"x")
        (served.root / "x").mkdir(exist_ok=True)
        target = f"fobs://127.0.0.1:{served.port}/a" if to == "URL" else to
        try:
            fs.mv("/a", target, recursive=tree)
        except OSError:
            assert tree or ".." in to, "a directory may be refused, and what the key may not name"
        found = (served.root / "a/b/file") if tree else (served.root / "a")
        assert found.exists() or (served.root / "a/a/b/file").exists()
        fs.rm("/", recursive=True)
        assert os.listdir(served.root) == []


def test_a_directory_does_not_move_or_copy_into_itself(fs: Any, served: Served) -> None:
    fs.pipe_file("/d/sub/file", b"x")
    for act in (fs.mv, fs.copy):
        for target in ("/d/sub", "/d/new", "/d/sub/deep/new"):
            with pytest.raises(OSError):
                act("/d", target, recursive=True)
    assert (served.root / "d/sub/file").read_bytes() == b"x"


def test_a_move_keeps_mode_and_time_and_moves_no_byte(fs: Any, served: Served) -> None:
    path = served.root / "a"
    path.write_bytes(b"x" * 1000)
    path.chmod(0o600)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    fs.mv("/a", "/new/place/b")
    moved = (served.root / "new/place/b").stat()
    assert (moved.st_mode & 0o777, moved.st_mtime) == (0o600, 1_000_000_000) and not path.exists()
    fs.cp_file("/new/place/b", "/c")
    assert (served.root / "c").stat().st_mode & 0o777 == 0o600
    (served.root / "dir").mkdir()
    fs.mv("/c", "/dir")
    fs.mv(["/dir/c"], ["/d"])
    assert tree_of(served.root) == ["d", "dir", "new", "new/place", "new/place/b"]
    log = (served.directory / "log").read_text().splitlines()
    moves = [line for line in log if "'/new/place/b'" in line]
    assert moves and not any("pull" in line or "push" in line for line in moves)


def test_another_servers_name_is_refused(fs: Any, served: Served, second: Served) -> None:
    (served.root / "x").write_bytes(b"first")
    (second.root / "x").write_bytes(b"second")
    url = f"fobs://127.0.0.1:{second.port}/x"
    for other in (url, "fobs://elsewhere/x", f"fobs://127.0.0.1:{served.port + 1}/x", f"fobs://me@127.0.0.1:{served.port}/x"):
        for act in (
            lambda: fs.cat(other), lambda: fs.rm(other), lambda: fs.open(other), lambda: fs.ls(other),
            lambda: fs.pipe_file(other, b""), lambda: fs.mv("/x", other), lambda: fs.put_file(__file__, other),
            lambda: fs.find(other), lambda: fs.exists(other), lambda: fs.cat(["/x", other]), lambda: fs.info(other),
            lambda: fs.unstrip_protocol(other), lambda: fs.glob(other + "*"), lambda: fs.get_mapper(other)["a"],
        ):  # fmt: skip
            with pytest.raises(ValueError):
                act()
    # What is left of a URL without its scheme, put together with more.
    stripped = str(FobsFileSystem._strip_protocol(url))
    for name in (stripped, stripped + "/y", f"{stripped}*", f"me@127.0.0.1:{served.port}/x"):
        for act in (lambda: fs.cat(name), lambda: fs.pipe_file(name, b""), lambda: fs.glob(name), lambda: fs.rm(name)):
            with pytest.raises(ValueError, match="another server"):
                act()
    fs.pipe_file("/h:1/y", b"below the root")
    assert fs.cat("/h:1/y") == b"below the root" and fs.ls("/h:1", detail=False) == ["/h:1/y"]
    keys = {name: str(path) for name, path in served.keys.items()}
    urls = [f"fobs://127.0.0.1:{served.port}/x", url]
    with pytest.raises(ValueError):
        for file in fsspec.open_files(urls, "rb", **keys):
            with file as opened:
                opened.read()
    assert (served.root / "x").read_bytes() == b"first" and (second.root / "x").read_bytes() == b"second"
    own = f"fobs://127.0.0.1:{served.port}/x"
    assert fs.cat(own) == b"first" and fs.unstrip_protocol("/x") == own
    assert fsspec.core.url_to_fs(own, **keys)[0].cat(f"127.0.0.1:{served.port}/x") == b"first"


def test_caches_of_two_servers_do_not_meet(served: Served, second: Served, tmp_path: Path) -> None:
    (served.root / "x").write_bytes(b"first")
    (second.root / "x").write_bytes(b"other")
    for kind in ("simplecache", "filecache"):
        for server, content in ((served, b"first"), (second, b"other")) * 2:
            keys = {name: str(path) for name, path in server.keys.items()}
            url = f"{kind}::fobs://127.0.0.1:{server.port}/x"
            with fsspec.open(url, fobs=keys, **{kind: {"cache_storage": str(tmp_path / kind)}}) as file:
                assert file.read() == content


def test_a_scheme_stands_at_the_start_only(fs: Any, served: Served) -> None:
    (served.root / "y").write_bytes(b"root's")
    name = "/cache/http://x/y"
    fs.pipe_file(name, b"inner")
    assert fs.cat_file(name) == b"inner" and (served.root / "y").read_bytes() == b"root's"
    assert (served.root / "cache/http:/x/y").exists()
    fs.rm(name)
    assert not (served.root / "cache/http:/x/y").exists() and (served.root / "y").exists()


def test_a_link_is_a_link_and_is_never_entered(fs: Any, served: Served, tmp_path: Path) -> None:
    outside = served.root / "outside/deep"
    outside.mkdir(parents=True)
    (outside / "file").write_bytes(b"precious")
    top = served.root / "t"
    (top / "sub").mkdir(parents=True)
    (top / "file").write_bytes(b"four")
    (top / "out").symlink_to("../outside")
    (top / "sub/up").symlink_to("..")
    (top / "to").symlink_to("file")
    (top / "dangling").symlink_to("nowhere")
    assert fs.find("/t") == ["/t/dangling", "/t/file", "/t/out", "/t/sub/up", "/t/to"]
    assert [name for name, *_ in fs.walk("/t")] == ["/t", "/t/sub"]
    assert fs.du("/t") > 0 and fs.du("/t", total=False)["/t/to"] == 4
    infos = {info["name"]: info for info in fs.ls("/t", detail=True)}
    assert (infos["/t/to"]["type"], infos["/t/to"]["size"], infos["/t/to"]["islink"]) == ("file", 4, True)
    assert infos["/t/out"]["type"] == infos["/t/dangling"]["type"] == "other"
    assert infos["/t/out"]["destination"] == "../outside"
    assert fs.isdir("/t/out") and not fs.exists("/t/dangling") and fs.lexists("/t/dangling")
    assert len(fs.glob("/t/**")) == 7
    fs.copy("/t", "/copy", recursive=True)
    assert os.readlink(served.root / "copy/dangling") == "nowhere"
    assert (served.root / "copy/out").is_symlink() and (served.root / "copy/to").read_bytes() == b"four"
    fs.get("/t", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got/to").read_bytes() == b"four" and not (tmp_path / "got/to").is_symlink()
    assert os.readlink(tmp_path / "got/dangling") == "nowhere"
    # A mapping has what can be read.
    assert dict(fs.get_mapper("/t")) == {"file": b"four", "to": b"four"} and len(fs.get_mapper("/t")) == 2
    for maxdepth in (3, None):
        fs.rm("/t", recursive=True, maxdepth=maxdepth)
        assert (outside / "file").read_bytes() == b"precious" and not top.exists()
        top.mkdir()
        (top / "out").symlink_to("../outside")
    fs.mv("/copy", "/moved")
    assert (served.root / "moved/dangling").is_symlink()


def test_a_link_stays_one_in_patterns_and_lists(fs: Any, served: Served, tmp_path: Path) -> None:
    for root in (served.root, tmp_path):
        (root / "t/real").mkdir(parents=True)
        (root / "t/real/file").write_bytes(b"x")
        (root / "t/in").symlink_to("real")
        (root / "t/up").symlink_to("..")
        (root / "t/nowhere").symlink_to("none")
    fs.get("/t/*", str(tmp_path / "got"), recursive=True)
    fs.copy("/t/*", "/copied", recursive=True)
    fs.put(str(tmp_path / "t/*"), "/put", recursive=True)
    (tmp_path / "list").mkdir()
    fs.get(["/t/in", "/t/up"], str(tmp_path / "list/"), recursive=False)
    fs.put([str(tmp_path / "t/in")], ["/one"])
    for made in (tmp_path / "got", served.root / "copied", served.root / "put"):
        assert {name: os.readlink(made / name) for name in ("in", "up", "nowhere")} == {
            "in": "real", "up": "..", "nowhere": "none",
        }, made  # fmt: skip
        assert (made / "real/file").read_bytes() == b"x"
    assert os.readlink(tmp_path / "list/in") == "real" and os.readlink(served.root / "one") == "real"


def test_names_here_that_exist_stand_for_themselves(fs: Any, served: Served, tmp_path: Path) -> None:
    here = tmp_path / "d[1]"
    for directory in (here, tmp_path / "d1"):
        directory.mkdir()
        for name in ("a[1]", "a1"):
            (directory / name).write_bytes(f"{directory.name}/{name}".encode())
    fs.put([str(here / "a[1]")], "/list")
    fs.put(str(here / "a[1]"), "/one")
    fs.put(str(here / "a*"), "/many")
    fs.put([str(here)], "/tree", recursive=True)
    assert (served.root / "one").read_bytes() == b"d[1]/a[1]"
    assert (served.root / "list/a[1]").read_bytes() == b"d[1]/a[1]" and os.listdir(served.root / "list") == ["a[1]"]
    assert {path.read_bytes() for path in (served.root / "many").iterdir()} == {b"d[1]/a[1]", b"d[1]/a1"}
    with pytest.raises(ValueError):
        fs.put([str(here / "a1"), str(here / "a[1]")], ["/only"])


def test_a_snapshot_of_links_becomes_files(fs: Any, served: Served, tmp_path: Path) -> None:
    for root in (served.root, tmp_path):
        (root / "hub/blobs").mkdir(parents=True)
        (root / "hub/blobs/abc").write_bytes(b"weights")
        (root / "hub/snapshots/1").mkdir(parents=True)
        (root / "hub/snapshots/1/model").symlink_to("../../blobs/abc")
    fs.get("/hub/snapshots/1", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got/model").read_bytes() == b"weights"
    fs.put(str(tmp_path / "hub/snapshots/1"), "/put", recursive=True)
    assert (served.root / "put/model").read_bytes() == b"weights"
    assert not (served.root / "put/model").is_symlink()


def test_a_thousand_links_cost_one_request(fs: Any, served: Served) -> None:
    (served.root / "d").mkdir()
    (served.root / "d/file").write_bytes(b"x")
    for number in range(1000):
        (served.root / f"d/{number}").symlink_to("file")
    before = (served.directory / "log").read_text().count("\n")
    assert len(fs.ls("/d")) == 1001 and len(fs.find("/d")) == 1001 and fs.du("/d") == 1001
    assert (served.directory / "log").read_text().count("\n") - before < 20


def test_a_name_that_exists_stands_for_itself(fs: Any, served: Served, tmp_path: Path) -> None:
    for name in ("a[1]", "a1", "b*", "bc"):
        (served.root / name).write_bytes(name.encode())
    fs.copy("/a[1]", "/copied")
    fs.get("/b*", str(tmp_path / "got"))
    assert fs.cat("/a[1]") == b"a[1]" and fs.cat("/copied") == b"a[1]" and (tmp_path / "got").read_bytes() == b"b*"
    fs.rm("/a[1]")
    fs.rm(["/b*"])
    assert tree_of(served.root) == ["a1", "bc", "copied"]
    fs.rm("/[ab]*")
    assert tree_of(served.root) == ["copied"]
    # So does a directory at the beginning of a pattern.
    for name in ("d[1]/x", "d1/x"):
        fs.pipe_file(f"/{name}", name.encode())
    fs.rm("/d[1]/*")
    assert tree_of(served.root) == ["copied", "d1", "d1/x", "d[1]"]
    fs.rm("/d[1-9]/*")
    assert tree_of(served.root) == ["copied", "d1", "d[1]"]
    fs.rm(["/d1", "/d[1]"], recursive=True)
    (tmp_path / "c[2]").write_bytes(b"c")
    fs.put(str(tmp_path / "c[2]"), "/put")
    assert (served.root / "put").read_bytes() == b"c"


@pytest.mark.parametrize("names", ["/d/**", ["/d", "/d/sub", "/d/sub/x"], ["/d/sub/x", "/d/sub", "/d", "/d"]])
def test_each_is_removed_once_the_deepest_first(fs: Any, served: Served, names: Any) -> None:
    fs.pipe_file("/d/sub/x", b"")
    fs.pipe_file("/d/y", b"")
    fs.rm(names, recursive=True)
    assert tree_of(served.root) in ([], ["d"])
    with pytest.raises(FileNotFoundError):
        fs.rm("/none", recursive=True)
    with pytest.raises(OSError):
        fs.rm("/", recursive=False)


def test_a_store_that_is_the_root_is_emptied(fs: Any, served: Served) -> None:
    fs.pipe_file("/group/array/0", b"x")
    fs.rm("/", recursive=True)
    assert os.listdir(served.root) == []
    fs.pipe_file("/again", b"x")


def test_home_directories_are_expanded_in_every_call(
    fs: Any, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    (tmp_path / "home/in").write_bytes(b"x")
    fs.put("~/in", "/d/in")
    fs.put_file("~/in", "/d/in2")
    fs.get("/d", "~/out", recursive=True)
    fs.get_file("/d/in", "~/one")
    fs.get(["/d/in"], ["~/two"])
    with served.open() as session:
        session.put("~/in", "three")
        session.get("three", "~/three")
    fobs.cp("~/in", f"{served.url}four", **served.keys)
    fobs.cp(f"{served.url}four", "~/four", **served.keys)
    assert tree_of(tmp_path / "home") == ["four", "in", "one", "out", "out/in", "out/in2", "three", "two"]
    assert os.listdir(tmp_path / "cwd") == [] and "~" not in os.listdir(served.root)


def test_only_what_is_not_there_is_not_found(served: Served, far: Any, tmp_path: Path) -> None:
    keys = {name: str(path) for name, path in served.keys.items()}
    nobody = fsspec.filesystem("fobs", host="127.0.0.1", port=free_port(), skip_instance_cache=True, **keys)
    subprocess.run([os.environ.get("FOBS", "fobs"), "keygen", "--out", tmp_path / "key"], check=True, stdout=-3)
    unknown = files_of(served)
    unknown._options["identity"] = str(tmp_path / "key")
    for fs, kind in ((nobody, ConnectionError), (unknown, PermissionError)):
        for act in (fs.find, fs.glob, fs.du, fs.isdir, fs.isfile, fs.exists, fs.ls, fs.info, fs.cat):
            with pytest.raises(kind):
                act("/x*" if act == fs.glob else "/x")
        with pytest.raises(kind):
            list(fs.walk("/"))
    assert not far.exists(str(tmp_path / "none")) and far.find(str(tmp_path / "none")) == []
    assert far.glob(str(tmp_path / "none*")) == [] and not far.isdir(str(tmp_path / "key/x"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to serve as another user")
def test_what_cannot_be_read_is_denied_and_not_missing(tmp_path: Path) -> None:
    # The daemon of a user that is not root: permissions count for it.
    served = Served(tmp_path / "served", user="nobody")
    try:
        served.root.chmod(0o755)
        (served.root / "secret").write_bytes(b"x")
        (served.root / "secret").chmod(0)
        (served.root / "d/locked").mkdir(parents=True)
        (served.root / "d/locked").chmod(0)
        fs, session = files_of(served), served.open()
        for act in (
            lambda: fs.cat_file("/secret"), lambda: fs.cat_file("/secret", 0, 10), lambda: fs.get_file("/secret", str(tmp_path / "x")),
            lambda: fs.open("/secret").read(), lambda: fs.find("/d"), lambda: fs.du("/"), lambda: fs.glob("/d/**"),
            lambda: list(fs.walk("/d")), lambda: fs.cp_file("/secret", "/y"), lambda: fs.get_mapper("/")["secret"],
            lambda: fs.rm("/secret"), lambda: fs.mv("/secret", "/z"), lambda: fs.pipe_file("/new", b"x"),
            lambda: fs.exists("/d/locked/x"), lambda: fs.isfile("/d/locked/x"), lambda: session.exists("d/locked/x"),
            lambda: asyncio.run(session.exists_async("d/locked/x")), lambda: fs.lexists("/d/locked/x"),
        ):  # fmt: skip
            with pytest.raises(PermissionError) as raised:
                act()
            assert raised.value.errno in (1, 13), raised.value
        with pytest.raises(FileNotFoundError) as missing:
            fs.cat_file("/none")
        assert missing.value.errno == 2
        assert not session.exists("none") and not session.exists("secret/x") and session.exists("secret")
        fs.close()
        session.close()
    finally:
        served.stop()


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(fs: Any, served: Served) -> None:
    for change in ("replaced", "truncated", "grown"):
        path = served.root / "file"
        path.write_bytes(b"a" * 1_000_000)
        file = fs.open("/file", "rb", block_size=1000, cache_type="none")
        assert file.read(10) == b"a" * 10
        if change == "replaced":
            (served.root / "new").write_bytes(b"b" * 1_000_000)
            os.replace(served.root / "new", path)
        elif change == "truncated":
            os.truncate(path, 100)
        else:
            path.write_bytes(b"c" * 2_000_000)
        with pytest.raises(OSError, match="changed"):
            file.read(100_000)
        # So it is where the file was handed to another process.
        with pytest.raises(OSError, match="changed"), pickle.loads(pickle.dumps(file)) as again:
            assert again.tell() == 10
            again.read(100_000)
        with pickle.loads(pickle.dumps(fs.open("/file", "rb"))) as fresh:
            assert fresh.read() == path.read_bytes()


def test_files_of_a_session_mean_the_same_elsewhere(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (served.root / "x").write_bytes(b"here")
    monkeypatch.chdir(served.directory)
    fs = fsspec.filesystem(
        "fobs", host="127.0.0.1", port=served.port, identity="client", known_hosts="known_hosts", skip_instance_cache=True
    )
    session = fobs.Session(served.url, identity="client", known_hosts="known_hosts")
    monkeypatch.chdir(tmp_path)
    assert fs.cat_file("/x") == b"here"
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file("/x") == b"here"
    with pickle.loads(pickle.dumps(session)) as other:
        assert other.get_bytes("x") == b"here"
    program = f"import pickle; print(pickle.loads({pickle.dumps(fs)!r}).cat_file('/x'))"
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert seen.stdout == "b'here'\n"
    session.close()


def test_a_path_here_means_the_same_when_its_turn_comes(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh: dict[str, Any]
) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "file").write_bytes(place.encode())
    (tmp_path / "one/ssh").write_text('#!/bin/sh\nexec ssh "$@"\n')
    (tmp_path / "one/ssh").chmod(0o755)
    monkeypatch.chdir(tmp_path / "one")
    with served.open() as session, fobs.Session(f"far:{tmp_path}", ssh_program="./ssh", **ssh) as over:
        slow = session.start_put_bytes("slow", bytes(500_000), rate=4_000_000)
        waiting = [session.start_put("file", "put"), session.start_get("put", "got")]
        monkeypatch.chdir(tmp_path / "two")
        for job in (slow, *waiting):
            job.wait()
        # Its second connection runs the program again.
        long = over.start_put_bytes("long", bytes(500_000), rate=4_000_000)
        assert over.exists("one/got")
        long.wait()
    assert (served.root / "put").read_bytes() == b"one" and (tmp_path / "one/got").read_bytes() == b"one"
    assert not (tmp_path / "two/got").exists()


def test_relative_names_over_ssh_are_of_the_home(far: Any, tmp_path: Path) -> None:
    name = f"fobs-test-{os.getpid()}"
    home = Path.home() / name
    try:
        far.pipe_file(f"{name}/file", b"x")
        assert (home / "file").read_bytes() == b"x"
        assert far.find(name) == [f"{name}/file"] and far.glob(f"{name}/*") == [f"{name}/file"]
        far.mv(f"{name}/file", f"{name}/moved")
        far.cp_file(f"{name}/moved", str(tmp_path / "there"))
        assert (tmp_path / "there").read_bytes() == b"x"
        far.rm(name, recursive=True)
        assert not home.exists()
    finally:
        subprocess.run(["rm", "-rf", home], check=False)


def test_schemes_without_a_plus_are_known(ssh: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    options = {name: str(value) for name, value in ssh.items()}
    for scheme in ("fobsssh", "fobs+ssh"):
        with fsspec.open(f"{scheme}://far{tmp_path}/file", **options) as file:
            assert file.read() == b"x"


def test_a_mapping_omits_only_what_is_missing(fs: Any, served: Served, far: Any) -> None:
    mapper = fs.get_mapper("/m", create=True)
    mapper["a/1"] = b"1"
    (served.root / "m/nowhere").symlink_to("none")
    assert mapper.getitems(["a/1", "none"], on_error="omit") == {"a/1": b"1"} and list(mapper) == ["a/1"]
    mapper.clear()
    assert list(mapper) == [] and (served.root / "m").is_dir()
    broken = far.get_mapper("/none")
    assert broken.getitems(["x"], on_error="omit") == {}
    # Nothing listens there.
    dead = FobsFileSystem("127.0.0.1", 1, skip_instance_cache=True, **{n: str(p) for n, p in served.keys.items()})
    for act in (lambda: dead.get_mapper("/").getitems(["x"], on_error="omit"), lambda: dead.get_mapper("/").clear()):
        with pytest.raises(ConnectionError):
            act()
