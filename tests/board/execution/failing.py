"""Boards with a node whose delivery failed, made of the publisher's own records in no time.

What a run would have written is written here; the reconciler's part may be left to a test.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from callboard.board.board import Board
from callboard.board.execution.dispatcher import Dispatcher
from callboard.board.execution.settle import run_of
from callboard.board.projection.entities import Effects
from callboard.board.publishing import lifecycle
from callboard.board.publishing.lifecycle import Proof
from callboard.board.publishing.publisher import Accepted

RUN_ID = "123456789"
ATTEMPTS = 5
RECIPE = (
    'command = ["callboard", "worker", "exec", "--", "true"]\noutputs = ["artifact", "patch"]\n'
)
# What the failure's evidence adds for each kind of effects.
_RECEIPTS: Mapping[str, str] = {"none": "nothing-began"}


def complete(board: Board, *, run_id: str = RUN_ID) -> str:
    """Take the next node from its grant to a Completion without any output, and release its run;
    answers its Work id."""
    site = board.site
    publish = site.publisher.publish
    answer = board.grant()
    assert isinstance(answer, Accepted), answer
    claim = site.publisher.refresh().projection.claims[answer.request.claims[0]].claim
    dispatch_id = claim.dispatch_id
    publish(lifecycle.start(dispatch_id, Dispatcher(site, os.environ).actor, site.principal))
    state = site.publisher.refresh().projection.dispatches[dispatch_id]
    run = run_of(site, state, run_id)
    worker = {"workflow": run.workflow, "run_id": run.run_id, "dispatch_id": dispatch_id}
    publish(lifecycle.bind(dispatch_id, run, site.run_actor("worker", **worker)))
    actor = site.run_actor("worker", **worker, claim_handle=claim.handle)
    publish(lifecycle.finish(dispatch_id, claim.handle, "completed", actor))
    ended = Proof("terminal_run", "host_api", conclusion="success")
    publish(lifecycle.release(dispatch_id, ended, "run_ended", site.actor("reconciler")))
    return claim.work_id


def fail(
    board: Board,
    effects: Effects = "unknown",
    *,
    reason: str = "output_missing",
    run_id: str = RUN_ID,
) -> str:
    """Complete the next node and give its delivery up; answers its Work id."""
    work_id = complete(board, run_id=run_id)
    proof = Proof(
        "terminal_run", "host_api", conclusion="success", attempts=ATTEMPTS, effects=effects
    )
    if effects in _RECEIPTS:
        proof = Proof(
            "terminal_run",
            "host_api",
            conclusion="success",
            attempts=ATTEMPTS,
            effects=effects,
            receipt=_RECEIPTS[effects],
        )
    actor = board.site.actor("reconciler")
    answer = board.site.publisher.publish(lifecycle.fail_delivery(work_id, reason, proof, actor))
    assert isinstance(answer, Accepted), answer
    return work_id
