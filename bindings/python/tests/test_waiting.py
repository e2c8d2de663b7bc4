"""Waiting: interrupts, threads, event loops, forks, the end of the interpreter; and what waiting costs."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fobs

from .conftest import Served

Content = Callable[[int], bytes]


def counts() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def settles(before: tuple[int, int]) -> bool:
    """Whether descriptors and threads come to no more than before: on a busy machine a thread ends a little late."""
    end = time.monotonic() + 30
    while counts()[0] > before[0] or counts()[1] > before[1]:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def memory(line: str = "VmRSS") -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(row.split()[1]) for row in status.splitlines() if row.startswith(line))


def run(program: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=90, **more
    )


def keys_of(served: Served) -> dict[str, str]:
    return {name: str(path) for name, path in served.keys.items()}


def test_an_interrupt_cancels_and_nothing_is_delivered_later(
    served: Served, tmp_path: Path, content: Content
) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "here").write_bytes(content(1_000_000))
    (served.root / "there").write_bytes(content(1_000_000))
    running = []
    one, several = ("put_file", "get_file", "pipe_file", "cat_file", "close", "session"), ("pipe", "put", "get", "text")
    for call in (*one, *several):
        for how in ("SIGINT", "alarm"):
            new = f"{call}-{how}"
            program = f"""
                import fobs, fsspec, os, signal, threading, time
                class Alarm(Exception): pass
                def ring(*_): raise Alarm
                signal.signal(signal.SIGALRM, ring)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                keys = dict(rate=2_000_000, **{keys_of(served)!r})
                fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **keys)
                session = fobs.Session({served.url!r}, **keys)
                fs.exists("/x")
                file = fs.open("/{new}", "wb")
                file.write(bytes(1_000_000))
                if {how!r} == "alarm":
                    signal.setitimer(signal.ITIMER_REAL, 0.7)
                else:
                    threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                try:
                    {{
                        "put_file": lambda: fs.put_file({str(tmp_path / "here")!r}, "/{new}"),
                        "get_file": lambda: fs.get_file("/there", {str(tmp_path / new)!r}),
                        "pipe_file": lambda: fs.pipe_file("/{new}", bytes(1_000_000)),
                        "cat_file": lambda: fs.cat_file("/there"),
                        "close": lambda: file.close(),
                        "pipe": lambda: fs.pipe({{"/{new}": bytes(1_000_000), "/{new}2": bytes(1_000_000)}}),
                        "put": lambda: fs.put([{str(tmp_path / "here")!r}], ["/{new}"]),
                        "get": lambda: fs.get(["/there"], [{str(tmp_path / new)!r}]),
                        "text": lambda: fs.write_text("/{new}", "x" * 1_000_000),
                        "session": lambda: session.put_bytes("{new}", bytes(1_000_000)),
                    }}[{call!r}]()
                    print("ended")
                except (KeyboardInterrupt, Alarm):
                    # Longer than what was left of the transfer.
                    time.sleep(4)
                    print("interrupted")
            """
            command = [sys.executable, "-c", textwrap.dedent(program)]
            running.append((new, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
    for new, process in running:
        assert (new, process.communicate(timeout=90)[0]) == (new, "interrupted\n")
        assert not (served.root / new).exists() and not (tmp_path / new).exists()


def test_a_timeout_goes_by_the_clock(session: fobs.Session, content: Content) -> None:
    job = session.start_put_bytes("slow", content(4_000_000), rate=1_000_000)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        job.wait(timeout=1.5, progress=lambda _: time.sleep(0.6))
    assert time.monotonic() - began < 3.5
    job.cancel()


def test_each_that_awaits_a_job_wakes(served: Served, content: Content) -> None:
    async def two() -> None:
        session = await fobs.Session.open_async(served.url, **served.keys)
        job = session.start_put_bytes("x", content(300_000), rate=4_000_000)
        waits = [asyncio.create_task(job._wait_async()) for _ in range(2)]
        thread = asyncio.to_thread(job.wait)
        results = await asyncio.wait_for(asyncio.gather(*waits, thread), 60)
        assert [result.bytes for result in results] == [300_000] * 3
        assert (await job).bytes == 300_000
        session.close()

    asyncio.run(two())
    asyncio.run(two())


def test_two_loops_use_one_session(session: fobs.Session) -> None:
    failures: list[BaseException] = []

    async def some() -> None:
        for number in range(20):
            await session.put_bytes_async(f"{number}", b"x")
            assert await session.exists_async(f"{number}")

    def work() -> None:
        try:
            asyncio.run(some())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_many_calls_at_once_cost_one_thread_and_one_descriptor(served: Served) -> None:
    session = served.open()
    session.put_bytes("x", bytes(100_000))
    descriptors, threads = counts()
    highest = [0, 0]

    async def gathered() -> float:
        async def look() -> None:
            for _ in range(20):
                highest[:] = [max(pair) for pair in zip(highest, counts(), strict=True)]
                await asyncio.sleep(0.02)

        watch = asyncio.create_task(look())
        began = time.monotonic()
        await asyncio.gather(*(session.stat_async("x") for _ in range(1000)))
        await asyncio.gather(*(session.get_range_async("x", at, 100) for at in range(1000)))
        took = time.monotonic() - began
        await watch
        return took

    together = asyncio.run(gathered())
    assert highest[0] - descriptors < 20 and highest[1] - threads < 10, highest
    began = time.monotonic()
    for at in range(400):
        session.get_range("x", at, 100)
    one_by_one = (time.monotonic() - began) * 5
    print(f"2,000 calls gathered {together:.2f} s, one by one {one_by_one:.2f} s")
    # A thread a call, all woken at each turn, takes thirty times as long; the machine may be busy.
    assert together < one_by_one * 5
    session.close()


def test_small_requests_pass_a_transfer(session: fobs.Session, content: Content) -> None:
    session.put_bytes("x", b"x")
    job = session.start_put_bytes("slow", content(2_000_000), rate=4_000_000)
    time.sleep(0.3)
    began = time.monotonic()
    assert session.stat("x").size == 1 and session.exists("x") and session.ls()
    session.rename("x", "y")
    assert not job.done and time.monotonic() - began < 3
    assert job.wait().bytes == 2_000_000


def test_failures_leave_nothing_without_the_collector(served: Served) -> None:
    session = served.open(timeout=5)
    session.put_bytes("x", b"x")

    def fail(times: int) -> None:
        for _ in range(times):
            for act in (lambda: session.get_bytes("none"), lambda: session.stat("none"), lambda: session.mkdir("x")):
                try:
                    act()
                except OSError:
                    pass

    async def fail_async(times: int) -> None:
        for _ in range(times):
            try:
                await session.get_bytes_async("none")
            except OSError:
                pass

    gc.collect()
    gc.disable()
    try:
        fail(20)
        asyncio.run(fail_async(20))
        before, begun = counts(), memory()
        fail(300)
        asyncio.run(fail_async(300))
        assert memory() - begun < 10_000
        assert settles(before), f"{counts()} beside {before}"
        # Buffers that were lent come back at once.
        data = bytearray(1000)
        for _ in range(20):
            with pytest.raises(OSError):
                session.get_into("none", data)
        data.extend(b"more")
    finally:
        gc.enable()
    session.close()


def test_a_dropped_job_is_cancelled_whichever_call_started_it(served: Served, content: Content, tmp_path: Path) -> None:
    session = served.open()
    data, here = content(2_000_000), tmp_path / "here"
    here.write_bytes(data)
    starts: list[Callable[[], Any]] = [
        lambda: session.start_put(here, "new", rate=2_000_000),
        lambda: session.start_put_bytes("new", data, rate=2_000_000),
        lambda: fobs.start_cp(here, f"{served.url}new", rate=2_000_000, **served.keys),
    ]
    for start in starts:
        job = start()
        time.sleep(0.5)
        del job
    assert session.put_bytes("after", b"x").files == 1, "and the session is free soon"
    time.sleep(1.0)
    assert not (served.root / "new").exists()
    session.close()


def test_memory_has_what_was_received_once_and_not_when_it_is_dropped(session: fobs.Session, served: Served) -> None:
    size = 200 << 20
    with (served.root / "large").open("wb") as file:
        file.truncate(size)
    session.get_bytes("large", rate=None)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory()
    got = session.get_bytes("large")
    assert len(got) == size
    highest = memory("VmHWM") - before
    print(f"{highest >> 10} MiB for 200 MiB")
    assert highest < (size >> 10) * 1.45
    del got
    job = session.start_get_bytes("large")
    while not job.done:
        time.sleep(0.01)
    del job
    time.sleep(0.3)
    assert memory() - before < 60_000


def test_buffers_of_objects_are_refused(session: fobs.Session) -> None:
    numpy = pytest.importorskip("numpy")
    session.put_bytes("x", bytes(800))
    pair = numpy.dtype([("number", "i8"), ("Object", "O")])
    for array in (numpy.empty(100, dtype=object), numpy.empty(100, dtype=pair)):
        with pytest.raises(fobs.UsageError, match="objects"):
            session.get_into("x", array)
        with pytest.raises(fobs.UsageError, match="objects"):
            session.put_bytes("y", array)
    for kind in (ctypes.c_char_p, ctypes.c_wchar_p, ctypes.c_void_p, ctypes.py_object, ctypes.POINTER(ctypes.c_int)):
        with pytest.raises(fobs.UsageError, match="pointers"):
            session.get_into("x", (kind * 200)())
    for dtype in ([("Only", "f8")], "c16", "M8[ns]", "S8"):
        assert session.get_into("x", numpy.zeros(100, dtype=dtype)) == 800
    with pytest.raises(fobs.UsageError, match="no buffer"):
        session.put_bytes("y", "text")


def test_a_default_sigpipe_ends_no_program(ssh: dict[str, Any], tmp_path: Path) -> None:
    options = {name: str(value) for name, value in ssh.items()}
    program = f"""
        import fobs, os, signal, subprocess, time
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        session = fobs.Session("far:{tmp_path}", **{options!r})
        session.put_bytes("x", b"x")
        children = subprocess.run(["pgrep", "-P", str(os.getpid()), "-x", "ssh"], capture_output=True, text=True)
        for child in children.stdout.split():
            os.kill(int(child), signal.SIGKILL)
        time.sleep(0.3)
        print(session.get_bytes("x"))
    """
    seen = run(program)
    assert (seen.returncode, seen.stdout) == (0, "b'x'\n"), (seen.returncode, seen.stderr)


def test_ignored_children_do_not_disturb(ssh: dict[str, Any], tmp_path: Path) -> None:
    options = {name: str(value) for name, value in ssh.items()}
    program = f"""
        import fobs, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with fobs.Session("far:{tmp_path}", **{options!r}) as session:
            session.put_bytes("x", b"x")
            print(session.get_bytes("x"))
    """
    seen = run(program)
    assert (seen.returncode, seen.stdout) == (0, "b'x'\n"), (seen.returncode, seen.stderr)


def test_closing_does_not_wait_for_a_forked_child(ssh: dict[str, Any], tmp_path: Path) -> None:
    session = fobs.Session(f"far:{tmp_path}", **ssh)
    session.put_bytes("x", b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 5
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_file_system_works_in_a_forked_child(served: Served) -> None:
    fsspec = pytest.importorskip("fsspec")
    (served.root / "x").write_bytes(b"here")
    fs = fsspec.filesystem("fobs", host="127.0.0.1", port=served.port, skip_instance_cache=True, **keys_of(served))
    assert fs.cat_file("/x") == b"here"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if fs.cat_file("/x") == b"here" else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fs.cat_file("/x") == b"here"
    fs.close()


def test_the_words_of_ssh_are_in_the_exception(ssh: dict[str, Any], tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Include {ssh['ssh_config']}\nHost far\n  IdentityFile /nowhere\n")
    broken = {**ssh, "ssh_config": config, "ssh_option": "NoSuchOption=1"}
    with pytest.raises(fobs.SshError, match="(?i)nosuchoption"):
        fobs.Session(f"far:{tmp_path}", **broken)


def test_a_new_key_is_a_warning_that_can_be_an_error(served: Served, tmp_path: Path) -> None:
    fresh = {**served.keys, "known_hosts": tmp_path / "known"}
    with pytest.raises(fobs.AccessDeniedError, match="not in"):
        fobs.Session(served.url, strict_host_key=True, **fresh)
    assert not (tmp_path / "known").exists()
    with pytest.warns(fobs.NoticeWarning, match="pinned"):
        fobs.Session(served.url, **fresh).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fobs.NoticeWarning)
        fobs.Session(served.url, strict_host_key=True, **fresh).close()
        with pytest.raises(fobs.NoticeWarning):
            fobs.Session(served.url, **{**fresh, "known_hosts": tmp_path / "other"})


def test_options_have_units_and_are_of_one_table(served: Served) -> None:
    numpy = pytest.importorskip("numpy")
    from fobs._options import named

    for least in ("1Mbit/30s", ("1M", 30)):
        assert named({"min_rate": least}) == [("min_rate", "1000000bit/30.0")]
    assert named({"min_rate": (1e6, "30s")}) == [("min_rate", "1000000/30.0")]
    assert named({"min_rate": "1MB/s/2m"}) == [("min_rate", "8000000bit/120.0")]
    for bad in ("1Mbit", 7, ("1M",)):
        with pytest.raises(fobs.UsageError, match="min_rate"):
            named({"min_rate": bad})
    assert named({"rate": "100M", "memory": "64MiB", "timeout": "2m", "port": numpy.int64(22)}) == [
        ("rate", "100000000bit"), ("memory", "67108864"), ("timeout", "120.0"), ("port", "22"),
    ]  # fmt: skip
    assert named({"rate": "1.5MiB/s", "udp_ports": (5, 7), "recursive": numpy.bool_(True), "cc": None}) == [
        ("rate", "12582912bit"), ("udp_ports", "5-7"), ("recursive", "true"),
    ]  # fmt: skip
    assert named({"identity": b"/a\xff"}) == [("identity", "/a\udcff")]
    for bad in ({"rate": "fast"}, {"rate": True}, {"recursive": "yes"}, {"port": 2.5}, {"memory": "8Mbit"}):
        with pytest.raises(fobs.UsageError, match=next(iter(bad))):
            served.open(**bad)
    for small in (100, "100", 99_999, ("100", 30)):
        with pytest.raises(fobs.UsageError, match="if that is meant"):
            served.open(**{"min_rate" if isinstance(small, tuple) else "rate": small})
    served.open(rate="100bit").close()
    # Those that it has are those of the command.
    with pytest.raises(fobs.UsageError, match="there are ") as seen:
        served.open(nothing="1")
    known = str(seen.value).partition("there are ")[2].split(", ")
    assert sorted(known) == sorted(fobs.Options.__annotations__)


def test_one_pattern_is_one_pattern(served: Served, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for name in ("a.tmp", "keep", "t"):
        (tmp_path / "tree" / name).write_bytes(b"x")
    for exclude in ("*.tmp", ["*.tmp"], b"*.tmp"):
        fobs.sync(f"{tmp_path}/tree/", f"{served.url}to", exclude=exclude, delete=True, **served.keys)
        assert sorted(os.listdir(served.root / "to")) == ["keep", "t"]


def test_progress_may_be_a_coroutine(session: fobs.Session, content: Content) -> None:
    seen: list[int] = []

    async def told(progress: fobs.Progress) -> None:
        await asyncio.sleep(0)
        seen.append(progress.bytes)

    asyncio.run(session.put_bytes_async("x", content(500_000), progress=told))
    assert seen[-1] == 500_000
