"""Many who write at once, answers that are lost, requests that are said twice."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from callboard.board.board import Accepted
from callboard.board.execution.principal import make_principal
from callboard.board.protocol import operations as ops
from callboard.board.publishing.intents import Nothing
from callboard.errors import CallboardError
from tests.acceptance.desk import Desk
from tests.surfaces.cli.conftest import Person, shell
from tests.system.machines import Machines
from tests.system.world import WORKER, World, make_world, recipe
from tests.waiting import until

APPEND = "callboard.board.storage.git:GitStore.append"


def at_its_append(world: World) -> dict[str, str]:
    """A dispatcher that has chosen whom to grant, and waits with the writing until `on`."""
    fault = world.fault(APPEND, "before", role="dispatcher", match="dispatch_next: ")
    return {**fault, "action": "hold", "until": str(world.file("on"))}


def granted(world: World) -> list[str]:
    """Node keys in the order of their Claims."""
    works = world.history().projection.works
    claims = [one for one in world.operations() if isinstance(one, ops.Claim)]
    return [works[one.work_id].work.node_key for one in claims]


def digest_of(world: World, payload: dict[str, Any]) -> str:
    """What a worker's journal says of a node with that payload, which delivers nothing."""
    full = {"journal": str(world.root / "journal"), "effect_contract": {"kind": "none"}, **payload}
    return hashlib.sha256(json.dumps(full, sort_keys=True).encode()).hexdigest()


def test_competing_dispatchers(world: World) -> None:
    """Two choose the same node on the same version; one line stands, the other chooses anew."""
    world.submit({"key": "a"}, {"key": "b"}, {"key": "c"})
    late = world.start("dispatch", workers=1, fault=at_its_append(world))
    world.wait_for(world.file("killed"))
    with world.open() as board:
        assert isinstance(board.grant(request_id="first"), Accepted)
    assert granted(world) == ["a"]
    world.file("on").touch()
    world.finish(late)
    assert granted(world) == ["a", "b"]
    commits = world.history().projection.commit_ids
    assert len(commits) == len(world.ledger().splitlines())
    world.run()
    world.check_settled()
    assert [state.attempts for state in world.works().values()] == [1, 1, 1]


def test_late_binding(tmp_path: Any) -> None:
    """A dispatcher that saw a as the next one launches b, as b was posted and where b belongs."""
    other = [*WORKER[:1], "-X", "utf8", *WORKER[1:]]
    recipes = {"default": recipe(WORKER), "other": recipe(other)}
    world = make_world(tmp_path, recipes=recipes)
    try:
        plans = {"a": {"text": "first"}, "b": {"text": "second"}}
        world.submit(
            {"key": "a", "payload": plans["a"]},
            {"key": "b", "payload": plans["b"], "profile": "other"},
        )
        late = world.start("dispatch", workers=1, fault=at_its_append(world))
        world.wait_for(world.file("killed"))
        with world.open() as board:
            board.grant(request_id="taken")
        world.file("on").touch()
        world.finish(late)
        until(lambda: world.works()["b"].barrier == "verified")
        (line,) = world.journal
        assert line["work_id"] == world.works()["b"].work.work_id
        assert line["payload_sha256"] == digest_of(world, plans["b"])
        (row,) = world.rows()
        projection = world.history().projection
        assert projection.dispatches[row.dispatch_id].profile.workflow.endswith("/other.toml")
        assert world.works()["a"].state == "claimed"
    finally:
        world.end()


def test_uncertain_push_result(machines: Machines) -> None:
    """The remote takes a grant and hangs up. Whoever asks again by the same name finds the grant
    that stands; its turn is charged once, and the name is nobody else's."""
    one, two = machines.all
    one.submit({"key": "a"}, {"key": "b"})
    machines.hook("post-receive", 'touch hung-up; kill -9 "$PPID"')
    with one.open() as board:
        first = board.grant(request_id="mine")
    assert (machines.hub / "hung-up").exists()
    assert isinstance(first, Accepted)
    clocks = one.history().projection.clocks
    machines.hook("post-receive", "exit 0")
    for _time in range(2):
        with one.open() as board:
            again = board.grant(request_id="mine")
        assert isinstance(again, Accepted)
        assert (again.replayed, again.request) == (True, first.request)
    with two.open() as board, pytest.raises(CallboardError, match="request_conflict"):
        board.grant(request_id="mine")
    projection = two.history().projection
    assert projection.clocks == clocks
    assert (len(projection.claims), projection.counters.unreleased) == (1, 1)
    assert {key: state.attempts for key, state in two.works().items()} == {"a": 1, "b": 0}


def test_batch_idempotency(person: Person) -> None:
    """One batch said twice: the same Claims, one launch each; said otherwise, it is refused."""
    person.submit("nodes:\n- payload: {task: 1}\n- payload: {task: 2}\n- payload: {task: 3}\n")
    words = ["dispatch", "--max-claims", "2", "--max-dispatches", "2", "--request-id", "r"]
    first = shell(person, *words, "--json").json
    assert (first["replayed"], first["granted_claims"]) == (False, 2)
    again = shell(person, *words, "--json").json
    for field in ("commit_id", "granted_claims", "reserved_dispatches"):
        assert again[field] == first[field]
    assert again["replayed"]
    assert [one["claim_ref"] for one in again["claims"]] == [
        one["claim_ref"] for one in first["claims"]
    ]
    before = person.tip
    for other in (["--max-claims", "3"], ["--max-dispatches", "1"], ["--max-bytes", "49151"],
                  ["--only", "default"]):  # fmt: skip
        error = person.call(*words, *other, "--json").error
        assert error["code"] == "request_conflict", other
    assert before is not None
    until(lambda: person.ask("status")["columns"]["done"]["count"] == 2)
    starts = [
        operation
        for line in person.ledger.splitlines()
        for operation in json.loads(line)["operations"]
        if operation["kind"] == "Dispatch" and operation["state"] == "started"
    ]
    assert len(starts) == len({one["dispatch_id"] for one in starts}) == 2


def test_batch_idempotency_of_nothing(desk: Desk) -> None:
    """A request that got nothing wrote nothing, so it is decided anew when it is said again."""
    desk.post("a")
    desk.grant()
    assert desk.board().grant(request_id="r") == Nothing("no_work", {"pool": "default"})
    desk.post("b")
    assert desk.grant(request_id="r") == ["b"]
    with pytest.raises(CallboardError, match="request_conflict"):
        desk.board().grant(request_id="r", max_claims=2)
    # Another user who takes the name does not get what the first one got.
    make_principal(desk.root / "two" / "config")
    with pytest.raises(CallboardError, match="request_conflict"):
        desk.board("two").grant(request_id="r")
