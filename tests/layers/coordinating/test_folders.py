"""Folders that an agent took away of its layer stop nothing; what stands in their place is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.layers.tree import FOLDERS
from tests.layers.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def ended(machine: Machine, *gone: str) -> None:
    """An attempt that changes the repository and leaves nonsense for a control, and takes away."""
    attempt = machine.begin()
    (machine.root / "README").write_text(attempt.id)
    attempt.path("control").write_text("nonsense")
    machine.leave_result()
    for name in gone:
        shutil.rmtree(attempt.path("session_root") / name)
    assert machine.step().did == "finished"


@pytest.mark.parametrize("folder", [one for one in FOLDERS if one != "attempts"])
def test_a_folder_that_is_gone_is_made_anew(machine: Machine, folder: str) -> None:
    ended(machine, folder)
    assert machine.step().did == "began"
    assert machine.layers.check() == ()
    assert machine.attempt().id == "0002_worker"


def test_a_parents_folders_are_made_anew_when_its_child_ends(machine: Machine) -> None:
    child = machine.descend()
    machine.meet_goal(child)
    parent = machine.around.disk.path(machine.top.place)
    for folder in ("child_outcomes", "trace_seals", "parent_acceptance"):
        shutil.rmtree(parent / folder)
    machine.end()
    assert machine.step().did == "unwound"
    assert len(list((parent / "child_outcomes").iterdir())) == 1


@pytest.mark.parametrize("is_link", [False, True])
def test_what_stands_in_a_folders_place_is_told_and_left(machine: Machine, is_link: bool) -> None:
    attempt = machine.begin()
    machine.leave_result()
    folder = attempt.path("git_receipts")
    folder.rmdir()
    if is_link:
        folder.symlink_to(attempt.path("inputs"))
    else:
        folder.touch()
    with pytest.raises(CallboardError) as found:
        machine.step()
    assert found.value.code == "path_invalid"
    assert "git_receipts is no folder" in found.value.message
    folder.unlink()
    assert machine.step().did == "finished"
    assert machine.layers.check() == ()


def test_a_folder_that_an_agent_made_for_the_next_attempt_can_be_moved_away(
    machine: Machine,
) -> None:
    attempt = machine.begin()
    stray = attempt.path("session_root") / "attempts" / "0002_worker"
    stray.mkdir()
    machine.end()
    with pytest.raises(CallboardError) as found:
        machine.step()
    assert found.value.code == "attempt_taken"
    assert "move the folder away, and run again" in found.value.hint
    stray.rename(machine.root / "stray")
    assert machine.begin().id == "0002_worker"
