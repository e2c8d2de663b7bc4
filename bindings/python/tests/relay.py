"""Something between a client and its daemon that cuts their connections, as a NAT that restarts does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

# How long there may be no connection to be cut, seconds: only a failing test waits so long.
_PATIENCE = 60.0


class Relay:
    """Carries TCP connections to a port of the loopback. Its threads end with the process."""

    def __init__(self, to: int) -> None:
        self._to, self._refuses = to, False
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self, refuses: bool) -> None:
        """Whether there are no new ones from now on."""
        with self._lock:
            self._refuses = refuses

    def cut(self) -> None:
        """Ends all connections that there are; waits until there is one."""
        end = time.monotonic() + _PATIENCE
        while True:
            with self._lock:
                cut, self._open = self._open, []
            for one in cut:
                # It may have ended.
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            if cut:
                return
            assert time.monotonic() < end, "there is no connection"
            time.sleep(0.001)

    def close(self) -> None:
        """Takes no more, and ends those that there are."""
        self.refuse(True)
        self._listener.close()
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._refuses:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    near.close()
                    continue
                # One end is enough: its threads pass it on.
                self._open = [one for one in self._open if one.fileno() >= 0] + [near]
            left = [near, far]
            for source, to in ((near, far), (far, near)):
                threading.Thread(target=_carry, args=(source, to, left), daemon=True).start()


def _carry(source: socket.socket, to: socket.socket, left: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)
    # The second of both closes them.
    left.pop()
    if not left:
        source.close()
        to.close()
