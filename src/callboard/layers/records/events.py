"""`events.jsonl`: one event a line, told after what it tells of is on record.

A crash in between keeps an event out; none is ever told twice, and nothing is decided by one.
"""

from __future__ import annotations

from typing import Literal

from callboard.layers.records.attempt import ResultClass
from callboard.layers.records.base import Event, Id, Key, Name, Text
from callboard.layers.records.outcomes import Decision
from callboard.layers.records.state import Status, StopReason


class AttemptBegan(Event, frozen=True, kw_only=True, tag="attempt_began"):
    """A role was chosen, and its attempt frozen."""

    attempt_id: Id
    role: Name


class AttemptEnded(Event, frozen=True, kw_only=True, tag="attempt_ended"):
    """An attempt ended and was taken in."""

    attempt_id: Id
    role: Name
    classification: ResultClass
    control: Literal["none", "running", "goal_met", "unresolvable_error", "rejected"]


class InputRestored(Event, frozen=True, kw_only=True, tag="input_restored"):
    """A file that the layer was given had been changed, and is as it was accepted again."""

    file: Text


class RequestRefused(Event, frozen=True, kw_only=True, tag="request_refused"):
    """A pending file became no child layer, and was put away."""

    file_name: Text
    request_id: Key | None
    code: Text


class ChildMade(Event, frozen=True, kw_only=True, tag="child_made"):
    """A request was accepted, and its child layer is there."""

    request_id: Key
    child_session_id: Id


class ChildEnded(Event, frozen=True, kw_only=True, tag="child_ended"):
    """A child layer is over, and its outcome on record."""

    request_id: Key
    child_session_id: Id
    status: Status


class ChildJudged(Event, frozen=True, kw_only=True, tag="child_judged"):
    """The layer, or the user for it, judged what a child came to."""

    request_id: Key
    decision: Decision
    decided_by: Text


class LayerEnded(Event, frozen=True, kw_only=True, tag="layer_ended"):
    """The layer is over."""

    status: Status
    stop_reason: StopReason


EVENTS: tuple[type[Event], ...] = (
    InputRestored,
    AttemptBegan,
    AttemptEnded,
    RequestRefused,
    ChildMade,
    ChildEnded,
    ChildJudged,
    LayerEnded,
)
"""In the order in which a layer lives through them."""
