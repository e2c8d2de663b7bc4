"""Parsl's staging of ``fobs://`` files: ``storage_access=[FobsStaging(identity="key")]`` in an executor.

Files are fetched and delivered by the worker that runs the app, so the data takes the direct path. What an app
needs comes before it runs; what it made is delivered after it has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from parsl.data_provider.staging import Staging

from .._files.names import normal, parent, split_url


class FobsStaging(Staging):  # type: ignore[misc]
    """Moves files of daemons (``fobs://host:port/path``) to and from the workers.

    ``options`` are those of ``fobs cp``: files that they name must be at the workers.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __repr__(self) -> str:
        return f"FobsStaging({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def can_stage_in(self, file: Any) -> bool:
        """Whether the file is at a daemon."""
        return bool(file.scheme == "fobs")

    can_stage_out = can_stage_in

    def _place(self, dm: Any, executor: str, file: Any, parent: Any) -> None:
        """Where the file is while the app runs: below the host, so that equal names do not meet."""
        directory = dm.dfk.executors[executor].working_dir or os.getcwd()
        # By the rule of URLs of the package: Parsl's own cuts a name at "#" and "?".
        authority, path = split_url(file.url, ("fobs",)) or (file.netloc, file.path)
        at = authority.replace(":", "_")
        file.local_path = os.path.join(directory, "fobs", at, os.path.normpath("/" + path).lstrip("/"))

    def stage_in(self, dm: Any, executor: str, file: Any, parent_fut: Any) -> None:
        """Says where the file will be."""
        self._place(dm, executor, file, parent_fut)

    def stage_out(self, dm: Any, executor: str, file: Any, app_fu: Any) -> None:
        """Says where the file will be."""
        self._place(dm, executor, file, app_fu)

    def replace_task(self, dm: Any, executor: str, file: Any, func: Callable[..., Any]) -> Callable[..., Any]:
        """The app, after the file was fetched."""
        return partial(_fetch_then, func, file.url, file.local_path, self.options)

    def replace_task_stage_out(
        self, dm: Any, executor: str, file: Any, func: Callable[..., Any]
    ) -> Callable[..., Any]:
        """The app, and then the file is delivered."""
        return partial(_then_deliver, func, file.url, file.local_path, self.options)


def _fetch_then(
    app: Callable[..., Any], url: str, path: str, options: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    import fobs

    os.makedirs(os.path.dirname(path), exist_ok=True)
    fobs.cp(url, path, **options)
    return app(*args, **kwargs)


def _then_deliver(
    app: Callable[..., Any], url: str, path: str, options: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    import fobs

    os.makedirs(os.path.dirname(path), exist_ok=True)
    result = app(*args, **kwargs)
    authority, name = split_url(url, ("fobs",)) or ("", "")
    with fobs.Session(f"fobs://{authority}/", **options) as session:
        name = normal(name)
        session.mkdir(parent(name), parents=True, exist_ok=True)
        session.put(path, name)
    return result
