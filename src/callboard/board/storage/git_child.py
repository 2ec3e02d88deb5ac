"""One run of a program that may talk to a network: bounded in time and words, ended as a group.

It decides nothing about what the program is for. Output goes to files, not to pipes, so that a
helper which stays behind (a shared connection, a cache of credentials) keeps nobody waiting.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict

GRACE_S = 2.0
_REAP_S = 5.0
_CHECK_S = 0.25
_SAID_BYTES = 1_000
_MOST_SAID_BYTES = 4 * 1024 * 1024
_SPACE = re.compile(rb"\s")


class _Apart(TypedDict, total=False):
    """Words of `Popen`."""

    process_group: int
    start_new_session: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: its exit status, None where its time was up; what it answered and said.

    `said` is the end of its standard error, in whole words, for people alone. `is_cut`: there was
    more of an answer than is read, or so much was said that the call was stopped.
    """

    status: int | None
    output: bytes
    said: str
    is_cut: bool = False


def run_child(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    limit_bytes: int,
) -> Ended:
    """Run `command` with stdin closed, in a group of its own, for `timeout_s` at most.

    It has no terminal to ask anything at: where this process has one, the group is a session. When
    its time is up, or whoever waits is interrupted, the whole group is told to end, and killed
    after a grace of `GRACE_S`. At most `limit_bytes` of its answer are read; one that is found to
    write more is ended too. Raises `OSError` where it cannot be started.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=said,
            **_apart(),
        )
        status: int | None = None
        try:
            if _ends_in_bounds(process, timeout_s, {output: limit_bytes, said: _MOST_SAID_BYTES}):
                status = process.wait()
        finally:
            if status is None:
                _end_group(process)
        tail = _tail(said).decode("utf-8", "replace").strip()
        is_cut = _size(output) > limit_bytes or _size(said) > _MOST_SAID_BYTES
        return Ended(status, os.pread(output.fileno(), limit_bytes, 0), tail, is_cut)


def _apart() -> _Apart:
    """How the child is kept from our group, and from our terminal if there is one.

    A session of its own is only made where it is needed: the kernel schedules each one apart, and
    on a busy machine that makes a short call wait half as long again.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return {"process_group": 0}
    return {"start_new_session": True}


def _ends_in_bounds(
    process: subprocess.Popen[bytes], timeout_s: float, limits: Mapping[IO[bytes], int]
) -> bool:
    """Whether the process ends in time, before it is seen to have written too much."""
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = deadline - time.monotonic()
        if _ends_within(process, min(left_s, _CHECK_S)):
            return True
        if left_s <= _CHECK_S or any(_size(one) > most for one, most in limits.items()):
            return False


def _ends_within(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    """Whether the process ends in time."""
    ended = _is_seen_ending(process, wait_s)
    if ended is not None:
        return ended
    try:
        process.wait(max(0.0, wait_s))
    except subprocess.TimeoutExpired:
        return False
    return True


def _is_seen_ending(process: subprocess.Popen[bytes], wait_s: float) -> bool | None:
    """The same, with the process left unreaped, so that its number stays its own; None where this
    system cannot tell."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(process.pid)
            try:
                watch = select.poll()
                watch.register(descriptor, select.POLLIN)
                return bool(watch.poll(max(0.0, wait_s) * 1000))
            finally:
                os.close(descriptor)
    return None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """TERM, grace, KILL for the whole group; one that was stopped is woken to hear the first."""
    if process.returncode is not None:
        return
    for number in (signal.SIGTERM, signal.SIGCONT):
        _send(process, number)
    if _is_seen_ending(process, GRACE_S) is None:
        # Whoever reaps the leader here has no number left to kill the others by.
        threading.Event().wait(GRACE_S)
    _send(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REAP_S)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def _tail(stream: IO[bytes]) -> bytes:
    """The last words. None of them is cut: of half an address nobody could tell what is secret."""
    size = _size(stream)
    if size <= _SAID_BYTES:
        return os.pread(stream.fileno(), _SAID_BYTES, 0)
    cut = os.pread(stream.fileno(), _SAID_BYTES, size - _SAID_BYTES)
    return b"".join(_SPACE.split(cut, 1)[1:])


def _size(stream: IO[bytes]) -> int:
    return os.fstat(stream.fileno()).st_size
