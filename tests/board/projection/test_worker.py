"""How far a worker reaches: its own bound run, its own members, and no further."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from callboard.board.projection.entities import DispatchState
from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import DispatchNextParameters, FinishParameters
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import Phase, refused, work


def pair() -> Board:
    """Two members of one bound group, and one node beside them."""
    board = Board([work("a"), work("b"), work("c")], make.batching())
    board.grant(2)
    board.bind("a")
    return board


def seen(board: Board) -> list[ops.Observation]:
    return [make.observation(board.name("o"), make.issue_gate(), board.at)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"run_id": "5"}, "run_binding_conflict"),
        ({"principal": "8"}, "run_binding_conflict"),
        ({"workflow": ".callboard/workers/other.toml"}, "run_binding_conflict"),
        ({"dispatch_id": "d_other"}, "dispatch_unknown"),
        ({"run_attempt": 2}, "actor_invalid"),
        ({"repository": "example/fork"}, "repository_mismatch"),
    ],
)
def test_only_the_bound_run_acts(changes: dict[str, Any], code: str) -> None:
    board = pair()
    actor = board.worker(board.group("a"))
    false = structs.replace(actor, **changes)
    before = board.document()
    assert refused(lambda: board.say("observe", seen(board), false)).code == code
    assert board.document() == before
    board.say("observe", seen(board), actor)


@pytest.mark.parametrize("phase", ["reserved", "started", "uncertain", "released"])
def test_no_run_acts_outside_its_binding(phase: str) -> None:
    board = Board([work("a")])
    board.grant()
    group = board.group("a")
    if phase in ("started", "uncertain"):
        board.start("a")
    if phase == "uncertain":
        board.dispatch(group, "uncertain", reason="lost")
    if phase == "released":
        group = board.bind("a")
        board.release(group, "terminal_run", board.cancellations("a"))
    actor = board.worker(group)
    assert refused(lambda: board.say("observe", seen(board), actor)).code == "run_unbound"


def test_a_worker_binds_its_own_run_and_records_nothing_else() -> None:
    board = Board([work("a"), work("b")])
    board.grant(2)
    first, second = board.start("a"), board.start("b")
    worker = board.worker(first)
    run = board.run(first)
    steps: tuple[tuple[DispatchState, Phase, dict[str, Any]], ...] = (
        (first, "uncertain", {"reason": "lost"}),
        (first, "rejected", {"evidence": board.evidence(first, "nonlaunch")}),
    )
    for group, state, fields in steps:
        error = refused(board.dispatch, group, state, worker, **fields)
        assert error.code == "role_forbidden"
    for group, other in ((second, board.run(second)), (first, board.run(first, "5"))):
        error = refused(board.dispatch, group, "bound", worker, run=other)
        assert error.code == "run_binding_conflict"
    board.dispatch(first, "bound", worker, run=run)
    assert board.group("a").run == run


def test_a_sibling_lends_no_authority() -> None:
    """New requests hang on the completed member itself, its delivery open."""
    board = pair()
    group = board.group("a")
    board.finish("a")
    child = work("a-child")
    for handle in ("h2", "h9", None):
        actor = board.worker(group, handle)
        error = refused(board.submit, [child], actor)
        assert error.code == "claim_scope_invalid", handle
    board.submit([child], board.worker(group, "h1"))
    board.verify("a")
    late = work("late")
    assert refused(lambda: board.submit([late], board.worker(group, "h1"))).code == (
        "claim_scope_invalid"
    )


def test_a_worker_may_ask_for_grants_while_its_delivery_is_open() -> None:
    board = pair()
    group = board.group("a")
    parameters = DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=1, max_bytes=49_152
    )

    def grant(name: str) -> object:
        claims = board.plan(1, 1, request_id=name).claims
        return board.say(
            "dispatch_next",
            claims,
            board.worker(group, "h1"),
            parameters=parameters,
            request_id=name,
        )

    assert refused(lambda: grant("early")).code == "claim_scope_invalid"
    board.finish("a")
    grant("in-time")
    assert board.work("c").state == "claimed"


def test_a_worker_speaks_for_the_member_it_names() -> None:
    board = pair()
    group = board.group("a")
    claim = board.projection.claims[str(board.work("b").claim_id)].claim
    parameters = FinishParameters(
        dispatch_id=claim.dispatch_id, claim_handle="h2", outcome="completed"
    )
    done = ops.Completion(
        work_id=claim.work_id,
        claim_id=claim.claim_id,
        dispatch_id=claim.dispatch_id,
        claim_handle="h2",
        run_id=board.run(group).run_id,
        run_attempt=1,
    )
    for handle in ("h1", "h3"):
        actor = board.worker(group, handle)
        error = refused(board.say, "finish", [done], actor, parameters=parameters)
        assert error.code == "claim_scope_invalid"
    board.say("finish", [done], board.worker(group, None), parameters=parameters)
    assert board.work("b").state == "completed"
    assert board.work("a").state == "claimed"
