"""What looks for contradictions stand on: a state, its requests, and what several of them ask.

Source: wire-v3 §8. It judges one thing at a time and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from callboard.board.projection.snapshot import RequestRecord, StateRecord
from callboard.validate import Fault, show

CANCELLING = ("finish", "release", "cancel_claim", "cancel_work")
"""The kinds of requests that end Claims or Work."""


class Ground:
    """A state with its requests, and where each commit stands among them."""

    def __init__(self, state: StateRecord, requests: list[RequestRecord]) -> None:
        self.state = state
        self.requests = requests
        self.commits = {one.id: place for place, one in enumerate(requests)}

    def commit(self, at: str, commit_id: object, kinds: tuple[str, ...]) -> Iterator[Fault]:
        """Whether a commit stands that may have done this."""
        place = self.commits.get(commit_id) if isinstance(commit_id, str) else None
        if place is None:
            yield Fault(at, f"{show(plain(commit_id))} is no commit of this history")
        elif self.requests[place].kind not in kinds:
            yield Fault(at, f"commit {show(commit_id)} is a {self.requests[place].kind}")


def belong(at: str, record: Any, wanted: dict[str, bool]) -> Iterator[Fault]:
    """Fields that are there exactly when they are wanted."""
    for name, needed in wanted.items():
        if (getattr(record, name) is not UNSET) != needed:
            what = "is missing" if needed else "has no place"
            yield Fault(f"{at}/{name}", f"{what}, the state being {record.state}")


def plain(value: object) -> object:
    """A found value for messages; None where there is none."""
    return None if value is UNSET else value
