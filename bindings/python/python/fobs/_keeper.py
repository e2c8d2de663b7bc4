"""One request to a keeper of jobs: HTTP over its Unix socket, or over TLS with a token."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
import time
from pathlib import Path as _Path
from typing import Any
from urllib.parse import urlsplit

from ._errors import (
    AccessDeniedError,
    ConnectError,
    DestinationError,
    Error,
    SourceNotFoundError,
    UsageError,
)

# Largest answer, in bytes: all jobs, with their words.
_ANSWER_BYTES_MAX = 256 << 20
# How long a keeper may take to begin, in seconds: it looks through its state first.
_BEGIN_WAIT = 20.0


def own_socket() -> str:
    """Where the command looks for this user's keeper."""
    user, runtime = os.geteuid(), os.environ.get("XDG_RUNTIME_DIR", "")
    base = runtime if os.path.isabs(runtime) else f"/run/user/{user}"
    private = f"{base}/fobs" if runtime.startswith("/") or os.path.isdir(base) else f"/tmp/fobs-{user}"
    try:
        found = os.lstat(private)
    except OSError:
        found = None
    if found is None or (
        stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    ):
        return f"{private}/jobs.socket"
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"{state}/fobs/jobs/jobs.socket"


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("jobs", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self._path)
        except BaseException:
            self.close()
            raise


class _PinnedConnection(http.client.HTTPSConnection):
    """HTTPS to the one certificate that has a fingerprint."""

    def __init__(self, host: str, port: int, timeout: float, fingerprint: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=timeout, context=context)
        self._fingerprint = fingerprint

    def connect(self) -> None:
        super().connect()
        certificate = self.sock.getpeercert(binary_form=True) or b""
        shown = hashlib.sha256(certificate).hexdigest()
        if shown != self._fingerprint:
            # Before a token is sent.
            self.close()
            raise ssl.SSLError(f"the certificate's SHA-256 is {shown}, and not {self._fingerprint}")


class Way:
    """How a keeper is reached."""

    def __init__(
        self,
        url: str | None,
        token: str | None,
        token_file: str | os.PathLike[str] | None,
        fingerprint: str | None,
        socket_path: str | os.PathLike[str] | None,
        timeout: float,
    ) -> None:
        self.url, self.timeout = url, timeout
        self.socket = os.fspath(socket_path) if socket_path is not None else None
        if url is None:
            if token is not None or token_file is not None or fingerprint is not None:
                raise UsageError("a token and a fingerprint go with a url: the Unix socket needs neither")
            return
        if socket_path is not None:
            raise UsageError("a keeper is at a url or at a socket: name one of them")
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.username is not None:
            raise UsageError(f"the url {url!r} is not like https://host:8443; a token is not sent in the clear")
        self.host, self.port, self.prefix = parts.hostname, parts.port or 443, parts.path.rstrip("/")
        if (token is None) == (token_file is None):
            raise UsageError("a keeper at a url needs a token or a token_file, and not both")
        self.token = token if token is not None else _Path(os.fspath(token_file or "")).read_text().strip()
        if not self.token.isascii() or not self.token.isprintable() or not self.token or " " in self.token:
            raise UsageError("the token is not one word, as fobs jobs token create printed it")
        self.fingerprint = fingerprint.replace(":", "").lower() if fingerprint is not None else None
        if self.fingerprint is not None and len(self.fingerprint) != 64:
            raise UsageError("a fingerprint has 64 hexadecimal digits: the SHA-256 that the keeper printed")

    @property
    def is_here(self) -> bool:
        """Whether it is a keeper of this host."""
        return self.url is None

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.is_here:
            return _SocketConnection(self.socket or own_socket(), timeout)
        if self.fingerprint is not None:
            return _PinnedConnection(self.host, self.port, timeout, self.fingerprint)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout)

    def ask(self, method: str, path: str, body: Any = None, wait: float = 0.0) -> Any:
        """What the keeper answers; this user's own is started where none answers."""
        try:
            return self._ask(method, path, body, wait)
        except ConnectError as error:
            if not self.is_here or self.socket is not None or not isinstance(error.__cause__, OSError):
                raise
            if not isinstance(error.__cause__, (FileNotFoundError, ConnectionRefusedError)):
                raise
        self._start()
        return self._ask(method, path, body, wait)

    def _ask(self, method: str, path: str, body: Any, wait: float) -> Any:
        where = self.url or self.socket or own_socket()
        connection = self._connection(self.timeout + wait)
        headers = {"content-type": "application/json"}
        if not self.is_here:
            path = self.prefix + path
            headers["authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read(_ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectError(f"no keeper of jobs answers at {where}: {error}") from error
        finally:
            connection.close()
        if len(text) > _ANSWER_BYTES_MAX:
            raise ConnectError(f"the keeper at {where} answers with more than {_ANSWER_BYTES_MAX} bytes")
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise ConnectError(f"what answers at {where} is no keeper of jobs") from error
        if response.status >= 300:
            raise _refusal(response.status, answer)
        return answer

    def _start(self) -> None:
        program = os.environ.get("FOBS") or shutil.which("fobs")
        if program is None:
            raise ConnectError("no keeper of jobs answers, and there is no command fobs on the PATH that starts one")
        command = [program, "jobs", "serve", "--on-demand"]
        nothing = subprocess.DEVNULL
        subprocess.Popen(
            command, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
        end = time.monotonic() + _BEGIN_WAIT
        while True:
            try:
                self._ask("GET", "/v1/about", None, 0.0)
                return
            except ConnectError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def _refusal(status: int, answer: Any) -> Error:
    detail = answer.get("detail") if isinstance(answer, dict) else None
    message = detail if isinstance(detail, str) else f"the keeper of jobs answered {status}"
    if status in (401, 403):
        return AccessDeniedError(message)
    if status == 404:
        return SourceNotFoundError(message)
    if status == 429 or status == 507 or status == 500:
        return DestinationError(message)
    if status >= 500:
        return ConnectError(message)
    return UsageError(message)
