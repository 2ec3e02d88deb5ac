"""What all records of a layer share: closed structs, their field types, their bytes.

Bytes become records here or are refused with a code and a place; inside, types are trusted. It
knows no file.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from callboard import canonical
from callboard.errors import CallboardError
from callboard.layers.records.wording import refusal, worded

MAX_RECORD_BYTES = 1024 * 1024
"""More is refused before anything of a record is parsed."""

MAX_TEXT = 262_144
"""Characters of a goal, a criterion or a rationale."""

_NO_CONTROL = r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]"

Id = Annotated[
    str,
    msgspec.Meta(
        pattern=worded(
            r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?![\s\S])",
            "an id: at most 128 of the letters A-Z and a-z, digits, `.`, `_` and `-`,"
            " the first a letter or digit",
        )
    ),
]
"""An id that may be a file name on every system: letters, digits, `.`, `_`, `-`."""

Key = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=100,
        pattern=worded(
            r"^[^\s/\\:*?\"<>|\x00-\x1f\x7f\ud800-\udfff.~-]"
            r"[^\s/\\:*?\"<>|\x00-\x1f\x7f\ud800-\udfff]*(?![\s\S])",
            'a key: no blanks, controls or any of / \\ : * ? " < > |, and no `.`, `~` or `-` first',
        ),
    ),
]
"""An id that agents choose, of a request or a piece of work, in any script; it may be a file name.
`callboard.layers.names` refuses what else no file should be called, and twins."""

Name = Annotated[
    str,
    msgspec.Meta(
        pattern=worded(
            r"^[a-z][a-z0-9_]{0,63}(?![\s\S])",
            "a name: at most 64 of the letters a-z, digits and `_`, the first a letter",
        )
    ),
]
"""The name of a workflow set or of a role."""

Sha256 = Annotated[
    str,
    msgspec.Meta(
        pattern=worded(
            r"^sha256:[0-9a-f]{64}(?![\s\S])",
            "a digest: `sha256:` and 64 of the digits 0-9 and a-f",
        )
    ),
]
"""A digest of exact bytes."""

Ref = Annotated[str, msgspec.Meta(min_length=3, max_length=1024)]
"""A logical reference; `callboard.layers.references` reads it."""

Text = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=MAX_TEXT,
        pattern=worded(
            rf"^{_NO_CONTROL}+(?![\s\S])",
            "plain text, whose only control characters are line breaks and tabs",
        ),
    ),
]
"""Plain text that is not empty; line breaks and tabs are its only controls."""

Texts = Annotated[tuple[Text, ...], msgspec.Meta(max_length=500)]
Time = Annotated[int, msgspec.Meta(ge=0, le=canonical.MAX_SAFE_INTEGER)]
"""Unix milliseconds."""

Count = Annotated[int, msgspec.Meta(ge=0, le=canonical.MAX_SAFE_INTEGER)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=canonical.MAX_SAFE_INTEGER)]
Path = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=4096,
        pattern=worded(r"^/[^\x00]*(?![\s\S])", "an absolute path, which begins with `/`"),
    ),
]
"""An absolute path of this machine; it stands in an assignment only."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed record: no field may be added, and none may be missing that has no default."""


class Event(Record, frozen=True, kw_only=True, tag_field="kind"):
    """What all events have: when it was told, and of which layer."""

    at_ms: Time
    session_id: Id


R = TypeVar("R")


def read(data: bytes, kind: type[R], what: str, *, limit_bytes: int = MAX_RECORD_BYTES) -> R:
    """The record of type `kind` in `data`, JSON in any layout.

    `what` names the file in messages. Raises `CallboardError` `record_invalid` (details: `what`,
    and `pointer` of the field or `byte`), or `resource_limit` for more than `limit_bytes`.
    """
    try:
        canonical.check_size(data, limit_bytes)
        # As `encode` writes it, but for the line break, it is read by the fast path.
        value = canonical.decode(data.removesuffix(b"\n"), limit_bytes=limit_bytes)
    except CallboardError as error:
        if error.code == "resource_limit":
            raise CallboardError(
                error.code, f"{what}: {error.message}", error.hint, {"what": what, **error.details}
            ) from error
        raise CallboardError(
            "record_invalid",
            f"{what} is no JSON document: {error.message}",
            "write it anew as one JSON object",
            {"what": what, "cause": error.code, **error.details},
        ) from error
    return convert(value, kind, what)


def convert(value: object, kind: type[R], what: str) -> R:
    """As `read`, for a JSON value."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise refusal(value, kind, str(error), what) from error
    except UnicodeEncodeError as error:
        # No JSON document can say that, one in YAML can.
        raise CallboardError(
            "record_invalid",
            f"{what}: it holds half of a surrogate pair, which is no character",
            "write it anew in valid Unicode",
            {"what": what},
        ) from error


def encode(record: Record) -> bytes:
    """The record as it is published: canonical JSON and a line break."""
    return canonical.encode(msgspec.to_builtins(record)) + b"\n"


def digest(data: bytes) -> str:
    """The digest of exact bytes as records spell it: `sha256:` and 64 hex digits."""
    return f"sha256:{canonical.sha256_hex(data)}"


def document(record: Record) -> dict[str, Any]:
    """The record as a JSON object."""
    found = msgspec.to_builtins(record)
    assert isinstance(found, dict)
    return found
