"""The destination while a transfer changes it: taken beside the plan, and kept with signs of life."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ._nodes import Node
from ._result import ClusterError
from ._state import BEAT_EVERY, BusyError
from ._survey import Survey
from ._workers import Workers


class Hold:
    """Nobody else's transfer works on the destination. One that changes nothing does without."""

    def __init__(
        self, survey: Survey, workers: Workers, places: Callable[[], list[tuple[Node, Node]]], owner: str
    ) -> None:
        self.survey, self.workers, self.places, self.owner = survey, workers, places, owner
        #: Why it could not be taken, or was lost.
        self.error: BaseException | None = None
        self._taken, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_begun(self) -> bool:
        return self._thread is not None

    @property
    def is_held(self) -> bool:
        return self._taken.is_set() and self.error is None

    def begin(self) -> None:
        """Has it taken, once, and does not wait for that; raises what has stopped it meanwhile."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="fobs-cluster-hold", daemon=True)
            self._thread.start()
        self.check()

    def wait(self) -> None:
        """Until it is taken: as long as the tasks may take that do it."""
        self.begin()
        self._taken.wait()
        self.check()

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Waits for a sign of life that has begun: it writes into what is to be removed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(BEAT_EVERY * 2)

    def _keep(self) -> None:
        try:
            self.survey.take()
        except BaseException as error:
            self.error = error
            return
        finally:
            self._taken.set()
        count = 0
        while not self._stop.wait(BEAT_EVERY):
            count += 1
            try:
                if places := self.places():
                    self.workers.beat(*places[count % min(len(places), 2)], self.owner, count)
            except BusyError as error:
                self.error = ClusterError(str(error), error)
                return
            except Exception:  # noqa: S112 - a worker or node that is gone: the loop finds out
                continue
