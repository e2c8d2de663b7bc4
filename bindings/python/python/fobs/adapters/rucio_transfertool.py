"""Rucio's ``Transfertool`` over the API of a keeper: each transfer between a ``fobs serve`` daemon and the storage of
the keeper's own host (a protocol with the scheme ``file``) is a job, in either direction.

Rucio knows its tools by a table in ``rucio.core.transfer``: a site adds
``TRANSFERTOOL_CLASSES_BY_NAME["fobs"] = FobsTransfertool`` where its daemons begin. ``rucio.cfg`` has in ``[fobs]``:
``keeper`` (a URL; without one, this user's), ``token_file``, ``fingerprint`` and ``options``, words for ``cp``.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from rucio.common.config import config_get
from rucio.db.sqla.constants import RequestState
from rucio.transfertool.transfertool import Transfertool, TransferStatusReport, TransferToolBuilder

from .._errors import SourceNotFoundError, UsageError
from ..jobs import Keeper

_STATES = {"done": RequestState.DONE, "failed": RequestState.FAILED, "cancelled": RequestState.FAILED}


class FobsTransferStatusReport(TransferStatusReport):  # type: ignore[misc]
    """What became of a transfer."""

    supported_db_fields = ["state", "external_id"]

    def __init__(self, request_id: str, external_id: str, state: RequestState, message: str | None) -> None:
        super().__init__(request_id)
        self.state, self.external_id, self.message = state, external_id, message

    def initialize(self, session: Any, logger: Any = logging.log) -> None:
        """All is known by now."""

    def get_monitor_msg_fields(self, session: Any, logger: Any = logging.log) -> dict[str, Any]:
        """For Rucio's messages."""
        return {"protocol": "fobs", "transfer_id": self.external_id, "reason": self.message or ""}


class FobsTransfertool(Transfertool):  # type: ignore[misc]
    """Transfers as jobs of a keeper, which is at ``external_host``."""

    external_name = "fobs"
    required_rse_attrs = ()
    supported_schemes = {"fobs", "file"}

    def __init__(self, external_host: str | None = None, logger: Any = logging.log) -> None:
        url = external_host or _setting("keeper")
        super().__init__(url or "", logger)
        token_file = _setting("token_file") if url else None
        self._keeper = Keeper(url, token_file=token_file, fingerprint=_setting("fingerprint") if url else None)
        self._options = shlex.split(_setting("options") or "")

    @classmethod
    def submission_builder_for_path(
        cls, transfer_path: list[Any], logger: Any = logging.log
    ) -> tuple[list[Any], TransferToolBuilder | None]:
        """The first hop, where one end is a daemon and the other the keeper's host."""
        hop = transfer_path[0]
        if not cls.can_perform_transfer(hop.src.rse, hop.dst.rse):
            return [], None
        if sorted(urlsplit(url).scheme for url in (hop.source_url(hop.src), hop.dest_url)) != ["file", "fobs"]:
            return [], None
        return [hop], TransferToolBuilder(cls, external_host=_setting("keeper") or "")

    def group_into_submit_jobs(self, transfer_paths: Iterable[list[Any]]) -> list[dict[str, Any]]:
        """A job for each file: each is tried again and reported by itself."""
        return [{"transfers": [hop], "job_params": {}} for path in transfer_paths for hop in path[:1]]

    def submit(self, transfers: Iterable[Any], job_params: dict[str, str], timeout: int | None = None) -> str:
        """Hands a transfer in; the same request twice is one job. Returns the job's number."""
        hops = list(transfers)
        if len(hops) != 1:
            raise UsageError(f"a job is one transfer, and not {len(hops)}")
        hop = hops[0]
        request = str(hop.rws.request_id)
        command = ["cp", *self._options, _place(hop.source_url(hop.src)), _place(hop.dest_url)]
        name = f"{hop.rws.scope}:{hop.rws.name}"
        name = name if len(name.encode()) <= 200 else request
        job = self._keeper.submit(*command, directory="/", name=name, label="rucio", key=f"rucio {request}")
        return str(job.id)

    def bulk_query(
        self, requests_by_eid: Mapping[str, Mapping[str, Any]], timeout: int | None = None
    ) -> dict[str, dict[str, TransferStatusReport]]:
        """How transfers stand, by job and request."""
        found: dict[str, dict[str, TransferStatusReport]] = {}
        for external_id, requests in requests_by_eid.items():
            state, message = self._state(external_id)
            found[external_id] = {
                request: FobsTransferStatusReport(request, external_id, state, message) for request in requests
            }
        return found

    def cancel(self, transfer_ids: Sequence[str], timeout: int | None = None) -> bool:
        """Cancels jobs; whether all were there to be cancelled."""
        cancelled = True
        for external_id in transfer_ids:
            try:
                self._keeper.get(int(external_id)).cancel()
            except (SourceNotFoundError, UsageError):
                cancelled = False
        return cancelled

    def update_priority(self, transfer_id: str, priority: int, timeout: int | None = None) -> bool:
        """A keeper takes no other priority later."""
        return False

    def _state(self, external_id: str) -> tuple[RequestState, str | None]:
        try:
            job = self._keeper.get(int(external_id))
        except SourceNotFoundError as error:
            return RequestState.LOST, error.message
        return _STATES.get(job.phase, RequestState.SUBMITTED), job.message


def _place(url: str) -> str:
    # The host of a file's URL is the keeper's, whatever Rucio calls it.
    return url if url.startswith("fobs://") else unquote(urlsplit(url).path)


def _setting(name: str) -> str | None:
    value = config_get("fobs", name, raise_exception=False, default=None)
    return str(value) if value else None
