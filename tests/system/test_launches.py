"""Launches and attempts: one child for one launch, each Claim counted once, none too many."""

from __future__ import annotations

import hashlib
import json

import pytest

from callboard import canonical
from callboard.board.execution.hosts.local import host
from callboard.board.protocol import operations as ops
from callboard.board.publishing.intents import Nothing
from callboard.errors import CallboardError
from tests.system.world import BOTH, World
from tests.waiting import until

CLAIM_RUNNING = "callboard.board.execution.hosts.local.registry:RunRegistry.claim_running"
APPEND = "callboard.board.storage.git:GitStore.append"
STUBBORN = {"script": ["exit 1"], "first": ["exit 1"]}


def _held(world: World) -> dict[str, str]:
    """A supervisor that does not get to confirm its launch until it may."""
    fault = world.fault(CLAIM_RUNNING, "before", role="supervisor")
    return {**fault, "action": "hold", "until": str(world.file("confirm"))}


@pytest.mark.parametrize("sender", ["alive", "dead"])
def test_a_launch_that_is_slow_to_confirm_is_waited_for_by_all(world: World, sender: str) -> None:
    world.submit({"key": "task", "contract": BOTH})
    process = world.start(fault=_held(world))
    world.wait_for(world.file("killed"))
    if sender == "dead":
        process.kill()
        process.wait()
    findings = world.reconcilers(10, 5)
    assert {word for found in findings for word in found.values()} == {"launch_pending"}
    world.file("confirm").touch()
    world.finish(process)
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal), len(world.rows())) == (1, 1, 1)


def test_a_run_whose_work_was_cancelled_before_executes_nothing_and_says_who(world: World) -> None:
    world.submit({"key": "task", "contract": BOTH})
    process = world.start(fault=_held(world))
    world.wait_for(world.file("killed"))
    with world.open() as board:
        board.cancel([world.works()["task"].work.work_id], reason="not_needed", request_id="no")
        producer = board.site.principal
    world.file("confirm").touch()
    world.finish(process)
    until(lambda: not world.supervisors())
    world.check_settled()
    (row,) = world.rows()
    assert (world.journal, row.conclusion) == ([], "nothing_open")
    (note,) = row.notes
    assert str(note["text"]).startswith(
        "nothing was executed: node 'task' was cancelled before (not_needed), "
        f"by producer {producer} in q_"
    )
    (release,) = [one for one in world.operations() if isinstance(one, ops.Release)]
    assert release.evidence.conclusion == "nothing_open"


def test_a_supervisor_that_comes_too_late_does_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit({"key": "task", "contract": BOTH})
    process = world.start(fault=_held(world))
    world.wait_for(world.file("killed"))
    process.kill()
    process.wait()
    monkeypatch.setattr(host, "LAUNCH_GRACE_MS", 0)
    findings = world.reconcilers(10, 1)
    assert "released" in {word for found in findings for word in found.values()}
    world.file("confirm").touch()
    until(lambda: not world.supervisors())
    assert world.journal == []
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal)) == (2, 1)


def test_a_claim_whose_dispatcher_died_is_resumed_once(world: World) -> None:
    world.submit({"key": "task", "contract": BOTH})
    fault = world.fault(APPEND, "after", role="dispatcher", match="dispatch_next: ")
    assert world.run(fault=fault) is None
    assert [state.state for state in world.history().projection.dispatches.values()] == ["reserved"]
    words = [word for found in world.reconcilers(10, 3) for word in found.values()]
    assert words.count("launched") == 1
    world.run()
    world.check_settled()
    assert (world.works()["task"].attempts, len(world.journal)) == (1, 1)


def test_a_worker_that_always_fails_gets_its_attempts_and_no_more(world: World) -> None:
    world.submit({"key": "task", "payload": STUBBORN}, {"key": "next", "after": ["task"]})
    summary = world.run()
    assert summary["counts"]["granted"] == 3
    assert [one["reason"] for one in summary["left"]] == ["dependency_failed"]
    assert len(world.journal) == 3
    task = world.works()["task"]
    assert (task.state, task.attempts, task.cancellation_reason) == (
        "cancelled", 3, "attempts_exhausted"
    )  # fmt: skip
    ledger = world.ledger()
    world.reconcilers(1, 10)
    world.run()
    assert world.ledger() == ledger
    assert len(world.journal) == 3
    world.check_once()
    world.check_nothing_open()
    world.check_repository()


def test_a_verified_result_stays_when_the_rest_of_its_run_is_lost(world: World) -> None:
    world.submit({"key": "task", "contract": BOTH})
    fault = world.fault(APPEND, "after", role="supervisor", match="Request: result_")
    world.run(fault={**fault, "action": "kill_both"})
    world.run()
    ledger = world.ledger()
    for _time in range(3):
        world.run()
    assert world.ledger() == ledger
    world.check_settled()
    assert {type(one).__name__ for one in world.operations()} == {
        "Policy", "Work", "Claim", "Dispatch", "Completion", "Result", "Release"
    }  # fmt: skip


def test_waiting_is_no_attempt(world: World) -> None:
    world.submit({"key": "task"}, {"key": "next", "after": ["task"]})
    with world.open() as board:
        board.set_paused("grants", True, reason="later")
        for _time in range(10):
            answer = board.grant()
            assert isinstance(answer, Nothing)
            assert answer.reason == "grants_paused"
        assert world.run()["reason"] == "idle"
        board.set_paused("grants", False, reason="now")
        for _time in range(10):
            board.grant(max_claims=1)
        assert [state.attempts for state in world.works().values()] == [1, 0]
    world.run()
    world.check_settled()
    assert [state.attempts for state in world.works().values()] == [1, 1]


def test_a_paused_board_is_idle_with_a_group_that_waits_for_its_start(world: World) -> None:
    world.submit({"key": "task"})
    with world.open() as board:
        board.grant()
        board.set_paused("grants", True, reason="later")
        summary = world.run()
        assert (summary["reason"], [one["reason"] for one in summary["left"]]) == (
            "idle", ["grants_paused"]
        )  # fmt: skip
        board.set_paused("grants", False, reason="now")
    world.run()
    world.check_settled()


def _payload_of(world: World, size: int) -> dict[str, str]:
    """A payload that has exactly so many bytes as the board stores it."""
    journal = str(world.root / "journal")
    pattern = "\"'`$(x)`\\\n\t%s{} é\u2028"
    stored = {"journal": journal, "effect_contract": {"kind": "none"}, "text": ""}
    text = ""
    while True:
        rest = size - len(canonical.encode({**stored, "text": text + pattern}))
        if rest < 0:
            break
        text += pattern
    text += "x" * (size - len(canonical.encode({**stored, "text": text})))
    return {"text": text}


def test_a_payload_of_any_text_arrives_to_the_byte(world: World) -> None:
    payload = _payload_of(world, 16 * 1024)
    world.submit({"key": "task", "payload": payload})
    world.run()
    world.check_settled()
    full = {
        "journal": str(world.root / "journal"), "effect_contract": {"kind": "none"}, **payload
    }  # fmt: skip
    expected = hashlib.sha256(json.dumps(full, sort_keys=True).encode()).hexdigest()
    assert [line["payload_sha256"] for line in world.journal] == [expected]
    with pytest.raises(CallboardError) as caught:
        world.submit({"key": "larger", "payload": _payload_of(world, 16 * 1024 + 1)})
    assert caught.value.code in ("plan_invalid", "payload_limit")
