"""A run's staging folder as its untrusted side may have left it, read within bounds.

Everything goes through one open folder, so that no later change of a path leads elsewhere. It
takes files for what their names say and believes nothing in them.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from callboard import canonical
from callboard.board.outputs.messages import ArtifactMessage, StagedMessage, output_type
from callboard.errors import CallboardError
from callboard.files import publish_in
from callboard.regular import read_regular, shown_name

TERMS = "terms.json"
CLOSED = "closed"
_HOLD_STEP_S = 0.02
MAX_MESSAGES = 256
MAX_MESSAGE_BYTES = 16 * 1024
MAX_TERMS_BYTES = 64 * 1024
_MAX_ENTRIES = 4096
_MAX_REPORTED = 64
_MESSAGE = re.compile(r"message-([0-9]{6})\.json")
_KNOWN = re.compile(r"message-[0-9]{6}\.json|blob-[0-9a-f]{64}|terms\.json|closed")
_TEMPORARY = re.compile(r"\..*\.tmp", re.DOTALL)


def message_name(number: int) -> str:
    """The file of the `number`-th message, from 1."""
    return f"message-{number:06}.json"


def blob_name(sha256: str) -> str:
    """The file that holds the bytes with that digest."""
    return f"blob-{sha256}"


class Staged(NamedTuple):
    """One message file: its decoded value, or why there is none."""

    source: str
    number: int
    value: canonical.Json
    error: CallboardError | None


class StagingFolder:
    """An open staging folder; use it with `with`. Raises `staging_invalid`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags)
        except (OSError, ValueError) as error:
            raise CallboardError(
                "staging_invalid",
                f"the staging folder {shown_name(str(path))!r} cannot be opened as a folder",
                "it belongs to the run and is made for it; leave it in its place",
            ) from error

    def __enter__(self) -> StagingFolder:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._fd)

    def messages(self) -> Iterator[Staged]:
        """The messages in the order they were staged; at most `MAX_MESSAGES` names are tried."""
        for number in range(1, MAX_MESSAGES + 1):
            name = message_name(number)
            try:
                data = self._read(name, MAX_MESSAGE_BYTES, "the message")
                value = canonical.decode(data, limit_bytes=MAX_MESSAGE_BYTES)
            except CallboardError as error:
                if error.code != "file_missing":
                    yield Staged(name, number, None, error)
                continue
            yield Staged(name, number, value, None)

    def load(self, message: StagedMessage) -> bytes:
        """The bytes beside a message, read once and proven to be those of its digest.

        Raises `artifact_missing` or `artifact_changed`.
        """
        limit = message.size_bytes
        try:
            data = self._read(blob_name(message.sha256), limit, "the staged file")
        except CallboardError as error:
            if error.code == "staging_limit":
                raise _changed(message) from error
            raise CallboardError(
                "artifact_missing",
                f"the bytes of {_shown(message)} are not in the staging folder: {error.message}",
                "stage it again",
            ) from error
        if len(data) != limit or canonical.sha256_hex(data) != message.sha256:
            raise _changed(message)
        return data

    def hold(self, patience_s: float = 5.0) -> bool:
        """Keep others from staging here while this is open; False where somebody does not let go.

        Whoever closes the folder must not wait for one that it does not rule.
        """
        pause = threading.Event()
        for _try in range(max(1, int(patience_s / _HOLD_STEP_S))):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                pause.wait(_HOLD_STEP_S)
        return False

    def check_open(self) -> None:
        """Refuse with `staging_closed` a folder whose wishes were taken in."""
        with suppress(FileNotFoundError):
            os.stat(CLOSED, dir_fd=self._fd, follow_symlinks=False)
            raise CallboardError(
                "staging_closed",
                "what was staged here was taken in already; this would be lost",
                "stage before the run or the agent has ended",
            )

    def close_for_good(self) -> None:
        """Let nothing more be staged here. Raises `OSError`."""
        self.hold()
        with suppress(FileExistsError):
            self.put(CLOSED, b"")

    def put(self, name: str, data: bytes) -> None:
        """Add a file to this very folder; one of that name is kept. Raises `OSError`."""
        publish_in(self._fd, name, data, private=True, replace=False)

    def terms(self) -> bytes | None:
        """The terms as the host wrote them; None where there are none. Only the worker asks."""
        try:
            return self._read(TERMS, MAX_TERMS_BYTES, "the terms of the run")
        except CallboardError as error:
            if error.code == "file_missing":
                return None
            raise

    def has_terms(self) -> bool:
        """Whether a file of the terms' name is there still, whatever it holds."""
        try:
            return stat.S_ISREG(os.stat(TERMS, dir_fd=self._fd, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def strangers(self) -> tuple[str, ...]:
        """Files that nobody reads, as messages may show them; a bounded number of a bounded look.

        Messages beyond the last number are among them.
        """
        found: list[str] = []
        try:
            with os.scandir(self._fd) as entries:
                for entry in itertools.islice(entries, _MAX_ENTRIES):
                    if not _is_known(entry.name) and len(found) < _MAX_REPORTED:
                        found.append(shown_name(entry.name))
        except OSError as error:
            return (f"(the folder cannot be listed: {error.strerror})",)
        return tuple(sorted(found))

    def _read(self, name: str, limit_bytes: int, what: str) -> bytes:
        return read_regular(name, limit_bytes, what=what, dir_fd=self._fd, code="staging_limit")


def _is_known(name: str) -> bool:
    numbered = _MESSAGE.fullmatch(name)
    if numbered:
        return 1 <= int(numbered[1]) <= MAX_MESSAGES
    # A message that was cut short while it was written was never staged.
    return bool(_KNOWN.fullmatch(name) or _TEMPORARY.fullmatch(name))


def _shown(message: StagedMessage) -> str:
    if isinstance(message, ArtifactMessage):
        return repr(message.name)
    return f"this {output_type(message)}"


def _changed(message: StagedMessage) -> CallboardError:
    return CallboardError(
        "artifact_changed",
        f"the staged bytes of {_shown(message)} are not those that were announced",
        "stage it again",
    )
