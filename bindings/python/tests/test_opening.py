"""Opening: hosts that say nothing, drop connections or deny; and several that want one place."""

from __future__ import annotations

import asyncio
import glob
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fobs

from .conftest import START_WAIT, Served

Content = Callable[[int], bytes]


def keys_of(served: Served) -> dict[str, str]:
    return {name: str(path) for name, path in served.keys.items()}


def stop(process: int) -> None:
    """Stops a process, or a group (negative), and waits until all of it stands still: each thread stops when it gets
    the processor next.
    """
    os.kill(process, signal.SIGSTOP)
    end = time.monotonic() + START_WAIT
    while any(state != "T" for state in states(process)):
        assert time.monotonic() < end, f"{process} does not stop"
        time.sleep(0.01)


def states(process: int) -> Iterator[str]:
    """Of each thread of a process, or of a group."""
    # Not that of `Path`, which fails where a process ends meanwhile.
    for path in glob.iglob(f"/proc/{'[0-9]*' if process < 0 else process}/task/*/stat"):
        try:
            # After the name, which may have any letters: the state, the parent, the group.
            state, _, group = Path(path).read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has ended
            continue
        if process > 0 or int(group) == -process:
            yield state


def in_time(opens: Callable[[], fobs.Session]) -> fobs.Session:
    """Opens within the time that its calls will have, which may be too short beside other work: again, then."""
    end = time.monotonic() + START_WAIT
    while True:
        try:
            return opens()
        except fobs.TransferTimeoutError:
            assert time.monotonic() < end, "it never opens in time"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(params=["daemon", "ssh", "banner", "pushing"])
