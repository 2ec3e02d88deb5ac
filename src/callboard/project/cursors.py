"""Cursors: where a page ended, as text that only the same question of the same project can use.

A cursor names a place in an order that never changes, so pages stay whole while rows are added.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from callboard.canonical import MAX_SAFE_INTEGER, decode, digest, encode
from callboard.errors import CallboardError
from callboard.project import names
from callboard.project.unit import Scope

R = TypeVar("R")

MAX_PAGE_BYTES = 1024 * 1024

_VERSION = 1
_MAX_LENGTH = 200


def page(
    scope: Scope,
    listing: str,
    filters: Mapping[str, object],
    found: Sequence[tuple[int, R]],
    limit: int,
) -> tuple[tuple[R, ...], str | None]:
    """The records of one page, and the cursor of the next, from rows with their places.

    `found` has one row more than `limit` where there are more. A page ends early once its JSON has
    grown to 1 MiB.
    """
    size, count = 0, 0
    for _place, record in found[:limit]:
        size += len(msgspec.json.encode(record))
        if count and size > MAX_PAGE_BYTES:
            break
        count += 1
    records = tuple(record for _place, record in found[:count])
    more = len(found) > count
    return records, make(scope, listing, filters, found[count - 1][0]) if more else None


def make(scope: Scope, listing: str, filters: Mapping[str, object], place: int) -> str:
    """The cursor of a listing that ended at `place`."""
    value = {"a": place, "f": _mark(scope, listing, filters), "v": _VERSION}
    return base64.urlsafe_b64encode(encode(value)).decode().rstrip("=")


def read(
    scope: Scope, listing: str, filters: Mapping[str, object], cursor: str | None
) -> int | None:
    """The place that `cursor` names; None without one. Raises `cursor_invalid`."""
    if cursor is None:
        return None
    if len(cursor) > _MAX_LENGTH or not cursor.isascii():
        raise names.cursor_refused(names.NO_CURSOR)
    try:
        data = base64.b64decode(
            (cursor + "=" * (-len(cursor) % 4)).encode(), altchars=b"-_", validate=True
        )
        value = decode(data)
    except (binascii.Error, CallboardError) as error:
        raise names.cursor_refused(names.NO_CURSOR) from error
    if not isinstance(value, dict) or value.keys() != {"a", "f", "v"}:
        raise names.cursor_refused(names.NO_CURSOR)
    if value["v"] != _VERSION:
        raise names.cursor_refused("is of another version")
    if value["f"] != _mark(scope, listing, filters):
        raise names.cursor_refused("belongs to other filters, or to another project")
    place = value["a"]
    if type(place) is not int or not 0 <= place <= MAX_SAFE_INTEGER:
        raise names.cursor_refused(names.NO_CURSOR)
    return place


def _mark(scope: Scope, listing: str, filters: Mapping[str, object]) -> str:
    return digest([scope.tenant, scope.project, listing, dict(filters)])[:16]
