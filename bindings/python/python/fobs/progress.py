"""Progress bars: what to give as ``progress=``. Needs the extra ``fobs[progress]``."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ._types import Progress


class Tqdm:
    """A bar of ``tqdm.auto``, in notebooks too: ``with Tqdm("data") as bar: session.put(..., progress=bar)``."""

    def __init__(self, description: str = "fobs", **options: Any) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(desc=description, unit="B", unit_scale=True, unit_divisor=1000, **options)

    def __call__(self, progress: Progress) -> None:
        self._bar.total = progress.bytes_known or None
        self._bar.update(progress.bytes - self._bar.n)

    def __enter__(self) -> Tqdm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


class Rich:
    """A bar of ``rich``, as :class:`Tqdm`."""

    def __init__(self, description: str = "fobs") -> None:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bars = Bars(*columns)
        self._task = self._bars.add_task(description, total=None)

    def __call__(self, progress: Progress) -> None:
        self._bars.update(self._task, completed=progress.bytes, total=progress.bytes_known or None)

    def __enter__(self) -> Rich:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
