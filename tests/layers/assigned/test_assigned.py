"""The attempt that a command speaks for: one assignment, where it lies, while it is under way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from callboard.errors import CallboardError
from callboard.layers import assigned, updates
from callboard.layers.records.base import encode
from tests.layers.requests.parent import Parent, parent


@pytest.fixture
def made(tmp_path: Path) -> Parent:
    return parent(tmp_path)


def code(made: Parent, path: Path) -> str:
    with pytest.raises(CallboardError) as caught:
        assigned.read(made.around(), path)
    return caught.value.code


def test_the_attempt_under_way_speaks(made: Parent) -> None:
    path = made.begin()
    who = assigned.read(made.around(), path)
    assert who.attempt_id == "0001_dispatcher"
    assert who.layer == made.layer
    assert who.contract.request_roles == ("dispatcher",)
    assert assigned.repository_of(path) == made.root_path


def test_an_attempt_that_has_ended_is_silent(made: Parent) -> None:
    first = made.begin()
    # Its result is there, though nobody has taken it in yet.
    made.disk.publish(
        made.layer.file("attempts/0001_dispatcher/result.json"), encode(made.result())
    )
    assert code(made, first) == "assignment_stale"
    made.end()
    assert code(made, first) == "assignment_stale"
    second = made.begin()
    assert code(made, first) == "assignment_stale"
    assert assigned.read(made.around(), second).attempt_id == "0002_dispatcher"


def test_an_attempt_of_another_layer_is_told_from_this_one(made: Parent) -> None:
    made.put("a.json", made.request("a", made.attempt()))
    made.decide()
    below = made.child()
    path = below.begin("worker")
    assert assigned.read(made.around(), path).layer == below.layer
    moved = made.path("attempts", "0001_worker")
    shutil.copytree(path.parent, moved)
    assert code(made, moved / "assignment.json") == "assignment_invalid"


def test_another_repository_has_attempts_of_its_own(made: Parent, tmp_path: Path) -> None:
    path = made.begin()
    other = tmp_path / "other"
    shutil.copytree(made.root_path, other)
    there = other / path.relative_to(made.root_path)
    assert code(made, there) == "assignment_invalid"
    # The copy asks for the repository that it was frozen in, and not for the one around it.
    assert assigned.repository_of(there) == made.root_path
    assert code(Parent(other), path) == "assignment_invalid"
    assert code(Parent(other), there) == "assignment_invalid"


@pytest.mark.parametrize(
    "edit", ["session_root", "repository", "attempt_id", "session_id", "role", "layout"]
)
def test_an_edited_assignment_is_refused(made: Parent, edit: str, tmp_path: Path) -> None:
    path = made.begin()
    value = json.loads(path.read_bytes())
    if edit in ("session_root", "repository"):
        value["paths"][edit] = str(tmp_path)
    elif edit == "layout":
        path.write_bytes(json.dumps(value, indent=2).encode())
    else:
        value["identity"][edit] = "planner" if edit == "role" else "0009_dispatcher"
    if edit != "layout":
        path.write_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    assert code(made, path) in ("assignment_invalid", "assignment_stale")


def test_what_is_believed_is_what_was_judged(made: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says another role for one moment; the digest is that of what stands afterwards."""
    path = made.begin("planner")
    true = path.read_bytes()
    forged = json.loads(true)
    forged["identity"]["role"] = "dispatcher"
    path.write_bytes(json.dumps(forged).encode())
    around = made.around()
    claimed = assigned._read(path)
    monkeypatch.setattr(assigned, "_read", lambda _path: claimed)
    path.write_bytes(true)
    assert assigned.read(around, path).assignment.identity.role == "planner"


@pytest.mark.parametrize("make", ["link", "dangling", "fifo", "folder", "missing", "huge", "empty"])
def test_what_is_no_assignment_is_refused(made: Parent, tmp_path: Path, make: str) -> None:
    path = made.begin()
    whole = path.read_bytes()
    aside = tmp_path / "aside.json"
    path.unlink()
    if make == "link":
        aside.write_bytes(whole)
    if make in ("link", "dangling"):
        path.symlink_to(aside)
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    elif make == "huge":
        with path.open("wb") as stream:
            stream.truncate(9 * 1024 * 1024)
    elif make == "empty":
        path.write_bytes(b"")
    expected = {
        "link": "file_not_regular", "dangling": "file_missing", "fifo": "file_not_regular",
        "folder": "file_not_regular", "missing": "file_missing", "huge": "resource_limit",
        "empty": "record_invalid",
    }  # fmt: skip
    assert code(made, path) == expected[make]


@pytest.mark.parametrize("kind", ["relative", "link", "steps", "elsewhere"])
def test_a_path_that_is_not_the_one_of_the_prompt_is_refused(
    made: Parent, tmp_path: Path, kind: str
) -> None:
    path = made.begin()
    link = tmp_path / "link"
    link.symlink_to(made.root_path)
    aside = tmp_path / "assignment.json"
    shutil.copy(path, aside)
    named = {
        "relative": Path(os.path.relpath(path)),
        "link": link / path.relative_to(made.root_path),
        "steps": path.parent.parent / "x" / ".." / path.parent.name / path.name,
        "elsewhere": aside,
    }[kind]
    if kind == "steps":
        (path.parent.parent / "x").mkdir()
    assert code(made, named) == "assignment_invalid"


def test_a_layer_of_damage_speaks_for_nobody(made: Parent) -> None:
    path = made.begin()
    made.path("state.json").write_bytes(b"\0" * 300)
    assert code(made, path) == "layer_corrupt"


def test_an_assignment_larger_than_other_records_is_read(made: Parent) -> None:
    for _ in range(6):
        updates.add(made.around(), made.layer, "ü" * 120_000)
    path = made.begin()
    assert path.stat().st_size > 1024 * 1024
    who = assigned.read(made.around(), path)
    assert len(who.assignment.updates) == 6
    assert made.dispatch(path).standing == "published"
