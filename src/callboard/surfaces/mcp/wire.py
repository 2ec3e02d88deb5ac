"""The two pipes between a server and its client, kept to JSON-RPC alone and bounded.

The process's own standard streams are moved aside first: whatever else reads or writes there,
a library, a warning or a child, meets an empty input and standard error. It knows no tool.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
from dataclasses import dataclass
from typing import Any

MAX_REQUEST_BYTES = 1024 * 1024
"""The most bytes of one line from the client; a longer one is never held, let alone parsed."""
_CHUNK_BYTES = 64 * 1024
_HEAD_BYTES = 512
# Only where it is spelled before anything that the caller chose.
_ID = re.compile(
    rb'\s*\{(?:\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,64}"\s*,)*\s*"id"\s*:\s*'
    rb'(?:([0-9]{1,15})|"([^"\\]{1,64})")\s*[,}]'
)


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was longer than the bound, with what it began with."""

    head: bytes

    @property
    def request_id(self) -> int | str | None:
        """The id of the request, where it can be told without parsing what was too long."""
        return id_in(self.head)


def id_in(head: bytes) -> int | str | None:
    """The id of a request, as far as what it begins with tells."""
    found = _ID.match(head)
    if found is None:
        return None
    return int(found[1]) if found[1] else found[2].decode(errors="replace")


class UnfitIdError(ValueError):
    """A request whose id is neither text nor a whole number, so that it cannot be answered."""


def check_once(line: bytes) -> None:
    """Refuse with `ValueError` a line that says a key twice, or a number that is none: whoever
    reads such a message may take it for another one than whoever wrote it. One whose id is none
    would be taken for a notice, which nobody answers: `UnfitIdError`."""
    try:
        found = json.loads(line, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("the message is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        # The engine says so in its own words.
        return
    if isinstance(found, dict) and "method" in found and "id" in found:
        request = found["id"]
        if isinstance(request, bool) or not isinstance(request, int | str):
            raise UnfitIdError("the id of a request is text or a whole number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:80]!r} stands twice in one object")
        seen[key] = value
    return seen


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


class Requests:
    """The lines that come in on a descriptor, one after the other; only one caller at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = bytearray()
        self._is_over = False

    def next(self) -> bytes | TooLong | None:
        """The next line, without its end; None once the client has closed the pipe. Blocks."""
        head: bytes | None = None
        searched = 0
        while True:
            end = self._rest.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._rest[:end])
                del self._rest[: end + 1]
                if head is not None or end > MAX_REQUEST_BYTES:
                    return TooLong(line[:_HEAD_BYTES] if head is None else head)
                return line
            if len(self._rest) > MAX_REQUEST_BYTES or head is not None:
                head = bytes(self._rest[:_HEAD_BYTES]) if head is None else head
                self._rest.clear()
            searched = len(self._rest)
            if not self._fill():
                return None

    def _fill(self) -> bool:
        if not self._is_over:
            try:
                chunk = os.read(self._descriptor, _CHUNK_BYTES)
            except OSError:
                # Whatever became of the pipe, nobody can ask anything over it any more.
                chunk = b""
            self._is_over = not chunk
            self._rest += chunk
        return not self._is_over


def has_left(descriptor: int) -> bool:
    """Whether nobody can read any more what is written on a descriptor. Does not block."""
    looking = select.poll()
    looking.register(descriptor, 0)
    return any(told & (select.POLLERR | select.POLLNVAL) for _at, told in looking.poll(0))


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`. Raises `OSError` where the client is gone. Blocks."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def take_standard_streams() -> tuple[int, int]:
    """The descriptors of the client's two pipes, which from now on nothing else can reach.

    Standard input is empty afterwards, and standard output is standard error.
    """
    null = os.open(os.devnull, os.O_RDWR)
    reading = _aside(0, null)
    writing = _aside(1, null)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null, 1)
    return reading, writing


def _aside(descriptor: int, null: int) -> int:
    """A copy above the standard streams that no child inherits; of nothing where it is closed."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, 3)
