"""`inputs/updates.jsonl`: what the user adds while a layer is at work, for its next attempt.

Updates are counted by the lines that are whole: a torn one is nobody's, and spoils none after it.
Agents can reach the file. What they make of it stops no layer, and at worst is told twice.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from callboard import canonical
from callboard.errors import CallboardError
from callboard.layers import locking
from callboard.layers.around import Around
from callboard.layers.disk import Disk
from callboard.layers.records.base import Id, Record, Text, Time, digest
from callboard.layers.records.state import State
from callboard.layers.tree import Layer

NAME = "inputs/updates.jsonl"
MAX_UPDATES_BYTES = 8 * 1024 * 1024
MAX_READ_BYTES = 2 * MAX_UPDATES_BYTES
"""Line breaks and remarks of the machine may come on top of what was added."""
MAX_TOLD = 500
"""As many are told to one attempt; what is left is for the next one."""
MAX_TOLD_BYTES = 2 * 1024 * 1024
"""Of all that one attempt is told; one update is always told, however long."""
FAILURES = "protocol_failures"

_SET_ASIDE = re.compile(r"updates_([0-9]{4,9})")


class Update(Record, frozen=True, kw_only=True):
    """One line: what somebody added, and when."""

    at_ms: Time
    text: Text
    from_session: Id | None = None
    """The child layer that ended before it could tell any attempt of it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """All updates of a layer, the oldest first, and how many of them its attempts were given."""

    updates: tuple[Update, ...]
    delivered: int

    @property
    def rest(self) -> tuple[Update, ...]:
        """What no attempt was given yet."""
        return self.updates[self.delivered :]

    def waiting(self) -> tuple[str, ...]:
        """What the next attempt is to be told, within the limits of one."""
        return tuple(_within(self.rest))

    def sha256(self, count: int) -> str | None:
        """The digest by which the first `count` updates are known again; None for none."""
        return _sha256(self.updates[:count]) if count else None


def standing(around: Around, layer: Layer, state: State) -> Standing:
    """The updates as they are now.

    Where those that were given to attempts are no longer the first ones, all of them count as
    new: an update may be told twice, and is never taken for another one.
    """
    if _failing(around, layer) is not None:
        with locking.writer(around):
            _mend(around, layer)
    found = tuple(_all(around, layer))
    count, known = state.updates_delivered, state.updates_sha256
    is_known = len(found) >= count and known in (None, _sha256(found[:count]))
    return Standing(found, count if is_known else 0)


def add(around: Around, layer: Layer, text: str) -> int:
    """Add to what the layer is told; gives the number of updates it then has.

    Raises `text_invalid`, or `resource_limit` where the layer has been told too much already.
    """
    at_ms = around.clock.now_ms()
    try:
        update = msgspec.convert({"at_ms": at_ms, "text": text}, Update)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise CallboardError(
            "text_invalid",
            f"the update of {len(text)} characters cannot be taken: it is empty, too long, or has"
            " control characters",
            "give plain text of at most 262144 characters; line breaks and tabs are allowed",
            {"characters": len(text)},
        ) from error
    with locking.writer(around):
        _mend(around, layer)
        if not _fits(around, layer, [update]):
            raise CallboardError(
                "resource_limit",
                f"the updates of this layer would have more than {MAX_UPDATES_BYTES} bytes",
                "put long texts into a file of the repository, and name it",
                {"limit_bytes": MAX_UPDATES_BYTES},
            )
        _append(around, layer, [update])
        return len(_all(around, layer))


def hand_up(around: Around, child: Layer, ended: State, parent: Layer) -> None:
    """Tell `parent` what `child` ended without having been told. Done again, nothing is added.

    What does not fit there is named by where it lies: a child that is over must stop no parent.
    """
    origin = child.session.session_id
    rest = standing(around, child, ended).rest
    if not rest:
        return
    with locking.writer(around):
        _mend(around, parent)
        before = [one for one in _all(around, parent) if one.from_session == origin]
        text = _too_many(origin)
        if any(one.text == text for one in before):
            return
        # Some of them only, where a process was killed in the middle of writing.
        handed = [msgspec.structs.replace(one, from_session=origin) for one in rest[len(before) :]]
        if not handed:
            return
        if not _fits(around, parent, handed):
            handed = [Update(at_ms=around.clock.now_ms(), text=text, from_session=origin)]
        _append(around, parent, handed)


