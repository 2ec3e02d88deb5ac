"""What must hold when a soak has come to rest, and the counts that say what it has been through.

Reads the ledger, the registry, the journal and the process table; it changes nothing. Each law that
does not hold is an `AssertionError` that names what was found.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from callboard.board.board import Board
from callboard.board.projection.document import state_document
from callboard.board.projection.entities import WorkState
from callboard.board.protocol import operations as ops
from callboard.board.reading import lines
from tests.board.projection import audit
from tests.system.soak_plans import MAX_ATTEMPTS
from tests.system.world import World
from tests.waiting import until


def check(world: World, watcher: Board, tasks: int) -> dict[str, Any]:
    """All laws; `watcher` has followed the board from its beginning. Answers the counts."""
    # A supervisor still removes its clone once its place is free.
    until(lambda: not world.supervisors(), timeout_s=120)
    world.check_nothing_open()
    world.check_once()
    operations = world.operations()
    settled = _check_works(world, tasks)
    _check_executions(world, operations)
    _check_readings(world, watcher)
    world.check_repository()
    return {"works": settled, **_counts(world, operations)}


def _check_works(world: World, tasks: int) -> dict[str, int]:
    """Every Work that was posted has its end, with its reason."""
    works = world.works().values()
    assert len(works) == tasks, (len(works), tasks)
    return dict(sorted(Counter(_ending(one) for one in works).items()))


def _ending(state: WorkState) -> str:
    assert state.is_settled, (state.work.node_key, state.state, state.barrier)
    assert state.attempts <= MAX_ATTEMPTS, (state.work.node_key, state.attempts)
    if state.state == "cancelled":
        assert state.cancellation_reason, state.work.node_key
        return f"cancelled {state.cancellation_reason}"
    if state.barrier == "failed":
        assert state.disposition, state.work.node_key
        assert state.failure_reason, state.work.node_key
        return f"failed {state.failure_reason}"
    assert state.barrier == "verified", (state.work.node_key, state.barrier)
    return "verified"


def _check_executions(world: World, operations: list[ops.Operation]) -> None:
    """Each Claim had at most one started process, and each Completion exactly one, in the run that
    the Completion names; no dispatch had two runs, and no run two workers."""
    journal = world.journal
    begun = Counter(line["claim_id"] for line in journal)
    assert max(begun.values(), default=0) <= 1, begun.most_common(3)
    claims = {one.claim_id: one for one in operations if isinstance(one, ops.Claim)}
    by_claim = {line["claim_id"]: line for line in journal}
    assert by_claim.keys() <= claims.keys(), by_claim.keys() - claims.keys()
    for claim_id, line in by_claim.items():
        claim = claims[claim_id]
        found = (line["work_id"], line["dispatch_id"])
        assert found == (claim.work_id, claim.dispatch_id), line
    for one in operations:
        if isinstance(one, ops.Completion):
            execution = by_claim.get(one.claim_id)
            assert execution is not None, f"{one.claim_id} was completed and never executed"
            assert execution["run_id"] == one.run_id, (one, execution)
    rows = [row for row in world.rows() if row.state != "void"]
    twice = [key for key, count in Counter(row.dispatch_id for row in rows).items() if count > 1]
    assert not twice, twice
    assert not [row.run_id for row in rows if len(row.workers) > 1]
    runs = {row.run_id: {one.pid for one in row.workers} for row in rows}
    strangers = [line for line in journal if line["pid"] not in runs.get(line["run_id"], ())]
    assert not strangers, strangers[:3]


def _check_readings(world: World, watcher: Board) -> None:
    """Read cold, followed from the beginning and counted anew, the ledger means the same."""
    cold, followed = world.history(), watcher.history()
    assert state_document(cold.projection) == state_document(followed.projection)
    for projection in (cold.projection, followed.projection):
        at = projection.last_at
        assert audit.kept(projection, at) == audit.counted(projection, at)
    assert lines.behind_checkpoints(cold)["unchecked_commits"] == 0


def _counts(world: World, operations: list[ops.Operation]) -> dict[str, Any]:
    rows, journal = world.rows(), world.journal
    cancelled = Counter(one.reason for one in operations if isinstance(one, ops.ClaimCancellation))
    groups = Counter(line["dispatch_id"] for line in journal)
    projection = world.history().projection
    return {
        "grants": sum(isinstance(one, ops.Claim) for one in operations),
        "executions": len(journal),
        "completions": sum(isinstance(one, ops.Completion) for one in operations),
        "results": sum(isinstance(one, ops.Result) for one in operations),
        "claims_cancelled": dict(sorted(cancelled.items())),
        "runs": dict(sorted(Counter(str(row.conclusion or row.state) for row in rows).items())),
        "groups_of_several": sum(count > 1 for count in groups.values()),
        "survivors_named": sum(len(row.survivors) for row in rows),
        "commits": projection.ordinal,
        "checkpoints": sum(one.kind == "checkpoint" for one in projection.requests.values()),
        "ledger_bytes": projection.ledger_bytes,
    }
