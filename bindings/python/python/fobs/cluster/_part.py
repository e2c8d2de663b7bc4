"""A large file that comes in ranges, until it has its name.

It lies beside that name from the beginning, as the unfinished files of any copy do: so it has the group and the ACL
that its directory gives, no rename crosses file systems, and ``fobs clean`` knows it. A note in the state says where,
for the transfer that ends without it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from .._errors import DestinationError
from ._access import OWN_MODE, Access, Local, join
from ._shards import STATE, File

# Behind the identity of a file, in the name of its note.
_NOTE = ".at"


def place_of(file: File) -> str:
    """Where a file lies until its ranges are all there."""
    return join(os.path.dirname(file.name), _name_of(file.id))


def _name_of(identity: str) -> str:
    return f".{identity}.fobs-{identity[:6]}"


def note_of(file: File) -> str:
    """The note that says where it lies."""
    return f"{STATE}/{file.id}{_NOTE}"


@contextmanager
def made(local: Local, file: File) -> Iterator[int]:
    """The file that ranges are written into, with its room reserved: a full disk shows before any data came."""
    note, place = note_of(file), place_of(file)
    local.make_directories(STATE)
    if local.stat(note) is None:
        local.write(note, os.fsencode(place))
    local.make_directories(os.path.dirname(place))
    with opened(local, file, os.O_CREAT) as descriptor:
        if os.fstat(descriptor).st_size != file.size:
            try:
                os.posix_fallocate(descriptor, 0, file.size)
            except OSError as error:
                os.unlink(local.path(place))
                message = f"there is no room for the {file.size} bytes of {file.name!r}: {error.strerror}; free some"
                raise DestinationError(message) from error
        yield descriptor


@contextmanager
def opened(local: Local, file: File, flags: int = 0) -> Iterator[int]:
    """That file, which in a directory of several users is nobody else's."""
    path = local.path(place_of(file))
    descriptor = _open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        found = os.fstat(descriptor)
        # Some file systems give all that is made there to one user: the note is this user's too.
        owner = os.lstat(local.path(note_of(file))).st_uid
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != owner:
            message = f"{path!r}, into which the ranges of {file.name!r} come, is not this user's own; have it moved away"
            raise DestinationError(message)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, OWN_MODE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EPERM, errno.ENOTSUP):
            raise
        # A file system that has no such bit for files.
        return os.open(path, flags, OWN_MODE & 0o777)


def give_name(local: Local, file: File, descriptor: int) -> None:
    """Gives it its name, and looks whether it is what was written that has it now."""
    path = local.path(file.name)
    os.rename(local.path(place_of(file)), path)
    if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
        raise DestinationError(f"another user has put something else in the place of {path!r}; call again")


def remove_all(access: Access, notes: list[str]) -> None:
    """Removes the files of notes whose ranges did not all come, and that no later call goes on with."""
    for note in notes:
        identity = note.removesuffix(_NOTE)
        if identity == note or not re.fullmatch("[0-9a-f]{16}", identity):
            continue
        place = os.fsdecode(access.read(f"{STATE}/{note}"))
        *above, name = place.split("/")
        # A note that is none leads nowhere.
        if name != _name_of(identity) or not set(above).isdisjoint(("", ".", "..")):
            continue
        try:
            access.remove(place)
        except OSError:
            # `fobs clean` finds it, and says why it stays.
            continue
