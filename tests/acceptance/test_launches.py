"""Launches: marked before they are sent, sent once, bound to the run that came of them, and freed
by nothing but evidence. The host is simulated where a test rules what it answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest

from callboard.board.execution.host import LaunchAnswer
from callboard.board.execution.hosts.local import host
from callboard.board.protocol import operations as ops
from callboard.board.publishing.lifecycle import EvidenceKind
from callboard.errors import CallboardError
from tests.acceptance.looking import look
from tests.board.boards import Board as Ledger
from tests.board.building import refused, work
from tests.board.execution.hosts.field import ATTEMPTS, DEADLINE_MS, STRANGER, Field, Ground
from tests.system.world import BOTH, World
from tests.waiting import until

PREPARE = "callboard.board.execution.hosts.local.registry:RunRegistry.prepare"
DAY_MS = 86_400_000


def releases(world: World) -> Counter[str]:
    """How often each launch was freed."""
    return Counter(one.dispatch_id for one in world.operations() if isinstance(one, ops.Release))


def marked_and_dead(field: Field) -> str:
    """A launch whose sender is gone after its marker."""
    process = field.process()
    (dispatch_id,) = field.grant(process)
    field.mark(process, dispatch_id)
    field.die(process)
    return dispatch_id


# --- what frees a place ---------------------------------------------------------------------------


def test_recovery(world: World) -> None:
    """A marker that was never sent is proven so, and freed once; a run that still works is not
    freed by time, however much passes."""
    world.submit({"key": "task", "payload": {"first": [
        f"say {world.file('begun')}", f"await {world.file('go')}", "completed"
    ]}})  # fmt: skip
    assert world.run(fault=world.fault(PREPARE, "before", role="dispatcher")) is None
    assert world.history().projection.counters.unreleased == 1
    assert look(world) == ["released"]
    assert look(world) == []
    assert list(releases(world).values()) == [1]
    process = world.start(workers=1)
    world.wait_for(world.file("begun"))
    for _time in range(2):
        assert look(world, by_ms=DAY_MS) == ["running"]
    assert world.history().projection.counters.unreleased == 1
    world.file("go").touch()
    world.finish(process)
    world.check_settled()
    assert sorted(releases(world).values()) == [1, 1]
    assert world.works()["task"].attempts == 2


@pytest.mark.parametrize("phase", ["reserved", "started", "uncertain", "unresolved", "bound"])
def test_recovery_by_evidence(phase: str) -> None:
    """Each phase has the one kind of evidence that frees it; it frees once."""
    board = Ledger([work("a")])
    board.grant()
    steps: dict[str, list[str]] = {
        "reserved": [], "started": ["started"], "uncertain": ["started", "uncertain"],
        "unresolved": ["started", "uncertain", "unresolved"], "bound": ["started", "bound"],
    }  # fmt: skip
    for step in steps[phase]:
        if step == "started":
            board.start("a")
        elif step == "bound":
            board.dispatch(board.group("a"), "bound", run=board.run(board.group("a")))
        elif step == "uncertain":
            board.dispatch(board.group("a"), "uncertain", reason="response_lost")
        else:
            board.dispatch(board.group("a"), "unresolved")
    group, ended = board.group("a"), board.cancellations("a")
    proofs: dict[str, EvidenceKind] = {"reserved": "prelaunch", "bound": "terminal_run"}
    proof = proofs.get(phase, "nonlaunch")
    for kind in get_args(EvidenceKind):
        if kind != proof:
            error = refused(board.release, group, kind, ended)
            assert error.code == "evidence_invalid", kind
    error = refused(board.release, group, proof, ended, workflow="another")
    assert error.code == "evidence_invalid"
    assert board.projection.counters.unreleased == 1
    board.release(group, proof, ended)
    assert board.projection.counters.unreleased == 0
    assert refused(board.release, group, proof).code == "dispatch_released"


# --- marker, binding ------------------------------------------------------------------------------


def test_launch_fencing_binding(world: World) -> None:
    """The marker is on the board before anything is sent; what may have been sent is not sent
    again; outputs are of the run that is bound."""
    world.submit({"key": "task", "contract": BOTH})
    hold = world.fault(PREPARE, "before", role="dispatcher")
    held = {**hold, "action": "hold", "until": str(world.file("on"))}
    first = world.start(workers=1, fault=held)
    world.wait_for(world.file("killed"))
    (group,) = world.history().projection.dispatches.values()
    assert (group.state, group.run, world.rows()) == ("started", None, [])
    # Others see the marker and send nothing in the place of who set it.
    found = world.reconcilers(3, 2)
    assert {word for one in found for word in one.values()} == {"launch_pending"}
    assert (world.rows(), world.journal) == ([], [])
    world.file("on").touch()
    world.finish(first)
    world.check_settled()
    (row,) = world.rows()
    (group,) = world.history().projection.dispatches.values()
    assert group.run is not None
    assert group.run.run_id == row.run_id
    (done,) = [one for one in world.operations() if isinstance(one, ops.Completion)]
    assert (done.run_id, done.dispatch_id) == (row.run_id, row.dispatch_id)
    (result,) = [one for one in world.operations() if isinstance(one, ops.Result)]
    assert result.evidence.run_id == row.run_id


@pytest.mark.parametrize("fault", ["request_lost", "answer_lost"])
def test_launch_fencing_binding_over_a_bad_line(field_ground: Ground, fault: Any) -> None:
    """A request whose answer is lost goes out once, whoever looks and however often."""
    field = Field(field_ground, fences=False, faults={"launch": (fault,)})
    field.weather.one_in = 1
    process = field.process()
    (dispatch_id,) = field.grant(process)
    assert field.launch(process, dispatch_id).status == "uncertain"
    others = [process, field.process(), field.process()]
    for one in others * 2:
        assert field.launch(one, dispatch_id).status == "not_sender"
        field.look(one)
        field.clock.advance(DEADLINE_MS)
    assert len(field.weather.calls) == 1
    assert field.projection.counters.unreleased == 1


def test_launch_recovery(field_ground: Ground) -> None:
    """The answer is lost: the run tells the board of itself. Another run of the launch, one of a
    stranger and a rerun are refused, and none of them frees the place."""
    field = Field(field_ground, fences=False, faults={"launch": ("doubled",)})
    field.weather.one_in = 1
    process = field.process()
    (dispatch_id,) = field.grant(process)
    field.launch(process, dispatch_id)
    one, other = field.yard.of(dispatch_id)
    for run in (one, other):
        field.yard.begin(run)
    assert field.activate(one).state == "bound"
    tip = field.projection.tip
    assert field.activate(one).state == "bound"
    assert refused(field.activate, other).code == "run_binding_conflict"
    intruder = field.yard.add(field.order(dispatch_id), principal=STRANGER, ours=False)
    field.yard.begin(intruder)
    assert refused(field.activate, intruder).code == "run_binding_conflict"
    field.yard.end(one)
    again = field.yard.rerun(one)
    assert refused(field.activate, again).code == "rerun_without_authority"
    assert field.projection.tip == tip
    for _look in range(ATTEMPTS):
        assert field.look(process).dispatches[dispatch_id] != "released"
        field.clock.advance(DEADLINE_MS)
    assert field.projection.counters.unreleased == 1
    for run in (other, intruder, again):
        field.yard.end(run)
    assert field.look(process).dispatches[dispatch_id] == "released"


def test_launch_recovery_of_an_answer_of_no_known_form(field_ground: Ground) -> None:
    """An answer that names no run, and none is found: the place stays taken."""
    field = Field(field_ground, fences=False)
    process = field.process()
    (dispatch_id,) = field.grant(process)
    odd = CallboardError("launch_failed", "it says something else", "look for the run")
    field.yard.answer = LaunchAnswer("uncertain", None, odd)
    assert refused(field.launch, process, dispatch_id) == odd
    assert field.group(dispatch_id).state == "uncertain"
    for _look in range(ATTEMPTS):
        field.clock.advance(DEADLINE_MS)
        field.look(process)
    assert field.group(dispatch_id).state == "unresolved"
    assert (field.projection.counters.unreleased, field.grant(process)) == (1, [])


# --- how long one looks ---------------------------------------------------------------------------


def test_reconciliation_budget(field_ground: Ground) -> None:
    """Looks end, and what they did not find stays open: silence is no proof of anything."""
    field = Field(field_ground, fences=False)
    dispatch_id = marked_and_dead(field)
    process = field.process()
    words = []
    for _look in range(2 * ATTEMPTS):
        words.append(field.look(process).dispatches[dispatch_id])
        field.clock.advance(DEADLINE_MS)
    assert (words[0], words[-1]) == ("launch_uncertain", "launch_unresolved")
    assert "released" not in words
    state, tip = field.group(dispatch_id), field.projection.tip
    assert (state.state, state.released) == ("unresolved", False)
    # Nothing more is written about it, nothing is granted in its place, and nobody frees it.
    for _look in range(ATTEMPTS):
        field.look(process)
    assert field.projection.tip == tip
    assert field.grant(process) == []
    assert field.projection.counters.unreleased == 1


def test_reconciliation_budget_of_requests_to_end(world: World, monkeypatch: Any) -> None:
    """Neither that its dispatcher died, nor that it was asked to end, says that a run is over."""
    steps = [f"say {world.file('begun')}", f"await {world.file('go')}", "completed"]
    world.submit({"key": "task", "payload": {"first": steps}})
    process = world.start(workers=1)
    world.wait_for(world.file("begun"))
    process.kill()
    process.wait()
    monkeypatch.setattr(host, "LAUNCH_GRACE_MS", 0)
    assert look(world, by_ms=DAY_MS) == ["running"]
    with world.open() as board:
        (dispatch_id,) = board.history().projection.open_dispatches
        board.cancel([world.works()["task"].work.work_id], reason="not_needed")
        assert board.history().projection.open_dispatches
    assert look(world, by_ms=DAY_MS) == ["running"]
    assert releases(world)[dispatch_id] == 0
    world.file("go").touch()
    until(lambda: not world.history().projection.open_dispatches)
    assert releases(world)[dispatch_id] == 1
    world.run()
    world.check_once()
    world.check_nothing_open()
