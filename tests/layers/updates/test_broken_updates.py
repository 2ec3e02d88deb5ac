"""The file of updates as agents may leave it: no layer stands still for it, and nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard.layers import tree, updates
from callboard.layers.around import of_machine
from tests.layers.killing import Killed, killing
from tests.layers.machine import Attempt, Machine

MIB = 1024 * 1024


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def file_of(attempt: Attempt) -> Path:
    return attempt.path("inputs") / "updates.jsonl"


def told(attempt: Attempt) -> list[str]:
    found = attempt.document["updates"]
    assert isinstance(found, list)
    return found


def kept(attempt: Attempt) -> list[str]:
    return sorted(
        one.name for one in (attempt.path("session_root") / "protocol_failures").iterdir()
    )


BROKEN: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: (path / "deep" / "er").mkdir(parents=True),
    "a pipe": os.mkfifo,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "too long": lambda path: path.write_bytes(b"x" * (17 * MIB)),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_nobody_can_read_is_set_aside_and_the_layer_told(
    machine: Machine, how: str
) -> None:
    BROKEN[how](file_of(machine.begin()))
    machine.end()
    attempt = machine.begin()
    assert kept(attempt) == ["updates_0001"]
    (remark,) = told(attempt)
    session = attempt.layer.session.session_id
    assert f"session:{session}:/protocol_failures/updates_0001" in remark
    machine.layers.update("go on")
    machine.end()
    assert told(machine.begin()) == ["go on"]
    assert machine.layers.check() == () or how in ("a pipe", "a link", "a link to nowhere")


@pytest.mark.parametrize("how", BROKEN)
def test_the_user_can_tell_something_while_the_file_is_broken(machine: Machine, how: str) -> None:
    machine.layers.update("given")
    attempt = machine.begin()
    assert told(attempt) == ["given"]
    file_of(attempt).unlink()
    BROKEN[how](file_of(attempt))
    assert machine.layers.update("new")[1] == 2
    machine.end()
    attempt = machine.begin()
    assert told(attempt)[1:] == ["new"]
    assert "updates_0001" in told(attempt)[0]
    # It may be broken again, and as often as anybody likes.
    file_of(attempt).unlink()
    BROKEN[how](file_of(attempt))
    machine.end()
    assert kept(machine.begin()) == ["updates_0001", "updates_0002"]


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_set_aside_and_told_of_whenever_one_is_killed(
    machine: Machine, how: str
) -> None:
    BROKEN[how](file_of(machine.begin()))
    machine.end()

    for at in range(1, 100):
        try:
            machine.step(killing(at))
            break
        except Killed:
            continue
    attempt = machine.attempt()
    assert at > 3
    assert kept(attempt) == ["updates_0001"]
    assert len(told(attempt)) == 1


def test_what_was_taken_away_hides_nothing_that_comes_after(machine: Machine) -> None:
    for text in ("one", "two"):
        machine.layers.update(text)
    attempt = machine.begin()
    assert told(attempt) == ["one", "two"]
    machine.end()
    machine.begin()
    file_of(attempt).unlink()
    for text in ("three", "four", "five"):
        machine.layers.update(text)
    machine.end()
    assert told(machine.begin()) == ["three", "four", "five"]
    machine.end()
    assert told(machine.begin()) == []


@pytest.mark.parametrize("left", [0, 1])
def test_a_shortened_file_is_told_from_its_beginning(machine: Machine, left: int) -> None:
    for text in ("one", "two"):
        machine.layers.update(text)
    attempt = machine.begin()
    machine.end()
    lines = file_of(attempt).read_bytes().splitlines(keepends=True)
    file_of(attempt).write_bytes(b"".join(lines[:left]))
    machine.layers.update("three")
    expected = ["one", "three"] if left else ["three"]
    # Told twice rather than never, and also where the attempt that was told then fails.
    for _ in range(2):
        assert told(machine.begin()) == expected
        machine.end("crash")
    assert told(machine.begin()) == expected
    machine.end()
    assert told(machine.begin()) == []


def test_lines_that_are_no_updates_are_passed_over(machine: Machine) -> None:
    attempt = machine.begin()
    file_of(attempt).write_bytes(
        b"\xff\xfe\n\n" + b"[" * 100_000 + b'\n{"at_ms": NaN, "text": "a"}\n{"text": "b"}\n'
        b'{"at_ms": 1, "text": "\\ud800"}\n{"at_ms": 1, "text": "c", "more": 1}\n'
        b'{"at_ms": 1e400, "text": "d"}\n{"at_ms": 1, "text": ""}\n'
        b'\xef\xbb\xbf{"at_ms": 1, "text": "e"}\n'
    )
    assert machine.layers.update("sound")[1] == 1
    machine.end()
    assert told(machine.begin()) == ["sound"]


# --- from child to parent -------------------------------------------------------------------------


def test_what_a_parent_has_no_room_for_is_named_to_it(machine: Machine) -> None:
    parent = machine.begin()
    for _ in range(31):
        machine.layers.update("p" * 262_144)
    machine.ask(parent)
    machine.end()
    child = machine.begin()
    for text in ("kept in the child", "c" * 262_144):
        machine.layers.update(text)
    machine.meet_goal(child)
    machine.end()
    assert machine.step().did == "unwound"
    state = machine.state(parent.layer)
    found = updates.standing(machine.around, parent.layer, state).updates[31:]
    assert [one.from_session for one in found] == [child.layer.session.session_id]
    assert f"session:{child.layer.session.session_id}:/inputs/updates.jsonl" in found[0].text


def test_a_hand_over_that_was_cut_short_is_made_whole(machine: Machine) -> None:
    parent = machine.begin()
    machine.ask(parent)
    machine.end()
    child = machine.begin()
    for text in ("one", "two", "three"):
        machine.layers.update(text)
    machine.meet_goal(child)
    machine.end()
    origin = child.layer.session.session_id
    first = {"at_ms": 1, "text": "one", "from_session": origin}
    file_of(parent).write_text(f'{json.dumps(first)}\n{{"at_ms": 1, "te')
    assert machine.step().did == "unwound"
    assert told(machine.begin()) == ["one", "two", "three"]


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("whose", ["the child's", "the parent's"])
def test_a_broken_file_keeps_no_parent_from_going_on(
    machine: Machine, whose: str, how: str
) -> None:
    parent = machine.begin()
    machine.ask(parent)
    machine.end()
    child = machine.begin()
    machine.meet_goal(child)
    machine.layers.update("late")
    broken = child if whose == "the child's" else parent
    if broken is child:
        file_of(child).unlink()
    BROKEN[how](file_of(broken))
    machine.end()
    found = told(machine.begin())
    assert "updates_0001" in found[0]
    assert found[1:] == (["late"] if broken is parent else [])


def test_what_is_wrong_with_the_file_is_found_by_a_check(machine: Machine) -> None:
    attempt = machine.begin()
    file_of(attempt).mkdir()
    (finding,) = machine.layers.check()
    assert finding.place == attempt.layer.file("inputs", "updates.jsonl")
    assert finding.code == "updates_unreadable"
    assert "protocol_failures" in finding.hint
    file_of(attempt).rmdir()
    file_of(attempt).write_bytes(b"x" * (17 * MIB))
    (finding,) = machine.layers.check()
    assert (finding.code, f"{17 * MIB} bytes" in finding.message) == ("updates_unreadable", True)


def test_an_older_state_has_no_digest_and_its_count_is_believed(machine: Machine) -> None:
    machine.layers.update("one")
    attempt = machine.begin()
    machine.end()
    place = attempt.path("session_root") / "state.json"
    document = json.loads(place.read_bytes())
    assert document.pop("updates_sha256").startswith("sha256:")
    place.write_text(json.dumps(document))
    machine.layers.update("two")
    around = of_machine(machine.root, dict(os.environ))
    found = updates.standing(around, attempt.layer, tree.read_state(around.disk, attempt.layer))
    assert found.waiting() == ("two",)
