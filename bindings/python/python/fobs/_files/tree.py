"""What is below a name: listings, walks, patterns, and what a removal or a copy of several names is about."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from glob import escape
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.utils import glob_translate

from .._errors import RemoteMissingError, SourceNotFoundError, UsageError
from .._session import Session
from .._types import Entry
from .names import below, has_magic, normal, text_of


# Where names begin.
_TOPS = frozenset({"/", "", "."})


def info_of(name: str, entry: Entry) -> dict[str, Any]:
    """An entry as fsspec has it. A link to a file has what a reader of it gets; one to a directory, or to nowhere,
    is a link, so that nothing enters it.
    """
    there = entry.leads_to if entry.is_link else entry
    kind = "other" if there is None or (entry.is_link and there.is_dir) else there.kind
    shown = there or entry
    info: dict[str, Any] = {
        "name": name,
        "size": shown.size if there is not None else 0,
        "type": "other" if kind == "link" else kind,
        "mtime": shown.mtime_ns / 1e9,
        "mode": shown.mode,
        "ino": shown.inode,
        "islink": entry.is_link,
    }
    if entry.target is not None:
        info["destination"] = entry.target
    return info


class Tree(AsyncFileSystem):  # type: ignore[misc]
    """Looking. An error is one unless it says that something is not there."""

    #: A session of the running event loop, and the form and path of a name: of the file system itself.
    _session: Callable[[], AbstractAsyncContextManager[Session]]
    _split: Callable[[Any], tuple[str, str]]
    #: Whether names begin in a directory that is served, which may be emptied, and not in a whole host.
    _is_served = True

    async def _entry(self, path: str) -> Entry:
        """The entry of a name; of a link the link, with what it leads to."""
        async with self._session() as session:
            try:
                return await session.stat_async(path, links=True)
            except RemoteMissingError:
                return await session.stat_async(path)

    async def _info(self, path: Any, **_: Any) -> dict[str, Any]:
        form, path = self._split(path)
        entry = await self._entry(path)
        info = info_of(form + path, entry)
        if entry.leads_to is not None and entry.leads_to.is_dir:
            # The name itself may be entered; only a walk does not.
            info["type"] = "directory"
        return info

    async def _exists(self, path: Any, **_: Any) -> bool:
        try:
            entry = await self._entry(self._split(path)[1])
        except FileNotFoundError:
            return False
        return not entry.is_link or entry.leads_to is not None

    async def _lexists(self, path: Any, **_: Any) -> bool:
        try:
            await self._entry(self._split(path)[1])
        except FileNotFoundError:
            return False
        return True

    async def _islink(self, path: Any) -> bool:
        try:
            return (await self._entry(self._split(path)[1])).is_link
        except FileNotFoundError:
            return False

    async def _kind(self, path: Any) -> str | None:
        try:
            return str((await self._info(path))["type"])
        except FileNotFoundError:
            return None

    async def _isdir(self, path: Any) -> bool:
        return await self._kind(path) == "directory"

    async def _isfile(self, path: Any) -> bool:
        return await self._kind(path) == "file"

    async def _ls(self, path: Any, detail: bool = True, **_: Any) -> list[Any]:
        form, path = self._split(path)
        try:
            entries = await self._listed(path)
        except SourceNotFoundError:
            # A file lists itself.
            found = [await self._info(form + path)]
            if found[0]["type"] == "directory":
                raise
        else:
            found = [info_of(form + below(path, entry.name), entry) for entry in entries]
        return found if detail else [item["name"] for item in found]

    async def _listed(self, path: str) -> list[Entry]:
        async with self._session() as session:
            try:
                return await session.ls_async(path, links=True)
            except RemoteMissingError:
                entries = await session.ls_async(path)
        # A server of 0.2 says of links only that they are some.
        return list(await asyncio.gather(*(self._followed(path, entry) for entry in entries)))

    async def _followed(self, path: str, entry: Entry) -> Entry:
        if not entry.is_link:
            return entry
        try:
            async with self._session() as session:
                there = await session.stat_async(below(path, entry.name))
        except (FileNotFoundError, PermissionError):
            return entry
        return Entry(entry.name, "link", entry.size, entry.mtime_ns, entry.mode, leads_to=there)

    async def _walk(
        self, path: Any, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **kwargs: Any
    ) -> AsyncIterator[tuple[str, Any, Any]]:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        form, path = self._split(path)
        detail = kwargs.pop("detail", False)
        try:
            listing = await self._ls(form + path, detail=True)
        except OSError as error:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(error)
            elif not isinstance(error, FileNotFoundError):
                # What cannot be looked at is not empty.
                raise
            return
        dirs: Any = {}
        files: Any = {}
        for info in listing:
            name = info["name"].rpartition("/")[2]
            if info["name"] == form + path:
                files[""] = info
            elif info["type"] == "directory":
                dirs[name] = info
            else:
                files[name] = info
        names = list(dirs)
        if not detail:
            dirs, files = names, list(files)
        if topdown:
            yield form + path, dirs, files
        if maxdepth is None or maxdepth > 1:
            deeper = None if maxdepth is None else maxdepth - 1
            # The caller may have taken some out.
            for name in list(dirs) if topdown else names:
                inner = self._walk(form + below(path, name), deeper, topdown, on_error, detail=detail, **kwargs)
                async for item in inner:
                    yield item
        if not topdown:
            yield form + path, dirs, files

    async def _below(self, path: str, depth: int | None) -> list[Entry]:
        """Everything below a directory, with paths from there for names; empty where it is none."""
        try:
            async with self._session() as session:
                return await session.walk_async(path, depth)
        except FileNotFoundError:
            return []
        except RemoteMissingError:
            return await self._below_by_lists(path, depth)

    async def _below_by_lists(self, path: str, depth: int | None, above: str = "") -> list[Entry]:
        try:
            entries = await self._listed(path)
        except FileNotFoundError:
            return []
        found: list[Entry] = []
        for entry in entries:
            name = f"{above}{entry.name}"
            found.append(Entry(name, entry.kind, entry.size, entry.mtime_ns, entry.mode, leads_to=entry.leads_to))
            if entry.is_dir and (depth is None or depth > 1):
                deeper = None if depth is None else depth - 1
                found += await self._below_by_lists(below(path, entry.name), deeper, f"{name}/")
        return found

    async def _find(
        self, path: Any, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: Any
    ) -> Any:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        form, path = self._split(path)
        found: dict[str, Any] = {}
        entries = await self._below(path, maxdepth)
        for entry in entries:
            if withdirs or not entry.is_dir:
                name = form + below(path, entry.name)
                found[name] = info_of(name, entry)
        if not entries or withdirs:
            try:
                top = await self._info(form + path)
            except FileNotFoundError:
                top = {"type": None}
            if top["type"] == "file" or (withdirs and top["type"] == "directory"):
                found[form + path] = top
        return {name: found[name] for name in sorted(found)} if detail else sorted(found)

    async def _du(
        self, path: Any, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **_: Any
    ) -> Any:
        found = await self._find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
        sizes = {name: info["size"] for name, info in found.items()}
        return sum(sizes.values()) if total else sizes

    async def _glob(self, path: Any, maxdepth: int | None = None, _literal: str = "", **kwargs: Any) -> Any:
        # ``_literal`` is the beginning that stands for itself, whatever letters it has.
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        text, detail = text_of(path), kwargs.pop("detail", False)
        withdirs = kwargs.pop("withdirs", True)
        form, path = self._split(text)
        if not has_magic(path):
            found = {form + path: await self._info(form + path)} if await self._exists(form + path) else {}
            return found if detail else list(found)
        first = min(at for letter in "*?[" if (at := path.find(letter, len(_literal))) >= 0)
        root = path[:first].rpartition("/")[0]
        rest = path[len(root) :].strip("/")
        depth: int | None = rest.count("/") + 1
        if "**" in path:
            deep = rest[rest.find("**") :].count("/") + 1
            depth = None if maxdepth is None else depth - deep + maxdepth
        only_dirs = text.endswith("/")
        top = root or ("/" if path.startswith("/") else "")
        try:
            found = await self._find(form + (top or "."), maxdepth=depth, withdirs=withdirs, detail=True)
        except PermissionError:
            if "**" in path or not top:
                raise
            # A directory that may not be listed may be none of those that are meant.
            found = await self._by_parts(form + top, rest.split("/"))
        if not top:
            # Relative to the home directory there, as the pattern is.
            found = {form + normal(name.removeprefix(form)): info for name, info in found.items()}
        meant = escape(form + _literal) + path[len(_literal) :] + ("/" if only_dirs else "")
        pattern = re.compile(glob_translate(meant))
        slashed = only_dirs or path.endswith("/**")
        kept = {
            name: info
            for name, info in found.items()
            if pattern.match(name + "/" if slashed and info["type"] == "directory" else name)
        }
        return kept if detail else list(kept)

    async def _by_parts(self, top: str, parts: list[str]) -> dict[str, Any]:
        """What a pattern may stand for below a directory, listing no more than it names."""
        level: dict[str, Any] = {top: None}
        for at, part in enumerate(parts):
            matches, below_it = re.compile(glob_translate(part)), {}
            for directory in level:
                if not has_magic(part):
                    name = below(directory, part)
                    if await self._lexists(name):
                        below_it[name] = await self._info(name)
                    continue
                for info in await self._ls(directory, detail=True):
                    is_meant = matches.match(info["name"].rpartition("/")[2])
                    if is_meant and (at + 1 == len(parts) or info["type"] == "directory"):
                        below_it[info["name"]] = info
            level = below_it
        return level

    async def _expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, assume_literal: bool = False, **_: Any
    ) -> list[str]:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        found: set[str] = set()
        for item in path if isinstance(path, (list, tuple, set)) else [path]:
            names, is_pattern = await self._stood_for(item, assume_literal, maxdepth)
            depth = maxdepth
            if is_pattern and maxdepth is not None:
                # The pattern has gone down one level.
                depth = maxdepth - 1
            for name in names:
                # A link that a pattern stands for is one; a name that is given may be entered.
                if recursive and depth != 0 and not (is_pattern and await self._islink(name)):
                    found.update(await self._find(name, maxdepth=depth, withdirs=True))
                if is_pattern or not recursive or await self._lexists(name):
                    found.add(name)
        if not found:
            raise FileNotFoundError(f"nothing is there by the name of {path!r}")
        return sorted(found)

    async def _meant(self, path: Any, assume_literal: bool = False, maxdepth: int | None = None) -> list[str]:
        """The names that a name, a pattern or a list of them stands for. A name that exists stands for itself,
        whatever letters it has.
        """
        found: list[str] = []
        for item in path if isinstance(path, (list, tuple, set)) else [path]:
            found += (await self._stood_for(item, assume_literal, maxdepth))[0]
        return found

    async def _stood_for(self, item: Any, is_literal: bool, maxdepth: int | None) -> tuple[list[str], bool]:
        """Likewise of one, and whether it is a pattern."""
        form, name = self._split(item)
        if is_literal or not has_magic(name) or await self._lexists(form + name):
            return [form + name], False
        return await self._glob(text_of(item), maxdepth=maxdepth, _literal=await self._directory_in(form, name)), True

    async def _directory_in(self, form: str, pattern: str) -> str:
        """The directory at the beginning of a pattern that exists by its letters, so that none that they match is
        taken for it.
        """
        parts = pattern.split("/")
        for at, part in enumerate(parts[:-1]):
            if has_magic(part) and not await self._isdir(form + "/".join(parts[: at + 1])):
                return "/".join(parts[:at])
        return "/".join(parts[:-1])

    async def _rm(
        self, path: Any, recursive: bool = False, batch_size: int | None = None, maxdepth: int | None = None, **_: Any
    ) -> None:
        """Each once: what lies in a directory that is removed too goes with it."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        self._not_in_a_transaction("removes nothing")
        meant = await self._meant(path)
        if not meant:
            raise FileNotFoundError(f"nothing is there by the name of {path!r}")
        names = {self._split(name)[1] for name in meant}
        if recursive and not self._is_served and names & _TOPS:
            raise UsageError(
                f"{path!r} is the root or the home directory of a whole host, which is not emptied; name what is in it"
            )
        if recursive:
            names = {name for name in names if not any(_is_above(other, name) for other in names)}
        # The deepest first, so that a directory is empty when its turn comes.
        for name in sorted(names, key=lambda name: (-name.count("/"), name)):
            await self._remove(name, recursive, maxdepth)

    async def _remove(self, name: str, recursive: bool, maxdepth: int | None) -> None:
        entry = await self._entry(name)
        if not entry.is_dir:
            await self._gone(name, False)
        elif not recursive:
            raise UsageError(f"{name!r} is a directory; remove it with recursive=True")
        elif maxdepth is not None:
            await self._remove_levels(name, maxdepth)
        elif name in _TOPS:
            # Where names begin stays, empty.
            for inner in await self._listed(name):
                await self._gone(below(name, inner.name), inner.is_dir)
        else:
            await self._gone(name, True)

    async def _remove_levels(self, name: str, maxdepth: int) -> None:
        for entry in sorted(await self._below(name, maxdepth), key=lambda entry: -entry.name.count("/")):
            deepest = entry.name.count("/") + 1 == maxdepth
            if entry.is_dir and deepest and await self._below(below(name, entry.name), 1):
                # What lies deeper stays, and so does its directory.
                continue
            await self._gone(below(name, entry.name), False, may_be_full=entry.is_dir)
        await self._gone(name, False, may_be_full=True)

    def _not_in_a_transaction(self, does: str) -> None:
        if self._intrans:
            raise UsageError(f"a transaction holds files that are written, and {does}; do it before or after")

    async def _gone(self, name: str, tree: bool, may_be_full: bool = False) -> None:
        async with self._session() as session:
            try:
                await session.rm_async(name, recursive=tree)
            except OSError as error:
                if not (may_be_full and error.errno in (errno.ENOTEMPTY, errno.EBUSY)):
                    raise


def _is_above(directory: str, name: str) -> bool:
    return name != directory and name.startswith(directory.rstrip("/") + "/")
