"""Refusals of launches, workers, ends and deliveries."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from callboard.board.ledger import finish as finishing
from callboard.board.ledger import replay
from callboard.board.projection.transitions.context import Context
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import (
    PRODUCER,
    RECONCILER,
    SENDER,
    work,
    work_id,
)
from tests.board.ledger.refusals import case
from tests.board.ledger.situations import (
    ZEROS,
    bound,
    completed,
    enrolled,
    failed,
    finish_of,
    granted,
    one,
    started,
)

# --- launches -------------------------------------------------------------------------------------


@case("grants_paused", "paused")
def a_start_in_a_pause() -> None:
    board = granted()
    board.control("grants_paused", True)
    board.start("a")


@case("sender_mismatch", "sender")
def a_start_for_another() -> None:
    board = granted()
    other = structs.replace(SENDER, run_id="78")
    board.dispatch(board.group("a"), "started", SENDER, sender=other, credential_principal="7")


@case("credential_mismatch", "a credential_principal")
def a_start_without_credential() -> None:
    board = granted()
    board.dispatch(board.group("a"), "started", SENDER, sender=SENDER)


@case("credential_mismatch", "'7'")
def a_start_with_another_credential() -> None:
    board = granted(document=enrolled())
    board.start("a")


@case("dispatch_unknown", "d_gone")
def an_unknown_group() -> None:
    gone = ops.Dispatch(dispatch_id="d_gone", state="uncertain", reason="lost")
    one().say("dispatch", [gone], RECONCILER)


@case("dispatch_state_invalid", "is reserved, so it cannot become bound")
def a_binding_before_the_start() -> None:
    board = granted()
    group = board.group("a")
    board.dispatch(group, "bound", run=board.run(group))


@case("dispatch_released", "d_")
def a_doubt_after_the_release() -> None:
    board = granted()
    group = board.group("a")
    board.release(group, "prelaunch", board.cancellations("a"))
    board.dispatch(group, "uncertain", reason="lost")


@case("lifecycle_limit", "5 launch records")
def too_many_launch_records() -> None:
    bounds = records.Reconciliation(max_attempts=1, deadline_ms=1)
    board = granted(document=make.with_pool(reconciliation=bounds))
    group = board.start("a")
    for _ in range(5):
        board.dispatch(group, "uncertain", reason="lost")


@case("run_binding_conflict", "is bound to run")
def two_runs_of_one_launch() -> None:
    board = bound()
    group = board.group("a")
    board.dispatch(group, "bound", run=board.run(group, "123"))


@case("run_binding_conflict", "already serves")
def one_run_for_two_groups() -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    run = board.bind("a").run
    assert run is not None
    board.dispatch(board.start("b"), "bound", run=run)


@case("run_binding_conflict", "'workflow_dispatch'")
def a_run_of_another_host() -> None:
    board = started()
    run = structs.replace(board.run(board.group("a")), event="workflow_dispatch")
    board.dispatch(board.group("a"), "bound", run=run)


@case("run_binding_conflict", "'.callboard/workers/other.toml'")
def a_worker_of_another_recipe() -> None:
    board = bound()
    actor = board.worker(board.group("a"))
    board.say(
        "observe",
        [make.observation("o", make.issue_gate(), board.at)],
        structs.replace(actor, workflow=".callboard/workers/other.toml"),
    )


@case("run_binding_conflict", "'5'")
def a_worker_that_binds_another_run() -> None:
    board = started()
    group = board.group("a")
    board.dispatch(group, "bound", board.worker(group), run=board.run(group, "5"))


@case("run_binding_conflict", "run 5 ")
def a_completion_by_another_run() -> None:
    # A finish is recomputed first, so that no line gets here.
    board = bound()
    board.projection.dispatches[board.group("a").assignment.dispatch_id] = structs.replace(
        board.group("a"), run=structs.replace(board.run(board.group("a")), run_id="6")
    )
    done = _completion(board, run_id="5")
    context = Context(board.make("observe", [], RECONCILER), 9)
    replay._TRANSITIONS[ops.Completion](board.projection, context, done)


def _completion(board: Board, **changes: Any) -> ops.Completion:
    claim = board.projection.claims[str(board.work("a").claim_id)].claim
    made = ops.Completion(
        work_id=claim.work_id,
        claim_id=claim.claim_id,
        dispatch_id=claim.dispatch_id,
        claim_handle=claim.handle,
        run_id=board.run(board.group("a")).run_id,
        run_attempt=1,
    )
    return structs.replace(made, **changes)


@case("run_unbound", "is started")
def a_worker_before_its_binding() -> None:
    board = started()
    group = board.group("a")
    board.say(
        "finish",
        [_completion(board)],
        board.worker(group),
        parameters=finish_of(group.assignment.dispatch_id, "h1"),
    )


@case("run_unbound", "d_")
def a_finish_before_the_binding() -> None:
    board = started()
    group = board.group("a")
    parameters = finish_of(group.assignment.dispatch_id, "h1")
    finishing.finish_operations(board.projection, parameters, board.at)


@case("release_open_claims", "1 open Claims")
def a_release_amid_work() -> None:
    board = granted()
    board.release(board.group("a"), "prelaunch")


@case("evidence_invalid", "'delivery'")
def a_release_on_the_wrong_proof() -> None:
    board = bound()
    board.release(board.group("a"), "delivery", board.cancellations("a"))


@case("evidence_limit", "1024")
def long_evidence() -> None:
    board = bound()
    board.release(
        board.group("a"),
        "terminal_run",
        board.cancellations("a"),
        workflow="w" * 256,
        receipt="r" * 256,
        repository="o/" + "r" * 254,
        run_id="9" * 256,
    )


@case("evidence_limit", "at most 100 are allowed")
def a_long_observation() -> None:
    board = one(document=make.policy(limits=make.limits(evidence_bytes=100)))
    board.observe(make.observation("o", make.issue_gate(), board.at))


# --- ends -----------------------------------------------------------------------------------------


@case("work_unknown", ZEROS)
def an_unknown_work() -> None:
    gone = ops.WorkCancellation(work_id=ZEROS, reason="r")
    one().say("cancel_work", [gone], PRODUCER)


@case("work_closed", "is completed")
def a_cancellation_after_the_end() -> None:
    completed().cancel_work("a")


@case("claim_unknown", "c_gone")
def an_unknown_claim() -> None:
    gone = ops.ClaimCancellation(
        work_id=work_id("a"), claim_id="c_gone", reason="r", retry_not_before=0
    )
    one().say("cancel_claim", [gone], RECONCILER)


@case("claim_closed", "is completed")
def a_claim_cancelled_after_the_end() -> None:
    completed().cancel_claim("a")


@case("claim_closed", "is completed")
def a_claim_completed_twice() -> None:
    board = completed()
    board.finish("a")


@case("claim_mismatch", "not " + ZEROS)
def a_claim_on_another_work() -> None:
    board = granted()
    (cancelled,) = board.cancellations("a")
    wrong = structs.replace(cancelled, work_id=ZEROS)
    board.say("cancel_claim", [wrong], RECONCILER)


@case("claim_mismatch", "held by nobody")
def a_fence_that_is_gone() -> None:
    one().cancel_work("a", claim_id="c_1")


@case("claim_mismatch", "not h2 of ")
def a_completion_under_another_handle() -> None:
    # A finish is recomputed first, so that no line gets here.
    board = bound()
    context = Context(board.make("observe", [], RECONCILER), 9)
    done = _completion(board, claim_handle="h2")
    replay._TRANSITIONS[ops.Completion](board.projection, context, done)


@case("claim_mismatch", "was completed by Claim c_")
def a_result_of_another_completion() -> None:
    completed().verify("a", completion_id="q_other")


@case("finish_mismatch", "'finish-")
def a_finish_with_another_delay() -> None:
    board = bound()
    group = board.group("a")
    parameters = structs.replace(finish_of(group.assignment.dispatch_id, "h1"), outcome="cancelled")
    (cancelled,) = finishing.finish_operations(board.projection, parameters, board.at + 1)
    board.say("finish", [cancelled], board.worker(group), parameters=parameters)


@case("retry_too_early", str(make.START_MS + 29_999))
def a_retry_before_the_backoff() -> None:
    board = granted()
    cancelled = finishing.cancel_claim_operations(
        board.projection, str(board.work("a").claim_id), "r", board.at - 1
    )
    board.say("cancel_claim", cancelled, RECONCILER)


@case("retry_exhausted", "1 of 1 attempts")
def a_retry_too_many() -> None:
    board = granted(document=make.with_pool(retry=records.Retry(max_attempts=1, backoff_ms=1)))
    board.say("cancel_claim", board.cancellations("a")[:1], RECONCILER)


@case("barrier_closed", "is claimed, its delivery barrier is none")
def a_result_before_the_end() -> None:
    bound().verify("a", completion_id="q")


@case("barrier_closed", "barrier is failed")
def a_result_after_the_failure() -> None:
    failed().verify("a")


@case("result_limit", "10 bytes where result_bytes allows 9")
def a_large_result() -> None:
    board = completed(document=make.policy(limits=make.limits(result_bytes=9)))
    board.verify("a", descriptor={"k": "12"})


@case("delivery_contract_required", work_id("a"))
def a_result_without_contract() -> None:
    completed(payload={}).verify("a")


@case("contract_invalid", "no_writes")
def a_result_under_a_bad_contract() -> None:
    completed(payload={"effect_contract": {"version": 1, "outputs": []}}).verify("a")


@case("reconciliation_pending", "4 of 5 times")
def a_failure_too_soon() -> None:
    board = completed()
    evidence = board.evidence(board.group("a"), "terminal_run", attempts=4)
    board.fail_delivery("a", evidence=evidence)
