"""Why one Claim went to the Work it went to: the planner's own comparison, made again.

Source: specification 1, §§7.5, 7.13. The state before the Claim is replayed, the earlier Claims of
its commit are served, and the same planner is asked who is next. There is no second ranking.
"""

from __future__ import annotations

from callboard.board.projection.entities import ClaimState
from callboard.board.projection.state import Projection
from callboard.board.projection.transitions.context import POSITION_BITS
from callboard.board.protocol.operations import Claim
from callboard.board.reading.names import Names
from callboard.board.reading.replaying import decision_prefix
from callboard.board.reading.view import Document, View, commit_at
from callboard.board.scheduling.competition import Competition, Stop, Winner
from callboard.errors import CallboardError


def before_claim(view: View, claim: ClaimState, *, limit: int, offset: int) -> Document:
    """The decision that made `claim`, with `limit` competitors of each set from `offset` on."""
    projection, commit = decision_prefix(view.history, claim.commit_id)
    pool = view.projection.works[claim.claim.work_id].work.pool
    competition = Competition(projection, pool, commit.at)
    earlier: list[Claim] = []
    for operation in commit.operations:
        if not isinstance(operation, Claim):
            continue
        winner = competition.next()
        if isinstance(winner, Stop):
            raise _differs(claim, f"the planner stops: {winner.reason}")
        if operation.claim_id == claim.claim.claim_id:
            return {
                **view.stamp(),
                "decision": {
                    "claim_id": operation.claim_id,
                    "commit_id": commit.id,
                    "request_id": commit.request.id,
                    "source_commit": commit.previous,
                    "operation": commit.operations.index(operation),
                    "at": commit.at,
                    "policy_epoch": commit.policy_epoch,
                    "pool": pool,
                    "mode": projection.policy.mode,
                },
                "winner": _winner(projection, winner, claim),
                "eligible": _eligible(competition, limit, offset),
                "passes": _passes(competition, limit, offset),
                "capacity": _capacity(projection, pool, winner, earlier, operation),
            }
        competition.serve(winner)
        earlier.append(operation)
    raise _differs(claim, "its commit does not hold it")


def _differs(claim: ClaimState, what: str) -> CallboardError:
    return CallboardError(
        "selection_mismatch",
        f"Claim {claim.claim.claim_id} cannot be explained: {what}",
        "the ledger was accepted under another rule; run `callboard ledger verify`",
    )


def _winner(projection: Projection, winner: Winner, claim: ClaimState) -> Document:
    work = winner.state.work
    if work.work_id != claim.claim.work_id:
        raise _differs(claim, f"the planner chooses {work.work_id}")
    ordinal = winner.state.place >> POSITION_BITS
    return {
        "work_id": work.work_id,
        "name": Names(projection).label(work.work_id),
        "node_key": work.node_key,
        "priority": winner.priority,
        "fairness_key": work.fairness_key,
        "basis": list(winner.basis),
        "class_pass": None if winner.class_pass is None else str(winner.class_pass),
        "key_pass": str(winner.key_pass),
        "observations": winner.observations,
        "position": {
            "commit": ordinal,
            "operation": winner.state.place & ((1 << POSITION_BITS) - 1),
            "commit_id": commit_at(projection, ordinal),
        },
    }


def _eligible(competition: Competition, limit: int, offset: int) -> list[Document]:
    """Who could have won, at most `limit` keys a priority, with the count of all."""
    found: list[Document] = []
    for priority, keys in competition.eligible().items():
        rows = list(keys.items())[offset : offset + limit]
        listed = [{"key": key, "works": number} for key, number in rows]
        found.append({"priority": priority, "count": len(keys), "keys": listed})
    return found


def _passes(competition: Competition, limit: int, offset: int) -> Document:
    """Who stood where, best first; `classes`, and the keys of the winning class."""
    return {
        name: {
            "count": len(rows),
            "offset": offset,
            "rows": [
                {"name": sibling, "pass": str(passing)}
                for sibling, passing in rows[offset : offset + limit]
            ],
        }
        for name, rows in sorted(competition.standing().items())
    }


def _capacity(
    projection: Projection, pool: str, winner: Winner, earlier: list[Claim], claim: Claim
) -> Document:
    """What was taken of each limit just before the Claim, and after it."""
    counts = projection.pool_state(pool)
    policy = projection.pool(pool)
    groups = {one.dispatch_id for one in earlier}
    logical = counts.open_claims + len(earlier)
    native = counts.unreleased + len(groups)
    found: Document = {
        "logical": _taken(logical, logical + 1, policy.logical_limit),
        "native": _taken(native, native + (claim.dispatch_id not in groups), policy.native_limit),
    }
    if isinstance(policy.per_account_limit, int):
        held = counts.open_by_key.get(winner.key, 0) + sum(
            projection.works[one.work_id].work.fairness_key == winner.key for one in earlier
        )
        found["account"] = _taken(held, held + 1, policy.per_account_limit)
    return found


def _taken(before: int, after: int, limit: int) -> Document:
    return {"before": before, "after": after, "limit": limit}
