"""The commit that carries what somebody wants, and what to say of it in Git.

Source: specification 1, §7.7; wire-v3 §3. Pure: nothing is judged or written here.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from callboard.board.projection.state import Projection
from callboard.board.protocol import commit as wire
from callboard.board.protocol import identities
from callboard.board.protocol import operations as ops
from callboard.board.publishing.intents import Candidate, Intent


def assemble(
    projection: Projection,
    intent: Intent,
    candidate: Candidate,
    at: int,
    trace: wire.Trace | UnsetType = UNSET,
) -> wire.QueueCommit:
    """The commit that carries a candidate on top of the projection's tip."""
    epoch = projection.policy_epoch
    if isinstance(candidate.operations[0], ops.Policy):
        # A commit that begins an epoch stands in it.
        epoch = candidate.operations[0].epoch
    assert epoch is not None
    request = wire.REQUEST_TYPES[intent.kind](
        id=intent.request_id,
        # An intent's kind and parameters belong together, which no type says; whether they do is
        # judged when the line is read back before it is written.
        parameters=candidate.parameters,  # type: ignore[arg-type]
        fingerprint=identities.fingerprint(intent.actor, intent.kind, candidate.parameters),
    )
    return wire.QueueCommit(
        version=3,
        id=identities.commit_id(projection.tip, intent.request_id),
        previous=projection.tip,
        request=request,
        actor=intent.actor,
        policy_epoch=epoch,
        at=at,
        operations=candidate.operations,
        trace=trace,
    )


def message_of(intent: Intent, candidate: Candidate) -> str:
    """The message of the Git commit that brings the line."""
    return (
        f"{intent.kind}: {len(candidate.operations)} operation(s)\n\nRequest: {intent.request_id}\n"
    )
