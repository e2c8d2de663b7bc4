"""Streams whose connections break: they go on over new ones while both programs live, and where they cannot, both are
told with the count of the bytes that had come. No end looks like one of the data, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import fobs

from .conftest import Served
from .relay import Relay

Content = Callable[[int], bytes]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

WINDOW = "8MiB"
WINDOW_SMALL = "64KiB"
BETWEEN_CUTS = 700_000
# More than two ends and all that is between them hold of a stream with WINDOW_SMALL.
MORE_THAN_FITS = 64 << 20
# How long one that is full takes nothing: on a busy machine it is full a little early.
FULL_S = 0.5
# Only a failing test waits so long, seconds.
PATIENCE = 60.0


class Behind:
    """A daemon behind a relay."""

    def __init__(self, served: Served) -> None:
        self.relay, self.keys = Relay(served.port), served.keys
        self.url = f"fobs://127.0.0.1:{self.relay.port}/"

    def met(self, **options: Any) -> tuple[fobs.Stream, fobs.Stream]:
        """One that listened, and one that asked for it."""
        options = {"resume_window": WINDOW, **self.keys, **options}
        with ThreadPoolExecutor() as pool:
            listening = pool.submit(lambda: fobs.stream(self.url, listen="broken", wait=60, **options))
            while True:
                try:
                    caller = fobs.stream(self.url + "broken", **options)
                    return listening.result(), caller
                except fobs.SourceError:
                    pass

    async def met_async(self, **options: Any) -> tuple[Ends, Ends]:
        options = {"resume_window": WINDOW, **self.keys, **options}

        async def calling() -> Ends:
            while True:
                try:
                    return await fobs.stream_async(self.url + "broken", **options)
                except fobs.SourceError:
                    pass

        listening = fobs.stream_async(self.url, listen="broken", wait=60, **options)
        listener, caller = await asyncio.gather(listening, calling())
        return listener, caller

    def lose(self) -> None:
        """Its connections break, and there are no new ones."""
        self.relay.refuse(True)
        self.relay.cut()


@pytest.fixture
def behind(served: Served) -> Iterator[Behind]:
    served.authorize("pipe-names")
    behind = Behind(served)
    yield behind
    behind.relay.close()


def in_mid_stream(behind: Behind, **options: Any) -> tuple[fobs.Stream, fobs.Stream]:
    listener, caller = behind.met(**options)
    caller.write(b"half")
    assert listener.read(4) == b"half"
    return listener, caller


def read_exactly(stream: fobs.Stream, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        data = stream.read(count - len(got))
        assert data, "an end that is none"
        got += data
    return bytes(got)


def close_both(*streams: fobs.Stream) -> None:
    with ThreadPoolExecutor() as pool:
        for closing in [pool.submit(stream.close) for stream in streams]:
            closing.result()


@pytest.mark.parametrize("transport", ["auto", "udp", "tcp", "ssh"])
def test_a_stream_goes_on_over_every_cut(behind: Behind, content: Content, transport: str) -> None:
    listener, caller = behind.met(transport=transport)
    data, reply = content(3_000_000), content(BETWEEN_CUTS)

    def write() -> None:
        assert caller.write(data) == len(data)
        caller.end_writing()

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        for at in range(0, len(data), BETWEEN_CUTS):
            piece = data[at : at + BETWEEN_CUTS]
            assert read_exactly(listener, len(piece)) == piece, at
            behind.relay.cut()
        assert listener.read(1) == b""
        writing.result()
    # The other direction is open alone.
    assert listener.write(reply) == len(reply)
    behind.relay.cut()
    assert read_exactly(caller, len(reply)) == reply
    close_both(listener, caller)


def test_a_polled_stream_waits_and_goes_on(behind: Behind) -> None:
    listener, caller = in_mid_stream(behind, resume_window=WINDOW_SMALL)
    behind.lose()
    assert not select.select([listener], [], [], 0)[0]
    # What it takes has a bound while its connection is away.
    total, block = 0, bytes(50_000)
    writing = threading.Thread(target=caller.write, args=(block,))
    while select.select([], [caller], [], FULL_S)[1]:
        caller.write(block)
        total += len(block)
        assert total < MORE_THAN_FITS
    writing.start()
    behind.relay.refuse(False)
    assert select.select([listener], [], [], PATIENCE)[0]
    assert read_exactly(listener, total + len(block)) == bytes(total + len(block))
    writing.join()
    assert select.select([], [caller], [], PATIENCE)[1]
    close_both(listener, caller)


@pytest.mark.parametrize("options", [{"resume_window": 0}, {"timeout": 2}], ids=["no window", "no connection"])
def test_both_ends_of_one_that_cannot_go_on_are_told(behind: Behind, options: dict[str, Any]) -> None:
    listener, caller = in_mid_stream(behind, **options)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(caller.read, 1)
        behind.lose()
        with pytest.raises(fobs.Error, match="0 bytes had come"):
            reading.result()
    assert select.select([listener], [], [], PATIENCE)[0]
    for use in (lambda: listener.read(1), lambda: listener.write(b"x"), listener.wait, listener.close):
        with pytest.raises(fobs.Error, match="4 bytes had come"):
            use()
    with pytest.raises(fobs.Error, match="0 bytes had come"):
        caller.close()
    assert listener.closed and caller.closed


def test_an_abort_ends_a_stream_whose_connection_is_away(behind: Behind) -> None:
    listener, caller = in_mid_stream(behind)
    behind.lose()
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(caller.read, 1)
        caller.abort("the tape is torn")
        with pytest.raises(fobs.Error, match="the tape is torn"):
            reading.result()
    # Leaving by an exception is one, too.
    with pytest.raises(KeyError), listener:
        raise KeyError("what it was about")
    assert listener.closed and caller.closed


def test_a_close_waits_over_a_cut_until_everything_is_there(behind: Behind, content: Content) -> None:
    listener, caller = behind.met()
    data = content(4_000_000)
    with ThreadPoolExecutor() as pool:
        closing = pool.submit(lambda: (caller.write(data), caller.close()))
        half = len(data) // 2
        assert read_exactly(listener, half) == data[:half]
        behind.relay.cut()
        assert listener.readall() == data[half:]
        listener.close()
        closing.result()
    assert caller.verified == len(data)


def test_a_close_that_is_cut_off_says_that_not_all_is_there(behind: Behind) -> None:
    listener, caller = behind.met(resume_window=WINDOW_SMALL, timeout=5)
    block, written = bytes(50_000), 0
    while select.select([], [caller], [], FULL_S)[1]:
        # Where a socket is writable, more fits than this.
        caller.write(block)
        written += len(block)
        assert written < MORE_THAN_FITS
    assert written > 100_000
    assert read_exactly(listener, 100_000) == bytes(100_000)
    with ThreadPoolExecutor() as pool:
        closing = pool.submit(caller.close)
        behind.lose()
        with pytest.raises(fobs.Error, match="0 bytes had come"):
            closing.result()
    came = 100_000
    with pytest.raises(fobs.Error) as failed:
        while data := listener.read(50_000):
            came += len(data)
    assert f"{came} bytes had come" in str(failed.value) and came < written
    with pytest.raises(fobs.Error, match=f"{came} bytes had come"):
        listener.close()


def test_a_half_that_ended_is_no_end_of_the_other(behind: Behind) -> None:
    listener, caller = in_mid_stream(behind, resume_window=0)
    caller.end_writing()
    assert listener.read(1) == b""
    listener.write(b"reply")
    assert read_exactly(caller, 5) == b"reply"
    behind.relay.cut()
    with pytest.raises(fobs.Error, match="5 bytes had come"):
        caller.read(1)
    for stream, came in ((caller, 5), (listener, 4)):
        with pytest.raises(fobs.Error, match=f"{came} bytes had come"):
            stream.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """A task that waits for ever is found by this."""
    asyncio.run(asyncio.wait_for(work, PATIENCE))


async def cut(behind: Behind) -> None:
    await asyncio.to_thread(behind.relay.cut)


def test_tasks_go_on_over_every_cut(behind: Behind, content: Content) -> None:
    data, reply = content(3_000_000), content(BETWEEN_CUTS)

    async def talk() -> None:
        (reader, answering), (hearing, writer) = await behind.met_async()

        async def write() -> None:
            for at in range(0, len(data), 100_000):
                writer.write(data[at : at + 100_000])
                await writer.drain()
            writer.write_eof()

        writing = asyncio.create_task(write())
        for at in range(0, len(data), BETWEEN_CUTS):
            piece = data[at : at + BETWEEN_CUTS]
            assert await reader.readexactly(len(piece)) == piece, at
            await cut(behind)
        assert await reader.read() == b"" and reader.at_eof()
        await writing
        answering.write(reply)
        await cut(behind)
        assert await hearing.readexactly(len(reply)) == reply
        for end in (answering, writer):
            end.close()
        await asyncio.gather(answering.wait_closed(), writer.wait_closed())

    run(talk())


@pytest.mark.parametrize("options", [{"resume_window": 0}, {"timeout": 2}], ids=["no window", "no connection"])
def test_tasks_of_a_stream_that_cannot_go_on_are_told(behind: Behind, options: dict[str, Any]) -> None:
    async def fail() -> None:
        (reader, answering), (hearing, writer) = await behind.met_async(**options)
        writer.write(b"half")
        assert await reader.readexactly(4) == b"half"
        waiting = asyncio.create_task(hearing.read(1))
        await asyncio.to_thread(behind.lose)
        with pytest.raises(fobs.Error, match="0 bytes had come"):
            await waiting
        with pytest.raises(fobs.Error, match="4 bytes had come"):
            await reader.read()
        with pytest.raises(fobs.Error, match="4 bytes had come"):
            await answering.drain()
        for end, came in ((answering, 4), (writer, 0)):
            end.close()
            with pytest.raises(fobs.Error, match=f"{came} bytes had come"):
                await end.wait_closed()

    run(fail())


def test_a_task_that_is_cancelled_leaves_a_stream_that_goes_on(behind: Behind) -> None:
    async def cancel() -> None:
        (reader, answering), (_, writer) = await behind.met_async()
        await asyncio.to_thread(behind.lose)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(4), 0.2)
        behind.relay.refuse(False)
        writer.write(b"more")
        assert await reader.readexactly(4) == b"more"
        for end in (answering, writer):
            end.close()
        await asyncio.gather(answering.wait_closed(), writer.wait_closed())

    run(cancel())


def test_an_abort_ends_tasks_whose_connection_is_away(behind: Behind) -> None:
    async def abort() -> None:
        (reader, answering), (hearing, writer) = await behind.met_async()
        await asyncio.to_thread(behind.lose)
        for reads, end in ((hearing, writer), (reader, answering)):
            waiting = asyncio.create_task(reads.read(1))
            await asyncio.sleep(0)
            end.transport.abort()
            with pytest.raises(fobs.Error, match="gave up its end"):
                await waiting
            with pytest.raises(fobs.Error, match="gave up its end"):
                await end.wait_closed()

    run(abort())
