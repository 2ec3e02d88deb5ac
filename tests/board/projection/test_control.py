"""Controls and epochs: what operators change, and what stays untouched by it."""

from __future__ import annotations

import pytest

from callboard.board.projection.state import Projection
from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from callboard.board.protocol.commit import DispatchNextParameters
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import ADMINISTRATOR, DISPATCHER, ControlName, refused, work


def install(board: Board, epoch: str, document: records.PolicyDocument | None = None) -> None:
    operation = ops.Policy(epoch=epoch, policy=document or make.policy())
    board.say("policy", [operation], ADMINISTRATOR, epoch=epoch)


def test_a_grants_pause_stops_grants_and_starts_and_nothing_else() -> None:
    board = Board([work("a"), work("b"), work("c"), work("d", after=["b"])])
    board.grant(2)
    board.bind("b")
    board.control("grants_paused", True)
    clocks = board.projection.clocks
    assert board.plan().stop.reason == "grants_paused"
    assert refused(lambda: board.start("a")).code == "grants_paused"
    board.submit([work("e")])
    board.finish("b")
    board.verify("b")
    board.release(board.group("b"), "terminal_run")
    board.release(board.group("a"), "prelaunch", board.cancellations("a"))
    assert board.projection.clocks == clocks
    board.control("grants_paused", False)
    assert board.grant(9) == ["c", "d", "e"]


def test_a_launch_begun_before_a_pause_is_bound_in_it() -> None:
    board = Board([work("a")])
    board.grant()
    group = board.start("a")
    board.control("grants_paused", True)
    board.dispatch(group, "bound", run=board.run(group))
    board.finish("a")
    assert board.work("a").state == "completed"


def test_a_grant_made_in_a_pause_is_no_grant() -> None:
    board = Board([work("a")])
    claims = board.plan(request_id="late").claims
    board.control("grants_paused", True)
    parameters = DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=256, max_bytes=49_152
    )
    error = refused(
        lambda: board.say(
            "dispatch_next", claims, DISPATCHER, parameters=parameters, request_id="late"
        )
    )
    assert error.code == "selection_mismatch"
    assert error.details["reason"] == "grants_paused"


def test_an_admission_pause_stops_new_work_only() -> None:
    board = Board([work("a"), work("b")])
    board.control("admission_paused", True)
    before = board.document()["works"]
    assert refused(lambda: board.submit([work("c")])).code == "admission_paused"
    board.submit([work("a")])
    assert board.document()["works"] == before
    assert board.grant(2) == ["a", "b"]
    board.settle("a")
    board.control("admission_paused", False)
    board.submit([work("c")])
    assert board.grant(2) == ["c"]


@pytest.mark.parametrize("name", ["grants_paused", "admission_paused"])
def test_pausing_twice_is_pausing(name: ControlName) -> None:
    board = Board([work("a")])
    for value in (True, True, False, False):
        board.control(name, value)
        assert getattr(board.projection, name) is value


def test_a_generation_is_never_used_again() -> None:
    board = Board([work("a")])
    board.control("credential_generation", "second")
    board.control("credential_generation", "third")
    for old in ("initial", "second", "third"):
        assert refused(board.control, "credential_generation", old).code == (
            "credential_generation_reused"
        )
    assert board.projection.credential_generation == "third"


# --- epochs -------------------------------------------------------------------------------------


def open_boards() -> dict[str, Board]:
    """Boards that are not quiescent, each for another reason."""
    found = {}
    for name in ("available", "claimed", "pending", "unreleased"):
        board = found[name] = Board([work("a")])
        if name == "available":
            continue
        board.grant()
        if name == "claimed":
            continue
        board.complete("a")
        if name == "unreleased":
            board.verify("a")
        else:
            board.release(board.group("a"), "terminal_run")
    return found


@pytest.mark.parametrize("name", ["available", "claimed", "pending", "unreleased"])
def test_an_epoch_begins_on_a_settled_board_only(name: str) -> None:
    board = open_boards()[name]
    before = board.document()
    error = refused(lambda: install(board, "e2"))
    assert error.code == "policy_not_quiescent"
    assert error.details["unsettled"]
    assert board.document() == before


def test_an_epoch_starts_the_clocks_anew_and_keeps_the_past() -> None:
    weights = {"": 1, "x": 1, "y": 1}
    document = make.policy(accounting_weights=weights)
    board = Board([work(f"x{n}", account="x") for n in range(3)], document)
    board.grant(3)
    for n in range(3):
        board.settle(f"x{n}")
    assert board.projection.clocks["default"].keys[3].passes == {"x": 4}
    past = board.document()
    install(board, "e2", document)
    now = board.document()
    assert now["clocks"] == {}
    for name in ("works", "claims", "dispatches", "repository"):
        assert now[name] == past[name]
    assert now["seen_epochs"] == {"e1": True, "e2": True}
    board.submit([work("x9", account="x"), work("y9", account="y")])
    assert board.grant(2) == ["x9", "y9"]


def test_an_epoch_changes_what_it_names_at_once() -> None:
    board = Board([work("a")])
    board.cancel_work("a")
    install(board, "e2", make.policy(pools={"lake": make.pool("fish")}))
    assert refused(lambda: board.submit([work("b")])).code == "pool_unknown"
    board.submit([work("b", pool="lake", worker_profile="fish", graph="h")])
    assert board.grant(name="lake") == ["b"]
    assert refused(lambda: board.plan()).code == "pool_unknown"


def test_no_epoch_comes_back() -> None:
    board = Board([work("a")])
    board.cancel_work("a")
    install(board, "e2")
    for epoch in ("e1", "e2"):
        assert refused(install, board, epoch).code == "policy_epoch_reused"
    assert refused(lambda: board.say("submit", [work("b")], make.PRODUCER, epoch="e1")).code == (
        "policy_epoch_mismatch"
    )
    install(board, "e3")
    assert board.projection.policy_epoch == "e3"


def test_a_policy_and_its_commit_name_one_epoch() -> None:
    board = Board([work("a")])
    board.cancel_work("a")
    operation = ops.Policy(epoch="e2", policy=make.policy())
    before = board.document()
    error = refused(lambda: board.say("policy", [operation], ADMINISTRATOR, epoch="e1"))
    assert error.code == "policy_epoch_mismatch"
    assert board.document() == before
    assert board.projection.policy_epoch == "e1"


def test_an_older_ledger_may_begin_with_its_policy_alone() -> None:
    board = Board()
    install(board, "e1")
    assert board.projection.ordinal == 1
    board.submit([work("a")])
    assert board.work("a").place == 1 << 8


@pytest.mark.parametrize("actor", [make.PRODUCER, DISPATCHER, make.RECONCILER])
def test_only_an_administrator_installs_a_policy(actor: ops.Actor) -> None:
    board = Board()
    operation = ops.Policy(epoch="e1", policy=make.policy())
    assert refused(lambda: board.say("policy", [operation], actor)).code == "role_forbidden"
    assert board.projection.policy_epoch is None


def test_an_empty_board_has_no_policy_and_says_so() -> None:
    error = refused(lambda: Projection().policy)
    assert error.code == "queue_missing"
    assert refused(lambda: Board().plan()).code == "queue_missing"
