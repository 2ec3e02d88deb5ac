"""A disk without room at each write of a start, a dispatch and an update set aside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callboard.errors import CallboardError
from tests.layers.coordinating.full_disk import FullDisk
from tests.layers.machine import ITEM, Machine


def starting(machine: Machine) -> Callable[[], object]:
    return lambda: machine.layers.start("g", workflow_set="all", completion_criteria=["c"])


def dispatching(machine: Machine) -> Callable[[], object]:
    attempt = machine.begin()
    text = ITEM.format(item="part", workflow_set="all", supersedes="null")
    (attempt.path("project_state") / "work_items.md").write_text(text + "prose\n" * 2000)
    return lambda: machine.layers.dispatch(attempt.assignment, "part")


def updating(machine: Machine) -> Callable[[], object]:
    (machine.begin().path("inputs") / "updates.jsonl").mkdir()
    return lambda: machine.layers.update("more " * 4000)


def code_of(act: Callable[[], object]) -> str | None:
    """The code of a refusal; None: there was none."""
    try:
        act()
    except CallboardError as error:
        return error.code
    return None


@pytest.mark.parametrize("prepare", [starting, dispatching, updating])
def test_no_room_at_any_write_is_refused_and_the_same_again_succeeds(
    disk: FullDisk, prepare: Callable[[Machine], Callable[[], object]]
) -> None:
    machine = Machine(disk.place)
    act = prepare(machine)
    codes = []
    for pages in range(200):
        disk.leave(pages)
        codes.append(code_of(act))
        disk.free()
        if codes[-1] is None:
            break
    assert set(codes[:-1]) == {"disk_full"}
    assert codes[-1] is None
    assert machine.layers.check() == ()
    layer = machine.layers.status()[0].layer
    pending = machine.around.disk.names(layer.file("child_requests", "pending"))
    assert pending == (["part-r1.json"] if prepare is dispatching else [])
    assert len(machine.layers.status()) == (2 if prepare is starting else 1)
