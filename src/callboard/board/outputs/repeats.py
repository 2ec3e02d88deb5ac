"""Which intents were seen before, and what they said.

Source: specification 1, §7.12 (retries reuse their intents). An intent's id means one thing for
good; it keeps digests only, and judges nothing else.
"""

from __future__ import annotations

from callboard import canonical
from callboard.errors import CallboardError


class Repeats:
    """The intents of one run or activation."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def knows(self, intent_id: str, value: canonical.Json) -> bool:
        """Whether this very message was seen; `intent_conflict` where its id said otherwise."""
        known = self._seen.get(intent_id)
        if known is not None and known != canonical.digest(value):
            raise CallboardError(
                "intent_conflict",
                f"the intent {intent_id} was staged before with other content",
                "give each message an id of its own",
                {"intent_id": intent_id},
            )
        return known is not None

    def note(self, intent_id: str, value: canonical.Json) -> None:
        """Remember an intent that was taken."""
        self._seen[intent_id] = canonical.digest(value)
