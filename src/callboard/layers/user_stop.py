"""The user's wish that a tree ends: written by anybody, followed by the coordinator.

Source: layers.md §4 (stops), §6. It ends the deepest layer between attempts, and with it, as each
child is taken in, all above it. Only where it is to be at once, the attempt at work is ended too.
"""

from __future__ import annotations

from threading import Event
from typing import Literal

from callboard.errors import CallboardError
from callboard.layers.around import Around
from callboard.layers.records import base
from callboard.layers.results import read_process
from callboard.layers.runners import ask_to_end, identity_of
from callboard.layers.stored import read_record
from callboard.layers.tree import Layer

NAME = "stop_request.json"


class StopRequest(base.Record, frozen=True, kw_only=True):
    """`stop_request.json` of a root."""

    schema_version: Literal[1]
    reason: base.Text
    requested_at_ms: base.Time
    at_once: bool = False


def ask(around: Around, root: Layer, reason: str, *, at_once: bool = False) -> bool:
    """Ask for the end of a tree; False: somebody has asked before, and that stays.

    An earlier wish that let the attempt at work end gives way to one that does not. Raises
    `text_invalid` for a reason that is empty or no plain text.
    """
    value = {
        "schema_version": 1,
        "reason": reason,
        "requested_at_ms": around.clock.now_ms(),
        "at_once": at_once,
    }
    try:
        request = base.convert(value, StopRequest, "the stop request")
    except CallboardError as error:
        raise CallboardError(
            "text_invalid", error.message, "say why in plain text that is not empty", error.details
        ) from error
    data = base.encode(request)
    if around.disk.publish_new(root.file(NAME), data):
        return True
    if at_once and not _read(around, root).at_once:
        around.disk.publish(root.file(NAME), data)
    return False


def wish(around: Around, root: Layer) -> str | None:
    """Why the tree is to end; None: nobody has asked."""
    if around.disk.kind(root.file(NAME)) is None:
        return None
    return _read(around, root).reason


def end_attempt(around: Around, layer: Layer, attempt_id: str) -> bool:
    """Ask the runner of an attempt to stop its harness; False: none is known to be alive here."""
    try:
        process = read_process(around.disk, layer, attempt_id)
        return process is not None and ask_to_end(identity_of(process.runner))
    except CallboardError as error:
        # The wish is on record all the same; a run will say what is wrong with the attempt.
        if error.code in ("layer_corrupt", "identity_invalid", "path_invalid"):
            return False
        raise


class AtOnce(Event):
    """Set as soon as the tree is to end at once and the attempt has begun to be executed.

    Not sooner: an attempt that nobody has begun has no runner that could publish how it ended.
    """

    def __init__(self, around: Around, root: Layer, attempt: str) -> None:
        super().__init__()
        self._around = around
        self._root = root
        self._process = f"{attempt}/process.json"

    def is_set(self) -> bool:
        """Look, until it is so once."""
        if not super().is_set() and self._is_wanted():
            self.set()
        return super().is_set()

    def _is_wanted(self) -> bool:
        disk = self._around.disk
        if disk.kind(self._root.file(NAME)) is None or disk.kind(self._process) is None:
            return False
        return _read(self._around, self._root).at_once


def _read(around: Around, root: Layer) -> StopRequest:
    try:
        return read_record(around.disk, root.file(NAME), StopRequest)
    except CallboardError as error:
        if error.code != "layer_corrupt":
            raise
        raise CallboardError(
            error.code,
            error.message,
            f"remove {root.file(NAME)}; where the tree is to end, ask with `callboard layers stop`",
            error.details,
        ) from error
