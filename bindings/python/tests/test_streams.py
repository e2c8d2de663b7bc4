"""Byte streams: what two programs write each other, how one end hears of the other's, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import io
import select
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fobs

from .conftest import Served

Content = Callable[[int], bytes]


@pytest.fixture
def joins(served: Served) -> Iterator[Served]:
    served.authorize("pipe-names")
    yield served


def call(served: Served, name: str = "name") -> fobs.Stream:
    """Until the other end listens."""
    while True:
        try:
            return fobs.stream(served.url + name, **served.keys)
        except fobs.SourceError:
            pass


def met(served: Served) -> tuple[fobs.Stream, fobs.Stream]:
    """One that listened, and one that asked for it."""
    with ThreadPoolExecutor() as pool:
        listening = pool.submit(lambda: fobs.stream(served.url, listen="name", wait=60, **served.keys))
        caller = call(served)
        return listening.result(), caller


def test_what_each_end_writes_the_other_one_reads(joins: Served, content: Content) -> None:
    up, down = content(6_000_000), content(2_000_003)

    def talk(stream: fobs.Stream, mine: bytes, theirs: bytes) -> None:
        with stream, ThreadPoolExecutor() as pool:

            def write() -> None:
                assert stream.write(mine) == len(mine)
                stream.end_writing()

            writing = pool.submit(write)
            assert stream.readall() == theirs
            writing.result()
            assert stream.wait() == 0 and stream.verified == len(mine)

    with ThreadPoolExecutor() as pool:
        listener, caller = met(joins)
        ends = [pool.submit(talk, listener, down, up), pool.submit(talk, caller, up, down)]
        for end in ends:
            end.result()
    assert listener.closed and caller.closed


def test_a_stream_is_a_raw_binary_file(joins: Served) -> None:
    listener, caller = met(joins)
    assert isinstance(caller, io.RawIOBase) and caller.readable() and caller.writable() and not caller.seekable()
    text = io.TextIOWrapper(io.BufferedWriter(caller), encoding="utf-8")
    text.write("ein Satz\nund noch einer\n")
    text.flush()
    lines = io.BufferedReader(listener)
    assert lines.readline() == b"ein Satz\n" and lines.readline() == b"und noch einer\n"
    assert not select.select([listener.fileno()], [], [], 0)[0]
    caller.write(b"now")
    assert select.select([listener.fileno()], [], [])[0]
    assert listener.read(100) == b"now" and listener.read(0) == b""
    closing = threading.Thread(target=listener.close)
    closing.start()
    caller.close()
    closing.join()
    caller.close()
    for use in (lambda: caller.read(1), lambda: caller.write(b"x"), caller.fileno):
        with pytest.raises(ValueError):
            use()


def test_an_exception_or_the_collector_is_no_end_of_data(joins: Served) -> None:
    for ends in ("exception", "collector"):
        listener, caller = met(joins)
        caller.write(b"half")
        assert listener.read(4) == b"half"
        if ends == "exception":
            with pytest.raises(KeyError), caller:
                raise KeyError("what it was about")
        else:
            del caller
            gc.collect()
        with pytest.raises(fobs.Error, match="gave up its end"):
            listener.read(1)
        with pytest.raises(fobs.Error, match="4 bytes had"):
            listener.close()
        assert listener.closed


def test_an_abort_ends_a_read_of_another_thread(joins: Served) -> None:
    listener, caller = met(joins)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(caller.read, 1)
        listener.abort("the tape is torn")
        with pytest.raises(fobs.Error, match="the tape is torn"):
            reading.result()
    assert listener.closed
    caller.abort()


def test_an_abort_here_ends_reads_and_writes_of_other_threads(joins: Served) -> None:
    for round in range(20):
        listener, caller = met(joins)
        with ThreadPoolExecutor() as pool:
            # A write that is more than fits: the other end reads nothing.
            waiting = [pool.submit(caller.read, 1), pool.submit(caller.write, bytes(64 << 20))]
            if round % 2:
                assert listener.read(1) == b"\0"
            caller.abort("the tape is torn")
            for call in waiting:
                # One that has not begun finds it closed.
                with pytest.raises((fobs.Error, ValueError), match="the tape is torn|closed"):
                    call.result()
        assert caller.closed
        with pytest.raises(ValueError):
            caller.read(1)
        listener.abort()


def test_one_that_reads_no_more_is_a_broken_pipe(joins: Served, content: Content) -> None:
    listener, caller = met(joins)
    closing = threading.Thread(target=listener.close)
    closing.start()
    with pytest.raises(BrokenPipeError):
        while True:
            caller.write(content(1_000_000))
    caller.close()
    closing.join()


def test_a_command_tells_its_exit_code_and_errors(ssh: dict[str, Any], content: Content) -> None:
    with fobs.Session("far:", **ssh) as session:
        with session.stream(command=["printf", "%s|", "a b", "$HOME"]) as stream:
            assert stream.read(100) == b"a b|$HOME|"
        with session.stream(command="cat") as stream:
            data = content(300_000)
            writing = threading.Thread(target=lambda: (stream.write(data), stream.end_writing()))
            writing.start()
            assert stream.readall() == data
            writing.join()
        stream = session.stream(command="echo wrong >&2; exit 7", stderr=True)
        assert stream.stderr is not None and stream.stderr.read() == b"wrong\n"
        with pytest.raises(subprocess.CalledProcessError, match="7"):
            stream.close()
        stream = session.stream(command="exit 7")
        assert stream.wait() == 7
        stream.close()
        # It wrote what nobody read: that is how it is with pipes.
        with session.stream(command="cat /dev/zero") as stream:
            assert stream.read(10) == bytes(10)


def test_a_stream_is_copied_to_and_from(joins: Served, tmp_path: Path, content: Content) -> None:
    (tmp_path / "from").write_bytes(content(1_000_000))
    listener, caller = met(joins)

    def receive() -> None:
        with listener, (tmp_path / "to").open("wb") as file:
            shutil.copyfileobj(listener, file)

    receiving = threading.Thread(target=receive)
    receiving.start()
    with caller, (tmp_path / "from").open("rb") as file:
        shutil.copyfileobj(file, caller)
    receiving.join()
    assert (tmp_path / "to").read_bytes() == content(1_000_000)


def test_what_cannot_be_opened_says_why(joins: Served) -> None:
    def refused(error: type[Exception], match: str, *words: Any, **more: Any) -> None:
        with pytest.raises(error, match=match):
            fobs.stream(*words, **{**joins.keys, **more})

    refused(fobs.SourceError, "nothing|no pipe listens", joins.url + "nobody")
    refused(fobs.TransferTimeoutError, "nobody asked", joins.url, listen="alone", wait=0.05)
    refused(fobs.UsageError, "command", joins.url, "id")
    refused(fobs.UsageError, "one of both", joins.url, "id", listen="x")
    refused(fobs.UsageError, "no time", joins.url, listen="x", wait=-1)
    refused(fobs.UsageError, "no time", joins.url, listen="x", wait=float("nan"))
    refused(fobs.UsageError, "names at a daemon", "localhost:", listen="x")
    with pytest.raises(fobs.UsageError):
        fobs.Stream()
    joins.authorize("read-write")
    refused(fobs.AccessDeniedError, "pipe-names", joins.url + "name")


async def opened(served: Served) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async def calling() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                return await fobs.stream_async(served.url + "name", **served.keys)
            except fobs.SourceError:
                pass

    listening = fobs.stream_async(served.url, listen="name", wait=60, **served.keys)
    return list(await asyncio.gather(listening, calling()))


def test_tasks_read_and_write(joins: Served, content: Content) -> None:
    up, down = content(5_000_000), content(1_000_001)

    async def talk(ends: Any, mine: bytes, theirs: bytes) -> None:
        reader, writer = ends

        async def write() -> None:
            for at in range(0, len(mine), 100_000):
                writer.write(mine[at : at + 100_000])
                await writer.drain()
            writer.write_eof()

        wrote = asyncio.create_task(write())
        assert await reader.read() == theirs
        await wrote
        writer.close()
        await writer.wait_closed()

    async def both() -> None:
        listener, caller = await opened(joins)
        await asyncio.gather(talk(listener, down, up), talk(caller, up, down))

    asyncio.run(both())


def test_tasks_hear_of_a_failure_and_of_one_that_reads_no_more(joins: Served, content: Content) -> None:
    async def fails() -> None:
        for way in ("abort", "collector"):
            (reader, kept), (_, gone) = await opened(joins)
            gone.write(b"half")
            assert await reader.readexactly(4) == b"half"
            if way == "abort":
                gone.transport.abort()
            else:
                del gone
                gc.collect()
            with pytest.raises(fobs.Error, match="gave up its end"):
                await reader.read(1)
            kept.close()

    async def closes() -> None:
        (_, closing), (_, writer) = await opened(joins)
        closing.close()
        with pytest.raises(BrokenPipeError):
            while True:
                writer.write(content(1_000_000))
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()
        await closing.wait_closed()

    async def drops() -> None:
        # One who keeps the reader alone does not take what had come for everything.
        (reader, given_up), (_, writer) = await opened(joins)
        writer.write(b"half")
        assert await reader.readexactly(4) == b"half"
        del given_up
        gc.collect()
        with pytest.raises(fobs.Error, match="gave up its end"):
            await reader.read()

    async def keeps() -> None:
        # All had come before.
        (reader, given_up), (_, writer) = await opened(joins)
        writer.write(b"whole")
        writer.write_eof()
        while not reader._eof:
            await asyncio.sleep(0.01)
        given_up.transport.abort()
        assert await reader.read() == b"whole"

    asyncio.run(fails())
    asyncio.run(closes())
    asyncio.run(drops())
    asyncio.run(keeps())
