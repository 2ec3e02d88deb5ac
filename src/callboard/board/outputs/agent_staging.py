"""The staging folder of an agent without a Claim: how it writes there, and how it is read.

Source: specification 1, §7.12. Like a run's folder it holds wishes only; nothing here reaches a
board.
"""

from __future__ import annotations

from pathlib import Path

from callboard import canonical
from callboard.board.outputs.agent_intents import AgentIntent, AgentJudge
from callboard.board.outputs.claims import Refusal
from callboard.board.outputs.context import AgentTerms
from callboard.board.outputs.folder import StagingFolder
from callboard.board.outputs.judgement import BodyChecks, not_loaded
from callboard.board.outputs.messages import StagedMessage
from callboard.board.outputs.staging import (
    AgentReceipt,
    Selector,
    batch_body,
    new_intent_id,
    publish_intent,
    selected,
)
from callboard.board.protocol.agent_roles import AgentRole
from callboard.errors import CallboardError


class AgentStager:
    """Stages an agent's requests, each refused at once where the trusted side would refuse it."""

    def __init__(
        self, folder: Path, role: AgentRole, terms: AgentTerms, checks: BodyChecks
    ) -> None:
        self._folder = folder
        self._role = role
        self._terms = terms
        self._checks = checks

    def submit(self, plan: bytes, selector: Selector = None) -> AgentReceipt:
        """Stage a plan, as JSON."""
        body = {"sha256": canonical.sha256_hex(plan), "size_bytes": len(plan)}
        return self._stage("submit", {**body, **selected(selector)}, plan)

    def dispatch_next(
        self,
        max_claims: int = 1,
        max_dispatches: int = 1,
        pool: str | None = None,
        selector: Selector = None,
    ) -> AgentReceipt:
        """Stage the wish for the next fair batch."""
        body = batch_body(max_claims, max_dispatches, pool)
        return self._stage("dispatch_next", {**body, **selected(selector)}, None)

    def staged(self) -> list[AgentIntent]:
        """What stands so far, without bodies."""
        with StagingFolder(self._folder) as folder:
            return _replayed(folder, AgentJudge(self._role, self._terms, not_loaded, {}))[0]

    def _stage(
        self, kind: str, body: dict[str, canonical.Json], data: bytes | None
    ) -> AgentReceipt:
        value: dict[str, canonical.Json] = {"kind": kind, "intent_id": new_intent_id(), **body}

        def own_bytes(message: StagedMessage) -> bytes | None:
            return data if message.sha256 == body.get("sha256") else None

        judge = AgentJudge(self._role, self._terms, own_bytes, self._checks)
        with StagingFolder(self._folder) as folder:
            folder.hold()
            folder.check_open()
            _known, number, _refusals = _replayed(folder, judge)
            taken = judge.accept(value)
            if taken == value["intent_id"]:
                publish_intent(folder, number + 1, value, data)
        return AgentReceipt(taken)


def take_intents(
    folder: Path, role: AgentRole, terms: AgentTerms, checks: BodyChecks
) -> tuple[list[AgentIntent], list[Refusal]]:
    """Everything an agent staged, judged; always comes to an answer.

    A folder that cannot be read counts as empty, with the refusal among those of its messages.
    """
    try:
        with StagingFolder(folder) as staged:
            judge = AgentJudge(role, terms, staged.load, checks)
            accepted, _number, refusals = _replayed(staged, judge)
    except CallboardError as error:
        return [], [Refusal.of(error, folder.name)]
    return accepted, refusals


def _replayed(
    folder: StagingFolder, judge: AgentJudge
) -> tuple[list[AgentIntent], int, list[Refusal]]:
    """What stands, the last number in use, and what does not stand."""
    refusals: list[Refusal] = []
    last = 0
    for message in folder.messages():
        last = message.number
        try:
            if message.error is not None:
                raise message.error
            judge.accept(message.value)
        except CallboardError as error:
            refusals.append(Refusal.of(error, message.source))
    return judge.accepted, last, refusals
