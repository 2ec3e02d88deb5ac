"""What an agent is shown: its own Work whole, of all other Work only place and reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from callboard import canonical
from callboard.board.reading import activation, activation_document
from callboard.board.reading.activation import Viewer, activation_snapshot
from callboard.board.reading.activation_document import (
    Snapshot,
    encode_snapshot,
    read_snapshot,
)
from callboard.board.reading.columns import COLUMNS, Columns
from callboard.board.reading.overview import overview
from tests.board.building import refused
from tests.board.reading.staged_board import PRINCIPAL, StagedBoard, node

STRANGER = "8"
REDACTED = {"work_id", "pool", "priority", "column", "stage", "reason"}
ME = Viewer("producer", PRINCIPAL)
SECRET = "hush"
KEYS = f"""[work_queue]
accounting_weights = {{"" = 1, "mine" = 3, "{SECRET}-team" = 2, "{SECRET}-crew" = 5}}
"""


@pytest.fixture
def board() -> StagedBoard:
    """A board with keys of several teams."""
    return StagedBoard(KEYS)


def told(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """The rows as documents, by Work id."""
    return {one.work_id: msgspec.to_builtins(one) for one in snapshot.nodes}


def mixed(board: StagedBoard) -> None:
    """My own nodes, one of which waits for a stranger's, and a stranger's chain."""
    secret = {"payload": {"task": SECRET}, "fairness_key": f"{SECRET}-team"}
    board.submit(
        node(f"{SECRET}-1", **secret), node(f"{SECRET}-2", f"{SECRET}-1", **secret),
        principal=STRANGER,
    )  # fmt: skip
    board.submit(node("other", **secret), graph=f"{SECRET}-graph", principal=STRANGER)
    board.submit(node("own"), node("next", "own"), node("mixed", "own", f"{SECRET}-1"))


def test_an_absent_board_has_no_nodes_and_no_tip(board: StagedBoard) -> None:
    snapshot = activation_snapshot(board.view(), Viewer("observer"))
    assert snapshot.tip is None
    assert snapshot.nodes == []
    assert snapshot.pools == []
    assert snapshot.provenance == "activation_snapshot"
    assert read_snapshot(encode_snapshot(snapshot)) == snapshot


def test_work_of_others_is_place_and_reason_alone(board: StagedBoard) -> None:
    board.submit(node("own"))
    board.submit(node(SECRET, payload={"task": SECRET}), graph=SECRET, principal=STRANGER)
    rows = told(activation_snapshot(board.view(), ME))
    assert set(rows[board.work_id(SECRET, SECRET)]) == REDACTED
    own = rows[board.work_id("own")]
    assert own["payload"]["task"] == "own"
    assert own["node_key"] == "own"
    assert own["depends_on"] == []
    assert own["claims"] == []


def test_nothing_that_a_stranger_submitted_is_anywhere_in_the_file(board: StagedBoard) -> None:
    mixed(board)
    board.cancel(f"{SECRET}-1", reason=f"{SECRET}.reason")
    for viewer in (ME, Viewer("observer"), Viewer("worker", members={"h1": board.work_id("own")})):
        data = encode_snapshot(activation_snapshot(board.view(), viewer))
        assert SECRET.encode() not in data
        assert board.work_id(f"{SECRET}-1").encode() in data
    whole = encode_snapshot(activation_snapshot(board.view(), Viewer("observer", STRANGER)))
    assert whole.count(SECRET.encode()) > 5


def test_a_path_through_work_of_others_goes_by_ids(board: StagedBoard) -> None:
    mixed(board)
    board.cancel(f"{SECRET}-1", reason="dropped")
    row = told(activation_snapshot(board.view(), ME))[board.work_id("mixed")]
    foreign = board.work_id(f"{SECRET}-1")
    assert row["column"] == "stuck"
    assert row["evidence"]["path"] == ["mixed", foreign[:12]]
    assert row["evidence"]["cause"] == foreign[:12]
    assert "cause_reason" not in row["evidence"]
    assert foreign[:12] in row["next"]
    assert foreign in row["depends_on"]


def test_a_worker_sees_its_own_members_and_nothing_else(board: StagedBoard) -> None:
    board.submit(node("one"), node("two"), node("three"))
    members = {"h1": board.work_id("one"), "h2": board.work_id("three")}
    rows = told(activation_snapshot(board.view(), Viewer("worker", PRINCIPAL, members)))
    assert rows[board.work_id("one")]["claim_handle"] == "h1"
    assert rows[board.work_id("three")]["claim_handle"] == "h2"
    assert set(rows[board.work_id("two")]) == REDACTED


def test_a_cancelled_node_of_others_does_not_say_why(board: StagedBoard) -> None:
    board.submit(node("own"))
    board.submit(node("x"), graph="other", principal=STRANGER)
    board.cancel("x", reason=SECRET, graph="other")
    board.cancel("own", reason="obsolete")
    rows = told(activation_snapshot(board.view(), ME))
    assert rows[board.work_id("x", "other")]["reason"] == "cancelled"
    assert rows[board.work_id("own")]["reason"] == "cancelled: obsolete"


def test_rows_say_what_the_board_says(board: StagedBoard) -> None:
    board.submit(node("a"), node("c"), node("b", "a"))
    board.do("a")
    board.do("c", "cancelled")
    view = board.view()
    rows = told(activation_snapshot(view, ME))
    columns = Columns(view)
    for state in view.projection.works.values():
        placed, row = columns.place(state), rows[state.work.work_id]
        assert (row["column"], row["reason"]) == (placed.column, placed.reason)
        assert row["stage"] == columns.stage(placed)
        assert row["attempts"] == state.attempts
    done = rows[board.work_id("a")]
    assert done["result"] == {"version": 1, "outputs": []}
    assert [one["state"] for one in done["claims"]] == ["completed"]
    assert "request_id" not in done["claims"][0]
    again = rows[board.work_id("c")]
    assert [one["reason"] for one in again["obstacles"]] == ["retry_delayed"]


def test_pools_count_what_the_board_counts(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"), node("c", priority=1, fairness_key="mine"))
    board.submit(
        node("x", fairness_key=f"{SECRET}-team"),
        node("y", fairness_key=f"{SECRET}-crew"),
        graph="o",
        principal=STRANGER,
    )
    board.grant(2, 2)
    view = board.view()
    (pool,) = activation_snapshot(view, ME).pools
    page = overview(view, limit=1)
    assert pool.columns == {name: page["columns"][name]["count"] for name in COLUMNS}
    assert pool.open["claims"] == page["pools"][0]["open_claims"] == 2
    assert pool.limits["claims"] == page["pools"][0]["logical_limit"]
    assert [(one["key"], one["weight"]) for one in pool.keys] == [("", 1), ("mine", 3)]
    assert pool.other_keys["count"] == 2
    assert sum(pool.other_keys["columns"].values()) == 2
    assert [one["weight"] for one in pool.classes] == list(view.projection.policy.class_weights)
    for column in COLUMNS:
        by_class = sum(one["columns"].get(column, 0) for one in pool.classes)
        assert by_class == pool.columns[column]


def test_strict_priority_has_no_weights() -> None:
    board = StagedBoard('[work_queue]\nmode = "strict-priority"\n')
    board.submit(node("a"))
    (pool,) = activation_snapshot(board.view(), ME).pools
    assert pool.mode == "strict-priority"
    assert all("weight" not in one for one in pool.classes)


def test_predictions_are_the_planners_and_called_so(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"), node("c", "a"))
    board.submit(node(SECRET, priority=1), graph="o", principal=STRANGER)
    snapshot = activation_snapshot(board.view(), ME)
    rows = told(snapshot)
    first = board.work_id(SECRET, "o")
    prediction = snapshot.pools[0].prediction
    assert prediction["work_id"] == first
    assert "node_key" not in prediction
    assert "prediction" in prediction["label"]
    assert prediction["line"] == [first, board.work_id("a"), board.work_id("b")]
    assert rows[board.work_id("a")]["ahead"] == 1
    assert rows[board.work_id("b")]["ahead"] == 2
    assert "ahead" not in rows[board.work_id("c")]
    granted = [board.dispatch_of(one) for one in board.grant(3, 3)]
    claims = board.view().projection.claims.values()
    assert len(granted) == 3
    assert [one.claim.work_id for one in claims] == prediction["line"]


def test_a_pause_stops_the_prediction_and_not_the_line(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.pause("grants_paused")
    snapshot = activation_snapshot(board.view(), ME)
    assert snapshot.paused == {"admission": False, "grants": True}
    assert snapshot.pools[0].prediction["reason"] == "grants_paused"
    assert snapshot.pools[0].prediction["line"] == [board.work_id("a")]


def test_ones_own_comes_first_and_what_is_stuck_before_all(board: StagedBoard) -> None:
    board.submit(node("theirs"), graph="o", principal=STRANGER)
    board.submit(node("ready"), node("gone"), node("blocked", "gone"))
    board.cancel("gone")
    order = [one.work_id for one in activation_snapshot(board.view(), ME).nodes]
    keys = ("blocked", "ready", "gone")
    assert order == [*map(board.work_id, keys), board.work_id("theirs", "o")]


def test_only_the_latest_settled_work_is_listed_and_the_rest_counted(
    board: StagedBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activation, "MAX_SETTLED", 2)
    board.submit(*(node(f"n{number}") for number in range(4)))
    for number in range(4):
        board.do(f"n{number}")
        board.clock.advance(1_000)
    snapshot = activation_snapshot(board.view(), ME)
    assert len(snapshot.nodes) == 2
    assert snapshot.left_out == activation_document.LeftOut(unsettled=0, settled=2, bodies=0)


def test_rows_and_bodies_have_bounds_of_their_own(
    board: StagedBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.submit(*(node(f"n{number}", payload={"text": "x" * 1_000}) for number in range(10)))
    monkeypatch.setattr(activation, "MAX_BODY_BYTES", 3_500)
    snapshot = activation_snapshot(board.view(), ME)
    assert [one.body_left_out is True for one in snapshot.nodes] == [False] * 3 + [True] * 7
    assert snapshot.left_out.bodies == 7
    monkeypatch.setattr(activation, "MAX_NODES", 4)
    snapshot = activation_snapshot(board.view(), ME)
    assert len(snapshot.nodes) == 4
    assert snapshot.left_out.unsettled == 6
    monkeypatch.setattr(activation, "MAX_ROW_BYTES", 600)
    snapshot = activation_snapshot(board.view(), ME)
    assert 1 <= len(snapshot.nodes) < 4
    assert snapshot.left_out.unsettled == 10 - len(snapshot.nodes)


def test_the_bounds_keep_the_file_within_what_is_read() -> None:
    bound = activation_document
    assert bound.MAX_ROW_BYTES + bound.MAX_BODY_BYTES < bound.MAX_SNAPSHOT_BYTES


def test_many_obstacles_are_cut(board: StagedBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "MAX_OBSTACLES", 3)
    keys = [f"n{number}" for number in range(8)]
    board.submit(*map(node, keys), node("join", *keys))
    row = told(activation_snapshot(board.view(), ME))[board.work_id("join")]
    assert len(row["obstacles"]) == 3
    assert len(row["depends_on"]) == 8


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: {**value, "version": 2},
        lambda value: {**value, "role": "root"},
        lambda value: {**value, "nodes": [{"work_id": "x"}]},
        lambda value: {**value, "more": 1},
        lambda value: {**value, "provenance": "live"},
        lambda _value: [],
    ],
)
def test_a_damaged_snapshot_is_refused(board: StagedBoard, damage: Any) -> None:
    board.submit(node("a"))
    value = msgspec.to_builtins(activation_snapshot(board.view(), ME))
    assert read_snapshot(canonical.encode(value)).nodes[0].is_shown
    assert refused(read_snapshot, canonical.encode(damage(value))).code == "snapshot_invalid"
    assert refused(read_snapshot, b"{").code == "snapshot_invalid"