def silent(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A URL of a host that accepts and says nothing, or nothing of ours, and the options for it."""
    if request.param in ("banner", "pushing"):
        ssh = script(tmp_path / "ssh", 'case " $* " in *" -G "*) exit 1;; esac\necho Welcome; exec sleep 1000')
        yield "far:/", {"ssh_program": ssh, "push_binary": request.param == "pushing"}
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if request.param == "daemon":
            yield f"fobs://127.0.0.1:{port}/", keys_of(served)
        else:
            yield f"ssh://127.0.0.1:{port}/", {"ssh_option": ["BatchMode=yes"]}


def test_a_host_that_says_nothing_is_given_up_by_every_call(
    silent: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    url, options = silent
    (tmp_path / "x").write_bytes(b"x")

    async def opened() -> None:
        await fobs.Session.open_async(url, timeout=1, **options)

    async def copied() -> None:
        await fobs.cp_async(tmp_path / "x", url, timeout=1, **options)

    calls: list[Callable[[], Any]] = [
        lambda: fobs.Session(url, timeout="1s", **options),
        lambda: asyncio.run(opened()),
        lambda: fobs.cp(tmp_path / "x", url, timeout=1.0, **options),
        lambda: fobs.cp(f"{url}y", tmp_path / "y", timeout=1, **options),
        lambda: asyncio.run(copied()),
        lambda: fobs.start_cp(tmp_path / "x", url, timeout=1, **options).wait(),
        lambda: fobs.sync(tmp_path / "x", url, timeout=1, **options),
        lambda: fobs.sync(f"{url}tree/", tmp_path / "tree", timeout=1, **options),
    ]
    for call in calls:
        with pytest.raises(fobs.TransferTimeoutError, match="within|says nothing"):
            call()
    assert not (tmp_path / "y").exists()


def test_a_file_system_gives_up_a_host_that_says_nothing(served: Served) -> None:
    fsspec = pytest.importorskip("fsspec")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        fs = fsspec.filesystem("fobs", host="127.0.0.1", port=port, timeout=1, skip_instance_cache=True, **keys_of(served))
        calls: list[Callable[[], Any]] = [
            lambda: fs.exists("/x"), lambda: fs.ls("/"), lambda: fs.find("/"), lambda: fs.cat("/x"),
            lambda: fs.open("/x", "rb"), lambda: fs.pipe("/x", b"x"), lambda: fs.rm("/x"), lambda: fs.isdir("/x"),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(TimeoutError):
                call()


@pytest.mark.parametrize("carrier", ["daemon", "ssh"])
def test_a_server_that_falls_silent_is_given_up_by_every_call(carrier: str, tmp_path: Path) -> None:
    served = Served(tmp_path / "served")
    # Runs the far command here, as a process group of its own; where it says nothing, a second
    # connection does not help.
    still, group = tmp_path / "still", tmp_path / "group"
    far = f'exec setsid --wait sh -c \'echo $$ > {group}; exec sh -c "$1"\' far "$last"'
    lines = ["for last; do :; done", '[ "$1" = -G ] && exit 1', f"[ -e {still} ] && exec sleep 1000", far]
    ssh = script(tmp_path / "ssh", "\n".join(lines))
    fobs_path = Path(os.environ.get("FOBS", "fobs"))
    calls: list[Callable[[fobs.Session], Any]] = [
        lambda session: session.stat("x"), lambda session: session.get_range("x", 0, 10),
        lambda session: session.put_bytes("y", b"small"), lambda session: session.put_bytes("y", bytes(1_000_000)),
        lambda session: session.get("x", tmp_path / "got"), lambda session: session.walk(),
        lambda session: session.rename("x", "y"), lambda session: asyncio.run(session.ls_async()),
    ]  # fmt: skip
    try:
        for call in calls:
            (served.root / "x").write_bytes(bytes(100_000))
            if carrier == "daemon":
                session, stopped = in_time(lambda: served.open(timeout=1)), served.process.pid
            else:
                options: Any = {"timeout": 1, "ssh_program": ssh, "fobs_path": fobs_path}
                session = in_time(lambda options=options: fobs.Session(f"far:{served.root}", **options))
                stopped = -int(group.read_text())
            stop(stopped)
            still.touch()
            try:
                with pytest.raises(fobs.TransferTimeoutError):
                    call(session)
            finally:
                os.kill(stopped, signal.SIGCONT)
                # Before another connection is possible, which would have a group of its own.
                session.close()
                still.unlink()
    finally:
        served.process.send_signal(signal.SIGCONT)
        served.stop()


def test_sessions_and_copies_wait_for_a_host_that_drops_connections(ssh: dict[str, Any], tmp_path: Path) -> None:
    # Fails three times as an sshd at MaxStartups does, then is ssh.
    fake = tmp_path / "ssh"
    fake.write_text(
        f"""#!/bin/sh
case " $* " in *" -G "*) exec ssh "$@";; esac
n=$(cat {tmp_path}/tries 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/tries
if [ "$n" -lt 3 ]; then echo "kex_exchange_identification: Connection closed by remote host" >&2; exit 255; fi
exec ssh "$@"
"""
    )
    fake.chmod(0o755)
    with fobs.Session(f"far:{tmp_path}", ssh_program=fake, **ssh) as session:
        assert session.exists("tries")
    assert (tmp_path / "tries").read_text() == "4\n"
    (tmp_path / "tries").unlink()
    assert fobs.cp(fake, f"far:{tmp_path}/copy", ssh_program=fake, **ssh).files == 1
    assert (tmp_path / "tries").read_text() == "4\n"


def test_an_unknown_key_is_denied_by_every_call(served: Served, tmp_path: Path) -> None:
    subprocess.run([os.environ.get("FOBS", "fobs"), "keygen", "--out", tmp_path / "key"], check=True, stdout=-3)
    with served.open(identity=tmp_path / "key") as session:
        calls: list[Callable[[], Any]] = [
            lambda: session.ls(), lambda: session.stat("x"), lambda: session.stat("x", links=True),
            lambda: session.walk(), lambda: session.rename("x", "y"), lambda: session.put_bytes("x", b""),
            lambda: session.get_bytes("x"), lambda: session.put_bytes("x", bytes(1_000_000)),
            lambda: session.rm("x"), lambda: session.mkdir("x"), lambda: session.exists("x"),
            lambda: fobs.cp(__file__, served.url, **{**served.keys, "identity": tmp_path / "key"}),
        ]  # fmt: skip
        for call in calls * 2:
            with pytest.raises(fobs.AccessDeniedError, match="not among this server's authorized keys"):
                call()


@pytest.mark.parametrize("verb", ["get", "cp", "get_file", "put"])
def test_processes_that_want_one_place_wait_for_each_other(
    served: Served, tmp_path: Path, content: Content, verb: str
) -> None:
    pytest.importorskip("fsspec")
    cache, data = tmp_path / "cache", content(3_000_000)
    cache.mkdir()
    (served.root / "x").write_bytes(data)
    (tmp_path / "source").write_bytes(data)
    # The first one is slow enough for the others to meet it.
    program = f"""
        import fobs, fsspec, sys
        keys, url, cache = {keys_of(served)!r}, {served.url!r}, {str(cache / "x")!r}
        keys["rate"] = 40e6
        if {verb!r} == "get":
            print(fobs.Session(url, **keys).get("x", cache).resumed_bytes)
        elif {verb!r} == "cp":
            print(fobs.cp(url + "x", cache, **keys).resumed_bytes)
        elif {verb!r} == "put":
            print(fobs.Session(url, **keys).put({str(tmp_path / "source")!r}, "put").resumed_bytes)
        else:
            fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **keys).get_file("/x", cache)
            print(0)
    """
    running = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    found = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 6
    if verb == "put":
        assert (served.root / "put").read_bytes() == data and sorted(os.listdir(served.root)) == ["put", "x"]
    else:
        assert (cache / "x").read_bytes() == data and os.listdir(cache) == ["x"]
    if verb in ("get", "cp"):
        # But for its last piece, which is no whole group of the hash.
        assert any(int(line) > 2_900_000 for line in found), "what another one brought is found there"


def test_threads_tasks_and_sessions_that_want_one_place_wait(served: Served, tmp_path: Path, content: Content) -> None:
    data = content(2_000_000)
    (served.root / "x").write_bytes(data)
    failures: list[BaseException] = []

    def work(session: fobs.Session) -> None:
        try:
            session.get("x", tmp_path / "x", rate=40e6)
        except BaseException as error:
            failures.append(error)

    with served.open() as one, served.open() as two:
        threads = [threading.Thread(target=work, args=(session,)) for session in (one, two) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

        async def tasks() -> None:
            sessions = (one, two, *[await fobs.Session.open_async(served.url, **served.keys) for _ in range(2)])
            await asyncio.gather(*[session.get_async("x", tmp_path / "y", rate=40e6) for session in sessions * 2])
            for session in sessions[2:]:
                session.close()

        asyncio.run(tasks())
    assert not failures
    assert (tmp_path / "x").read_bytes() == data and (tmp_path / "y").read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]


def test_a_place_that_stays_taken_is_an_error_in_the_end(served: Served, tmp_path: Path, content: Content) -> None:
    (served.root / "x").write_bytes(content(4_000_000))
    with served.open() as one, served.open() as two:
        running = one.start_get("x", tmp_path / "x", rate=2e6)
        while not running.progress.bytes:
            pass
        with pytest.raises(fobs.DestinationError, match="another copy into it is running"):
            two.get("x", tmp_path / "x", timeout=1)
        waiting = two.start_get("x", tmp_path / "x")
        waiting.cancel()
        with pytest.raises(fobs.CancelledError):
            waiting.wait()
        running.cancel()
        with pytest.raises(fobs.CancelledError):
            running.wait()


def is_static(program: Path) -> bool:
    """Whether it names no dynamic linker."""
    head = program.open("rb").read(4096)
    (table,), (count,) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<H", head, 56)
    return all(struct.unpack_from("<I", head, table + at * 56)[0] != 3 for at in range(count))


def test_the_program_that_was_installed_is_sent_to_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The interpreter's own directory, which a virtual environment does not have, is no place for it.
    from fobs import _options

    program = shutil.which(os.environ.get("FOBS", "fobs")) or os.environ["FOBS"]
    home = f"HOME={tmp_path}/home; export HOME; unset XDG_CACHE_HOME"
    run = 'PATH=/usr/bin:/bin exec sh -c "$last"'
    far = script(tmp_path / "ssh", f'case " $* " in *" -G "*) exit 1;; esac\nfor last; do :; done\n{home}\n{run}')
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(_options, "_installed", lambda: [program])
    assert _options.named({"push_binary": True}) == [("push_binary", "true"), ("_program", program)]
    assert _options.named({"push_binary": False}) == [("push_binary", "false")]
    if not is_static(Path(program)):
        # Of the shipped wheel, the program is.
        with pytest.raises(fobs.RemoteMissingError, match="no static program"):
            fobs.Session(f"far:{tmp_path}", ssh_program=far, push_binary=True)
        return
    with fobs.Session(f"far:{tmp_path}", ssh_program=far, push_binary=True) as session:
        assert session.put_bytes("x", b"sent").bytes == 4
    assert (tmp_path / "x").read_bytes() == b"sent"
    assert list((tmp_path / "home/.cache/fobs").rglob("fobs"))