def _too_many(origin: str) -> str:
    return (
        f"The child layer {origin} ended before any attempt was told its last updates. They do not"
        f" all fit here: read them in session:{origin}:/{NAME}."
    )


def _within(updates: tuple[Update, ...]) -> Iterator[str]:
    room = MAX_TOLD_BYTES
    for count, one in enumerate(updates):
        room -= len(canonical.encode(one.text))
        if count and (room < 0 or count == MAX_TOLD):
            return
        yield one.text


# --- what agents made of the file -----------------------------------------------------------------


def unreadable(disk: Disk, place: str) -> str | None:
    """Why nobody can read the file of updates at `place`, in words; None: it is none, or fit."""
    facts = disk.facts(place)
    if facts is None:
        return None
    if not stat.S_ISREG(facts.st_mode):
        return "it is no plain file"
    if facts.st_size > MAX_READ_BYTES:
        return f"it has {facts.st_size} bytes, more than {MAX_READ_BYTES} are ever read"
    return None


def _failing(around: Around, layer: Layer) -> str | None:
    """What is left to be done about a file that nobody can read; None: nothing is wrong."""
    if unreadable(around.disk, layer.file(NAME)) is not None:
        return "set aside"
    last = _last_set_aside(around, layer)
    if last and _remark(layer, last) not in {one.text for one in _all(around, layer)}:
        return "tell"
    return None


def _mend(around: Around, layer: Layer) -> None:
    """Set a file aside that nobody can read, and tell the layer so. Only one process at a time may.

    Killed between the two, it is told by whoever comes next.
    """
    failing = _failing(around, layer)
    if failing is None:
        return
    last = _last_set_aside(around, layer)
    if failing == "set aside":
        last += 1
        around.disk.make_folder(layer.file(FAILURES))
        around.disk.move(layer.file(NAME), layer.file(FAILURES, f"updates_{last:04d}"))
    _append(around, layer, [Update(at_ms=around.clock.now_ms(), text=_remark(layer, last))])


def _last_set_aside(around: Around, layer: Layer) -> int:
    matches = map(_SET_ASIDE.fullmatch, around.disk.names(layer.file(FAILURES)))
    return max((int(one[1]) for one in matches if one is not None), default=0)


def _remark(layer: Layer, number: int) -> str:
    kept = f"session:{layer.session.session_id}:/{FAILURES}/updates_{number:04d}"
    return (
        f"The file of updates could not be read any more, and was set aside as {kept}. What it says"
        " may never have been told; the file belongs to the machine, and is not to be changed."
    )


# --- lines ----------------------------------------------------------------------------------------


def _fits(around: Around, layer: Layer, updates: list[Update]) -> bool:
    return len(_data(around, layer)) + len(_lines(updates)) <= MAX_UPDATES_BYTES


def _append(around: Around, layer: Layer, updates: list[Update]) -> None:
    present = _data(around, layer)
    # What a process that was killed left half done must not swallow this line as well.
    torn = bool(present) and not present.endswith(b"\n")
    around.disk.make_folder(layer.file(NAME).rpartition("/")[0])
    around.disk.append(layer.file(NAME), b"\n" * torn + _lines(updates))


def _lines(updates: list[Update]) -> bytes:
    return b"".join(canonical.encode(msgspec.to_builtins(one)) + b"\n" for one in updates)


def _sha256(updates: tuple[Update, ...]) -> str:
    return digest(_lines(list(updates)))


def _all(around: Around, layer: Layer) -> list[Update]:
    """All updates, the oldest first; a line that is torn or strange is none."""
    found = []
    for line in _data(around, layer).split(b"\n")[:-1]:
        try:
            found.append(msgspec.json.decode(line, type=Update))
        except msgspec.DecodeError:
            continue
    return found


def _data(around: Around, layer: Layer) -> bytes:
    if around.disk.kind(layer.file(NAME)) is None:
        return b""
    return around.disk.read(layer.file(NAME), MAX_READ_BYTES)
