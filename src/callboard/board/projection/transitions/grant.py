"""Claim: admits a planned fair prefix, group by group.

Source: specification 1, §§7.3-7.6. The planner has already said which Claims these are; this
charges and reserves them and keeps the clocks that the prefix moved.
"""

from __future__ import annotations

from msgspec import structs

from callboard.board.projection.entities import ClaimState, DispatchState, PoolClocks
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import Context, work_of
from callboard.board.protocol.commit import Assignment
from callboard.board.protocol.operations import Claim
from callboard.board.protocol.policy import Profile


def apply_grant(
    projection: Projection,
    context: Context,
    claims: list[Claim],
    assignments: list[Assignment],
    profiles: list[Profile],
    clocks: PoolClocks,
) -> None:
    """Take in the Claims of one dispatch_next commit with their assignments and clocks.

    `profiles` are those that the assignments' dispatches keep, whatever is deployed later.
    """
    commit = context.commit
    for assignment, profile in zip(assignments, profiles, strict=True):
        projection.add_dispatch(
            DispatchState(
                assignment=assignment,
                profile=profile,
                grant_principal=commit.actor.principal,
                granted_at=context.at,
                open_claims=len(assignment.claims),
            )
        )
    for claim in claims:
        state = work_of(projection, claim.work_id)
        projection.set_work(
            structs.replace(
                state,
                state="claimed",
                claim_id=claim.claim_id,
                attempts=state.attempts + 1,
            )
        )
        projection.add_claim(
            ClaimState(
                claim=claim,
                commit_id=commit.id,
                request_id=commit.request.id,
                at=context.at,
            )
        )
    projection.journal.put(projection.clocks, assignments[0].pool, clocks)
