"""The checks of everything a caller hands in: names, texts, numbers, times to live.

Pure. Each refuses with a code before anything is read or written, and gives plain values back, so
that no method of a caller's own class is ever called inside of a transaction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from callboard.canonical import MAX_SAFE_INTEGER
from callboard.errors import CallboardError
from callboard.twins import twin as twin

MAX_NAME = 200
MAX_TEXT = 16_384
MAX_LIST = 200
USUAL_TTL_MS = 600_000
"""The time to live that hints name: ten minutes."""
DEFAULT_PAGE = 50
MAX_PAGE = 500

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TYPE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+")
# Controls, invisible formats (direction marks among them), surrogates, line and page separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

LOCAL = "local"
"""The actor of a request where nobody says who asks. It is declared, not authenticated."""

RESERVED = {
    "work.completed": "work complete",
    "claim.": "claim acquire, renew or release",
    "session.": "session start, checkpoint, interrupt, end, handoff or resume",
    "branch.": "branch create, select or close",
    "handoff.": "session handoff",
    "responsibility.": "the operations on responsibility",
    "delivery.": "the operations on deliveries",
    "graph.": "the operations on the dependency graph",
    "evidence.": "evidence add",
    "source.": "source index or patch",
    "project.": "init, or doctor repair clock",
}
"""Event types (those that end in a dot: all that begin so) that come from their operation only."""


def plain(value: str) -> str:
    """The same text, without whatever a class of the caller's own makes of text."""
    return str.__str__(value)


PATH_SHOWN = 4_096
"""Characters of a folder's path that a message shows: a path cut short leads nowhere."""


def shown(value: object, most: int = 80) -> str:
    """A found value as a message names it: at most so many characters, none acts on a terminal."""
    try:
        text = ascii(value) if not isinstance(value, str) or _hidden(value) else repr(value)
    except (ValueError, RecursionError):
        # A number of more digits than Python writes, or lists within lists without an end.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 3] + "…" + text[-1]


def an(noun: str) -> str:
    """The noun with its article."""
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


def _hidden(text: str) -> bool:
    return any(unicodedata.category(char) in _HIDDEN for char in text)


def name(value: object, field: str) -> str:
    """A name: 1 to 200 characters, none of them invisible, no blank at either end."""
    if not isinstance(value, str):
        raise _name_refused(value, field, "is not text")
    value = plain(value)
    if not value or len(value) > MAX_NAME:
        raise _name_refused(value, field, f"has {len(value)} characters, not 1 to {MAX_NAME}")
    if _hidden(value):
        raise _name_refused(value, field, "has control or invisible characters")
    if value != value.strip():
        raise _name_refused(value, field, "begins or ends with a blank")
    return value


def _name_refused(value: object, field: str, what: str) -> CallboardError:
    return CallboardError(
        "name_invalid",
        f"the {field} {shown(value)} {what}",
        f"give {an(field)} of 1 to {MAX_NAME} visible characters",
        {"field": field},
    )


def optional_name(value: object, field: str) -> str | None:
    """None, or a name."""
    return None if value is None else name(value, field)


def text(value: object, field: str, *, limit: int = MAX_TEXT) -> str:
    """A text that is not blank; line breaks and tabs are its only control characters."""
    if not isinstance(value, str):
        raise _text_refused(value, field, "is not text")
    value = plain(value)
    if not value.strip():
        raise _text_refused(value, field, "is empty")
    if len(value) > limit:
        raise _text_refused(value, field, f"has {len(value)} characters, more than {limit}")
    for char in value:
        kind = unicodedata.category(char)
        if kind == "Cs" or (kind == "Cc" and char not in "\n\t\r"):
            raise _text_refused(value, field, f"has the character U+{ord(char):04X}")
    return value


def _text_refused(value: object, field: str, what: str) -> CallboardError:
    return CallboardError(
        "text_invalid",
        f"the {field} {shown(value)} {what}",
        f"give {an(field)} in plain text",
        {"field": field},
    )


def optional_text(value: object, field: str, *, limit: int = MAX_TEXT) -> str | None:
    """None, or a text."""
    return None if value is None else text(value, field, limit=limit)


def one_of(value: object, field: str, known: Sequence[str]) -> str | None:
    """None, or one of the words that there are."""
    if value is None or (isinstance(value, str) and value in known):
        return None if value is None else plain(value)
    raise CallboardError(
        "value_invalid",
        f"the {field} {shown(value)} is none that there is",
        f"{', '.join(known[:-1])} or {known[-1]}",
        {"field": field, "known": list(known)},
    )


