"""What a worker asks of the board itself: in its Claim's name, after its Completion, once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.board.protocol import operations as ops
from callboard.clock import FixedClock, SystemClock
from tests.repositories import git
from tests.system.world import WORKER, World, make_world, recipe
from tests.waiting import until

APPEND = "callboard.board.storage.git:GitStore.append"
SET_REF = "callboard.board.storage.repository:Repository.set_ref"
CONTROLS: dict[str, Any] = {
    "submit": {"min": 0, "max": 2},
    "dispatch_next": {"min": 0, "max": 2},
    "note": {"min": 0, "max": 2},
    "noop": {"min": 0, "max": 1},
}
_DELIVERERS = ("supervisor", "dispatcher")
KEYED = '[work_queue]\naccounting_weights = {"" = 1, "team-a" = 2}\n'


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A board whose worker may ask for two launches in all."""
    worker = recipe(WORKER, outputs=list(CONTROLS), max_dispatches=2)
    made = make_world(tmp_path / "world", recipes={"default": worker}, config=KEYED)
    yield made
    made.end()


def plan(*nodes: dict[str, Any], graph: str = "children") -> str:
    return json.dumps({"graph": graph, "nodes": list(nodes)})


def parent(*steps: str, **extra: Any) -> dict[str, Any]:
    script = [*steps, "completed"]
    return {
        "key": "parent",
        "payload": {"script": script, "first": script},
        "contract": CONTROLS,
        **extra,
    }


def descriptor(world: World, key: str) -> list[dict[str, Any]]:
    result = world.works()[key].result
    assert result is not None
    outputs: list[dict[str, Any]] = dict(result)["outputs"]
    return outputs


def blob(world: World, ref: str) -> str:
    return git("cat-file", "blob", ref, cwd=world.path)


def by_worker(world: World) -> list[tuple[str, str, str]]:
    """Kind, handle and request id of each request that a worker made but its finishes."""
    history = world.history()
    found = []
    for ordinal in range(history.projection.ordinal):
        commit = history.commit(ordinal)
        kind = str(commit.request.__struct_config__.tag)
        if commit.actor.role == "worker" and kind in ("submit", "dispatch_next"):
            found.append((kind, str(commit.actor.claim_handle), commit.request.id))
    return found


def test_children_inherit_and_later_plans_see_earlier_ones(world: World) -> None:
    world.submit(
        parent(
            "submit " + plan({"key": "one"}),
            "submit " + plan({"key": "two", "after": ["one"], "priority": 5}),
            priority=4,
            fairness_key="team-a",
        )
    )
    world.run()
    works = world.works()
    assert {key: state.barrier for key, state in works.items()} == dict.fromkeys(
        ("parent", "one", "two"), "verified"
    )
    assert [
        (works[key].work.pool, works[key].work.priority, works[key].work.fairness_key)
        for key in ("one", "two")
    ] == [("default", 4, "team-a"), ("default", 5, "team-a")]
    entries = descriptor(world, "parent")
    assert [entry["type"] for entry in entries] == ["submit", "submit"]
    assert by_worker(world) == [("submit", "h1", entry["request_id"]) for entry in entries]
    receipts = [json.loads(blob(world, entry["ref"])) for entry in entries]
    projection = world.history().projection
    for entry, receipt in zip(entries, receipts, strict=True):
        assert receipt == {
            "version": 1,
            "kind": "submit",
            "request_id": entry["request_id"],
            "outcome": "accepted",
            "commit_id": projection.requests[entry["request_id"]].id,
        }
    world.check_settled()


def test_a_batch_is_granted_within_the_budget_of_the_run(world: World) -> None:
    world.submit(
        parent("submit " + plan({"key": "one"}), "next 2", "note the batch is asked for"),
        request_id="first",
    )
    world.run()
    assert [(kind, handle) for kind, handle, _id in by_worker(world)] == [
        ("submit", "h1"),
        ("dispatch_next", "h1"),
    ]
    claims = [one for one in world.operations() if isinstance(one, ops.Claim)]
    child = world.works()["one"]
    granted = world.history().projection.claims[str(child.claim_id)]
    assert granted.request_id == by_worker(world)[1][2]
    assert len(claims) == 2
    note = next(entry for entry in descriptor(world, "parent") if entry["type"] == "note")
    assert blob(world, note["ref"]) == "the batch is asked for"
    world.check_settled()


def test_a_budget_is_one_for_all_requests(world: World) -> None:
    script = ["next 2", "next 1", "completed"]
    world.submit(
        {"key": "greedy", "payload": {"script": script, "first": script}, "contract": CONTROLS}
    )
    world.run()
    # The worker itself is told at once, and ends by that; nothing was finished.
    state = world.works()["greedy"]
    assert state.state == "cancelled"
    assert by_worker(world) == []
    with world.open() as board:
        (run, *_rest) = [row.run_id for row in world.rows()]
        assert (
            "dispatch_budget_exceeded"
            in (board.site.folders.state / "runs" / run / "worker.stderr.log").read_text()
        )


def test_nothing_to_grant_is_an_answer_that_is_kept(world: World) -> None:
    world.submit(parent("next 1"))
    world.run()
    (entry,) = descriptor(world, "parent")
    assert json.loads(blob(world, entry["ref"])) == {
        "version": 1,
        "kind": "dispatch_next",
        "request_id": entry["request_id"],
        "outcome": "nothing",
        "reason": "no_work",
    }
    assert by_worker(world) == []
    world.check_settled()


