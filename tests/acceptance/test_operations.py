"""When a platform is away, somebody stops something, an agent fails, a campaign changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from callboard.board.board import Accepted, Board
from callboard.board.protocol import operations as ops
from callboard.clock import FixedClock, SystemClock
from callboard.errors import CallboardError
from tests.acceptance.batch import ALONE, ARTIFACT, Batch
from tests.acceptance.looking import look
from tests.board.building import refused
from tests.board.execution.hosts.field import Field, Ground
from tests.system.draining import Command, slow
from tests.system.machines import Machines
from tests.system.world import BOTH, CONFIG, WORKER, World, make_world, recipe
from tests.waiting import until

DAY_MS = 86_400_000
APPEND = "callboard.board.storage.git:GitStore.append"
PREPARE = "callboard.board.execution.hosts.local.registry:RunRegistry.prepare"


# --- platforms ------------------------------------------------------------------------------------


def test_platform_outage_recovery(machines: Machines) -> None:
    """The board's remote is away while a run works: nothing is granted elsewhere in its stead, the
    run waits with what it has, and goes on where it was when the remote is back."""
    one, _two = machines.all
    steps = [f"say {one.file('begun')}", f"await {one.file('go')}", "deliver", "completed",
             f"say {one.file('ended')}"]  # fmt: skip
    one.submit({"key": "a", "contract": BOTH, "payload": {"first": steps}}, {"key": "b"})
    one.finish(one.start("dispatch", workers=1, environment=one.environment))
    one.wait_for(one.file("begun"))
    away = machines.hub.rename(machines.hub.with_name("away.git"))
    pause = ["pause", "grants", "--reason", "rest"]
    for words in (["dispatch", "--request-id", "mine"], ["status"], pause):
        answer = one.callboard(*words, "--json")
        assert answer.returncode == 1
        assert json.loads(answer.stdout)["error"]["code"] == "remote_unreachable", words
    offline = json.loads(one.callboard("status", "--offline", "--json").stdout)
    assert offline["columns"]["running"]["count"] == 1
    one.file("go").touch()
    one.wait_for(one.file("ended"))
    away.rename(machines.hub)
    until(lambda: one.works()["a"].barrier == "verified", timeout_s=90)
    until(lambda: not one.history().projection.open_dispatches, timeout_s=90)
    with one.open() as board:
        board.grant(request_id="mine")
        board.grant(request_id="mine")
    assert {key: state.attempts for key, state in one.works().items()} == {"a": 1, "b": 1}
    assert len(one.journal) == 1


def test_platform_outage_recovery_of_evidence(world: World) -> None:
    """The record of runs is away: a launch keeps its place and is never taken for none. With the
    record back it is freed, once, and the node has its next turn."""
    world.submit({"key": "task", "contract": BOTH})
    assert world.run(fault=world.fault(PREPARE, "before", role="dispatcher")) is None
    aside = world.folders.state.rename(world.root / "aside")
    assert look(world) == ["launch_uncertain"]
    assert look(world, by_ms=DAY_MS) == ["launch_unresolved"]
    assert world.history().projection.counters.unreleased == 1
    assert not [one for one in world.operations() if isinstance(one, ops.Completion)]
    shutil.rmtree(world.folders.state)
    aside.rename(world.folders.state)
    assert look(world) == ["released"]
    assert look(world) == []
    assert len([one for one in world.operations() if isinstance(one, ops.Release)]) == 1
    later = FixedClock(SystemClock().now_ms() + DAY_MS + 60_000)
    with Board.open(world.path, world.folders, clock=later) as board:
        assert isinstance(board.grant(), Accepted)
    assert (world.works()["task"].attempts, world.journal) == (2, [])


# --- stops ----------------------------------------------------------------------------------------


def test_accidental_run_cancellation(tmp_path: Path) -> None:
    """Somebody kills the dispatcher, which ends no run; then somebody stops the run. What its
    worker had finished is delivered, what was open is tried again, and once is enough."""
    batch = Batch(tmp_path, max_claims=2)
    world = batch.world
    begun = str(world.file("begun"))
    batch.world.submit(
        batch.node("a", [
            *ALONE[:1], [*ALONE[1], "--claim", "h1"], [*ALONE[2], "--claim", "h1"],
            ["say", begun], ["await", str(world.file("never"))],
        ], contract=ARTIFACT),
        batch.node("b", ALONE, contract=ARTIFACT),
    )  # fmt: skip
    try:
        # A dispatcher that goes away once it has launched.
        batch.dispatch(2)
        world.wait_for(world.file("begun"))
        assert look(world) == ["running"]
        assert world.history().projection.counters.unreleased == 1
        assert world.works()["a"].state == "claimed"
        Command(world, "stop", "a").end(0)
        batch.settle()
        works = world.works()
        assert (works["a"].barrier, works["b"].state) == ("verified", "available")
        assert [batch.count(ops.ClaimCancellation, key) for key in "ab"] == [0, 1]
        batch.run()
        works = world.works()
        assert {key: works[key].attempts for key in "ab"} == {"a": 1, "b": 2}
        assert {works[key].barrier for key in "ab"} == {"verified"}
        assert batch.artifacts() == {"a": ["one.txt"], "b": ["one.txt"]}
        world.check_once()
    finally:
        world.end()


def test_accidental_run_cancellation_gives_a_rerun_nothing(field_ground: Ground) -> None:
    """A host that runs a run again: the second attempt acts for nobody, and keeps the place."""
    field = Field(field_ground, fences=False)
    process = field.process()
    (dispatch_id,) = field.grant(process)
    field.launch(process, dispatch_id)
    (run,) = field.yard.of(dispatch_id)
    field.yard.begin(run)
    field.activate(run)
    field.yard.end(run, "cancelled")
    again = field.yard.rerun(run)
    assert refused(field.activate, again).code == "rerun_without_authority"
    assert field.look(process).dispatches[dispatch_id] != "released"
    assert field.projection.counters.unreleased == 1
    field.yard.end(again)
    assert field.look(process).dispatches[dispatch_id] == "released"


# --- agents ---------------------------------------------------------------------------------------


def test_agent_fault_classification(tmp_path: Path) -> None:
    """One fails once and is tried again after a pause; one always fails, and after its last attempt
    only a person helps. Their sibling is delivered once, whatever becomes of them."""
    config = CONFIG.replace("max_attempts = 3", "max_attempts = 2")
    world = make_world(tmp_path, recipes={"default": recipe(WORKER)}, config=config)
    fails = {"first": ["exit 1"], "script": ["exit 1"]}
    world.submit(
        {"key": "once", "contract": BOTH, "payload": {"first": ["exit 1"]}},
        {"key": "always", "payload": fails},
        {"key": "sound", "contract": BOTH},
        {"key": "next", "after": ["always"]},
    )
    try:
        summary = world.run()
        works = world.works()
        assert {key: works[key].attempts for key in works} == {
            "once": 2, "always": 2, "sound": 1, "next": 0
        }  # fmt: skip
        assert (works["always"].state, works["always"].cancellation_reason) == (
            "cancelled", "attempts_exhausted"
        )  # fmt: skip
        assert [works[key].barrier for key in ("once", "sound")] == ["verified", "verified"]
        assert [one["reason"] for one in summary["left"]] == ["dependency_failed"]
        _check_pause(world)
        ledger = world.ledger()
        world.run()
        assert world.ledger() == ledger
        world.check_once()
        # The repair is another node; what failed stays as it is.
        world.submit({"key": "repair", "contract": BOTH}, {"key": "next-2", "after": ["repair"]})
        with world.open() as board:
            board.cancel([works["next"].work.work_id], reason="superseded")
        world.run()
        world.check_settled()
        assert world.works()["always"].attempts == 2
    finally:
        world.end()


def _check_pause(world: World) -> None:
    """Between an attempt that failed and the next one there was the second that was asked for."""
    history = world.history()
    ended: dict[str, int] = {}
    pauses = []
    for ordinal in range(history.projection.ordinal):
        commit = history.commit(ordinal)
        for one in commit.operations:
            if isinstance(one, ops.ClaimCancellation):
                ended[one.work_id] = commit.at
            if isinstance(one, ops.Claim) and one.work_id in ended:
                pauses.append(commit.at - ended[one.work_id])
    assert len(pauses) == 2
    assert min(pauses) >= 1_000


# --- campaigns ------------------------------------------------------------------------------------


def test_in_flight_campaign_revision(world: World) -> None:
    """A second revision is posted while the first is at work: stored plans and edges stay, its
    nodes keep their account, and a strict change waits until the old runs and deliveries are
    over."""
    ids = world.submit(slow(world, "r1/a"), {"key": "r1/b", "after": ["r1/a"], "contract": BOTH})
    process = world.start("serve", workers=1)
    world.wait_for(world.file("r1-a-here"))
    before = {key: state.work for key, state in world.works().items()}
    for change in ({"payload": {"x": 1}}, {"priority": 1}):
        with pytest.raises(CallboardError, match="work_conflict"):
            world.submit({"key": "r1/a", "contract": BOTH, **change})
    assert {key: state.work for key, state in world.works().items()} == before
    Command(world, "pause", "grants", "--reason", "cutover").end(0)
    Command(world, "pause", "admission", "--reason", "cutover").end(0)
    check = ("cutover", "check", "--graph", "g", "--old", "r1/")
    assert Command(world, *check).end(3).startswith("cutover pending")
    with world.open() as board:
        board.cancel([ids[1]], reason="superseded")
    assert Command(world, *check).end(3).startswith("cutover pending")
    world.file("go").touch()
    until(lambda: not world.history().projection.open_dispatches)
    assert Command(world, *check).end(0).startswith("cutover complete")
    with world.open() as board:
        board.set_paused("admission", False, reason="cutover")
    world.submit({"key": "r2/b", "after": ["r1/a"], "contract": BOTH})
    with world.open() as board:
        board.set_paused("grants", False, reason="cutover")
    until(lambda: world.works()["r2/b"].barrier == "verified")
    process.terminate()
    world.finish(process)
    world.check_settled()
    works = world.works()
    assert works["r2/b"].work.fairness_key == works["r1/b"].work.fairness_key
    assert works["r1/b"].cancellation_reason == "superseded"
    assert works["r1/a"].attempts == 1
