"""What an agent without a Claim may stage: requests to the board, within the terms of its role.

Source: specification 1, §§7.12, 7.14. A producer proposes Work, a dispatcher also asks for batches,
and neither can say more: what a worker delivers or finishes is not theirs. Both sides judge by this
code. It does no I/O but through the loader it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from callboard import canonical
from callboard.board.outputs import scope
from callboard.board.outputs.context import AgentTerms
from callboard.board.outputs.judgement import BodyChecks, Loader, check_body, check_budget
from callboard.board.outputs.messages import (
    BODY_LIMITS,
    DispatchNextMessage,
    SubmitMessage,
    kind_of,
    read_message,
)
from callboard.board.outputs.repeats import Repeats
from callboard.board.protocol.agent_roles import AgentRole
from callboard.errors import CallboardError
from callboard.validate import near, show

MAY_STAGE: dict[AgentRole, tuple[str, ...]] = {
    "observer": (),
    "producer": ("submit",),
    "dispatcher": ("submit", "dispatch_next"),
}
"""Role without a Claim -> the kinds of messages that it may stage."""


@dataclass(frozen=True, slots=True)
class PlanIntent:
    """A plan to be posted; `data` is None on the agent's own side."""

    intent_id: str
    sha256: str
    data: bytes | None = field(repr=False)
    kind: str = "submit"


@dataclass(frozen=True, slots=True)
class BatchIntent:
    """A request for the next fair batch; the board's default pool where `pool` is None."""

    intent_id: str
    pool: str | None
    max_claims: int
    max_dispatches: int
    kind: str = "dispatch_next"


AgentIntent = PlanIntent | BatchIntent


class AgentJudge:
    """Judges one agent's messages in their order; `accepted` are those that stand."""

    def __init__(
        self, role: AgentRole, terms: AgentTerms, load: Loader, checks: BodyChecks
    ) -> None:
        self.accepted: list[AgentIntent] = []
        self._role = role
        self._terms = terms
        self._load = load
        self._checks = checks
        self._repeats = Repeats()
        self._launches = 0
        self._claims = 0

    def accept(self, value: canonical.Json) -> str:
        """Take in a decoded message, or refuse it and change nothing; answers its intent's id, or
        that of an earlier one that said the same.

        Raises `claim_scope_invalid`, `role_forbidden`, `message_invalid`, `intent_conflict`,
        `body_limit`, `pool_forbidden`, `dispatch_budget_exceeded`, or those of the loader and the
        checks.
        """
        self._check_unscoped(value)
        message = read_message(value)
        kind = kind_of(message)
        if kind not in MAY_STAGE.get(self._role, ()):
            allowed = ", ".join(MAY_STAGE.get(self._role, ())) or "nothing"
            raise CallboardError(
                "role_forbidden",
                f"the role of this agent, {self._role}, does not stage {kind}",
                f"it may stage {allowed}; outputs and finishes are for the workers of runs",
                {"role": self._role, "kind": kind},
            )
        if self._repeats.knows(message.intent_id, value):
            return message.intent_id
        if isinstance(message, SubmitMessage):
            taken = self._submit(message)
        else:
            assert isinstance(message, DispatchNextMessage)
            taken = self._batch(message)
        self._repeats.note(message.intent_id, value)
        return taken

    def _check_unscoped(self, value: canonical.Json) -> None:
        if isinstance(value, dict) and scope.SELECTOR in value:
            raise CallboardError(
                "claim_scope_invalid",
                f"{show(value[scope.SELECTOR])} is named as a claim, and this agent holds none",
                f"leave {scope.SELECTOR} out",
            )

    def _check_pool(self, asked: str | UnsetType) -> None:
        known = self._terms.pools
        if isinstance(asked, str) and isinstance(known, list) and asked not in known:
            raise CallboardError(
                "pool_unknown",
                f"there is no pool {show(asked)}{near(asked, known)}",
                "pools: " + ", ".join(known),
                {"pool": asked},
            )

    def _submit(self, message: SubmitMessage) -> str:
        limit = BODY_LIMITS["submit"]
        if message.size_bytes > limit:
            raise CallboardError(
                "body_limit",
                f"a plan of {message.size_bytes} bytes is too large, at most {limit} are taken",
                "stage it in parts, each with nodes of one graph",
                {"type": "submit", "bytes": message.size_bytes, "limit_bytes": limit},
            )
        for known in self.accepted:
            if isinstance(known, PlanIntent) and known.sha256 == message.sha256:
                return known.intent_id
        data = self._load(message)
        if data is not None:
            check_body(message, data, self._checks)
        self.accepted.append(PlanIntent(message.intent_id, message.sha256, data))
        return message.intent_id

    def _batch(self, message: DispatchNextMessage) -> str:
        own = self._terms.pool
        if own is not None and message.pool not in (UNSET, own):
            raise CallboardError(
                "pool_forbidden",
                f"pool {message.pool!r} is not the one that this agent was started for, {own!r}",
                "leave the pool out",
                {"pool": message.pool, "own": own},
            )
        self._check_pool(message.pool)
        check_budget(self._launches, message.max_dispatches, self._terms.max_dispatches)
        if self._claims + message.max_claims > self._terms.max_claims:
            raise CallboardError(
                "dispatch_budget_exceeded",
                f"{message.max_claims} more turns make {self._claims + message.max_claims}, this "
                f"agent may ask for {self._terms.max_claims} in all",
                "ask for fewer with max_claims, or start the agent with a larger --max-claims",
                {"asked": message.max_claims, "budget": self._terms.max_claims},
            )
        self._launches += message.max_dispatches
        self._claims += message.max_claims
        pool = message.pool if isinstance(message.pool, str) else own
        self.accepted.append(
            BatchIntent(message.intent_id, pool, message.max_claims, message.max_dispatches)
        )
        return message.intent_id