def test_notes_are_shown_with_their_node(world: World) -> None:
    world.submit(parent("note all is well\nbut for \u202e this", "note second", "noop no plan"))
    world.run()
    shown = subprocess.run(
        [sys.executable, "-m", "callboard", "show", "parent"],
        cwd=world.path,
        env=world.as_person(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "note      all is well\n          but for \\u202e this\nnote      second\n" in shown
    assert [entry["type"] for entry in descriptor(world, "parent")] == ["note", "note", "noop"]
    world.check_settled()


def test_a_cancelled_claim_asks_for_nothing(world: World) -> None:
    steps = ["submit " + plan({"key": "one"}), "note never", "cancelled"]
    world.submit(
        {"key": "given-up", "payload": {"script": steps, "first": steps}, "contract": CONTROLS}
    )
    world.run()
    assert list(world.works()) == ["given-up"]
    assert by_worker(world) == []
    refs = git("for-each-ref", "--format=%(refname)", "refs/callboard", cwd=world.path)
    assert refs == ""


@pytest.mark.parametrize(
    ("node", "code"),
    [
        ({"key": "one", "priority": 1}, "inheritance_violated"),
        ({"key": "one", "fairness_key": ""}, "inheritance_violated"),
        ({"key": "one", "profile": "nobody"}, "plan_invalid"),
        ({"key": "one", "contract": {"artifact": 1}}, "output_not_declared"),
    ],
)
def test_a_plan_that_the_board_would_refuse_ends_the_attempt(
    world: World, node: dict[str, Any], code: str
) -> None:
    """Before the Completion: once completed, the children could never be delivered."""
    steps = ["submit " + plan(node), "completed"]
    world.submit(
        {
            "key": "parent",
            "priority": 4,
            "fairness_key": "team-a",
            "contract": CONTROLS,
            "payload": {"script": ["completed"], "first": steps},
        }
    )
    world.run()
    assert list(world.works()) == ["parent"]
    assert world.works()["parent"].attempts == 2
    with world.open() as board:
        report = json.loads(
            (board.site.folders.state / "runs" / world.rows()[0].run_id / "report.json").read_text()
        )
    (claim,) = report["claims"]
    assert claim["reason"] == "output_failed"
    assert [one["code"] for one in claim["refusals"]] == [code]
    world.check_settled()


@pytest.mark.parametrize(
    ("target", "when", "match"),
    [
        (APPEND, "before", "Request: w_"),
        (APPEND, "after", "Request: w_"),
        (SET_REF, "before", "refs/callboard/controls/"),
        (SET_REF, "after", "refs/callboard/controls/"),
        (SET_REF, "before", "refs/callboard/notes/"),
        (SET_REF, "after", "refs/callboard/notes/"),
        ("callboard.board.outputs.delivery:verify_delivery", "after", ""),
    ],
)
def test_a_kill_on_the_way_neither_loses_nor_doubles_a_request(
    world: World, target: str, when: str, match: str
) -> None:
    world.submit(parent("note first", "submit " + plan({"key": "one"})))
    # The run and whoever dispatches may both deliver; the first one that does is killed.
    faults = [world.fault(target, when, role=one, match=match) for one in _DELIVERERS]
    world.finish(world.start(fault=faults))
    assert world.file("killed").exists()
    world.run()
    assert [kind for kind, _handle, _id in by_worker(world)] == ["submit"]
    assert {key: state.barrier for key, state in world.works().items()} == {
        "parent": "verified",
        "one": "verified",
    }
    assert world.works()["parent"].attempts == 1
    world.check_settled()


def says(world: World, *words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "callboard", *words],
        cwd=world.path,
        env=world.as_person(),
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_why_a_completed_claim_did_not_get_its_wish_is_told(world: World) -> None:
    """Somebody posts the same node between the Completion and what was to follow it."""
    world.submit(parent("submit " + plan({"key": "one"}, graph="g"), "note done"))
    hold = world.fault("callboard.board.outputs.effects:apply_claim", "before", role="supervisor")
    world.finish(
        world.start("dispatch", fault={**hold, "action": "hold", "until": str(world.file("on"))})
    )
    world.wait_for(world.file("killed"))
    world.submit({"key": "one", "payload": {"other": True}})
    world.file("on").touch()
    until(lambda: not world.supervisors())
    (run,) = world.rows()
    report = json.loads((world.folders.state / "runs" / run.run_id / "report.json").read_text())
    (claim,) = report["claims"]
    assert (claim["published"], claim["trouble"]["code"]) == ("pending", "work_conflict")
    why = f"work_conflict: {claim['trouble']['message']}"
    assert "one" in why
    assert claim["trouble"]["hint"]
    assert f"          not delivered: {why}\n" in says(world, "show", "parent")
    assert f"    {why}\n" in says(world, "reconcile", "--no-start")
    (found,) = json.loads(says(world, "reconcile", "--no-start", "--json"))["found"]
    assert (found["found"], found["trouble"]) == ("pending", claim["trouble"])
    future = FixedClock(SystemClock().now_ms() + 301_000)
    world.reconcilers(1, 1, future)
    state = world.works()["parent"]
    assert (state.barrier, state.disposition) == ("failed", "partial")
    assert state.failure_reason == "work_conflict"
    assert "its delivery failed: work_conflict" in says(world, "explain", "parent")
    assert f"          not delivered: {why}\n" in says(world, "show", "parent")
    assert "work_conflict" in says(world, "trace", "parent")
