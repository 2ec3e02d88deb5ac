"""Asks a project's own handler or verifier, each time in a process of its own, within bounds.

Source: specification 1, §7.14. Such code may do anything but take us with it: what it raises, that
it exits, hangs, floods or answers nonsense comes out as one refusal, `handler_failed`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from callboard import canonical
from callboard.board.outputs import own_child
from callboard.board.outputs.installed import has_handler
from callboard.board.outputs.own import OUTPUTS, VERIFIERS
from callboard.errors import CallboardError

MAX_ANSWER_BYTES = 64 * 1024
PREPARE_S = 30.0
EFFECT_S = 120.0
_CHUNK = 64 * 1024
# All that code without credentials is told; where programs are found and how text looks.
_PLAIN = {"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "UTC"}


class Act(NamedTuple):
    """One kind of call: whether it gets the environment of whoever delivers, and its seconds."""

    name: Literal["prepare", "apply", "verify", "judge"]
    trusted: bool
    limit_s: float


PREPARE = Act("prepare", False, PREPARE_S)
APPLY = Act("apply", True, EFFECT_S)
VERIFY = Act("verify", True, EFFECT_S)
JUDGE = Act("judge", False, PREPARE_S)


def check_installed(output_type: str) -> None:
    """Refuse with `handler_missing` a type whose handler is not installed here, just once."""
    if not has_handler(output_type):
        raise CallboardError(
            "handler_missing",
            f"no handler, or more than one, is installed here for {output_type}: the entry point "
            f"{output_type!r} in the group {OUTPUTS!r}",
            "install the package that has it where Callboard runs, and no other that has it too",
            {"group": OUTPUTS, "entry_point": output_type},
        )


def ask(act: Act, name: str, question: Mapping[str, Any]) -> Any:
    """The answer of the handler or verifier `name`.

    Raises `handler_missing`, `handler_failed`, or `output_refused` where it says so itself.
    """
    group = VERIFIERS if act is JUDGE else OUTPUTS
    if act is not JUDGE:
        check_installed(name)
    asked = {
        **question,
        "act": act.name,
        "group": group,
        "name": name,
        "path": [one for one in sys.path if one],
        # Without credentials there is nothing in its words that could be one.
        "tell": not act.trusted,
    }
    said = _answer(act, name, json.dumps(asked).encode("ascii") + b"\n")
    try:
        answer = canonical.decode(said, limit_bytes=MAX_ANSWER_BYTES)
    except CallboardError as error:
        raise failed(act, name, f"gave no answer that can be read: {error.message}") from error
    if isinstance(answer, dict) and len(answer) == 1:
        (kind, value), *_rest = answer.items()
        if kind == "answer":
            return value
        if kind == "refused":
            raise CallboardError(
                "output_refused",
                f"the handler of {name} does not take this output: {value}",
                "what it takes is said where the project describes it",
                {"type": name},
            )
        raise failed(act, name, f"raised {value}" if kind == "raised" else str(value))
    raise failed(act, name, "gave no answer")


def _answer(act: Act, name: str, question: bytes) -> bytes:
    with tempfile.TemporaryDirectory(prefix="callboard-own-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        environment = None
        if not act.trusted:
            environment = {**_PLAIN, "HOME": made, "TMPDIR": made}
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", own_child.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=scratch,
                start_new_session=True,
            )
        except OSError as error:
            raise failed(act, name, f"could not be started: {error.strerror}") from error
        try:
            return _conversation(process, act, name, question)
        finally:
            _end(process)


def _conversation(process: subprocess.Popen[bytes], act: Act, name: str, question: bytes) -> bytes:
    """Ask, then read to the end of the answer; standard input stays open until then."""
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = time.monotonic() + act.limit_s
    # It reads its question before it does anything else.
    with suppress(BrokenPipeError):
        process.stdin.write(question)
        process.stdin.flush()
    said = bytearray()
    descriptor = process.stdout.fileno()
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not waiting.poll(left * 1000):
            raise failed(act, name, f"did not answer within {act.limit_s:g} seconds")
        piece = os.read(descriptor, _CHUNK)
        if not piece:
            break
        said += piece
        if len(said) > MAX_ANSWER_BYTES:
            raise failed(act, name, f"answered with more than {MAX_ANSWER_BYTES} bytes")
    if not said:
        raise failed(act, name, "ended without an answer")
    return bytes(said)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of it: the process and its whole group, which is its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def failed(act: Act, name: str, what: str) -> CallboardError:
    """The refusal of what a project's code did, or did not do."""
    return CallboardError(
        "handler_failed",
        f"the project's own code for {name} {what} (in {act.name})",
        "correct the package that has it, or install another release of it",
        {"name": name, "act": act.name},
    )
