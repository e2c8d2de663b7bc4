"""A notebook's kernel: its stop button, and calls while its event loop runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Served

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")
pytest.importorskip("fsspec")

# How long a cell may take, in seconds: the machine may be busy.
CELL_WAIT = 90
# Slow enough that a call still runs when the stop arrives: 1 MB in 8 s.
RATE = 1_000_000


class Kernel:
    """One kernel, and what its cells say."""

    def __init__(self) -> None:
        self.manager, self.client = jupyter_client.manager.start_new_kernel(kernel_name="python3", startup_timeout=CELL_WAIT)

    def run(self, cell: str, stop_after: str | None = None) -> tuple[str, str]:
        """The name of the exception that ended a cell, and what it printed; stopped once it has printed a word."""
        message = self.client.execute(cell)
        printed, is_stopped = "", False
        while True:
            seen = self.client.get_iopub_msg(timeout=CELL_WAIT)
            if seen["parent_header"].get("msg_id") != message:
                continue
            if seen["msg_type"] == "stream":
                printed += seen["content"]["text"]
            if stop_after is not None and stop_after in printed and not is_stopped:
                is_stopped = True
                time.sleep(0.5)
                self.manager.interrupt_kernel()
            if seen["msg_type"] == "status" and seen["content"]["execution_state"] == "idle":
                break
        while (reply := self.client.get_shell_msg(timeout=CELL_WAIT))["parent_header"].get("msg_id") != message:
            pass
        return reply["content"].get("ename", ""), printed

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(served: Served) -> Iterator[Kernel]:
    kernel = Kernel()
    keys = {name: str(path) for name, path in served.keys.items()}
    begin = f"""
import asyncio, fobs, fsspec, os, warnings
warnings.simplefilter("ignore")
keys = {keys!r}
fs = fsspec.filesystem("fobs", host="127.0.0.1", port={served.port}, rate={RATE}, **keys)
session = fobs.Session({served.url!r}, rate={RATE}, **keys)
fs.exists("/"), session.exists("x")
data = os.urandom(1_000_000)
"""
    assert kernel.run(begin) == ("", ""), "the kernel has the package"
    yield kernel
    kernel.end()


#: What delivers to ``new``, a name of its own, there or here.
CALLS = {
    "pipe_file": "fs.pipe_file('/' + new, data)",
    "put": "fs.put(here, '/' + new)",
    "put_tree": "fs.put(os.path.dirname(here), '/' + new, recursive=True)",
    "get": "fs.get('/there', f'{out}/{new}')",
    "get_tree": "fs.get('/tree', f'{out}/{new}', recursive=True)",
    "cat": "fs.cat('/there')",
    "writer": "with fs.open('/' + new, 'wb') as file: file.write(data)",
    "text": "with fs.open('/' + new, 'w') as file: file.write('x' * 1_000_000)",
    "gzip": "with fs.open('/' + new, 'wb', compression='gzip') as file: file.write(data)",
    "session": "session.put_bytes(new, data)",
    "session_get": "session.get('there', f'{out}/{new}')",
    "job": "session.start_put_bytes(new, data).wait()",
    "cp": "fobs.cp(here, url + new, **slow)",
    "awaited": "await session.put_bytes_async(new, data)",
}


def test_the_stop_button_ends_each_call_and_nothing_comes_later(kernel: Kernel, served: Served, tmp_path: Path) -> None:
    here, out = tmp_path / "from/here", tmp_path / "out"
    here.parent.mkdir()
    out.mkdir()
    (served.root / "tree").mkdir()
    for path in (here, served.root / "there", served.root / "tree/x"):
        path.write_bytes(bytes(1_000_000))
    kernel.run(f"here, out, url, slow = {str(here)!r}, {str(out)!r}, {served.url!r}, dict(rate={RATE}, **keys)")
    for name, call in CALLS.items():
        cell = f"new = {name!r}\nprint('begins', flush=True)\n{call}\nprint('ended')"
        raised, printed = kernel.run(cell, stop_after="begins")
        assert raised in ("KeyboardInterrupt", "CancelledError") and "ended" not in printed, (name, raised, printed)
        assert kernel.run("print(fs.exists('/there'), session.exists('there'))") == ("", "True True\n"), name
    # Longer than any of them would have taken.
    time.sleep(9)
    files = [path.name for top in (served.root, out) for path in top.rglob("*") if path.is_file()]
    assert sorted(name for name in files if "fobs" not in name) == ["there", "x"]
    assert [name for name in files if "fobs-new" in name] == []


def test_blocking_and_awaited_calls_work_in_one_cell(kernel: Kernel) -> None:
    cell = """
fs.pipe('/a', b'1')
found = await asyncio.gather(*(session.stat_async('a') for _ in range(50)))
opened = await fobs.Session.open_async(session._url, **keys)
print(fs.cat('/a'), len(found), (await opened.get_bytes_async('a')), session.get_bytes('a'))
"""
    assert kernel.run(cell) == ("", "b'1' 50 b'1' b'1'\n")


def test_a_kernel_that_is_restarted_leaves_nothing_half_made(kernel: Kernel, served: Served) -> None:
    kernel.client.execute("fs.pipe_file('/new', data)")
    time.sleep(1.5)
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=CELL_WAIT)
    time.sleep(9)
    assert not (served.root / "new").exists()
    result: Any = kernel.run("import fobs; print(fobs.__version__ != '')")
    assert result == ("", "True\n")
