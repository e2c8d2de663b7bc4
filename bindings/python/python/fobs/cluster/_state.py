"""The state of a transfer at its destination: what is verified there, and who works on it.

All of it lies in ``.fobs-cluster`` below the destination and is gone after a transfer that left nothing open:

    lock              who works on the destination, and a number that grows while it does
    done-SHARD        files of a shard that are in place: name, size, time, hash; JSON
    ID.at             where a large file lies that comes in ranges: beside its name
    ID-START.pieces   its verified pieces of one range: INDEX HEX
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator

from .. import _fobs
from .._errors import DestinationError, IntegrityError, SourceNotFoundError
from ._access import Access, Local
from ._part import give_name, note_of, opened, place_of, remove_all
from ._shards import PIECE, STATE, File, Shard

LOCK = f"{STATE}/lock"
# How often who holds the lock says so, seconds; and how long without a sign until the lock is taken over. No
# clock is compared: only whether the number grew.
BEAT_EVERY = 2.0
DEAD_AFTER = 7.0
# Length of a hash.
_ROOT_BYTES = 32

#: Name, size, time of a file, and its hash.
Record = tuple[str, int, int, str]


class BusyError(DestinationError):
    """Another cluster transfer works on the destination."""


def take_lock(access: Access, owner: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Takes the destination, from a transfer that shows no sign of life as well."""
    before = _read_lock(access)
    if before is not None and before["owner"] != owner:
        end = time.monotonic() + DEAD_AFTER
        while time.monotonic() < end:
            sleep(BEAT_EVERY / 4)
            now = _read_lock(access)
            if now is None:
                break
            if now != before:
                raise BusyError(
                    f"another cluster transfer, {now['owner']}, works on this destination; wait for its end, or "
                    "choose another destination"
                )
    _take(access, owner)


def _take(access: Access, owner: str) -> None:
    """Writes the lock. The directory goes with the transfer before, which may end right now."""
    for left in reversed(range(CLEARINGS_MAX)):
        access.make_directories(STATE)
        try:
            return beat(access, owner, 0)
        except OSError:
            if not left or access.stat(STATE) is not None:
                raise


#: Of two that took the destination at once, the later one has it: how long the first one waits to see it, seconds.
CONFIRM_AFTER = BEAT_EVERY / 4
#: How often the state is removed, while others still write there.
CLEARINGS_MAX = 5


