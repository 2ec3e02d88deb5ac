"""Beginning a tree: what a killed start leaves, starts at one time, and what is refused before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from callboard.errors import CallboardError
from callboard.layers import locking
from callboard.layers.around import of_machine
from callboard.layers.layers import Layers
from callboard.layers.records.session import Limits
from tests.layers.killing import Killed, killing
from tests.layers.machine import Machine, write_set
from tests.repositories import repository

SESSIONS = ".callboard/layers/sessions"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, start=False)


def start(machine: Machine, **other: Any) -> str:
    given = {"workflow_set": "all", "completion_criteria": ["c"]} | other
    return machine.layers.start("g", **given).layer.session.session_id


def refused(machine: Machine, **other: Any) -> CallboardError:
    with pytest.raises(CallboardError) as found:
        start(machine, **other)
    return found.value


def test_a_start_that_is_killed_at_any_moment_leaves_nothing_to_the_next_one(
    machine: Machine,
) -> None:
    for at in range(1, 500):
        layers = Layers(of_machine(machine.root, dict(os.environ), effect=killing(at)))
        try:
            layers.start("g", workflow_set="all", completion_criteria=["c"])
            break
        except Killed:
            continue
    assert at > 40
    there = sorted(os.listdir(machine.root / SESSIONS))
    # The last but one was killed when all was done.
    assert len(there) == 2
    assert not any(name.startswith(".") for name in there)
    assert machine.layers.check() == ()


def test_what_a_killed_start_left_is_told_and_taken_away_by_the_next(machine: Machine) -> None:
    left = machine.root / SESSIONS / ".20260131_101500_01234567_01234567.building"
    (left / "attempts").mkdir(parents=True)
    (left / "session.json").write_text("{}")
    start(machine)
    assert not left.exists()
    left.mkdir()
    (finding,) = machine.layers.check()
    assert finding.code == "temporary_file"
    assert "`callboard layers start`" in finding.hint


def test_no_start_takes_away_what_another_one_builds(machine: Machine) -> None:
    lock = FileLock(machine.root / locking.WRITER, timeout=0)
    held: set[bool] = set()

    def effect(_step: str, place: str) -> None:
        if ".building" in place or place.startswith(f"{SESSIONS}/"):
            with pytest.raises(Timeout):
                lock.acquire()
            held.add(lock.is_locked)

    Layers(of_machine(machine.root, dict(os.environ), effect=effect)).start(
        "g", workflow_set="all", completion_criteria=["c"]
    )
    assert held == {False}


def test_a_start_beside_a_coordinator_waits_for_nobody(machine: Machine) -> None:
    with locking.coordinator(machine.around):
        start(machine)


@pytest.mark.parametrize(
    "name", [b"no \xff utf8", b"two\nlines", b"back\rwards", b"line\xe2\x80\xa8end"]
)
def test_a_repository_whose_path_no_assignment_can_hold_is_refused_at_once(
    tmp_path: Path, name: bytes
) -> None:
    root = repository(tmp_path / os.fsdecode(name))
    write_set(root)
    layers = Layers(of_machine(root, dict(os.environ)))
    with pytest.raises(CallboardError) as found:
        layers.start("g", workflow_set="all", completion_criteria=["c"])
    assert found.value.code == "path_invalid"
    assert found.value.message.isprintable()
    assert "move the repository" in found.value.hint
    assert not (root / ".callboard" / "layers").exists()


def test_a_goal_that_nobody_could_read_again_is_refused_as_such(machine: Machine) -> None:
    found = refused(machine, completion_criteria=["x" * 200_000] * 6)
    assert found.code == "goal_invalid"
    assert "shorten" in found.hint
    assert ".building" not in found.message
    assert not (machine.root / SESSIONS).exists()


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        (Limits(max_depth=101), "at most 100"),
        (Limits(max_children=10_001), "at most 10000"),
        (Limits(max_descendants=100_001), "at most 100000"),
    ],
)
def test_no_more_is_allowed_than_can_be_kept(machine: Machine, limits: Limits, most: str) -> None:
    found = refused(machine, limits=limits)
    assert (found.code, most in found.hint) == ("value_invalid", True)


def test_the_greatest_limits_are_allowed(machine: Machine) -> None:
    start(machine, limits=Limits(max_depth=50, max_children=10_000, max_descendants=100_000))
