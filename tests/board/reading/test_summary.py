"""Summaries: counts that add up, rows that say how each Claim ended, and bounds that say so."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.publishing import lifecycle
from callboard.board.publishing.lifecycle import Proof
from callboard.board.reading.summary import COUNTS, Subject, since, subject_of, summarize
from callboard.board.reading.view import Document
from callboard.errors import CallboardError
from tests.board.reading.staged_board import StagedBoard, node

SHARED = "max_claims = 4\n"


def of(board: StagedBoard, *words: str, **more: Any) -> Document:
    view = board.view()
    return summarize(view, subject_of(view.projection, words), **more)


def counts(found: Document) -> dict[str, int]:
    """The counts that are not 0, which must add up."""
    assert found["granted"] == found["completed"] + found["cancelled"] + found["open"]
    assert found["completed"] == found["verified"] + found["pending"] + found["failed"]
    assert found["launched"] <= found["granted"]
    return {name: found[name] for name in COUNTS if found[name]}


def batch(board: StagedBoard, *keys: str) -> tuple[list[str], str]:
    """The nodes granted to one launch: its Claims, and the launch."""
    board.submit(*[node(key) for key in keys])
    claims = board.grant(len(keys), request_id="batch")
    (dispatch_id,) = {board.dispatch_of(one) for one in claims}
    return claims, dispatch_id


def test_a_mixed_batch_is_told_claim_by_claim() -> None:
    board = StagedBoard(recipe=SHARED)
    claims, dispatch_id = batch(board, "a", "b", "c")
    before = of(board, "batch")
    assert (before["status"], counts(before)) == (
        "in_progress",
        {"requested": 3, "granted": 3, "open": 3},
    )
    board.launch(claims[0])
    assert counts(of(board, "batch"))["launched"] == 3
    board.finish(claims[0], "completed")
    board.finish(claims[1], "cancelled")
    board.finish(claims[2], "completed")
    pending = of(board, "batch")
    assert (pending["status"], pending["pending"]) == ("delivery_pending", 2)
    board.deliver("a")
    board.deliver("c")
    board.release(dispatch_id)
    found = of(board, "batch")
    assert found["status"] == "completed_with_cancellations"
    assert counts(found) == {
        "requested": 3, "granted": 3, "launched": 3, "completed": 2, "verified": 2, "cancelled": 1
    }  # fmt: skip
    told = [
        (one["node_key"], one["handle"], one["outcome"], one["delivery"], one.get("reason"))
        for one in found["rows"]
    ]
    assert told == [
        ("a", "h1", "completed", "verified", None),
        ("b", "h2", "cancelled", "none", "worker_cancelled"),
        ("c", "h3", "completed", "verified", None),
    ]
    (launch,) = found["launches"]
    assert (launch["status"], launch["conclusion"], launch["claims"]) == ("released", "success", 3)
    assert found["left_out"] == {"rows": 0, "launches": 0, "requests": 0, "nodes": 0}
    # By the launch, or by its run, it is the same; so is it however often it is asked.
    assert of(board, dispatch_id) == of(board, dispatch_id[:14]) == of(board, launch["run_id"])
    assert of(board, dispatch_id)["rows"] == found["rows"]


def test_all_completed_and_all_cancelled_have_words_of_their_own(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    board.do("a")
    assert of(board, "r2")["status"] == "completed"
    board.do("b", "cancelled")
    assert of(board, "r3")["status"] == "cancelled"
    assert of(board, "r2", "r3")["status"] == "completed_with_cancellations"


def test_doubt_and_failure_hide_behind_nothing(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"), node("c"))
    board.do("a")
    (second,) = board.grant(request_id="second")
    run = board.launch(second)
    board.finish(second, "completed")
    board.release(run)
    board.fail_delivery("b")
    found = of(board, "r2", "second")
    assert (found["status"], found["verified"], found["failed"]) == ("delivery_failed", 1, 1)
    assert found["rows"][1]["reason"] == "output_missing"
    (third,) = board.grant(request_id="third")
    board.start(board.dispatch_of(third))
    board.doubt(board.dispatch_of(third), "uncertain")
    assert of(board, "r2", "second", "third")["status"] == "launch_uncertain"


def test_what_was_never_launched_is_granted_and_not_launched(board: StagedBoard) -> None:
    board.submit(node("a"))
    (claim_id,) = board.grant(request_id="g")
    proof = Proof("prelaunch", "trusted_publisher")
    actor = board.actor("reconciler")
    board.publish(lifecycle.release(board.dispatch_of(claim_id), proof, "not_launched", actor))
    found = of(board, "g")
    assert counts(found) == {"requested": 1, "granted": 1, "cancelled": 1}
    assert (found["rows"][0]["reason"], found["launches"][0]["run_id"]) == ("not_launched", None)


def test_attempts_of_one_node_are_told_apart(board: StagedBoard) -> None:
    board.submit(node("a"))
    board.do("a", "cancelled")
    board.clock.advance(60_000)
    board.do("a")
    rows = of(board, "r2", "r3")["rows"]
    assert [(one["attempt"], one["outcome"]) for one in rows] == [
        (1, "cancelled"),
        (2, "completed"),
    ]


def test_a_submission_lists_its_nodes(board: StagedBoard) -> None:
    board.submit(node("a"), node("b", "a"))
    found = of(board, "r1")
    assert (found["status"], found["submitted"], found["granted"]) == ("submitted", 2, 0)
    assert [(one["node_key"], one["stage"]) for one in found["nodes"]] == [
        ("a", "ready"),
        ("b", "waiting"),
    ]


def test_a_range_of_commits_is_what_was_asked_for_in_it(board: StagedBoard) -> None:
    board.submit(node("a"), node("b"))
    view = board.view()
    assert summarize(view, since(view.projection, view.projection.tip))["status"] == "nothing"
    middle = view.projection.tip
    board.do("a")
    projection = board.view().projection
    assert [one.kind for one in since(projection, middle).requests] == ["dispatch_next"]
    assert [one.kind for one in since(projection, None).requests] == ["submit", "dispatch_next"]
    with pytest.raises(CallboardError) as refusal:
        since(projection, "q_none")
    assert refusal.value.code == "commit_unknown"


def test_lists_are_bounded_and_what_went_wrong_is_listed_first(board: StagedBoard) -> None:
    board.submit(*[node(f"n{number}") for number in range(4)])
    for number in (0, 1):
        board.do(f"n{number}")
    board.do("n2", "cancelled")
    words = [f"r{number}" for number in range(1, 5)]
    whole, found = of(board, *words), of(board, *words, limit=2)
    assert {name: found[name] for name in COUNTS} == {name: whole[name] for name in COUNTS}
    assert [one["node_key"] for one in found["rows"]] == ["n0", "n2"]
    assert found["left_out"] == {"rows": 1, "launches": 1, "requests": 2, "nodes": 2}
    assert len(found["nodes"]) == len(found["requests"]) == len(found["launches"]) == 2


def test_outputs_are_named_by_the_result_alone_and_bounded(board: StagedBoard) -> None:
    board.submit(node("a"))
    (claim_id,) = board.grant(request_id="g")
    run = board.launch(claim_id)
    board.finish(claim_id, "completed")
    outputs: list[Any] = [{"type": "artifact", "name": f"f{number}"} for number in range(17)]
    outputs += [{"type": "patch", "branch": "callboard/x"}, {"type": 7}, "none", None]
    descriptor = {"version": 1, "outputs": outputs}
    proof = Proof("delivery", "host_api", attempts=1)
    work_id = board.work_id("a")
    board.publish(lifecycle.deliver(work_id, descriptor, proof, board.actor("reconciler")))
    board.release(run)
    (row,) = of(board, "g")["rows"]
    assert row["outputs"][0] == {"type": "artifact", "name": "f0"}
    assert (len(row["outputs"]), row["outputs_left_out"]) == (16, 3)


def test_what_is_unknown_is_refused(board: StagedBoard) -> None:
    board.submit(node("a"))
    with pytest.raises(CallboardError) as refusal:
        of(board, "r9")
    assert refusal.value.code == "summary_subject_unknown"
    assert "r9" in refusal.value.message


def test_a_board_without_a_commit_has_an_empty_summary(board: StagedBoard) -> None:
    found = summarize(board.view(), Subject())
    assert (found["status"], found["tip"], counts(found)) == ("nothing", None, {})
