"""A refusal of the host as a run's report keeps it: all of it, within a bound.

The details of a refusal may hold anything a program said; a report must stay readable whatever
that was.
"""

from __future__ import annotations

from callboard import canonical
from callboard.errors import CallboardError

MAX_DETAILS_BYTES = 4_096
_MAX_TEXT = 2_000


def bounded_details(error: CallboardError) -> dict[str, object]:
    """The error's details in at most `MAX_DETAILS_BYTES` of JSON, long texts cut at the front.

    Facts that find no room any more are left out, with their names under `left_out`.
    """
    kept: dict[str, object] = {}
    left_out: list[str] = []
    room = MAX_DETAILS_BYTES
    for name, value in error.details.items():
        if isinstance(value, str):
            # A program's last words tell more than its first.
            value = value.encode("utf-8", "backslashreplace").decode("utf-8")[-_MAX_TEXT:]
        try:
            size = len(canonical.encode({name: value}))
        except CallboardError:
            # A number with a fraction, such as a time limit, has no place in canonical JSON.
            value = repr(value)[:_MAX_TEXT].encode("ascii", "backslashreplace").decode("ascii")
            size = len(canonical.encode({name: value}))
        if size > room:
            left_out.append(name)
            continue
        room -= size
        kept[name] = value
    return kept | ({"left_out": left_out} if left_out else {})


def fault_document(error: CallboardError) -> dict[str, object]:
    """The error's own JSON form, with bounded details and words."""
    return {
        "code": error.code,
        "message": error.message[:_MAX_TEXT],
        "hint": error.hint[:_MAX_TEXT],
        "details": bounded_details(error),
    }
