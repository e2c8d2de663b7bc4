"""The end of the interpreter while threads are within calls."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from .conftest import Served


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=90)


def keys_of(served: Served) -> dict[str, str]:
    return {name: str(path) for name, path in served.keys.items()}


def test_threads_inside_calls_do_not_disturb_the_end(served: Served) -> None:
    program = f"""
        import fobs, threading, time
        session = fobs.Session({served.url!r}, **{keys_of(served)!r})
        def work(call):
            while True:
                call()
        calls = [
            lambda: session.put_bytes("x", bytes(300_000), rate=1_000_000),
            lambda: session.exists("x"),
            lambda: session.get_range("x", 0, 10),
            lambda: fobs.Session({served.url!r}, **{keys_of(served)!r}).close(),
        ]
        for call in calls:
            threading.Thread(target=work, args=(call,), daemon=True).start()
        time.sleep(0.7)
    """
    for _ in range(3):
        seen = run(program)
        assert seen.returncode == 0, (seen.returncode, seen.stderr)


@pytest.mark.parametrize("what", ["session", "fsspec"])
def test_threads_whose_calls_fail_do_not_disturb_the_end(served: Served, what: str) -> None:
    # Exceptions are Python's code, during which another thread may end the interpreter: with the shortest turns it does.
    program = f"""
        import fobs, sys, threading, time
        keys = {keys_of(served)!r}
        session = fobs.Session({served.url!r}, **keys)
        calls = [
            lambda: session.put_bytes("x", 17),
            lambda: session.get_into("x", b"read-only"),
            lambda: session.put_bytes("x", b"", cc="none"),
            lambda: session.get_range("none", 0, 1),
            lambda: fobs.Session("not a URL://", **keys),
            lambda: fobs.cp("/none", "/neither", **keys),
        ]
        if {what!r} == "fsspec":
            import fsspec
            fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, **keys)
            calls = [lambda: fs.cat("/none"), lambda: fs.ls("/"), lambda: fs.open("/none"), lambda: fs.info("h:1/x")]
        def work():
            while True:
                for call in calls:
                    try:
                        call()
                    except Exception:
                        pass
        sys.setswitchinterval(1e-6)
        for _ in range(8):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.4)
    """
    for _ in range(4):
        seen = run(program)
        assert seen.returncode == 0, (seen.returncode, seen.stderr)
