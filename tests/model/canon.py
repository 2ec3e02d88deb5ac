"""Canonical JSON and the one exception of the reference model.

Values are plain Python objects as `json.loads` yields them. This module never repairs a value:
whatever has no exact canonical form is refused.
"""

import hashlib
import json
from typing import Any

Doc = dict[str, Any]

SAFE = 9007199254740991
MAX_DEPTH = 64
MAX_ARRAY = 16384
MAX_LINE = 8 * 1024 * 1024


class Refused(Exception):
    """A commit the model will not take; `reason` is a code, `detail` is for people."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


def check_value(value: Any, depth: int = 0) -> None:
    """Refuse what the JSON profile has no spelling for: fractions, unsafe integers, odd text."""
    if depth > MAX_DEPTH:
        raise Refused("resource_limit", "nested too deeply")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -SAFE <= value <= SAFE:
            raise Refused("noncanonical_number", str(value))
    elif isinstance(value, str):
        check_text(value)
    elif isinstance(value, list):
        if len(value) > MAX_ARRAY:
            raise Refused("resource_limit", "array too long")
        for item in value:
            check_value(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Refused("invalid_json", "a key is no string")
            check_text(key)
            check_value(item, depth + 1)
    else:
        raise Refused("noncanonical_number", repr(value))


def check_text(text: str) -> None:
    """Refuse text with a lone surrogate; everything else has a UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused("invalid_unicode", repr(text)) from error


def canonical(value: Any) -> bytes:
    """The canonical bytes of a value: sorted keys, no space, shortest escapes."""
    check_value(value)
    # Code point order and UTF-8 byte order are the same order, so sort_keys is right here.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8")


def digest(value: Any) -> str:
    """Hex SHA-256 of the canonical bytes."""
    return hashlib.sha256(canonical(value)).hexdigest()


def text_digest(text: str) -> str:
    """Hex SHA-256 of plain text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def size(value: Any) -> int:
    """Length of the canonical bytes."""
    return len(canonical(value))


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; Python alone would take true for 1."""
    return canonical(one) == canonical(other)


def work_identity(graph_id: str, node_key: str) -> str:
    """The id a Work must carry."""
    return digest({"graph_id": graph_id, "node_key": node_key})


def gate_identity(resource: Doc, condition: str) -> str:
    """The identity of a gate; the display name and number of its resource do not count."""
    return canonical(
        {
            "condition": condition,
            "host": resource["host"],
            "kind": resource["kind"],
            "repository_id": resource["repository_id"],
            "resource_id": resource["resource_id"],
        }
    ).decode("utf-8")


def commit_identity(previous: str | None, request_id: str) -> str:
    """The id a writer gives its commit; readers take any unique one."""
    if previous is None:
        return "q_" + text_digest(request_id)
    return "q_" + text_digest(previous + "\n" + request_id)


def fingerprint(actor: Doc, kind: str, parameters: Doc) -> str:
    """What binds a request to its actor and its intent."""
    return digest({"actor": actor, "kind": kind, "parameters": parameters})
