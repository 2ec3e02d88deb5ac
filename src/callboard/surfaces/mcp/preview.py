"""What is staged so far, as it would be judged now; a preview, and no authority of any kind.

What became of the Claims meanwhile is not known here.

Source: specification 1, §7.12 (activation_snapshot and staged_preview are told apart).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from callboard.board.execution.intent_checks import INTENT_CHECKS
from callboard.board.outputs.agent_intents import AgentIntent, BatchIntent
from callboard.board.outputs.agent_staging import AgentStager
from callboard.board.outputs.folder import StagingFolder
from callboard.board.outputs.judgement import Judge
from callboard.board.outputs.messages import Terms, read_terms
from callboard.board.outputs.playing import play
from callboard.board.protocol.commit import Assignment
from callboard.surfaces.mcp.answers import Document, size_of
from callboard.surfaces.mcp.session import Session

PROVENANCE: Literal["staged_preview"] = "staged_preview"
_NOTE = "wishes only: nothing of this is durable, granted, bound or authorized yet"
_MAX_LISTED = 16
_MAX_BYTES = 8 * 1024


def preview(session: Session) -> Document:
    """`{provenance, note, count, intents, earlier_intents}`, the latest intents at the end; of a
    worker `claims` as well, and how many messages in its folder are `refused`."""
    more: Document = {}
    asker = session.asker()
    if isinstance(asker, AgentStager):
        intents = [_request(one) for one in asker.staged()]
    else:
        assert session.staging is not None
        assert session.assignment is not None
        with StagingFolder(session.staging) as folder:
            intents, refused, judge = _judged(folder, session.assignment)
        more = {"refused": refused, "claims": _claims(judge, intents)}
    found: Document = {"provenance": PROVENANCE, "note": _NOTE, "count": len(intents), **more}
    listed: list[Document] = []
    room = _MAX_BYTES - size_of(found)
    for intent in reversed(intents[-_MAX_LISTED:]):
        room -= size_of(intent) + 1
        if room < 0:
            break
        listed.insert(0, intent)
    return {**found, "intents": listed, "earlier_intents": len(intents) - len(listed)}


def _request(intent: AgentIntent) -> Document:
    """A request of an agent without a Claim."""
    found: Document = {"intent_id": intent.intent_id, "status": "staged", "kind": intent.kind}
    if isinstance(intent, BatchIntent):
        found |= {"max_claims": intent.max_claims, "max_dispatches": intent.max_dispatches}
        found |= {} if intent.pool is None else {"pool": intent.pool}
    return found


def _judged(folder: StagingFolder, assignment: Assignment) -> tuple[list[Document], int, Judge]:
    data = folder.terms()
    terms = Terms() if data is None else read_terms(data)
    judge = Judge(assignment, terms, folder.load, INTENT_CHECKS)
    intents: list[Document] = []
    refused = 0
    for verdict in play(folder.messages(), judge):
        if verdict.accepted is None:
            refused += 1
        elif not verdict.accepted.repeated:
            intents.append(_intent(verdict.message.value, verdict.accepted.handle))
    return intents, refused, judge


def _intent(value: Any, handle: str) -> Document:
    """A message that stands; it has passed the judge, so its fields are those of its kind."""
    found: Document = {
        "intent_id": value["intent_id"],
        "status": "staged",
        "kind": value["kind"],
        "claim_handle": handle,
    }
    for name in ("outcome", "name", "size_bytes", "type", "max_claims", "max_dispatches"):
        if name in value:
            found[name] = value[name]
    return found


def _claims(judge: Judge, intents: list[Document]) -> list[Document]:
    """Each Claim of the assignment: how it is finished so far, and how much of what it has."""
    kinds: dict[str, Counter[str]] = {}
    for intent in intents:
        if intent["kind"] != "finish":
            kinds.setdefault(intent["claim_handle"], Counter())[intent["kind"]] += 1
    return [
        {
            "claim_handle": handle,
            "outcome": tally.outcome,
            "staged": dict(sorted(kinds.get(handle, {}).items())),
        }
        for handle, tally in judge.tallies.items()
    ]
