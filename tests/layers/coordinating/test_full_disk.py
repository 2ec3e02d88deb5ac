"""A disk without room at each write of the coordinator: refused with a code, and gone on from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callboard.errors import CallboardError
from callboard.layers import locking
from tests.layers.coordinating.full_disk import FullDisk
from tests.layers.machine import Machine


def begun(_machine: Machine) -> str:
    return "began"


def finished(machine: Machine) -> str:
    attempt = machine.begin()
    machine.meet_goal(attempt)
    machine.leave_result()
    return "finished"


def rejected(machine: Machine) -> str:
    attempt = machine.begin()
    attempt.path("control").write_text("{}")
    machine.leave_result()
    return "finished"


def admitted(machine: Machine) -> str:
    machine.ask(machine.begin())
    machine.end()
    return "decided"


def unwound(machine: Machine) -> str:
    machine.meet_goal(machine.descend())
    machine.layers.update("not told")
    machine.end()
    return "unwound"


def stopped(machine: Machine) -> str:
    machine.layers.stop("enough")
    return "stopped"


def repaired(machine: Machine) -> str:
    machine.around.disk.path(machine.top.file("control.json")).write_text("{}")
    return "repaired"


def attempted(machine: Machine) -> str:
    """What a step did, or the code of its refusal."""
    try:
        return machine.step().did
    except CallboardError as error:
        return error.code


@pytest.mark.parametrize(
    "prepare", [begun, finished, rejected, admitted, unwound, stopped, repaired]
)
def test_no_room_at_any_write_is_refused_and_gone_on_from(
    disk: FullDisk, prepare: Callable[[Machine], str]
) -> None:
    machine = Machine(disk.place)
    expected = prepare(machine)
    layer, before = machine.deepest()
    refusals = 0
    for pages in range(200):
        disk.leave(pages)
        came = attempted(machine)
        disk.free()
        if came == "disk_full":
            refusals += 1
            assert machine.state(layer) == before
            # What is built aside is nobody's; there is no half of anything else.
            found = {one.code for one in machine.layers.check()}
            assert found <= {"temporary_file", "unfinished_building"}, machine.layers.check()
            continue
        break
    assert refusals > 0
    assert came == expected
    assert machine.run().did in ("began", "over")
    assert machine.layers.check() == ()


def test_no_room_for_a_wish_an_update_or_the_lock(disk: FullDisk) -> None:
    machine = Machine(disk.place)
    acts: list[Callable[[], object]] = [
        lambda: machine.layers.stop("enough"),
        lambda: machine.layers.update("more " * 2000),
        machine.layers.run,
        lambda: machine.layers.start("g", workflow_set="all", completion_criteria=["c"]),
    ]
    for act in acts:
        disk.leave(0)
        with pytest.raises(CallboardError) as found:
            act()
        assert found.value.code == "disk_full"
        disk.free()
        assert [one.code for one in machine.layers.check() if one.code != "temporary_file"] == []
    assert len(machine.layers.status()) == 1
    assert machine.begin().document["updates"] == []
    with locking.coordinator(machine.around):
        pass
