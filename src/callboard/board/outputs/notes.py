"""The notes of delivered Work, read for people: what its workers had to say about it.

A note is text of an untrusted side; whoever shows it cleans it first.
"""

from __future__ import annotations

from callboard import canonical
from callboard.board.outputs.descriptor import Descriptor, NoteEntry
from callboard.board.outputs.messages import BODY_LIMITS
from callboard.board.protocol.operations import Payload
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from callboard.validate import parse


def notes_of(repository: Repository, result: Payload) -> list[dict[str, object]]:
    """The notes that a Result describes, `{ref, text}` each in their order.

    `text` is None where this clone does not have it, or what it has is something else.
    """
    try:
        found = parse(Descriptor, result, what="a Result", code="descriptor_invalid")
    except CallboardError:
        # A foreign writer describes its outputs in its own way.
        return []
    return [
        {"ref": entry.ref, "text": _text(repository, entry)}
        for entry in found.outputs
        if isinstance(entry, NoteEntry)
    ]


def _text(repository: Repository, entry: NoteEntry) -> str | None:
    if entry.size_bytes > BODY_LIMITS["note"]:
        return None
    try:
        data = repository.read_blob(entry.blob, entry.size_bytes)
        if canonical.sha256_hex(data) != entry.sha256:
            return None
        return data.decode("utf-8")
    except (CallboardError, UnicodeDecodeError):
        return None