def several(values: object, field: str) -> tuple[Any, ...]:
    """A list of at most 200 entries, each of which is still to be checked."""
    if not isinstance(values, (list, tuple)):
        raise _value_refused(values, field, "is no list")
    if len(values) > MAX_LIST:
        raise _value_refused(len(values), field, f"entries are more than {MAX_LIST}")
    return tuple(values)


def texts(values: object, field: str) -> tuple[str, ...]:
    """A list of at most 200 texts."""
    return tuple(text(value, field) for value in several(values, field))


def folder(value: object) -> str:
    """The path of a folder, as text; whether there is one is not looked at."""
    if not isinstance(value, (str, Path)):
        raise _value_refused(value, "folder", "is no path")
    return plain(str(value))


def sha256(value: object, field: str) -> str:
    """Lower-case hex of 32 bytes."""
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise _value_refused(value, field, "is no SHA-256 in lower-case hex")
    return plain(value)


def optional_sha256(value: object, field: str) -> str | None:
    """None, or a SHA-256."""
    return None if value is None else sha256(value, field)


def _value_refused(value: object, field: str, what: str) -> CallboardError:
    return CallboardError(
        "value_invalid",
        f"the {field} {shown(value)} {what}",
        f"correct the {field}",
        {"field": field},
    )


def ttl(value: object) -> int | None:
    """None for no end, or a time to live of at least one millisecond, in whole ones."""
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= MAX_SAFE_INTEGER:
        raise CallboardError(
            "ttl_invalid",
            f"the time to live {shown(value)} is no whole number of milliseconds from 1 on",
            "give whole milliseconds; where a claim may be without an end, none means that",
        )
    return value


def ttl_with(value: object, *, claim: bool) -> int | None:
    """As `ttl`, where the claim that it is for is only made if `claim` says so."""
    found = ttl(value)
    if found is not None and not claim:
        raise CallboardError(
            "ttl_invalid",
            f"a time to live of {found} ms is given for no claim",
            "ask for a claim too, or leave it away",
        )
    return found


def deadline(now_ms: int, ttl_ms: int | None) -> int | None:
    """When a claim of `ttl_ms` ends that is acquired now; None: never."""
    if ttl_ms is None:
        return None
    if now_ms + ttl_ms > MAX_SAFE_INTEGER:
        raise CallboardError(
            "ttl_invalid",
            f"a time to live of {ttl_ms} ms ends beyond the last time there is",
            f"give at most {MAX_SAFE_INTEGER - now_ms} ms",
            {"now_ms": now_ms},
        )
    return now_ms + ttl_ms


def revision(value: object) -> int | None:
    """None, or a revision that a caller expects."""
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise _value_refused(value, "expected revision", "is no whole number from 0 on")
    return value


def request_id(value: object) -> str | None:
    """None, or the plain name of a request."""
    if value is None:
        return None
    if not isinstance(value, str) or _REQUEST_ID.fullmatch(value) is None:
        raise CallboardError(
            "request_id_invalid",
            f"the request id {shown(value)} is no plain name",
            "use 1 to 128 letters, digits, dots, colons, hyphens and underscores",
        )
    return plain(value)


def patience(value: object) -> int:
    """For how many milliseconds somebody waits for others: 0 to 2^31 - 1."""
    if type(value) is not int or not 0 <= value < 2**31:
        raise _value_refused(value, "patience", f"is no whole number from 0 to {2**31 - 1}")
    return value


NO_CURSOR = "is not one that a page has given"


def cursor(value: object) -> str | None:
    """None, or the text that a page before gave as its next one."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise cursor_refused(NO_CURSOR)
    return plain(value)


def cursor_refused(what: str) -> CallboardError:
    """That a cursor leads nowhere."""
    return CallboardError(
        "cursor_invalid",
        f"the given cursor {what}",
        "take the cursor of the page before, with the same filters, or begin anew without one",
    )


def page(value: object) -> int:
    """How many entries a page may have: 1 to 500, 50 where nobody says."""
    if value is None:
        return DEFAULT_PAGE
    if type(value) is not int or not 1 <= value <= MAX_PAGE:
        raise _value_refused(value, "limit", f"is no whole number from 1 to {MAX_PAGE}")
    return value


def event_type(value: object) -> str:
    """The type of an observation; a reserved one is refused, also in another spelling."""
    found = name(value, "event type")
    folded = twin(found)
    for reserved, operation in RESERVED.items():
        if folded == reserved or (reserved.endswith(".") and f"{folded}.".startswith(reserved)):
            raise CallboardError(
                "event_type_reserved",
                f"events of type {shown(found)} come from their operation only",
                f"use {operation}; observations have types of their own, such as note.taken",
                {"type": found, "operation": operation},
            )
    if _TYPE.fullmatch(found) is None:
        raise _value_refused(found, "event type", "is not like note.taken")
    return found