def confirm_lock(
    access: Access, owner: str, wait: float, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Waits ``wait`` seconds, then raises if another transfer holds the lock of the destination."""
    sleep(wait)
    now = _read_lock(access)
    if now is None:
        # It went with the state of a transfer that ended meanwhile.
        _take(access, owner)
    elif now["owner"] != owner:
        raise BusyError(
            f"another cluster transfer, {now['owner']}, took this destination at the same time; wait for it"
        )


def _read_lock(access: Access) -> dict[str, object] | None:
    try:
        lock = json.loads(access.read(LOCK))
        return lock if isinstance(lock, dict) and "owner" in lock else None
    except (FileNotFoundError, SourceNotFoundError, ValueError):
        return None


def beat(access: Access, owner: str, count: int) -> None:
    """A sign of life; raises where another transfer has taken the destination."""
    if count:
        now = _read_lock(access)
        if now is not None and now["owner"] != owner:
            raise BusyError(f"another cluster transfer, {now['owner']}, has taken this destination over")
    access.write(LOCK, json.dumps({"owner": owner, "beat": count}).encode())


def note_done(access: Access, shard: Shard, records: Iterable[Record]) -> None:
    """Notes files of a shard that are in place."""
    access.write(f"{STATE}/done-{shard.id}", json.dumps(list(records)).encode())


def done_names(access: Access) -> list[str]:
    """Names of the records of an earlier call, where there is a state."""
    return [found.name for found in access.list(STATE) if found.name.startswith("done-")]


def read_done(access: Access, name: str) -> Iterator[Record]:
    """Files that an earlier call verified. A record that cannot be read says nothing."""
    try:
        for path, size, mtime_ns, root in json.loads(access.read(f"{STATE}/{name}")):
            if len(bytes.fromhex(root)) == _ROOT_BYTES and 0 <= int(size) < 1 << 63 and abs(int(mtime_ns)) < 1 << 63:
                yield (str(path), int(size), int(mtime_ns), str(root))
    except (ValueError, TypeError, FileNotFoundError, SourceNotFoundError):
        return


#: Whether a piece is that of the file that was agreed on.
IsPiece = Callable[[int, bytes], bool]


def read_pieces(access: Access, file: File, is_piece: IsPiece | None = None) -> dict[int, bytes]:
    """Verified pieces of a file that comes in ranges; those of another file of its size and time are left out."""
    pieces: dict[int, bytes] = {}
    part = access.stat(place_of(file))
    if part is None or part.size != file.size:
        return pieces
    for found in access.list(STATE):
        if not (found.name.startswith(f"{file.id}-") and found.name.endswith(".pieces")):
            continue
        for line in access.read(f"{STATE}/{found.name}").decode("ascii", "replace").splitlines():
            words = line.split(" ")
            # A line that a crash has torn is not whole.
            if (
                len(words) == 2
                and words[0].isdigit()
                and len(words[1]) == 64
                and int(words[0]) * PIECE < file.size
            ):
                try:
                    index, value = int(words[0]), bytes.fromhex(words[1])
                except ValueError:
                    continue
                if is_piece is None or is_piece(index, value):
                    pieces[index] = value
    return pieces


def missing_runs(file: File, pieces: dict[int, bytes], start: int, end: int) -> list[tuple[int, int]]:
    """Runs of bytes of a range that no piece has yet."""
    runs: list[tuple[int, int]] = []
    for index in range(start // PIECE, (end + PIECE - 1) // PIECE):
        if index in pieces:
            continue
        at, until = index * PIECE, min((index + 1) * PIECE, file.size)
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], until)
        else:
            runs.append((at, until))
    return runs


def finish_file(local: Local, file: File, mode: int, is_piece: IsPiece | None = None) -> Record:
    """Gives a file whose ranges are all there its name; returns its record."""
    pieces = read_pieces(local, file, is_piece)
    count = (file.size + PIECE - 1) // PIECE
    if len(pieces) < count:
        raise IntegrityError(
            f"{count - len(pieces)} pieces of {file.name!r} are missing; call again to fetch them"
        )
    root = _fobs.join_pieces([pieces[index] for index in range(count)]) if count > 1 else pieces[0].hex()
    with opened(local, file) as descriptor:
        os.utime(descriptor, ns=(file.mtime_ns, file.mtime_ns))
        os.fchmod(descriptor, mode)
        give_name(local, file, descriptor)
    record = (file.name, file.size, file.mtime_ns, root)
    note_done(local, Shard("range", (file,), start=0, end=file.size), [record])
    for found in local.list(STATE):
        if found.name.startswith(f"{file.id}-"):
            local.remove(f"{STATE}/{found.name}")
    local.remove(note_of(file))
    return record


def give_back(access: Access, owner: str, left_open: bool) -> None:
    """Gives the destination back; what a later call needs stays where something is left to do. Of a transfer that has taken
    it over meanwhile, nothing is removed.
    """
    now = _read_lock(access)
    if now is not None and now["owner"] != owner:
        return
    if left_open:
        access.remove(LOCK)
    else:
        clear(access)


def clear(access: Access) -> None:
    """Removes the state, and the files that it names."""
    for left in reversed(range(CLEARINGS_MAX)):
        remove_all(access, [found.name for found in access.list(STATE)])
        try:
            return access.remove(STATE, tree=True)
        except OSError as error:
            # A worker that was taken for dead has just written there.
            if not left or error.errno != errno.ENOTEMPTY:
                raise
