"""Launches one by one: who sends, what is doubt, which run is bound, and when a place is free."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from callboard.board.execution.host import LaunchAnswer
from callboard.board.protocol import operations as ops
from callboard.errors import CallboardError
from tests.board.building import refused
from tests.board.execution.hosts.faulty import BUSY, UNREACHABLE, Fault, Faults
from tests.board.execution.hosts.field import (
    ATTEMPTS,
    BACKOFF_MS,
    DEADLINE_MS,
    STRANGER,
    Field,
    Ground,
    Process,
)
from tests.board.execution.hosts.judging import Judge
from tests.board.execution.hosts.simulated import Run

CONFLICT = "run_binding_conflict"
FENCED = pytest.mark.parametrize("fences", [True, False], ids=["fenced", "unfenced"])


def field_of(ground: Ground, *, fences: bool = True, **faults: Fault) -> Field:
    """A field of one task, where every such call meets that fault until the weather clears."""
    always: Faults = {call: (fault,) for call, fault in faults.items()}
    field = Field(ground, fences=fences, faults=always)
    field.weather.one_in = 1
    return field


def begun(field: Field) -> tuple[Process, str]:
    """A process, and the group that was granted to it."""
    process = field.process()
    (dispatch_id,) = field.grant(process)
    return process, dispatch_id


def launched(field: Field) -> tuple[Process, Run]:
    """A process, and the run of the group that it launched, which executes."""
    process, dispatch_id = begun(field)
    assert field.launch(process, dispatch_id).status == "launched"
    (run,) = field.yard.of(dispatch_id)
    field.yard.begin(run)
    return process, run


def look_until_tired(field: Field, process: Process, dispatch_id: str) -> list[str]:
    """What looks find until long after the deadline; each is judged."""
    judge, words = Judge(field), []
    for _look in range(2 * ATTEMPTS):
        words.append(field.look(process).dispatches.get(dispatch_id, "-"))
        judge.step()
        field.clock.advance(DEADLINE_MS)
    return words


def bindings(field: Field) -> list[str]:
    """The run ids of all recorded bindings."""
    found = [one for _at, one in field.operations() if isinstance(one, ops.Dispatch)]
    return [one.run.run_id for one in found if isinstance(one.run, ops.Run)]


def sent(field: Field) -> int:
    """How many orders went out, whether or not they arrived."""
    return len(field.weather.calls)


# --- one sender ---------------------------------------------------------------------------------


def test_of_many_processes_the_one_in_the_marker_sends(field_ground: Ground) -> None:
    field = field_of(field_ground)
    first, dispatch_id = begun(field)
    others = [field.process() for _one in range(4)]
    assert field.launch(others[0], dispatch_id).status == "launched"
    for process in (first, *others):
        assert field.launch(process, dispatch_id).status == "not_sender"
        field.look(process)
    assert sent(field) == len(field.yard.of(dispatch_id)) == 1
    sender = field.group(dispatch_id).sender
    assert sender is not None
    assert sender.run_id == others[0].dispatcher.run_id


def test_processes_that_race_for_one_marker_send_once(field_ground: Ground) -> None:
    field = field_of(field_ground, fences=False)
    _first, dispatch_id = begun(field)
    racers = [field.process() for _one in range(8)]
    together = Barrier(len(racers))

    def race(process: Process) -> str:
        together.wait()
        return field.launch(process, dispatch_id).status

    with ThreadPoolExecutor(len(racers)) as pool:
        statuses = Counter(pool.map(race, racers))
    assert statuses["launched"] == 1
    assert set(statuses) <= {"launched", "not_reserved", "not_sender"}
    assert sent(field) == len(field.yard.of(dispatch_id)) == 1


@FENCED
def test_nobody_launches_what_a_dead_process_may_have_sent(
    field_ground: Ground, fences: bool
) -> None:
    field = field_of(field_ground, fences=fences)
    first, dispatch_id = begun(field)
    field.mark(first, dispatch_id)
    field.die(first)
    other = field.process()
    words = look_until_tired(field, other, dispatch_id)
    assert sent(field) == 0
    state = field.group(dispatch_id)
    if fences:
        assert words[0] == "released"
        assert state.released
    else:
        assert words[0] == "launch_uncertain"
        assert words[-1] == "launch_unresolved"
        assert (state.state, state.reason, state.released) == (
            "unresolved", "launches_unfenced", False
        )  # fmt: skip
        assert field.projection.counters.unreleased == 1
        assert field.grant(other) == []


def test_a_sender_that_missed_the_answer_to_its_marker_still_sends_once(
    field_ground: Ground,
) -> None:
    field = field_of(field_ground, fences=False)
    first, dispatch_id = begun(field)
    first.line.lose()
    error = refused(field.launch, first, dispatch_id)
    assert error.code == "outcome_unknown"
    look_until_tired(field, field.process(), dispatch_id)
    assert field.group(dispatch_id).state == "unresolved"
    first.line.is_down = False
    assert field.look(first).dispatches[dispatch_id] == "launched"
    for _look in range(3):
        field.look(first)
    assert sent(field) == 1
    assert bindings(field) == [run.facts.run_id for run in field.yard.of(dispatch_id)]


# --- lost answers -------------------------------------------------------------------------------


@FENCED
@pytest.mark.parametrize("fault", ["request_lost", "answer_lost", "late"])
def test_a_lost_answer_is_doubt_and_nothing_is_sent_again(
    field_ground: Ground, fault: Fault, fences: bool
) -> None:
    field = field_of(field_ground, fences=fences, launch=fault)
    process, dispatch_id = begun(field)
    assert field.launch(process, dispatch_id).status == "uncertain"
    state = field.group(dispatch_id)
    assert (state.state, state.reason, state.released) == ("uncertain", UNREACHABLE, False)
    assert field.launch(process, dispatch_id).status == "not_sender"
    arrived = len(field.yard.of(dispatch_id))
    assert arrived == (fault == "answer_lost")
    words = look_until_tired(field, process, dispatch_id)
    assert sent(field) == 1
    assert words[-1] == ("running" if arrived else "launch_unresolved")
    field.weather.clear()
    assert len(field.yard.of(dispatch_id)) == (fault != "request_lost")


@pytest.mark.parametrize("way", ["registry", "activation"])
def test_a_run_whose_answer_was_lost_is_bound(field_ground: Ground, way: str) -> None:
    field = field_of(field_ground, launch="answer_lost")
    process, dispatch_id = begun(field)
    field.launch(process, dispatch_id)
    (run,) = field.yard.of(dispatch_id)
    field.yard.begin(run)
    if way == "registry":
        assert field.look(field.process()).dispatches[dispatch_id] == "running"
    else:
        assert field.activate(run).state == "bound"
    assert bindings(field) == [run.facts.run_id]


@pytest.mark.parametrize("call", ["find", "rule_out"])
def test_a_host_that_is_busy_is_no_doubt(field_ground: Ground, call: str) -> None:
    field = field_of(field_ground)
    field.weather.faults = {call: ("busy",)}
    first, dispatch_id = begun(field)
    field.mark(first, dispatch_id)
    field.die(first)
    process, tip = field.process(), field.projection.tip
    assert set(look_until_tired(field, process, dispatch_id)) == {BUSY}
    assert field.projection.tip == tip
    field.weather.clear()
    assert field.look(process).dispatches[dispatch_id] == "released"


def test_a_refused_launch_frees_its_place_at_once(field_ground: Ground) -> None:
    field = field_of(field_ground)
    process, dispatch_id = begun(field)
    full = CallboardError("launch_failed", "the host is full", "make room")
    field.yard.answer = LaunchAnswer("refused", None, full)
    assert refused(field.launch, process, dispatch_id) == full
    assert field.group(dispatch_id).released
    field.yard.answer = None
    field.clock.advance(BACKOFF_MS)
    (again,) = field.grant(process)
    assert field.launch(process, again).status == "launched"


# --- bindings -----------------------------------------------------------------------------------


def test_the_same_binding_is_one_whoever_comes_with_it(field_ground: Ground) -> None:
    field = field_of(field_ground)
    process, run = launched(field)
    bound = field.activate(run)
    tip = field.projection.tip
    assert field.activate(run) == bound
    assert field.look(process).dispatches[run.dispatch_id] == "running"
    assert field.look(field.process()).dispatches[run.dispatch_id] == "running"
    assert field.projection.tip == tip
    assert bindings(field) == [run.facts.run_id]


def test_a_second_run_is_refused_and_keeps_the_place(field_ground: Ground) -> None:
    field = field_of(field_ground, fences=False, launch="doubled")
    process, dispatch_id = begun(field)
    field.launch(process, dispatch_id)
    one, other = field.yard.of(dispatch_id)
    for run in (one, other):
        field.yard.begin(run)
    field.activate(other)
    tip = field.projection.tip
    assert refused(field.activate, one).code == CONFLICT
    assert field.projection.tip == tip
    field.yard.end(other)
    assert set(look_until_tired(field, process, dispatch_id)) == {CONFLICT}
    assert field.projection.counters.unreleased == 1
    assert field.grant(process) == []
    field.yard.end(one)
    assert field.look(process).dispatches[dispatch_id] == "released"
    assert bindings(field) == [other.facts.run_id]


def test_of_two_runs_that_live_none_is_bound(field_ground: Ground) -> None:
    field = field_of(field_ground, fences=False, launch="doubled")
    process, dispatch_id = begun(field)
    field.launch(process, dispatch_id)
    words = look_until_tired(field, process, dispatch_id)
    assert (words[0], words[-1]) == ("launch_uncertain", "launch_unresolved")
    state = field.group(dispatch_id)
    assert (state.state, state.reason, state.run) == ("unresolved", CONFLICT, None)
    assert field.grant(process) == []
    # Neither can act any more once both have ended: one stands for them, and the place is free.
    for run in field.yard.of(dispatch_id):
        field.yard.end(run)
    assert field.look(field.process()).dispatches[dispatch_id] == "released"


def test_a_strangers_run_is_neither_bound_nor_does_it_bind_itself(field_ground: Ground) -> None:
    field = field_of(field_ground)
    process, dispatch_id = begun(field)
    field.mark(process, dispatch_id)
    field.die(process)
    intruder = field.yard.add(field.order(dispatch_id), principal=STRANGER, ours=False)
    field.yard.begin(intruder)
    tip = field.projection.tip
    assert refused(field.activate, intruder).code == CONFLICT
    assert field.projection.tip == tip
    words = look_until_tired(field, field.process(), dispatch_id)
    assert words[-1] == "launch_unresolved"
    assert (field.group(dispatch_id).reason, bindings(field)) == (CONFLICT, [])
    assert field.projection.counters.unreleased == 1


def test_a_rerun_has_no_authority_and_keeps_the_place(field_ground: Ground) -> None:
    field = field_of(field_ground)
    process, run = launched(field)
    field.yard.end(run)
    again = field.yard.rerun(run)
    tip = field.projection.tip
    assert refused(field.activate, again).code == "rerun_without_authority"
    assert field.projection.tip == tip
    words = look_until_tired(field, process, run.dispatch_id)
    assert words[-1] == "launch_unresolved"
    assert field.group(run.dispatch_id).reason == "rerun_without_authority"
    assert bindings(field) == []
    assert field.projection.counters.unreleased == 1
    field.yard.end(again)
    assert field.look(field.process()).dispatches[run.dispatch_id] == "released"
    assert bindings(field) == [run.facts.run_id]


def test_a_rerun_of_a_bound_run_cannot_act_for_it(field_ground: Ground) -> None:
    field = field_of(field_ground)
    process, run = launched(field)
    field.activate(run)
    field.yard.end(run)
    again = field.yard.rerun(run)
    assert refused(field.activate, again).code == "rerun_without_authority"
    assert set(look_until_tired(field, process, run.dispatch_id)) == {"rerun_without_authority"}
    field.yard.end(again)
    assert field.look(process).dispatches[run.dispatch_id] == "released"


def test_a_sighting_that_is_older_than_the_end_of_the_run_frees_nothing(
    field_ground: Ground,
) -> None:
    field = field_of(field_ground)
    process, run = launched(field)
    assert field.look(process).dispatches[run.dispatch_id] == "running"
    field.yard.end(run)
    field.weather.faults = {"find": ("outdated",)}
    assert field.look(process).dispatches[run.dispatch_id] == "launch_pending"
    assert not field.group(run.dispatch_id).released
    field.weather.clear()
    assert field.look(process).dispatches[run.dispatch_id] == "released"
