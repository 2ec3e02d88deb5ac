"""The state document: the fields of the wire, and none without a value."""

from __future__ import annotations

from callboard import canonical
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import work, work_id

TOP = (
    "repository tip policy_epoch policy works claims dispatches observations requests clocks "
    "admission_paused grants_paused credential_generation stats ledger_bytes observation_writes "
    "seen_epochs seen_generations observation_ids terminal_barriers cancellations "
    "completion_times last_at"
)
STATS = "work available claimed completed cancelled claims dispatches transactions nodes"
WORK = (
    "kind work_id graph_id node_key pool priority fairness_key worker_profile batch_trust_domain "
    "payload depends_on enqueued state position attempts retry_not_before barrier"
)


def lived() -> Board:
    board = Board([work("a"), work("b", after=["a"]), work("c"), work("d")])
    board.observe(make.observation("o", make.issue_gate(), board.at))
    board.grant(3)
    board.settle("a")
    board.pass_ms(5)
    board.bind("c")
    board.finish("c")
    board.fail_delivery("c")
    board.cancel_claim("d")
    board.cancel_work("d")
    return board


def test_its_fields_are_those_of_the_wire() -> None:
    document = lived().document()
    assert set(document) == set(TOP.split())
    assert set(document["stats"]) == set(STATS.split())
    assert set(document["works"][work_id("b")]) == set(WORK.split())
    verified = {"claim_id", "completion_id", "result", "result_commit_id"}
    assert set(document["works"][work_id("a")]) == set(WORK.split()) | verified
    failed = {"claim_id", "completion_id", "disposition"}
    assert set(document["works"][work_id("c")]) == set(WORK.split()) | failed
    gone = {"cancellation_reason", "cancellation_commit_id"}
    assert set(document["works"][work_id("d")]) == set(WORK.split()) | gone


def test_its_figures_are_those_of_the_board() -> None:
    board = lived()
    document = board.document()
    assert document["stats"] == {
        "work": 4,
        "available": 1,
        "claimed": 0,
        "completed": 2,
        "cancelled": 1,
        "claims": 3,
        "dispatches": 2,
        "transactions": len(board.commits),
        "nodes": 4,
    }
    assert document["terminal_barriers"] == {work_id("a"): "verified", work_id("c"): "failed"}
    assert set(document["completion_times"]) == {work_id("a"), work_id("c")}
    assert document["completion_times"][work_id("c")] == make.START_MS + 5
    assert document["cancellations"] == {work_id("d"): board.commits[-1].id}
    assert document["last_at"] == make.START_MS + 5
    assert document["ledger_bytes"] == len(board.data)
    assert document["works"][work_id("b")]["position"] == {"commit": 0, "operation": 2}


def test_requests_stand_in_causal_order_with_what_answers_them() -> None:
    board = lived()
    found = board.document()["requests"]
    assert [one["id"] for one in found] == [one.id for one in board.commits]
    for one, commit in zip(found, board.commits, strict=True):
        parameters = canonical.encode(commit.request.parameters)
        assert one["parameters_digest"] == canonical.sha256_hex(parameters)
        assert one["fingerprint"] == commit.request.fingerprint
        assert ("dispatch_parameters" in one) == (one["kind"] == "dispatch_next")
        assert bool(one["claims"]) == (one["kind"] == "dispatch_next")


def test_a_ledger_read_back_gives_the_same_document() -> None:
    board = lived()
    read = canonical.encode(state_document(History.read(board.data).projection))
    assert read == canonical.encode(board.document())
