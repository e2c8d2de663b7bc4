"""Copies of several files at once: trees, patterns and lists."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from glob import escape
from typing import Any

from fsspec.asyn import _run_coros_in_chunks
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import other_paths

from .._errors import UsageError
from .._types import Entry
from .moving import Moving, creates
from .names import below, has_magic, local, text_of


class Several(Moving):
    """Each is copied as it would be alone. A name that exists stands for itself, and a link to a directory is a link."""

    async def _put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        kwargs["batch_size"] = batch_size
        lpath = [local(item) for item in lpath] if isinstance(lpath, (list, tuple)) else local(lpath)
        if isinstance(lpath, list) or (has_magic(lpath) and not os.path.lexists(lpath)):
            return await self._put_several(lpath, rpath, recursive, maxdepth, callback, kwargs)
        form, target = self._split(rpath)
        into = text_of(rpath).endswith("/") or await self._isdir(form + target)
        if not os.path.isdir(lpath):
            name = os.path.basename(lpath)
            callback.set_size(1)
            put = callback.branch_coro(self._put_file)
            await put(lpath, form + (below(target, name) if into else target), **kwargs)
            callback.relative_update(1)
            return None
        if not recursive:
            return None
        self._not_in_a_transaction("puts no directories")
        if into and not lpath.endswith("/"):
            target = below(target, os.path.basename(os.path.abspath(lpath)))
        if maxdepth is not None:
            await self._put_levels(lpath, form + target, maxdepth, kwargs)
            return None
        await self._makedirs(form + target, exist_ok=True)
        if creates(kwargs.get("mode", "overwrite")):
            # One transfer replaces what is there.
            await self._put_levels(lpath, form + target, None, kwargs)
            return None
        async with self._session() as session:
            result = await session.put_async(f"{lpath.rstrip('/')}/", target, recursive=True, no_partial=True)
        for name in links_to_files(lpath):
            await self._gone(below(target, name), False)
            await self._put_file(os.path.join(lpath, name), form + below(target, name))
        count(callback, result.files)
        return None

    async def _put_levels(self, here: str, target: str, maxdepth: int | None, kwargs: dict[str, Any]) -> None:
        """File by file; with a depth, directories come with what is in them."""
        for name in sorted(os.listdir(here)):
            inner, there = os.path.join(here, name), below(target, name)
            if os.path.isdir(inner) and not os.path.islink(inner):
                if maxdepth is None:
                    await self._makedirs(there, exist_ok=True)
                if maxdepth is None or maxdepth > 1:
                    await self._put_levels(inner, there, None if maxdepth is None else maxdepth - 1, kwargs)
            elif os.path.isfile(inner) or not os.path.exists(inner):
                await self._put_file(inner, there, **kwargs)
            elif maxdepth is None and os.path.islink(inner):
                await self._put_one(inner, there, **kwargs)

    async def _get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        lpath = [local(item) for item in lpath] if isinstance(lpath, (list, tuple)) else local(lpath)
        several = isinstance(rpath, (list, tuple)) or isinstance(lpath, list)
        if several or not await self._stands_for_itself(rpath):
            return await self._get_several(rpath, lpath, recursive, maxdepth, callback, kwargs)
        form, source = self._split(rpath)
        ends_open, into = text_of(rpath).endswith("/"), lpath.endswith("/") or os.path.isdir(lpath)
        name = source.rpartition("/")[2]
        if not await self._isdir(form + source):
            callback.set_size(1)
            get = callback.branch_coro(self._get_file)
            await get(form + source, os.path.join(lpath, name) if into else lpath, **kwargs)
            callback.relative_update(1)
            return None
        if not recursive:
            return None
        target = os.path.join(lpath, name) if into and not ends_open else lpath
        entries = await self._below(source, maxdepth)
        os.makedirs(target, exist_ok=True)
        if maxdepth is None:
            async with self._session() as session:
                await session.get_async(f"{source.rstrip('/')}/", target, recursive=True, no_partial=True)
            # What leads to a file is that file here, as fsspec has it for local ones.
            wanted = [entry for entry in entries if entry.leads_to is not None and entry.leads_to.is_file]
        else:
            # With a depth, directories come with what is in them.
            wanted = [entry for entry in entries if not entry.is_dir]
        for entry in wanted:
            here = os.path.join(target, entry.name)
            if entry.is_link and os.path.islink(here):
                os.unlink(here)
            if _leads_to_directory(entry):
                await self._get_link(entry, here)
            else:
                await self._get_file(form + below(source, entry.name), here)
        count(callback, sum(not entry.is_dir for entry in entries))
        return None

    async def _copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        on_error: str | None = None,
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **_: Any,
    ) -> Any:
        on_error = on_error or ("ignore" if recursive else "raise")
        several = isinstance(path1, (list, tuple)) or isinstance(path2, (list, tuple))
        if several or not await self._stands_for_itself(path1):
            return await self._copy_several(path1, path2, recursive, maxdepth, on_error)
        (form, source), (onto, target) = self._split(path1), self._split(path2)
        into = text_of(path2).endswith("/") or await self._isdir(onto + target)
        inner = below(target, source.rpartition("/")[2])
        if not await self._isdir(form + source):
            await self._cp_file(form + source, onto + (inner if into else target))
            return None
        if not recursive:
            return None
        self._not_in_a_transaction("copies no directories")
        target = inner if into and not text_of(path1).endswith("/") else target
        if target == source or target.startswith(source.rstrip("/") + "/"):
            raise UsageError(f"{source!r} is not copied into itself; choose another place")
        entries = await self._below(source, maxdepth)
        await self._makedirs(target, exist_ok=True)
        if maxdepth is not None:
            # With a depth, directories come with what is in them.
            entries = [entry for entry in entries if not entry.is_dir]
        for entry in sorted(entries, key=lambda entry: entry.name):
            try:
                await self._cp_entry(below(source, entry.name), below(target, entry.name), entry)
            except FileNotFoundError:
                # Gone meanwhile.
                if on_error == "raise":
                    raise
        return None

    async def _cp_entry(self, source: str, target: str, entry: Entry) -> None:
        if entry.is_dir:
            await self._makedirs(target, exist_ok=True)
        elif _leads_to_directory(entry):
            await self._cp_link(source, target, entry)
        else:
            await self._cp_file(source, target)

    async def _stands_for_itself(self, path: Any) -> bool:
        form, name = self._split(path)
        return not has_magic(name) or await self._lexists(form + name)

    # -- lists and patterns, with the places that fsspec gives them

    async def _put_several(
        self, here: Any, there: Any, recursive: bool, maxdepth: int | None, callback: Any, kwargs: dict[str, Any]
    ) -> Any:
        names = here
        if not _are_lists(here, there):
            names = local_names(here, recursive, maxdepth)
            if isinstance(here, str) and (not recursive or maxdepth is not None):
                names = [name for name in names if not os.path.isdir(name)]
            there = _places(names, self._strip_protocol(there), isinstance(here, str))
        pairs = list(zip(names, there, strict=True))
        made = [place for name, place in pairs if os.path.isdir(name) and not os.path.islink(name)]
        await asyncio.gather(*(self._makedirs(place, exist_ok=True) for place in made))
        files = [(name, place) for name, place in pairs if os.path.islink(name) or not os.path.isdir(name)]
        return await self._each(self._put_one, files, callback, kwargs)

    async def _put_one(self, here: str, path: Any, **kwargs: Any) -> None:
        if os.path.islink(here) and os.path.isdir(here):
            await self._put_link(here, self._split(path)[1])
        else:
            await self._put_file(here, path, **kwargs)

    async def _get_several(
        self, there: Any, here: Any, recursive: bool, maxdepth: int | None, callback: Any, kwargs: dict[str, Any]
    ) -> Any:
        names = there
        if not _are_lists(there, here):
            is_pattern = not isinstance(there, (list, tuple))
            names = await self._several(there, recursive, maxdepth, is_pattern)
            here = _places(names, here, is_pattern)
        pairs = list(zip(names, here, strict=True))
        return await self._each(self._get_one, pairs, callback, kwargs)

    async def _get_one(self, path: Any, here: Any, **kwargs: Any) -> None:
        entry = await self._entry(self._split(path)[1])
        if _leads_to_directory(entry) and isinstance(here, str):
            await self._get_link(entry, here)
        else:
            await self._get_file(path, here, **kwargs)

    async def _copy_several(
        self, source: Any, target: Any, recursive: bool, maxdepth: int | None, on_error: str
    ) -> None:
        names = source
        if not _are_lists(source, target):
            is_pattern = not isinstance(source, (list, tuple))
            names = await self._several(source, recursive, maxdepth, is_pattern)
            into = self._strip_protocol(target)
            target = _places(names, into, is_pattern)
        pairs = list(zip(names, target, strict=True))
        for found in await asyncio.gather(*(self._cp_one(*pair) for pair in pairs), return_exceptions=True):
            if isinstance(found, BaseException) and not (on_error == "ignore" and isinstance(found, FileNotFoundError)):
                raise found

    async def _cp_one(self, path: Any, place: Any) -> None:
        source, target = self._split(path)[1], self._split(place)[1]
        await self._cp_entry(source, target, await self._entry(source))

    async def _several(self, meant: Any, recursive: bool, maxdepth: int | None, is_pattern: bool) -> list[str]:
        names = await self._expand_path(meant, recursive=recursive, maxdepth=maxdepth)
        if not is_pattern or (recursive and maxdepth is None):
            return names
        # By itself, and with a depth, a pattern takes no directories.
        return [name for name in names if not await self._isdir(name)]

    async def _each(self, act: Callable[..., Any], pairs: list[Any], callback: Any, kwargs: dict[str, Any]) -> Any:
        at_once = kwargs.pop("batch_size", None) or self.batch_size
        callback.set_size(len(pairs))
        one = callback.branch_coro(act)
        coros = [one(*pair, **kwargs) for pair in pairs]
        return await _run_coros_in_chunks(coros, batch_size=at_once, callback=callback)


def _are_lists(one: Any, other: Any) -> bool:
    return isinstance(one, (list, tuple)) and isinstance(other, (list, tuple))


def _places(names: list[str], into: Any, is_pattern: bool) -> list[str]:
    """Where each goes. Nothing goes anywhere where a pattern stands for directories alone, which it does not take."""
    return [] if not names else list(other_paths(names, into, exists=is_pattern and len(names) == 1, flatten=not is_pattern))


def _leads_to_directory(entry: Entry) -> bool:
    return entry.is_link and entry.leads_to is not None and entry.leads_to.is_dir


def _literal_first(pattern: str) -> str:
    """The same, with a directory at its beginning that exists by its letters."""
    parts = pattern.split("/")
    for at in range(len(parts) - 1, 0, -1):
        head = "/".join(parts[:at])
        if has_magic(head) and os.path.isdir(head):
            return "/".join([escape(head), *parts[at:]])
    return pattern


def local_names(meant: Any, recursive: bool, maxdepth: int | None) -> list[str]:
    """What names and patterns of this host stand for. A name that exists stands for itself, whatever letters it has."""
    here = LocalFileSystem()
    found: set[str] = set()
    for item in meant if isinstance(meant, list) else [meant]:
        is_pattern = not os.path.lexists(item)
        names = here.expand_path(_literal_first(item), maxdepth=maxdepth) if is_pattern else [item]
        found.update(names)
        # The pattern has gone down one level.
        depth = maxdepth - 1 if maxdepth is not None and is_pattern else maxdepth
        for name in names if recursive and depth != 0 else []:
            # A link that a pattern stands for is one; a name that is given may be entered.
            if os.path.isdir(name) and not (is_pattern and os.path.islink(name)):
                found.update(here.find(name, maxdepth=depth, withdirs=True))
    return sorted(found)


def links_to_files(directory: str) -> list[str]:
    """Links below a directory of this host that lead to files."""
    found = []
    for top, directories, files in os.walk(directory):
        for name in [*directories, *files]:
            path = os.path.join(top, name)
            if os.path.islink(path) and os.path.isfile(path):
                found.append(os.path.relpath(path, directory))
    return sorted(found)


def count(callback: Any, files: int) -> None:
    """Tells a callback of a tree how many files it has."""
    if callback is not None:
        callback.set_size(files)
        callback.absolute_update(files)
