"""Gates: only the latest, fresh, rightly read observation of the exact condition opens one."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.protocol import operations as ops
from callboard.board.protocol.commit import DispatchNextParameters
from callboard.board.scheduling.gates import gate_reason, open_observations
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import DISPATCHER, refused, work

ISSUE, MERGE = make.issue_gate(), make.merge_gate()


def gated(*gates: ops.Gate, **changes: Any) -> Board:
    return Board([work("a", gates=gates or (ISSUE,)), work("z", priority=5)], **changes)


def reason(board: Board, gate: ops.Gate = ISSUE, later_ms: int = 0) -> str | None:
    return gate_reason(board.projection, "default", gate, board.at + later_ms)


def test_an_unobserved_gate_is_shut() -> None:
    board = gated()
    assert reason(board) == "external_unavailable"
    assert board.grant(9) == ["z"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("ready", None),
        ("waiting", "external_wait"),
        ("failed", "external_wait"),
        ("unknown", "external_unavailable"),
    ],
)
def test_each_observed_state_has_its_reason(state: str, expected: str | None) -> None:
    board = gated()
    board.observe(make.observation("o", ISSUE, board.at, state=state))
    assert reason(board) == expected
    assert (board.grant(9) == ["a", "z"]) is (expected is None)


def test_freshness_ends_with_the_very_millisecond() -> None:
    board = gated()
    board.observe(make.observation("o", ISSUE, board.at))
    assert reason(board, later_ms=60_000) is None
    assert reason(board, later_ms=60_001) == "observation_stale"
    board.pass_ms(60_001)
    assert board.plan(9).winners[0].state.work.node_key == "z"
    board.observe(make.observation("o2", ISSUE, board.at))
    assert board.grant(9) == ["a", "z"]


def test_a_newer_observation_replaces_the_older_for_grants_to_come() -> None:
    board = Board([work("a", gates=[ISSUE]), work("b", gates=[ISSUE])])
    board.observe(make.observation("o1", ISSUE, board.at))
    board.grant()
    claim = board.work("a").claim_id
    board.observe(make.observation("o2", ISSUE, board.at, state="waiting", resource_state="open"))
    assert reason(board) == "external_wait"
    assert board.plan().winners == []
    assert board.work("a").claim_id == claim
    board.settle("a")
    board.observe(make.observation("o3", ISSUE, board.at))
    assert board.grant() == ["b"]


def test_a_new_credential_makes_old_observations_stale() -> None:
    board = gated()
    board.observe(make.observation("o1", ISSUE, board.at))
    board.control("credential_generation", "second")
    assert reason(board) == "observation_stale"
    board.observe(make.observation("o2", ISSUE, board.at, credential_generation="second"))
    assert reason(board) is None


def test_a_gate_is_its_condition_not_its_name() -> None:
    closed = make.issue_gate(condition="closed")
    board = gated(closed)
    board.observe(make.observation("o1", ISSUE, board.at))
    assert reason(board, closed) == "external_unavailable"
    moved = make.resource(repository=make.REPOSITORY)
    board.observe(make.observation("o2", closed, board.at, resource=moved))
    assert reason(board, closed) is None
    assert board.grant(9) == ["a", "z"]


def test_a_claim_binds_the_observations_it_rests_on_in_edge_order() -> None:
    board = gated(MERGE, ISSUE)
    board.observe(make.observation("o1", ISSUE, board.at))
    assert open_observations(board.projection, board.work("a"), board.at) is None
    board.observe(make.observation("o2", MERGE, board.at))
    assert open_observations(board.projection, board.work("a"), board.at) == ["o2", "o1"]
    board.grant()
    (claim,) = board.projection.claims.values()
    assert claim.claim.observations == ["o2", "o1"]


def test_fresh_observations_and_their_claims_go_in_one_commit() -> None:
    board = gated(ISSUE, MERGE)
    seen = [
        make.observation("o1", ISSUE, board.at),
        make.observation("o2", MERGE, board.at),
    ]
    assert board.grant(9, observations=seen) == ["a", "z"]
    assert board.projection.observation_writes == 2


def test_an_observation_that_shuts_a_gate_counts_for_the_claims_behind_it() -> None:
    board = gated()
    board.observe(make.observation("o1", ISSUE, board.at))
    claims = board.plan(request_id="r").claims
    shut = make.observation("o2", ISSUE, board.at, state="waiting", resource_state="open")
    parameters = DispatchNextParameters(
        pool="default", max_claims=1, max_dispatches=256, max_bytes=49_152
    )
    error = refused(
        lambda: board.say(
            "dispatch_next", [shut, *claims], DISPATCHER, parameters=parameters, request_id="r"
        )
    )
    assert error.code == "selection_mismatch"
    assert reason(board) is None


def test_gated_work_keeps_its_place_among_the_others() -> None:
    board = Board([work("a"), work("b", gates=[ISSUE]), work("c"), work("d", gates=[MERGE])])
    board.observe(make.observation("o", ISSUE, board.at))
    assert board.grant(9) == ["a", "b", "c"]


def test_gated_work_waits_for_its_retry_too() -> None:
    board = Board([work("a", gates=[ISSUE])])
    board.observe(make.observation("o", ISSUE, board.at))
    board.grant()
    board.cancel_claim("a")
    assert board.plan().stop.reason == "no_eligible_work"
    assert board.plan(at=board.at + 29_999).winners == []
    assert board.plan(at=board.at + 30_000).winners != []


def test_a_gate_behind_a_predecessor_opens_no_earlier() -> None:
    board = Board([work("a"), work("b", after=["a"], gates=[ISSUE])])
    board.observe(make.observation("o", ISSUE, board.at))
    assert board.grant(9) == ["a"]
    board.settle("a")
    assert board.grant(9) == ["b"]


def test_observation_writes_are_bounded_to_the_unit() -> None:
    document = make.policy(limits=make.limits(observation_writes=2))
    board = Board([work("a")], document)
    for name in ("o1", "o2"):
        board.observe(make.observation(name, ISSUE, board.at))
    error = refused(lambda: board.observe(make.observation("o3", ISSUE, board.at)))
    assert (error.code, error.details["limit"]) == ("ledger_limit", "observation_writes")
    board.cancel_work("a")
