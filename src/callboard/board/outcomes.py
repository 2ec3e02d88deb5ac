"""What became of the intents of an agent, in a file for whoever settles it again.

Source: specification 1, §7.12 (retries give the first outcome). The board has the requests that
stand; this has the rest of the answers as well. It decides nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from callboard import canonical, files
from callboard.errors import CallboardError

MAX_OUTCOMES_BYTES = 4 * 1024 * 1024


class Outcomes(NamedTuple):
    """The answers in the order of the intents, and the refusals of messages that do not stand."""

    intents: list[dict[str, Any]]
    refusals: list[dict[str, Any]]


def read(path: Path, identity: str) -> Outcomes:
    """What was kept for the activation `identity`; empty where nothing was yet.

    Raises `activation_damaged`.
    """
    try:
        data = files.read_bounded(path, MAX_OUTCOMES_BYTES, what="the outcomes of an activation")
        found = canonical.decode(data, limit_bytes=MAX_OUTCOMES_BYTES)
    except CallboardError as error:
        if error.code == "file_missing":
            return Outcomes([], [])
        raise _damaged(path, identity, error.message) from error
    if not isinstance(found, dict) or found.keys() != set(Outcomes._fields):
        raise _damaged(path, identity, "it does not hold what was written")
    return Outcomes(*(_objects(found[name], path, identity) for name in Outcomes._fields))


def keep(path: Path, identity: str, document: dict[str, Any]) -> None:
    """Keep the answers that were given so far. Raises `activation_failed`."""
    try:
        files.publish(path, canonical.encode(document), private=True)
    except OSError as error:
        raise unwritable(identity, "outcomes", error) from error


def unwritable(identity: str, what: str, error: OSError) -> CallboardError:
    """The refusal where a file of an activation cannot be written."""
    return CallboardError(
        "activation_failed",
        f"the {what} of activation {identity} cannot be written: {error.strerror}",
        f"check free space, then: callboard agent settle {identity}",
    )


def _objects(value: canonical.Json, path: Path, identity: str) -> list[dict[str, Any]]:
    found = [dict(one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    if not isinstance(value, list) or len(found) != len(value):
        raise _damaged(path, identity, "it does not hold what was written")
    return found


def _damaged(path: Path, identity: str, found: str) -> CallboardError:
    return CallboardError(
        "activation_damaged",
        f"{str(path)!r} cannot be read: {found}",
        "move the file away and settle again: each request has a name of its own, so the board "
        "answers what was asked before as it did then",
        {"activation": identity},
    )
