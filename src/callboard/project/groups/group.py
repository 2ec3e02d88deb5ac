"""What all groups share: the key, and the making of an order. No rule stands here."""

from __future__ import annotations

from typing import Any

from callboard.project import names
from callboard.project.access import Key
from callboard.project.store import Order


class Group:
    """Operations on one kind of thing of one project."""

    __slots__ = ("_key",)

    def __init__(self, key: Key) -> None:
        self._key = key


def order(
    operation: str,
    intent: dict[str, Any],
    expected_revision: int | None,
    request_id: str | None,
) -> Order:
    """The order to do `operation`, with what was checked of it."""
    return Order(operation, intent, names.revision(expected_revision), names.request_id(request_id))
