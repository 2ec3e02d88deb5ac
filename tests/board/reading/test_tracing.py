"""Every commit that touched one thing, and no other."""

from __future__ import annotations

from callboard.board.ledger.history import History
from callboard.board.reading.tracing import trace_claim, trace_dispatch, trace_work
from callboard.board.reading.view import Document, View
from tests.board.reading.staged_board import StagedBoard, node


def kinds(document: Document) -> list[str]:
    return [one["kind"] for commit in document["commits"] for one in commit["operations"]]


def test_a_node_is_traced_from_its_admission_to_its_release(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.do("a", "cancelled")
    board.do("b")
    board.clock.advance(30_000)
    board.do("a")
    view = board.view()
    document = trace_work(view, view.projection.works[board.work_id("a")])
    assert kinds(document) == [
        "Work", "Claim", "Dispatch", "Dispatch", "ClaimCancellation", "Release",
        "Claim", "Dispatch", "Dispatch", "Completion", "Result", "Release",
    ]  # fmt: skip
    named = {one.get("name") for commit in document["commits"] for one in commit["operations"]}
    assert named == {"a", None}
    ordinals = [view.projection.commit_ids[commit["commit_id"]] for commit in document["commits"]]
    assert ordinals == sorted(ordinals)


def test_a_claim_is_traced_without_the_others_of_its_run() -> None:
    board = StagedBoard(recipe="max_claims = 2\n")
    board.submit(node("a"), node("b"))
    first, second = board.grant(2)
    dispatch_id = board.launch(first)
    assert dispatch_id == board.dispatch_of(second)
    board.finish(first, "completed")
    board.finish(second, "cancelled")
    board.deliver("a")
    board.release(dispatch_id)
    view = board.view()
    one = trace_claim(view, view.projection.claims[second])
    assert kinds(one) == ["Claim", "Dispatch", "Dispatch", "ClaimCancellation", "Release"]
    both = trace_dispatch(view, view.projection.dispatches[dispatch_id])
    assert kinds(both) == [
        "Claim", "Claim", "Dispatch", "Dispatch", "Completion", "ClaimCancellation", "Result",
        "Release",
    ]  # fmt: skip


def test_a_line_with_escapes_is_found_too(board: StagedBoard) -> None:
    board.submit(node("a"))
    work_id = board.work_id("a")
    hidden = work_id.replace(work_id[0], f"\\u{ord(work_id[0]):04x}")
    data = board.data.replace(work_id.encode(), hidden.encode())
    assert work_id.encode() not in data
    view = View(History.read(data), board.view().at_ms)
    assert kinds(trace_work(view, view.projection.works[work_id])) == ["Work"]
