"""What a person asks of a board: to end Work, pause it, prefer some of it, or change its policy.

Source: specification 1, §§7.6, 7.10; wire-v3 §5. Each is an intent made anew for every tip; the
board judges it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from callboard.board.projection.entities import RequestState, WorkState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import work_of
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.protocol.policy import PolicyDocument
from callboard.board.publishing.intents import Nothing, Operations, ReadCommit, same_operations
from callboard.errors import CallboardError

PRIORITIES = range(1, 6)


def cancel_work(
    request_id: str,
    work_ids: list[str],
    reason: str,
    actor: ops.Actor,
    *,
    claim_id: str | None = None,
) -> Operations:
    """End Work for good, all of it or none; Work that is cancelled already is left out.

    With `claim_id` it ends only while that Claim holds it: `claim_mismatch` else. The same request
    again is one for the same Work, reason and Claim. Raises `work_closed` for Work that is
    completed.
    """

    def cancellations(works: list[str]) -> list[ops.Operation]:
        fence = UNSET if claim_id is None else claim_id
        return [ops.WorkCancellation(work_id=one, reason=reason, claim_id=fence) for one in works]

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        open_works = [
            state
            for state in (work_of(projection, work_id) for work_id in work_ids)
            if state.state != "cancelled"
        ]
        for state in open_works:
            if state.state == "completed":
                raise _completed(state)
        found = cancellations([state.work.work_id for state in open_works])
        return found or Nothing("already_cancelled", {"works": work_ids})

    def recognise(projection: Projection, known: RequestState, _read: ReadCommit) -> bool:
        """In whatever order the Work was named."""
        if claim_id is not None:
            return same_operations(known, actor, cancellations(work_ids))
        ended = {
            state.work.work_id: state.cancellation_reason
            for state in projection.works.values()
            if state.cancellation_commit_id == known.id
        }
        if len(ended) == 1 and not same_operations(known, actor, cancellations([*ended])):
            # It was for the holder of one Claim only.
            return False
        left_out = set(work_ids) - ended.keys()
        return (
            known.actor == actor
            and ended.keys() <= set(work_ids)
            and set(ended.values()) == {reason}
            and all(_cancelled_before(projection, work_id, known) for work_id in left_out)
        )

    return Operations("cancel_work", request_id, actor, make, recognise)


def _completed(state: WorkState) -> CallboardError:
    work = state.work
    return CallboardError(
        "work_closed",
        f"node {work.node_key!r} ({work.work_id[:12]}) is completed",
        "leave it out: what is completed stays; a new node can undo what it did",
        {"work_id": work.work_id, "node_key": work.node_key, "state": state.state},
    )


def _cancelled_before(projection: Projection, work_id: str, known: RequestState) -> bool:
    state = projection.works.get(work_id)
    if state is None or state.cancellation_commit_id is None:
        return False
    places = projection.commit_ids
    return places[state.cancellation_commit_id] < places[known.id]


def control(
    request_id: str,
    name: Literal["admission_paused", "grants_paused", "credential_generation"],
    value: bool | str,
    reason: str,
    actor: ops.Actor,
) -> Operations:
    """Pause, resume or rotate. `Nothing("already_set")` where it is so already."""
    asked: list[ops.Operation] = [ops.Control(control=name, value=value, reason=reason)]

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        if getattr(projection, name) == value:
            return Nothing("already_set", {name: value})
        return asked

    def recognise(_projection: Projection, known: RequestState, _read: ReadCommit) -> bool:
        return same_operations(known, actor, asked)

    return Operations("control", request_id, actor, make, recognise)


def prefer(
    request_id: str, work_id: str, priority: int, reason: str, actor: ops.Actor
) -> Operations:
    """Let one waiting Work compete in another class. `Nothing("already_set")` where it does."""

    def change(before: int) -> list[ops.Operation]:
        return [
            ops.WorkPriority(
                work_id=work_id, priority=priority, expected_priority=before, reason=reason
            )
        ]

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        state = work_of(projection, work_id)
        if state.priority == priority and state.state == "available":
            return Nothing("already_set", {"priority": priority})
        return change(state.priority)

    def recognise(_projection: Projection, known: RequestState, _read: ReadCommit) -> bool:
        """From whichever priority it was."""
        return any(same_operations(known, actor, change(before)) for before in PRIORITIES)

    return Operations("priority", request_id, actor, make, recognise)


def install(request_id: str, policy: PolicyDocument, actor: ops.Actor) -> Operations:
    """Begin a new epoch with `policy`; the board refuses it while anything is unsettled.

    `Nothing("already_installed")` where that very policy stands and nothing was deployed since.
    """
    epoch = identities.epoch_id(request_id)
    asked: list[ops.Operation] = [ops.Policy(epoch=epoch, policy=policy)]

    def make(projection: Projection, _at: int) -> list[ops.Operation] | Nothing:
        original = all(
            route.is_original
            for pool in projection.pools.values()
            for route in pool.routes.values()
        )
        if original and projection.policy == policy:
            return Nothing("already_installed", {"policy_epoch": projection.policy_epoch})
        return asked

    def recognise(_projection: Projection, known: RequestState, _read: ReadCommit) -> bool:
        """It means what HEAD proposed when it was first said, which has perhaps moved on."""
        return known.actor == actor

    return Operations("policy", request_id, actor, make, recognise)
