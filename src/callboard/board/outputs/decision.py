"""The gate's decisions for those who ask without a board: operators, and tests of other engines.

Source: wire-v3 §9. It reads a question and hands it to the very functions that judge an output; it
must never hold a rule of its own, and no answer of it authorises anything.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from callboard.board.outputs.resources import DEFAULT_HOST, Reach, check_target
from callboard.board.protocol.operations import Payload, Resource
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Decimal, Identity
from callboard.errors import CallboardError
from callboard.validate import parse

MAX_QUESTION_BYTES = 1024 * 1024
"""The most bytes of a question; a payload on a board is far smaller."""


class Question(Record, frozen=True, kw_only=True):
    """May the run `run_id`, of a profile with `effect_scope`, touch `target` for a Work with this
    payload and subject? The target may be any JSON value: to judge it is the answer's part.
    """

    effect_scope: Identity
    run_id: Decimal
    payload: Payload
    target: Any
    host: Identity | UnsetType = UNSET
    subject: Resource | UnsetType = UNSET


def parse_question(value: object) -> Question:
    """A plain JSON value as a question, or `decision_invalid` with every fault."""
    return parse(Question, value, what="decision", code="decision_invalid")


def denial(question: Question) -> CallboardError | None:
    """Why the gate would refuse the target, or None where it may be touched.

    The refusal is `target_invalid`, `scope_invalid` or `effect_scope_denied`.
    """
    reach = Reach(
        effect_scope=question.effect_scope,
        run_id=question.run_id,
        payload=question.payload,
        subject=None if question.subject is UNSET else question.subject,
        host=DEFAULT_HOST if question.host is UNSET else question.host,
    )
    try:
        check_target(question.target, reach)
    except CallboardError as error:
        return error
    return None
